"""Contains: texts the answer must hold, or must not hold."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from evalspan_evaluators.case import Case
from evalspan_evaluators.metric import MetricBase
from evalspan_evaluators.score import Evidence, Score, Verdict

__all__ = ["Contains", "NotContains"]

_MOST_SHOWN = 5
#: Composing the letters of a longer text could take seconds.
_MOST_COMPOSED = 100_000


def _folded(text: str, *, case_sensitive: bool) -> str:
    composed = text if text.isascii() or len(text) > _MOST_COMPOSED else unicodedata.normalize("NFC", text)
    return composed if case_sensitive else composed.casefold()


def _position(output: str, text: str, *, case_sensitive: bool) -> tuple[int, int] | None:
    """Offsets in the output as it is written; None when folding moved them or the text is not there so."""
    where = output.find(text) if case_sensitive else output.lower().find(text.lower())
    if where < 0 or len(output.lower()) != len(output):
        return None
    return where, where + len(text)


def _quoted(texts: Sequence[str]) -> str:
    cut = [repr(t if len(t) <= 80 else t[:80] + "…") for t in texts[:_MOST_SHOWN]]
    return ", ".join(cut) + (f", … {len(texts) - _MOST_SHOWN} more" if len(texts) > _MOST_SHOWN else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class _TextMetric(MetricBase):
    requires: ClassVar[tuple[str, ...]] = ("output",)
    default_threshold: ClassVar[float | None] = 1.0

    texts: tuple[str, ...] | None = None
    case_sensitive: bool = False

    def _split(self, output: str, texts: Sequence[str]) -> tuple[list[str], list[str]]:
        """The texts that are in the output, and those that are not."""
        haystack = _folded(output, case_sensitive=self.case_sensitive)
        there: list[str] = []
        absent: list[str] = []
        for text in texts:
            found = _folded(text, case_sensitive=self.case_sensitive) in haystack
            (there if found else absent).append(text)
        return there, absent

    def _evidence(self, output: str, texts: Sequence[str], *, good: bool, code: str) -> tuple[Evidence, ...]:
        found: list[Evidence] = []
        for text in texts[:20]:
            at = _position(output, text, case_sensitive=self.case_sensitive)
            start, end = at or (None, None)
            verdict: Verdict = "match" if good else "mismatch"
            found.append(
                Evidence(
                    verdict=verdict, claim=text, start=start, end=end, source="expected", code=None if good else code
                )
            )
        return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contains(_TextMetric):
    """Share of the texts that the output holds; all of them by default.

    Attributes:
        texts: What must be there; None takes the case's `expected.contains`.
        case_sensitive: Tell upper from lower case.
    """

    name: ClassVar[str] = "contains"

    def evaluate(self, case: Case) -> Score:
        """Look for each text."""
        texts = case.expected.contains if self.texts is None else self.texts
        if not texts:
            return self.skip("no texts are expected: set the parameter texts or the case's expected.contains")
        output = case.output or ""
        there, absent = self._split(output, texts)
        evidence = (
            *self._evidence(output, absent, good=False, code="TEXT_MISSING"),
            *self._evidence(output, there, good=True, code=""),
        )
        reason = f"the output lacks {_quoted(absent)}" if absent else f"the output holds all {len(texts)} texts"
        return self.score(len(there) / len(texts), reason, evidence=evidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotContains(_TextMetric):
    """Share of the texts that the output does not hold; all of them by default.

    Attributes:
        texts: What must not be there; None takes the case's `expected.not_contains`.
        case_sensitive: Tell upper from lower case.
    """

    name: ClassVar[str] = "not_contains"

    def evaluate(self, case: Case) -> Score:
        """Look for each text."""
        texts = case.expected.not_contains if self.texts is None else self.texts
        if not texts:
            return self.skip("no texts are ruled out: set the parameter texts or the case's expected.not_contains")
        output = case.output or ""
        there, absent = self._split(output, texts)
        evidence = self._evidence(output, there, good=False, code="TEXT_FORBIDDEN")
        reason = f"the output holds {_quoted(there)}" if there else f"the output holds none of {len(texts)} texts"
        return self.score(len(absent) / len(texts), reason, evidence=evidence)
