"""Similarity: how near the answer comes to a reference or to its sources, without a model."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

from evalspan.errors import MissingExtraError
from evalspan_evaluators.case import Case
from evalspan_evaluators.jsonvalue import short
from evalspan_evaluators.metric import MetricBase
from evalspan_evaluators.output.ngrams import Overlap, bleu, chrf, rouge_l, rouge_n, words_of
from evalspan_evaluators.score import Evidence, Score

__all__ = ["Against", "Bleu", "Chrf", "ChunkOverlap", "Cosine", "EditSimilarity", "Rouge", "texts_against"]

Against = Literal["reference", "source"]

#: Words (or characters) beyond which texts are cut: metrics answer within a second whatever comes.
_MOST_WORDS = 10_000
_MOST_CHARACTERS = 40_000
_MOST_CHARACTERS_CHRF = 15_000


def texts_against(case: Case, against: Against, reference: str | None) -> tuple[list[str], str]:
    """The texts to compare with, and why there are none."""
    if against == "reference":
        text = case.expected.output if reference is None else reference
        return ([text] if text else []), "no reference: set the parameter reference or the case's expected.output"
    found = [document.content for document in case.documents if document.content]
    found.extend(case.context)
    found.extend(
        call.result if isinstance(call.result, str) else short(call.result, _MOST_CHARACTERS)
        for call in case.tools or ()
        if call.result is not None
    )
    return found, "no sources: the case has no documents, context or tool results"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Similarity(MetricBase):
    requires: ClassVar[tuple[str, ...]] = ("output",)

    reference: str | None = None
    against: Against = "reference"

    def _compare(self, case: Case, measure: Callable[[str, list[str]], tuple[float, str]]) -> Score:
        others, why = texts_against(case, self.against, self.reference)
        if not others:
            return self.skip(why)
        value, reason = measure((case.output or "")[:_MOST_CHARACTERS], [text[:_MOST_CHARACTERS] for text in others])
        return self.score(min(1.0, max(0.0, value)), reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rouge(_Similarity):
    """ROUGE of the output: overlap of words with the reference, or with all sources together.

    Against sources, the precision of ROUGE-2 is the best reference-free sign of consistency among the cheap ones.

    Attributes:
        variant: rouge1, rouge2 or rougeL.
        measure: f1, precision (share of the output that is covered) or recall (share of the reference).
        reference: The reference; None takes the case's `expected.output`.
        against: `reference`, or `source`: documents, context and tool results.
    """

    name: ClassVar[str] = "rouge"

    variant: Literal["rouge1", "rouge2", "rougeL"] = "rougeL"
    measure: Literal["f1", "precision", "recall"] = "f1"

    def evaluate(self, case: Case) -> Score:
        """Count shared words."""
        others, why = texts_against(case, self.against, self.reference)
        if not others:
            return self.skip(why)
        mine = words_of((case.output or "")[:_MOST_CHARACTERS])[:_MOST_WORDS]
        theirs = words_of("\n".join(others)[: _MOST_CHARACTERS * 4])[: _MOST_WORDS * 4]
        overlap = self._overlap(mine, theirs)
        values = {"f1": overlap.f1, "precision": overlap.precision, "recall": overlap.recall}
        text = ", ".join(f"{name} {value:.2f}" for name, value in values.items())
        return self.score(values[self.measure], f"{self.variant} {text}", extra=tuple(values.items()))

    def _overlap(self, mine: list[str], theirs: list[str]) -> Overlap:
        if self.variant == "rougeL":
            return rouge_l(mine, theirs)
        return rouge_n(mine, theirs, 1 if self.variant == "rouge1" else 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bleu(_Similarity):
    """Sentence BLEU of the output, 0 to 1 (sacrebleu's value over 100).

    Attributes:
        reference: The reference; None takes the case's `expected.output`.
        against: `reference`, or `source`: documents, context and tool results, each a reference.
    """

    name: ClassVar[str] = "bleu"

    def evaluate(self, case: Case) -> Score:
        """Compare n-grams of tokens."""
        return self._compare(case, lambda mine, theirs: (value := bleu(mine, theirs), f"BLEU {value:.3f}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Chrf(_Similarity):
    """Sentence chrF of the output, 0 to 1 (sacrebleu's value over 100); good for every script.

    Attributes:
        reference: The reference; None takes the case's `expected.output`.
        against: `reference`, or `source`: documents, context and tool results, each a reference.
    """

    name: ClassVar[str] = "chrf"

    def evaluate(self, case: Case) -> Score:
        """Compare n-grams of characters."""

        def measure(mine: str, theirs: list[str]) -> tuple[float, str]:
            value = chrf(mine[:_MOST_CHARACTERS_CHRF], [text[:_MOST_CHARACTERS_CHRF] for text in theirs[:20]])
            return value, f"chrF {value:.3f}"

        return self._compare(case, measure)


@dataclass(frozen=True, slots=True, kw_only=True)
class EditSimilarity(_Similarity):
    """1 minus the edit distance of output and reference over the longer length (Levenshtein, or others).

    Attributes:
        reference: The reference; None takes the case's `expected.output`.
        against: `reference`, or `source` (the best of documents, context and tool results).
        algorithm: levenshtein, damerau (swaps count once), indel (no replacing) or jaro_winkler.
        case_sensitive: Tell upper from lower case.
    """

    name: ClassVar[str] = "edit_similarity"

    algorithm: Literal["levenshtein", "damerau", "indel", "jaro_winkler"] = "levenshtein"
    case_sensitive: bool = True

    def evaluate(self, case: Case) -> Score:
        """Measure the distance."""
        return self._compare(case, self._best)

    def _best(self, mine: str, theirs: list[str]) -> tuple[float, str]:
        try:
            from rapidfuzz import distance
        except ImportError as error:
            raise MissingExtraError("rapidfuzz", "server") from error
        measure = {
            "levenshtein": distance.Levenshtein,
            "damerau": distance.OSA,
            "indel": distance.Indel,
            "jaro_winkler": distance.JaroWinkler,
        }[self.algorithm].normalized_similarity
        if not self.case_sensitive:
            mine, theirs = mine.casefold(), [text.casefold() for text in theirs]
        value = max(float(measure(mine, text)) for text in theirs[:50])
        return value, f"{self.algorithm} similarity {value:.3f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cosine(_Similarity):
    """Cosine of the word counts of output and reference; words, not meaning (see `embedding_similarity`).

    Attributes:
        reference: The reference; None takes the case's `expected.output`.
        against: `reference`, or `source` (the best of documents, context and tool results).
    """

    name: ClassVar[str] = "cosine"

    def evaluate(self, case: Case) -> Score:
        """Count words and compare the angle."""

        def best(mine: str, theirs: list[str]) -> tuple[float, str]:
            counts = Counter(words_of(mine))
            value = max(_cosine(counts, Counter(words_of(text))) for text in theirs)
            return value, f"cosine of word counts {value:.3f}"

        return self._compare(case, best)


def _cosine(left: "Counter[str]", right: "Counter[str]") -> float:
    dot = sum(count * right[word] for word, count in left.items() if word in right)
    norm = math.sqrt(sum(c * c for c in left.values()) * sum(c * c for c in right.values()))
    return dot / norm if norm else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkOverlap(MetricBase):
    """Share of the output's n-grams of words that stand in one of the retrieved documents.

    Tells how much of the answer is taken from what was retrieved; evidence names the documents used most.

    Attributes:
        n: Words of an n-gram.
    """

    name: ClassVar[str] = "chunk_overlap"
    requires: ClassVar[tuple[str, ...]] = ("output",)
    default_threshold: ClassVar[float | None] = 0.5

    n: int = 2

    def evaluate(self, case: Case) -> Score:
        """Look each n-gram up in the documents."""
        texts = [(document.id, document.content) for document in case.documents if document.content]
        if not texts:
            return self.skip("the case has no documents with content")
        grams = _grams(case.output or "", self.n)
        if not grams:
            return self.skip("the output is too short")
        held = [(name, grams & _grams(text, self.n)) for name, text in texts[:200]]
        covered = set[tuple[str, ...]]().union(*(found for _, found in held))
        used = sorted(held, key=lambda item: -len(item[1]))[:5]
        evidence = tuple(
            Evidence(
                verdict="info",
                claim=f"document {name or 'without id'}",
                source="document",
                value=f"{len(found) / len(grams):.2f}",
            )
            for name, found in used
            if found
        )
        value = len(covered) / len(grams)
        sources = sum(1 for _, found in held if found)
        reason = f"{value:.0%} of the output's {self.n}-grams stand in {sources} of {len(texts)} documents"
        return self.score(value, reason, evidence=evidence)


def _grams(text: str, n: int) -> set[tuple[str, ...]]:
    words = words_of(text[:_MOST_CHARACTERS])
    return set(zip(*(words[start:] for start in range(n)), strict=False))
