"""Numbers of the memory store, by the same definitions as ClickHouse's functions."""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final

from evalspan_collector.records import Aggregate, RunSummary, ScoreRecord
from evalspan_collector.store.contract import AggregateQuery, RunPoint, RunTrend, ScorePoint, ScoreTrend, SeriesQuery

__all__ = ["aggregate", "run_trend", "score_trend"]

_WORST: Final = 5
_SECOND: Final = 1_000_000_000


def _quantile(values: Sequence[float], level: float) -> float:
    """Linear between the closest ranks: `quantileExactInclusive`."""
    ordered = sorted(values)
    place = level * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


_FUNCTIONS: Final[dict[str, Callable[[Sequence[float]], float]]] = {
    "avg": _mean,
    "min": min,
    "max": max,
    "sum": sum,
    "p50": lambda values: _quantile(values, 0.5),
    "p90": lambda values: _quantile(values, 0.9),
    "p95": lambda values: _quantile(values, 0.95),
    "p99": lambda values: _quantile(values, 0.99),
}


def _of_run(run: RunSummary, of: str) -> float | None:
    if of == "cost":
        return run.cost_usd
    if of == "latency":
        return run.duration_s
    if of == "error_rate":
        return float(run.status == "error")
    if of == "runs":
        return 1.0
    if run.input_tokens is None and run.output_tokens is None:
        return None
    return float((run.input_tokens or 0) + (run.output_tokens or 0))


def aggregate(query: AggregateQuery, runs: Sequence[RunSummary], scores: Sequence[ScoreRecord]) -> Aggregate:
    """One number over the runs and scores of a window."""
    if query.of in ("score", "pass_rate"):
        return _of_scores(query, [s for s in scores if s.metric == query.metric])
    numbers = [(_of_run(run, query.of), run.run_id) for run in runs]
    known = [(value, run_id) for value, run_id in numbers if value is not None]
    if query.of == "runs":
        return Aggregate(value=float(len(known)), sample=len(known))
    if not known:
        return Aggregate(value=None, sample=0, unknown=len(numbers))
    function = _mean if query.of == "error_rate" else _FUNCTIONS[query.aggregate]
    worst = sorted((pair for pair in known if pair[0] > 0), reverse=True)[:_WORST]
    return Aggregate(
        value=float(function([value for value, _ in known])),
        sample=len(known),
        unknown=len(numbers) - len(known),
        worst_run_ids=tuple(run_id for _, run_id in worst),
    )


def _of_scores(query: AggregateQuery, scores: Sequence[ScoreRecord]) -> Aggregate:
    numbers: list[tuple[float, ScoreRecord]] = []
    for score in scores:
        number = score.value if query.of == "score" else None if score.passed is None else float(score.passed)
        if number is not None and score.error is None and not score.not_applicable:
            numbers.append((number, score))
    if not numbers:
        return Aggregate(value=None, sample=0, passed=0, unknown=len(scores))
    function = _mean if query.of == "pass_rate" else _FUNCTIONS[query.aggregate]
    bad = [s for _, s in numbers if (not s.passed if s.passed is not None else (s.value or 0) < 1)]
    worst = sorted(((s.value or 0.0), s.run_id) for s in bad)[:_WORST]
    return Aggregate(
        value=float(function([number for number, _ in numbers])),
        sample=len(numbers),
        passed=sum(1 for _, s in numbers if s.passed),
        unknown=len(scores) - len(numbers),
        worst_run_ids=tuple(run_id for _, run_id in worst),
    )


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _total(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def run_trend(query: SeriesQuery, runs: Sequence[RunSummary]) -> RunTrend:
    """Runs of a window and of the one before it: buckets without empty ones, and each window as one."""
    step = query.step_s * _SECOND
    buckets: dict[int, list[RunSummary]] = defaultdict(list)
    windows: dict[bool, list[RunSummary]] = defaultdict(list)
    for run in runs:
        is_now = run.started_ns >= query.since_ns
        windows[is_now].append(run)
        if is_now:
            buckets[run.started_ns // step * step].append(run)
    return RunTrend(
        points=tuple(_run_point(start, group) for start, group in sorted(buckets.items())),
        whole=_run_point(query.since_ns, windows[True]) if windows[True] else None,
        before=_run_point(query.before_ns, windows[False]) if windows[False] else None,
    )


def _run_point(start_ns: int, group: Sequence[RunSummary]) -> RunPoint:
    durations = [run.duration_s for run in group if run.duration_s is not None]
    return RunPoint(
        start_ns=start_ns,
        runs=len(group),
        errors=sum(run.status == "error" for run in group),
        cost_usd=_sum([run.cost_usd for run in group]),
        cost_unknown_calls=sum(run.cost_unknown_calls for run in group),
        input_tokens=_total([run.input_tokens for run in group]),
        output_tokens=_total([run.output_tokens for run in group]),
        latency_p50_s=_quantile(durations, 0.5) if durations else None,
        latency_p95_s=_quantile(durations, 0.95) if durations else None,
    )


def score_trend(query: SeriesQuery, scores: Sequence[ScoreRecord]) -> ScoreTrend:
    """Scores of a window in buckets per metric, and those of the window before it per metric."""
    step = query.step_s * _SECOND
    buckets: dict[tuple[int, str], list[ScoreRecord]] = defaultdict(list)
    before: dict[str, list[ScoreRecord]] = defaultdict(list)
    for score in scores:
        if score.run_started_ns < query.since_ns:
            before[score.metric].append(score)
        else:
            buckets[score.run_started_ns // step * step, score.metric].append(score)
    return ScoreTrend(
        points=tuple(_score_point(start, metric, group) for (start, metric), group in sorted(buckets.items())),
        before=tuple(_score_point(query.before_ns, metric, group) for metric, group in sorted(before.items())),
    )


def _score_point(start_ns: int, metric: str, group: Sequence[ScoreRecord]) -> ScorePoint:
    good = [s for s in group if s.error is None and not s.not_applicable and s.value is not None]
    values = [s.value for s in good if s.value is not None]
    return ScorePoint(
        start_ns=start_ns,
        metric=metric,
        scored=len(good),
        passed=sum(1 for s in good if s.passed),
        average=_mean(values) if values else None,
        errors=sum(s.error is not None for s in group),
        not_applicable=sum(s.error is None and s.not_applicable for s in group),
        judge_cost_usd=_sum([s.judge_cost_usd for s in group]),
    )
