"""Grounding: hallucination against tool results, found without a model."""

from evalspan_evaluators.grounding.check import check
from evalspan_evaluators.grounding.claim import Claim
from evalspan_evaluators.grounding.metric import Grounding
from evalspan_evaluators.grounding.source import Source, sources_of
from evalspan_evaluators.grounding.verdict import ClaimVerdict

__all__ = ["Claim", "ClaimVerdict", "Grounding", "Source", "check", "sources_of"]
