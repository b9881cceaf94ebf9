"""Evaluate: metrics on one case or a whole data set, and the assertion that a case meets a metric."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from typing import TypeVar, overload

from evalspan.errors import ConfigError
from evalspan_collector.run import Run
from evalspan_evaluators.case import Case
from evalspan_evaluators.judge import Judge
from evalspan_evaluators.metric import (
    JudgeMetric,
    Metric,
    create,
    evaluate_metric,
    evaluate_metric_async,
    needs_judge,
    threshold_of,
)
from evalspan_evaluators.results import CaseResult, Results
from evalspan_evaluators.score import DEFAULT_THRESHOLD, Score

__all__ = [
    "CaseAssertion",
    "MetricLike",
    "assert_that",
    "evaluate",
    "evaluate_async",
    "evaluate_each",
    "failure_message",
    "resolve_metric",
    "used_threshold",
]

#: A metric, its class, or its name.
MetricLike = Metric | JudgeMetric | type[Metric | JudgeMetric] | str

T = TypeVar("T")


def resolve_metric(metric: MetricLike) -> Metric | JudgeMetric:
    """The metric itself; a class or a name stands for the metric with its default parameters.

    Raises:
        ConfigError: The name is unknown, or the metric cannot be made without parameters.
    """
    if isinstance(metric, str):
        return create(metric)
    if not isinstance(metric, type):
        return metric
    make: Callable[[], Metric | JudgeMetric] = metric
    try:
        return make()
    except TypeError as error:
        raise ConfigError(f"metric {metric.name!r} needs parameters: give an instance of it ({error})") from error


def used_threshold(
    metric: Metric | JudgeMetric, *, use: float | None = None, default_threshold: float = DEFAULT_THRESHOLD
) -> float:
    """Precedence: constructor, then this use (marker, file), then the metric's default, then the global default."""
    if metric.threshold is None and use is None and metric.default_threshold is None:
        return default_threshold
    return threshold_of(metric, use=use)


def _against(score: Score, threshold: float) -> Score:
    """The same score against another threshold."""
    if score.threshold == threshold:
        return score
    passed = None if score.value is None else score.value >= threshold
    return replace(score, threshold=threshold, passed=passed)


class _Plan:
    """Metrics and the thresholds they are used with."""

    def __init__(
        self, metrics: Iterable[MetricLike], thresholds: Mapping[str, float] | None, default_threshold: float
    ) -> None:
        self.metrics = [resolve_metric(m) for m in metrics]
        uses = dict(thresholds or {})
        for name, value in (*uses.items(), ("default_threshold", default_threshold)):
            if not 0.0 <= value <= 1.0:
                raise ValueError(f"threshold {name!r} is {value!r}: a number between 0 and 1")
        self._thresholds = [
            used_threshold(m, use=uses.get(m.name), default_threshold=default_threshold) for m in self.metrics
        ]

    @property
    def asks_judge(self) -> bool:
        return any(needs_judge(m) for m in self.metrics)

    def score(self, case: Case) -> tuple[Score, ...]:
        return tuple(_against(evaluate_metric(m, case), t) for m, t in zip(self.metrics, self._thresholds, strict=True))

    async def score_async(self, case: Case, judge: Judge | None) -> tuple[Score, ...]:
        scores = await asyncio.gather(*(evaluate_metric_async(m, case, judge) for m in self.metrics))
        return tuple(_against(s, t) for s, t in zip(scores, self._thresholds, strict=True))


@overload
def evaluate(
    subject: Case | Run,
    metrics: Iterable[MetricLike],
    *,
    judge: Judge | None = None,
    thresholds: Mapping[str, float] | None = None,
    default_threshold: float = DEFAULT_THRESHOLD,
    concurrency: int = 8,
) -> list[Score]: ...


@overload
def evaluate(
    subject: Iterable[Case],
    metrics: Iterable[MetricLike],
    *,
    judge: Judge | None = None,
    thresholds: Mapping[str, float] | None = None,
    default_threshold: float = DEFAULT_THRESHOLD,
    concurrency: int = 8,
) -> Results: ...


def evaluate(
    subject: Case | Run | Iterable[Case],
    metrics: Iterable[MetricLike],
    *,
    judge: Judge | None = None,
    thresholds: Mapping[str, float] | None = None,
    default_threshold: float = DEFAULT_THRESHOLD,
    concurrency: int = 8,
) -> list[Score] | Results:
    """Score one case, or every case of a data set.

    Works inside a running event loop too (a notebook, an async test).

    Args:
        subject: A case, a run, or cases (a `Dataset` or any iterable).
        metrics: Metrics, their classes or their names, in the order of the scores.
        judge: Asked by the metrics that need one; without it they end in an error, never in a pass.
        thresholds: Threshold by metric name, for metrics whose constructor sets none.
        default_threshold: For metrics that have no threshold of their own either.
        concurrency: Cases judged at the same time, when a metric asks a judge.

    Returns:
        The scores, in the order of the metrics; for several cases their `Results`.

    Raises:
        ConfigError: A metric name is unknown.
        ValueError: A threshold is outside 0 to 1.
    """
    if isinstance(subject, Case | Run):
        results = evaluate_each(
            [_case(subject)], metrics, judge=judge, thresholds=thresholds, default_threshold=default_threshold
        )
        return list(next(results).scores)
    return Results(
        cases=tuple(
            evaluate_each(
                subject,
                metrics,
                judge=judge,
                thresholds=thresholds,
                default_threshold=default_threshold,
                concurrency=concurrency,
            )
        )
    )


