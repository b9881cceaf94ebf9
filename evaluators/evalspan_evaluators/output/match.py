"""Match: the answer equals a text, or holds a pattern."""

import unicodedata
from dataclasses import dataclass
from typing import ClassVar

from evalspan_evaluators.case import Case
from evalspan_evaluators.jsonvalue import short
from evalspan_evaluators.metric import MetricBase
from evalspan_evaluators.output.pattern import compiled, search
from evalspan_evaluators.score import Evidence, Score

__all__ = ["Equals", "Regex"]

#: Composing the letters of a longer text could take seconds.
_MOST_COMPOSED = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Equals(MetricBase):
    """1.0 when the output is the expected text, else 0.0.

    Attributes:
        expected: The text; None takes the case's `expected.output`.
        case_sensitive: Tell upper from lower case.
        strip: Ignore white space at both ends and how much of it stands in between.
    """

    name: ClassVar[str] = "equals"
    requires: ClassVar[tuple[str, ...]] = ("output",)
    default_threshold: ClassVar[float | None] = 1.0

    expected: str | None = None
    case_sensitive: bool = True
    strip: bool = True

    def evaluate(self, case: Case) -> Score:
        """Compare the two texts."""
        expected = case.expected.output if self.expected is None else self.expected
        if expected is None:
            return self.skip("no text is expected: set the parameter expected or the case's expected.output")
        left, right = self._plain(case.output or ""), self._plain(expected)
        if left == right:
            return self.score(1.0, "the output is the expected text")
        at = next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
        around = slice(max(0, at - 10), at + 30)
        reason = f"differs at character {at + 1}: expected {right[around]!r}, got {left[around]!r}"
        evidence = Evidence(
            verdict="mismatch", claim=left[around], value=short(left), expected=short(right), code="TEXT_DIFFERS"
        )
        return self.score(0.0, reason, evidence=(evidence,))

    def _plain(self, text: str) -> str:
        text = text if len(text) > _MOST_COMPOSED else unicodedata.normalize("NFC", text)
        if self.strip:
            text = " ".join(text.split())
        return text if self.case_sensitive else text.casefold()


@dataclass(frozen=True, slots=True, kw_only=True)
class Regex(MetricBase):
    """Share of the patterns that the output holds (or, with `absent`, does not hold).

    Patterns are RE2's: linear in time on every text, without backreferences and look-around.

    Attributes:
        patterns: Regular expressions, each searched anywhere; use ^ and $ to bind it to the ends.
        absent: None of the patterns may be found.
        ignore_case: Do not tell upper from lower case.
        lines: ^ and $ also match at line breaks.
    """

    name: ClassVar[str] = "regex"
    requires: ClassVar[tuple[str, ...]] = ("output",)
    default_threshold: ClassVar[float | None] = 1.0

    patterns: tuple[str, ...]
    absent: bool = False
    ignore_case: bool = False
    lines: bool = False

    def __post_init__(self) -> None:
        if not self.patterns:
            raise ValueError("patterns is empty: give at least one")
        for pattern in self.patterns:
            compiled(pattern, ignore_case=self.ignore_case, lines=self.lines)

    def evaluate(self, case: Case) -> Score:
        """Search each pattern."""
        output = case.output or ""
        evidence: list[Evidence] = []
        good = 0
        for pattern in self.patterns:
            found = search(pattern, output, ignore_case=self.ignore_case, lines=self.lines)
            met = (found is not None) != self.absent
            good += met
            start, end = found or (None, None)
            code = None if met else ("PATTERN_FORBIDDEN" if self.absent else "PATTERN_MISSING")
            value = short(output[start:end]) if found else None
            evidence.append(
                Evidence(
                    verdict="match" if met else "mismatch",
                    claim=short(pattern),
                    start=start,
                    end=end,
                    value=value,
                    code=code,
                )
            )
        bad = [e.claim for e in evidence if e.verdict == "mismatch"]
        verb = "holds" if self.absent else "lacks"
        reason = f"the output {verb} {', '.join(bad[:5])}" if bad else f"all {len(self.patterns)} patterns as wanted"
        return self.score(good / len(self.patterns), reason, evidence=tuple(evidence[:20]))
