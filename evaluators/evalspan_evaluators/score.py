"""Score: the immutable result of one metric on one case."""

from dataclasses import dataclass, replace
from typing import Any, Literal, Self

__all__ = ["DEFAULT_THRESHOLD", "Evidence", "JudgeUsage", "Score", "Verdict"]

#: Threshold of a metric that has none of its own.
DEFAULT_THRESHOLD = 0.7

Verdict = Literal["supported", "contradicted", "unsupported", "not_checkable", "match", "mismatch", "info"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One fact behind a score, with a pointer a reviewer can follow.

    Attributes:
        verdict: What this fact says about the claim or expectation.
        claim: Text of the claim (from the answer) or of the expectation.
        start: Offset of the claim in the case's output, in characters; None when it is not from there.
        end: Offset behind it.
        value: What the claim or the run says, as text.
        expected: The true or expected value, as text.
        source: Where the true value stands: `tool_result`, `tool_arguments`, `user`, `system_prompt`,
            `document`, `expected`, ...
        tool: Name of the tool whose call or result is meant.
        span_id: Span of that tool call or step.
        path: JSON path inside the source, such as `$.orders[0].total`.
        formula: How the value was derived, such as `500 - 171`.
        code: Machine-readable reason, such as `TOOL_MISSING`.
        note: Anything else a person should read, such as a remedy.
    """

    verdict: Verdict
    claim: str = ""
    start: int | None = None
    end: int | None = None
    value: str | None = None
    expected: str | None = None
    source: str | None = None
    tool: str | None = None
    span_id: str | None = None
    path: str | None = None
    formula: str | None = None
    code: str | None = None
    note: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The fields that are set."""
        return {name: value for name in self.__slots__ if (value := getattr(self, name)) not in (None, "")}


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeUsage:
    """What the judge calls behind a score used; unknown is None.

    Attributes:
        cost_usd: US dollars over all calls of this score, failed ones included.
        raw: The judge's own number before normalisation, such as 4 on a scale of 1 to 5.
    """

    model: str
    calls: int = 1
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    raw: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One metric's result on one case.

    Exactly one of three: a value in 0..1; an `error` (judge failed, metric broke); or
    `not_applicable` (nothing to check). Only the first enters averages and pass rates.

    Attributes:
        metric: Name of the metric.
        value: 0.0 complete failure to 1.0 perfect; None for an error or not applicable.
        threshold: The value that passes.
        passed: value >= threshold; None without a value.
        reason: Text a person can read.
        label: A category, where the metric gives one.
        evidence: The facts behind the value.
        error: Why there is no value; None otherwise.
        not_applicable: There was nothing to check.
        judge: Usage of the judge, None when no judge was asked.
        metric_version: Hash of the metric's definition.
        duration_s: Seconds the evaluation took.
        extra: Named further numbers of the metric (precision, recall, progress ...).
    """

    metric: str
    value: float | None = None
    threshold: float | None = None
    passed: bool | None = None
    reason: str
    label: str | None = None
    evidence: tuple[Evidence, ...] = ()
    error: str | None = None
    not_applicable: bool = False
    judge: JudgeUsage | None = None
    metric_version: str = ""
    duration_s: float = 0.0
    extra: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        value, threshold = self.value, self.threshold
        # Written out, not looped: a score is made for every metric of every run. NaN fails both comparisons.
        if value is not None and not 0.0 <= value <= 1.0:
            raise ValueError(f"value of metric {self.metric!r} is {value!r}: a score lies between 0 and 1")
        if threshold is not None and not 0.0 <= threshold <= 1.0:
            raise ValueError(f"threshold of metric {self.metric!r} is {threshold!r}: a score lies between 0 and 1")
        states = (value is not None) + (self.error is not None) + self.not_applicable
        if states != 1:
            raise ValueError(
                f"score of metric {self.metric!r} needs exactly one of value, error and not_applicable, has {states}"
            )

    @classmethod
    def of(cls, metric: str, value: float, *, threshold: float, reason: str, **fields: Any) -> Self:
        """A score with a value; it passes when `value >= threshold`."""
        return cls(metric=metric, value=value, threshold=threshold, passed=value >= threshold, reason=reason, **fields)

    @classmethod
    def failed(cls, metric: str, error: str, **fields: Any) -> Self:
        """An error: the metric could not come to a value."""
        return cls(metric=metric, error=error, reason=fields.pop("reason", error), **fields)

    @classmethod
    def skipped(cls, metric: str, reason: str, **fields: Any) -> Self:
        """Not applicable: there was nothing to check, and why."""
        return cls(metric=metric, not_applicable=True, reason=reason, **fields)

    def stamped(self, metric_version: str, duration_s: float) -> "Score":
        """This score with the version of its metric and the time it took."""
        if self.metric_version:
            return replace(self, metric_version=metric_version, duration_s=duration_s)
        # A score without a version has just left its metric and nobody else holds it; copying its fields would
        # cost more than most metrics do.
        object.__setattr__(self, "metric_version", metric_version)
        object.__setattr__(self, "duration_s", duration_s)
        return self

    def __str__(self) -> str:
        if self.value is None:
            return f"{self.metric}: {'n/a' if self.not_applicable else 'ERROR'} ({self.reason})"
        return f"{self.metric}: {self.value:.2f} ({'PASS' if self.passed else 'FAIL'})"

    def to_json(self) -> dict[str, Any]:
        """The stable JSON form of design: `evalspan runs show`, key `scores`."""
        return {
            "metric": self.metric,
            "value": self.value,
            "threshold": self.threshold,
            "passed": self.passed,
            "label": self.label,
            "reason": self.reason,
            "error": self.error,
            "not_applicable": self.not_applicable,
            "evidence": [e.to_json() for e in self.evidence],
            "judge_cost_usd": self.judge.cost_usd if self.judge else None,
        }