def evaluate_each(
    cases: Iterable[Case],
    metrics: Iterable[MetricLike],
    *,
    judge: Judge | None = None,
    thresholds: Mapping[str, float] | None = None,
    default_threshold: float = DEFAULT_THRESHOLD,
    concurrency: int = 8,
) -> Iterator[CaseResult]:
    """Like `evaluate`, one result after the other in the order of the cases; never holds more than a few cases."""
    plan = _Plan(metrics, thresholds, default_threshold)
    if not plan.asks_judge:
        for index, case in enumerate(cases):
            yield CaseResult(case=case, scores=plan.score(case), index=index)
        return
    source = enumerate(cases)
    while batch := list(islice(source, max(1, concurrency))):
        yield from _run(_judged(plan, batch, judge))


async def _judged(plan: _Plan, batch: list[tuple[int, Case]], judge: Judge | None) -> list[CaseResult]:
    scores = await asyncio.gather(*(plan.score_async(case, judge) for _, case in batch))
    return [CaseResult(case=c, scores=s, index=i) for (i, c), s in zip(batch, scores, strict=True)]


def _run(work: Coroutine[object, object, T]) -> T:
    """Run to the end; in a thread of its own where a loop is running already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1, thread_name_prefix="evalspan-evaluate") as pool:
        return pool.submit(asyncio.run, work).result()


async def evaluate_async(
    cases: Iterable[Case],
    metrics: Iterable[MetricLike],
    *,
    judge: Judge | None = None,
    thresholds: Mapping[str, float] | None = None,
    default_threshold: float = DEFAULT_THRESHOLD,
    concurrency: int = 8,
) -> AsyncIterator[CaseResult]:
    """Like `evaluate_each`, in the caller's event loop."""
    plan = _Plan(metrics, thresholds, default_threshold)
    source = enumerate(cases)
    while batch := list(islice(source, max(1, concurrency))):
        for result in await _judged(plan, batch, judge):
            yield result


def _case(subject: Case | Run) -> Case:
    return Case.from_run(subject) if isinstance(subject, Run) else subject


def failure_message(score: Score, case: Case) -> str:
    """Why an assertion on this score does not hold, with the facts behind it."""
    subject = f" on {case.name!r}" if case.name else ""
    if score.error is not None:
        return f"{score.metric}{subject} could not be judged: {score.error}"
    if score.not_applicable:
        return f"{score.metric}{subject} had nothing to check, which is no pass: {score.reason}"
    lines = [f"{score.metric}{subject} is {score.value:.2f}, below its threshold {score.threshold:.2f}: {score.reason}"]
    for item in [e for e in score.evidence if e.verdict not in {"match", "supported", "info"}][:5]:
        facts = [f"{k} {v!r}" for k, v in item.to_json().items() if k not in {"verdict", "start", "end"}]
        lines.append(f"  {item.verdict}: {', '.join(facts)}")
    return "\n".join(lines)


class CaseAssertion:
    """Assertions on one case, made by `assert_that`; each returns itself so that they chain.

    Attributes:
        scores: Scores of the assertions made so far.
    """

    def __init__(self, case: Case, *, judge: Judge | None, default_threshold: float) -> None:
        self._case = case
        self._judge = judge
        self._default = default_threshold
        self.scores: list[Score] = []

    def meets(self, metric: MetricLike, *, threshold: float | None = None) -> "CaseAssertion":
        """The case reaches the metric's threshold.

        Args:
            metric: A metric, its class or its name.
            threshold: For a metric whose constructor sets none.

        Raises:
            AssertionError: The score is below the threshold, ended in an error, or there was nothing to check.
        """
        made = resolve_metric(metric)
        uses = {} if threshold is None else {made.name: threshold}
        (score,) = evaluate(self._case, [made], judge=self._judge, thresholds=uses, default_threshold=self._default)
        self.scores.append(score)
        if not score.passed:
            raise AssertionError(failure_message(score, self._case))
        return self


def assert_that(
    case: Case | Run, *, judge: Judge | None = None, default_threshold: float = DEFAULT_THRESHOLD
) -> CaseAssertion:
    """Start a chain of assertions: `assert_that(case).meets(Sequence(...)).meets("grounding")`.

    Args:
        case: A case or a run.
        judge: Asked by metrics that need one.
        default_threshold: For metrics without a threshold of their own.
    """
    return CaseAssertion(_case(case), judge=judge, default_threshold=default_threshold)
