"""Grounding: the share of an answer's claims that the run's own evidence supports."""

from dataclasses import dataclass
from typing import ClassVar

from evalspan_evaluators.case import Case
from evalspan_evaluators.grounding.check import Findings, examine
from evalspan_evaluators.grounding.source import has_evidence, sources_of
from evalspan_evaluators.grounding.verdict import ClaimVerdict
from evalspan_evaluators.metric import MetricBase, threshold_of
from evalspan_evaluators.score import Score

__all__ = ["Grounding"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grounding(MetricBase):
    """Hallucination against tool results, with no model: supported claims / checkable claims.

    A contradicted key figure fails the run whatever the share is. An answer without checkable claims, and a
    run without evidence, are not applicable.

    Attributes:
        max_evidence: Most verdicts kept in the score; flagged ones come first.
    """

    name: ClassVar[str] = "grounding"
    requires: ClassVar[tuple[str, ...]] = ("output",)
    code_version: ClassVar[int] = 2

    max_evidence: int = 100

    def evaluate(self, case: Case) -> Score:
        """Score the answer of one case."""
        sources = sources_of(case)
        if not has_evidence(sources):
            return self.skip(_why_no_evidence(case))
        found = examine(case.output or "", sources)
        verdicts = found.verdicts
        checkable = [v for v in verdicts if v.outcome != "not_checkable"]
        if not checkable:
            if found.truncated:
                return self.skip("nothing could be checked: the sources are too long to be read whole")
            return self.skip("nothing to check: the answer states no number, date, id, name or other checkable claim")
        return self._score(found, checkable)

    def _score(self, found: Findings, checkable: list[ClaimVerdict]) -> Score:
        verdicts = found.verdicts
        counts = {
            o: sum(v.outcome == o for v in verdicts)
            for o in ("supported", "contradicted", "unsupported", "not_checkable")
        }
        value = counts["supported"] / len(checkable)
        wrong = [v for v in checkable if v.outcome == "contradicted" and v.severity == "major"]
        if wrong:
            value = min(value, 0.5, max(0.0, threshold_of(self) - 0.01))
        order = {"contradicted": 0, "unsupported": 1, "supported": 2, "not_checkable": 3}
        kept = sorted(verdicts, key=lambda v: (order[v.outcome], v.claim.start))[: self.max_evidence]
        return self.score(
            value,
            _reason(checkable, counts) + ("; sources too long to be read whole" if found.truncated else ""),
            evidence=tuple(v.evidence() for v in kept),
            label="contradicted" if counts["contradicted"] else "unsupported" if counts["unsupported"] else "supported",
            extra=(
                *((name, float(count)) for name, count in counts.items()),
                *((("sources_truncated", 1.0),) if found.truncated else ()),
            ),
        )


def _why_no_evidence(case: Case) -> str:
    if case.tools and not any(t.content_captured for t in case.tools):
        return "no evidence: tool results were not captured"
    if case.tools:
        return "no evidence: the run's tools returned nothing"
    return "no evidence: the run has no tool results, documents or context"


def _reason(checkable: list[ClaimVerdict], counts: dict[str, int]) -> str:
    text = f"{counts['supported']} of {len(checkable)} claims supported"
    parts: list[str] = []
    for verdict in sorted((v for v in checkable if v.flagged), key=lambda v: v.outcome)[:3]:
        evidence = verdict.evidence()
        if verdict.outcome == "contradicted" and evidence.expected:
            where = " ".join(p for p in (evidence.tool or evidence.source, evidence.path) if p)
            parts.append(f"{verdict.claim.text!r} should be {evidence.expected!r} ({where})")
        else:
            parts.append(f"{verdict.claim.text!r} is {verdict.outcome}")
    return "; ".join([text, *parts])
