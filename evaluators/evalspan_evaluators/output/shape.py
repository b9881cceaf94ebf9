"""Shape: length of the answer, and whether its citations lead anywhere."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from evalspan_collector.run import Document
from evalspan_evaluators.case import Case
from evalspan_evaluators.metric import MetricBase
from evalspan_evaluators.score import Evidence, Score

__all__ = ["Citations", "Length"]

_LONGEST = 200_000
_CITATION = re.compile(
    r"\[(?P<list>\d{1,3}(?:\s?[,;–-]\s?\d{1,3}){0,20})\](?!\()"  # [1], [2, 3], [4-6], but no markdown link
    r"|【(?P<wide>\d{1,3})[^】\n]{0,60}】"
    r"|\[(?:(?:doc(?:ument)?|source|ref|chunk|passage)s?[ :#_-]{1,2})(?P<id>[^\]\n]{1,120})\]"
    r"|\((?:source|quelle|fuente)s?: (?P<source>[^)\n]{1,200})\)"
    r"|(?P<url>https?://[^\s)\]>\"'】]{4,500})",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Length(MetricBase):
    """1.0 when the length lies within the bounds, else how near it comes (bound over length, or length over bound).

    Attributes:
        min: Smallest length that passes; None for no bound.
        max: Largest length that passes.
        unit: characters, words (parts between white space) or sentences (rough: by end marks).
    """

    name: ClassVar[str] = "length"
    requires: ClassVar[tuple[str, ...]] = ("output",)
    default_threshold: ClassVar[float | None] = 1.0

    min: int | None = None
    max: int | None = None
    unit: Literal["characters", "words", "sentences"] = "words"

    def __post_init__(self) -> None:
        if self.min is None and self.max is None:
            raise ValueError("give min, max or both")
        if min(self.min or 0, self.max or 0) < 0 or (
            self.min is not None and self.max is not None and self.min > self.max
        ):
            raise ValueError(f"min {self.min!r} and max {self.max!r} are no range")

    def evaluate(self, case: Case) -> Score:
        """Count and compare."""
        output = case.output or ""
        if self.unit == "characters":
            count = len(output)
        elif self.unit == "words":
            count = len(output.split())
        else:
            count = len(re.findall(r"[^.!?。！？\s][^.!?。！？]{0,5000}", output))
        value, bound = 1.0, ""
        if self.max is not None and count > self.max:
            value, bound = self.max / count, f"at most {self.max}"
        elif self.min is not None and count < self.min:
            value, bound = count / self.min, f"at least {self.min}"
        reason = f"{count} {self.unit}" + (f", {bound} allowed" if bound else "")
        return self.score(value, reason, extra=(("length", float(count)),))


@dataclass(frozen=True, slots=True, kw_only=True)
class Citations(MetricBase):
    """Share of the citations that lead to a retrieved document.

    A number counts from 1 through the documents; an id or URL must be the id of a document or stand in one. Not
    applicable when the answer cites nothing, unless citations are required.

    Attributes:
        required: An answer without citations scores 0.0 when documents were retrieved.
        urls: Count plain URLs as citations.
    """

    name: ClassVar[str] = "citations"
    requires: ClassVar[tuple[str, ...]] = ("output",)
    default_threshold: ClassVar[float | None] = 1.0

    required: bool = False
    urls: bool = True

    def evaluate(self, case: Case) -> Score:
        """Resolve every citation."""
        output = (case.output or "")[:_LONGEST]
        documents = case.documents
        found = list(self._cited(output))[:500]
        if not found:
            if self.required and documents:
                none = (Evidence(verdict="mismatch", claim="", code="CITATION_MISSING"),)
                return self.score(0.0, f"the answer cites none of {len(documents)} documents", evidence=none)
            return self.skip("the answer cites nothing")
        if not documents:
            return self.skip("it is unknown which documents were retrieved")
        texts = [f"{d.id or ''}\n{d.content or ''}".casefold() for d in documents]
        bad = [(text, start, end) for text, start, end in found if not _resolves(text, documents, texts)]
        evidence = tuple(
            Evidence(
                verdict="unsupported", claim=text, start=start, end=end, source="document", code="CITATION_UNRESOLVED"
            )
            for text, start, end in bad[:20]
        )
        value = (len(found) - len(bad)) / len(found)
        reason = f"{len(found) - len(bad)} of {len(found)} citations lead to one of {len(documents)} documents"
        return self.score(value, reason + (f"; not {bad[0][0]!r}" if bad else ""), evidence=evidence)

    def _cited(self, output: str) -> Iterator[tuple[str, int, int]]:
        for match in _CITATION.finditer(output):
            start, end = match.span()
            if match["list"]:
                for number in _numbers(match["list"]):
                    yield str(number), start, end
            elif match["wide"] or match["id"] or match["source"]:
                yield (match["wide"] or match["id"] or match["source"]).strip(), start, end
            elif self.urls:
                yield match["url"].rstrip(".,;:!?"), start, end


def _numbers(text: str) -> list[int]:
    numbers: list[int] = []
    for part in re.split(r"[,;]", text):
        ends = [int(n) for n in re.findall(r"\d+", part)]
        if len(ends) == 2 and ends[0] <= ends[1] <= ends[0] + 50:
            numbers.extend(range(ends[0], ends[1] + 1))
        else:
            numbers.extend(ends)
    return numbers


def _resolves(text: str, documents: Sequence[Document], texts: Sequence[str]) -> bool:
    if any(document.id is not None and document.id == text for document in documents):
        return True
    if text.isdigit():
        return 1 <= int(text) <= len(documents)
    folded = text.casefold().rstrip("/")
    return any(folded in held for held in texts)
