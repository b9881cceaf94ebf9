"""Overall: one weighted score of tool accuracy, output quality and sequence, and the judge metric for quality."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from evalspan.errors import ConfigError, JudgeError
from evalspan_evaluators.case import Case
from evalspan_evaluators.judge import Judge, JudgeRequest
from evalspan_evaluators.metric import MetricBase, evaluate_metric, evaluate_metric_async
from evalspan_evaluators.score import Evidence, Score
from evalspan_evaluators.trajectory.sequence import Sequence, SequenceMode
from evalspan_evaluators.trajectory.tools import ToolAccuracy

__all__ = ["DEFAULT_WEIGHTS", "MinScore", "OutputQuality", "Overall", "Weights", "weighted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Shares of the three parts; they sum to 1.

    Raises:
        ConfigError: The sum is off by more than 0.001, or a weight is negative.
    """

    tool_accuracy: float = 0.3
    output_quality: float = 0.5
    sequence_correctness: float = 0.2

    def __post_init__(self) -> None:
        parts = self.shares
        if min(parts) < 0 or abs(sum(parts) - 1.0) > 0.001:
            raise ConfigError(f"weights {parts} sum to {sum(parts):g}: they must be 0 or more and sum to 1")

    @property
    def shares(self) -> tuple[float, float, float]:
        """Of tool accuracy, output quality and sequence."""
        return self.tool_accuracy, self.output_quality, self.sequence_correctness

    @classmethod
    def read(cls, given: Mapping[str, Any] | None) -> "Weights":
        """The weights of a mapping; what it does not name keeps its default.

        Raises:
            ConfigError: A name is unknown, or the sum is not 1.
        """
        names = ("tool_accuracy", "output_quality", "sequence_correctness")
        for name in given or {}:
            if name not in names:
                raise ConfigError(f"weight {name!r} is unknown: one of {', '.join(names)}")
        return cls(**{name: float(value) for name, value in (given or {}).items()})


DEFAULT_WEIGHTS = Weights()


def weighted(parts: Iterable[tuple[float | None, float]]) -> float | None:
    """Overall score of parts, each a value from 0 to 1 with its weight: 0 to 100, rounded to two places.

    EvalView's formula, but the weight of a part that is None is shared out among the others; None when all are, or
    those that are not weigh nothing.
    """
    known = [(value, weight) for value, weight in parts if value is not None]
    total = sum(weight for _, weight in known)
    return round(100 * sum(value * weight for value, weight in known) / total, 2) if total > 0 else None


_QUALITY_PROMPT = """You grade the answer of an AI agent. Four questions:
1. Does it answer what was asked?
2. Is it accurate and factual, as far as the texts show?
3. Is it well structured and easy to read?
4. Does it follow the instructions that were given?

First write the reason, citing what in the texts decides, then one whole number from 0 (useless) to 100 (perfect)
for all four together."""

_QUALITY_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"reason": {"type": "string"}, "score": {"type": "integer"}},
    "required": ["reason", "score"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputQuality(MetricBase):
    """A judge's grade of the output, 0 to 100 over 100: answers the question, accurate, structured, as instructed.

    Attributes:
        model: Another model than the judge's own.
    """

    name: ClassVar[str] = "output_quality"
    requires: ClassVar[tuple[str, ...]] = ("input", "output")

    model: str | None = None

    async def evaluate_with(self, case: Case, judge: Judge) -> Score:
        """Ask once."""
        data = {"input": case.input or "", "actual_output": case.output or ""}
        if case.expected.output:
            data["expected_output"] = case.expected.output
        if case.expected.contains:
            data["texts_the_output_should_hold"] = "\n".join(case.expected.contains)
        request = JudgeRequest(
            purpose=f"{self.name}/score",
            instructions=_QUALITY_PROMPT,
            data=data,
            schema=_QUALITY_SCHEMA,
            model=self.model,
        )
        reply = await judge.ask(request)
        score: object = reply.verdict.get("score")
        if isinstance(score, bool) or not isinstance(score, int) or not 0 <= score <= 100:
            raise JudgeError(f"the judge gave the score {score!r}: a whole number from 0 to 100", usage=reply.usage)
        reason = str(reply.verdict.get("reason") or "the judge gave no reason")
        return self.score(score / 100, reason, judge=reply.usage, extra=(("raw", float(score)),))


@dataclass(frozen=True, slots=True, kw_only=True)
class Overall(MetricBase):
    """The weighted score of tool accuracy, output quality (by the judge) and sequence progress, over 100.

    The weight of a part that does not apply (nothing is expected of it) is shared out among the others; when the
    judge fails, the overall score is an error.

    Attributes:
        weights: Shares by name: tool_accuracy, output_quality, sequence_correctness; default 0.3, 0.5, 0.2.
        compatible: Count a part that does not apply as fully met, as EvalView does.
        mode: Mode of the sequence.
        model: Another model than the judge's own.
    """

    name: ClassVar[str] = "overall"
    requires: ClassVar[tuple[str, ...]] = ("output",)

    weights: Mapping[str, float] = field(default_factory=dict[str, float])
    compatible: bool = False
    mode: SequenceMode = "subsequence"
    model: str | None = None

    def __post_init__(self) -> None:
        Weights.read(self.weights)

    async def evaluate_with(self, case: Case, judge: Judge) -> Score:
        """Score the three parts and weigh them."""
        accuracy = evaluate_metric(ToolAccuracy(), case)
        sequence = evaluate_metric(Sequence(mode=self.mode), case)
        quality = await evaluate_metric_async(OutputQuality(model=self.model), case, judge)
        broken = next((s for s in (accuracy, sequence, quality) if s.error is not None), None)
        if broken is not None:
            return self.fail(f"{broken.metric}: {broken.error}", judge=quality.judge)
        scores = (accuracy, quality, sequence)
        values = [accuracy.value, quality.value, dict(sequence.extra).get("progress", sequence.value)]
        parts = [1.0 if value is None and self.compatible else value for value in values]
        total = weighted(zip(parts, Weights.read(self.weights).shares, strict=True))
        if total is None:
            return self.skip("no part of the overall score applies", judge=quality.judge)
        shown = ["n/a" if value is None else f"{value:.0%}" for value in parts]
        evidence = tuple(
            Evidence(
                verdict="info", claim=part.metric, value=None if value is None else f"{value:.2f}", note=part.reason
            )
            for part, value in zip(scores, parts, strict=True)
        )
        return self.score(
            min(1.0, total / 100),
            f"{total:g}/100 from tool accuracy {shown[0]}, output quality {shown[1]}, sequence {shown[2]}",
            evidence=evidence,
            judge=quality.judge,
            extra=(("overall", total),),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MinScore(Overall):
    """The overall score reaches a minimum.

    Attributes:
        min_score: 0 to 100; the minimum itself passes.
        weights: As of `overall`.
        compatible: As of `overall`.
        mode: As of `overall`.
        model: As of `overall`.
    """

    name: ClassVar[str] = "min_score"

    min_score: float

    def __post_init__(self) -> None:
        Weights.read(self.weights)
        if not 0 <= self.min_score <= 100:
            raise ValueError(f"min_score is {self.min_score!r}: from 0 to 100")
        if self.threshold is not None:
            raise ValueError("min_score is the threshold: leave threshold out")
        object.__setattr__(self, "threshold", self.min_score / 100)
