"""Verdict: what the sources say about one claim."""

from dataclasses import dataclass
from typing import Literal

from evalspan_evaluators.grounding.claim import Claim
from evalspan_evaluators.grounding.fact import Fact
from evalspan_evaluators.grounding.source import Source
from evalspan_evaluators.score import Evidence

__all__ = ["ClaimVerdict", "Outcome", "Severity"]

Outcome = Literal["supported", "contradicted", "unsupported", "not_checkable"]
Severity = Literal["major", "minor"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimVerdict:
    """One claim of an answer and what was found.

    Attributes:
        severity: `minor` claims (names, categories, polarity) lower the score but do not fail a run alone.
        fact: The value that supports the claim, or the true value that contradicts it.
        source: Where the support stands when it is no single value (text found in a source).
        formula: How the value follows from others, such as `500 - 171 = 329`.
        code: Machine-readable reason, such as `OTHER_RECORD`.
        note: Text for a person.
    """

    claim: Claim
    outcome: Outcome
    severity: Severity = "major"
    fact: Fact | None = None
    source: Source | None = None
    formula: str | None = None
    code: str | None = None
    note: str | None = None

    @property
    def flagged(self) -> bool:
        """Whether the claim is contradicted or unsupported."""
        return self.outcome in ("contradicted", "unsupported")

    def evidence(self) -> Evidence:
        """This verdict in the form scores carry."""
        source = self.fact.record.source if self.fact else self.source
        return Evidence(
            verdict=self.outcome,
            claim=self.claim.text,
            start=self.claim.start,
            end=self.claim.end,
            value=self.claim.text,
            expected=self.fact.text if self.fact and self.outcome in ("contradicted", "supported") else None,
            source=source.kind if source else None,
            tool=source.tool if source else None,
            span_id=source.span_id if source else None,
            path=self.fact.path if self.fact else None,
            formula=self.formula,
            code=self.code,
            note=self.note,
        )
