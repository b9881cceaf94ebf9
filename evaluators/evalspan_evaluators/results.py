"""Results: what metrics came to on the cases of a data set, counted and averaged."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from evalspan_evaluators.case import Case
from evalspan_evaluators.score import Score
from evalspan_evaluators.statistics import Interval, mean, wilson_interval

__all__ = ["CaseResult", "MetricSummary", "ResultVerdict", "Results", "verdict_of"]

ResultVerdict = Literal["passed", "failed", "error", "not_applicable"]


def verdict_of(scores: Iterable[Score]) -> ResultVerdict:
    """One failed score fails the case, one error leaves it undecided, and nothing checked is no pass."""
    passed = error = False
    for score in scores:
        if score.passed is False:
            return "failed"
        error = error or score.error is not None
        passed = passed or score.passed is True
    if error:
        return "error"
    return "passed" if passed else "not_applicable"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """One case and its scores, in the order of the metrics.

    Attributes:
        index: Position of the case in its data set, from 0.
    """

    case: Case
    scores: tuple[Score, ...]
    index: int = 0

    @property
    def name(self) -> str:
        """The case's name, or its number (from 1) when it has none."""
        return self.case.name or f"case {self.index + 1}"

    @property
    def input(self) -> str | None:
        """What the user asked in this case."""
        return self.case.input

    @property
    def verdict(self) -> ResultVerdict:
        """See `verdict_of`."""
        return verdict_of(self.scores)

    @property
    def passed(self) -> bool:
        """Every score that could be given passed, and there was at least one."""
        return self.verdict == "passed"

    @property
    def average(self) -> float | None:
        """Mean of the scores with a value; None without one."""
        return mean(s.value for s in self.scores if s.value is not None)

    def score(self, metric: str) -> Score:
        """The score of this metric.

        Raises:
            LookupError: The metric was not evaluated.
        """
        for score in self.scores:
            if score.metric == metric:
                return score
        raise LookupError(f"no score of {metric!r}: there are {', '.join(s.metric for s in self.scores) or 'none'}")

    def to_json(self) -> dict[str, Any]:
        """For reports."""
        return {
            "name": self.name,
            "input": self.case.input,
            "output": self.case.output,
            "verdict": self.verdict,
            "scores": [s.to_json() for s in self.scores],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSummary:
    """One metric over all cases; errors and not applicable ones are counted and left out of the numbers.

    Attributes:
        average: Mean of the values; None without one.
        pass_rate: Share of the values that passed; None without one.
        interval: Wilson interval of `pass_rate` at 95 %; None without a value.
    """

    metric: str
    passed: int
    failed: int
    errors: int
    not_applicable: int
    average: float | None
    pass_rate: float | None
    interval: Interval | None

    @classmethod
    def of(cls, metric: str, scores: Iterable[Score]) -> "MetricSummary":
        """The summary of these scores of one metric."""
        values: list[float] = []
        counts: Counter[str] = Counter()
        for score in scores:
            counts[verdict_of((score,))] += 1
            if score.value is not None:
                values.append(score.value)
        passed, failed = counts["passed"], counts["failed"]
        decided = passed + failed
        return cls(
            metric=metric,
            passed=passed,
            failed=failed,
            errors=counts["error"],
            not_applicable=counts["not_applicable"],
            average=mean(values),
            pass_rate=passed / decided if decided else None,
            interval=wilson_interval(passed, decided) if decided else None,
        )

    def to_json(self) -> dict[str, Any]:
        """For reports."""
        return {
            "metric": self.metric,
            "passed": self.passed,
            "failed": self.failed,
            "errors": self.errors,
            "not_applicable": self.not_applicable,
            "average": self.average,
            "pass_rate": self.pass_rate,
            "interval": [self.interval.low, self.interval.high] if self.interval else None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """The results of a data set.

    Attributes:
        cases: One result per case, in order.
    """

    cases: tuple[CaseResult, ...]

    @property
    def pass_rate(self) -> float | None:
        """Share of the decided cases (passed or failed) that passed every metric; None when none is decided."""
        counts = self.counts
        decided = counts["passed"] + counts["failed"]
        return counts["passed"] / decided if decided else None

    @property
    def average_score(self) -> float | None:
        """Mean over the cases of each case's mean; None when no score has a value."""
        return mean(a for c in self.cases if (a := c.average) is not None)

    @property
    def counts(self) -> dict[ResultVerdict, int]:
        """Cases by verdict."""
        found: dict[ResultVerdict, int] = {"passed": 0, "failed": 0, "error": 0, "not_applicable": 0}
        for case in self.cases:
            found[case.verdict] += 1
        return found

    @property
    def failed_cases(self) -> tuple[CaseResult, ...]:
        """Cases with a score that failed."""
        return tuple(c for c in self.cases if c.verdict == "failed")

    @property
    def error_cases(self) -> tuple[CaseResult, ...]:
        """Cases that could not be decided because a metric ended in an error."""
        return tuple(c for c in self.cases if c.verdict == "error")

    @property
    def passed(self) -> bool:
        """At least one case passed, and none failed or ended in an error."""
        counts = self.counts
        return counts["passed"] > 0 and not counts["failed"] and not counts["error"]

    @property
    def metrics(self) -> tuple[MetricSummary, ...]:
        """One summary per metric, in the order of the metrics."""
        by_name: dict[str, list[Score]] = {}
        for case in self.cases:
            for score in case.scores:
                by_name.setdefault(score.metric, []).append(score)
        return tuple(MetricSummary.of(name, scores) for name, scores in by_name.items())

    @property
    def judge_cost_usd(self) -> float | None:
        """US dollars the judge calls cost as far as known; None when no judge was asked or no price is known."""
        costs = [s.judge.cost_usd for c in self.cases for s in c.scores if s.judge and s.judge.cost_usd is not None]
        return sum(costs) if costs else None

    def to_json(self) -> dict[str, Any]:
        """For reports."""
        return {
            "pass_rate": self.pass_rate,
            "average_score": self.average_score,
            "counts": dict(self.counts),
            "metrics": [m.to_json() for m in self.metrics],
            "judge_cost_usd": self.judge_cost_usd,
            "cases": [c.to_json() for c in self.cases],
        }
