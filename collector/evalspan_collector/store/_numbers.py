"""Numbers in ClickHouse: aggregates over windows, series over time, and the values that filters offer."""

# ruff: noqa: S608 - statements are put together from constants of ours; values travel as parameters

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final

from evalspan_collector.records import Aggregate
from evalspan_collector.store._current import (
    WIDE_NS,
    current_runs,
    current_scores,
    project_condition,
    written_since,
)
from evalspan_collector.store.client import Client
from evalspan_collector.store.contract import (
    AggregateQuery,
    Facets,
    RunPoint,
    RunTrend,
    ScorePoint,
    ScoreTrend,
    SeriesQuery,
)

__all__ = ["WORST", "NumberReader"]

#: Runs named beside an aggregate.
WORST: Final = 5
_FACETS: Final = 200

#: Start of a row's bucket; the window before has one bucket.
_BUCKET: Final = "if(is_now, intDiv({0}, {{step:Int64}}) * {{step:Int64}}, -1)"
#: What a run contributes; NULL is unknown and left out.
_OF_RUN: Final = {
    "cost": "cost_usd",
    "latency": "duration_s",
    "tokens": "if(isNull(input_tokens) AND isNull(output_tokens), NULL,"
    " ifNull(input_tokens, 0) + ifNull(output_tokens, 0))",
    "error_rate": "toFloat64(status = 'error')",
    "runs": "toFloat64(1)",
}
_READS: Final[dict[str, tuple[str, ...]]] = {
    "cost": ("cost_usd",),
    "latency": ("duration_s",),
    "tokens": ("input_tokens", "output_tokens"),
    "error_rate": ("status",),
    "runs": (),
}
_FUNCTIONS: Final = {
    "avg": "avg",
    "min": "min",
    "max": "max",
    "sum": "sum",
    "p50": "quantileExactInclusive(0.5)",
    "p90": "quantileExactInclusive(0.9)",
    "p95": "quantileExactInclusive(0.95)",
    "p99": "quantileExactInclusive(0.99)",
}


def _window(query: AggregateQuery | SeriesQuery, start: str, now_ns: int) -> tuple[list[str], dict[str, Any]]:
    """Conditions on current rows of the window, and their parameters."""
    conditions = [f"{start} >= {{since:Int64}}", f"{start} < {{until:Int64}}"]
    parameters: dict[str, Any] = {
        "since": query.since_ns,
        "until": query.until_ns,
        "floor": written_since(query.since_ns, now_ns),
    }
    if query.agent is not None:
        conditions.append("agent = {agent:String}")
        parameters["agent"] = query.agent
    return conditions, parameters


def _runs(query: AggregateQuery | SeriesQuery, columns: tuple[str, ...], now_ns: int) -> tuple[str, dict[str, Any]]:
    """`FROM ... WHERE ...` of the current runs of a window, and its parameters."""
    project, parameters = project_condition(query.project)
    conditions, more = _window(query, "started_ns", now_ns)
    if query.environment is not None:
        conditions.append("environment = {environment:String}")
        more["environment"] = query.environment
    source = current_runs((*columns, "started_ns", "state", "agent", "environment"), project)
    return f"FROM {source} WHERE {' AND '.join(conditions)} AND state != 'withdrawn'", {**parameters, **more}


def _scores(query: AggregateQuery | SeriesQuery, columns: tuple[str, ...], now_ns: int) -> tuple[str, dict[str, Any]]:
    """Likewise of the current scores."""
    project, parameters = project_condition(query.project)
    conditions, more = _window(query, "run_started_ns", now_ns)
    names = (*columns, "run_started_ns", "superseded", "agent")
    if query.environment is not None:
        runs, of_runs = _runs(query, ("project", "run_id"), now_ns)
        more.update(of_runs)
        conditions.append(f"(project, run_id) IN (SELECT project, run_id {runs})")
        names = ("project", "run_id", *names)
    source = current_scores(names, project, wide=now_ns - query.since_ns > WIDE_NS)
    return f"FROM {source} WHERE {' AND '.join(conditions)} AND NOT superseded", {**parameters, **more}


class NumberReader:
    """Totals, read from current runs and scores; nothing is counted by increments."""

    def __init__(self, client: Client, clock: Callable[[], int]) -> None:
        self._client = client
        self._clock = clock

    def aggregate(self, query: AggregateQuery) -> Aggregate:
        """One number over a window."""
        if query.of in ("score", "pass_rate"):
            return self._of_scores(query)
        source, parameters = _runs(query, ("run_id", *_READS[query.of]), self._clock())
        function = {"error_rate": "avg", "runs": "sum"}.get(query.of) or _FUNCTIONS[query.aggregate]
        sql = f"""
        SELECT {_orNull(function)}(number), count(number), countIf(isNull(number)),
            arrayMap(x -> x.2, arraySlice(arrayReverseSort(x -> (x.1, x.2),
                groupArrayIf((assumeNotNull(number), run_id), number > 0)), 1, {WORST}))
        FROM (SELECT run_id, {_OF_RUN[query.of]} AS number {source})
        """
        value, sample, unknown, worst = self._client.rows(sql, parameters)[0]
        empty = not sample and query.of != "runs"
        return Aggregate(
            value=None if empty else float(value or 0.0),
            sample=int(sample),
            unknown=int(unknown),
            worst_run_ids=() if query.of == "runs" else tuple(worst),
        )

    def _of_scores(self, query: AggregateQuery) -> Aggregate:
        columns = ("run_id", "metric", "value", "passed", "error", "not_applicable")
        source, parameters = _scores(query, columns, self._clock())
        number = "value" if query.of == "score" else "toFloat64(passed)"
        function = "avg" if query.of == "pass_rate" else _FUNCTIONS[query.aggregate]
        sql = f"""
        SELECT {_orNull(function)}(number), count(number), countIf(passed AND isNotNull(number)),
            countIf(isNull(number)),
            arrayMap(x -> x.2, arraySlice(arraySort(groupArrayIf((ifNull(value, 0), run_id),
                isNotNull(number) AND ifNull(NOT passed, value < 1))), 1, {WORST}))
        FROM
        (
            SELECT run_id, value, passed, if(isNotNull(error) OR not_applicable, NULL, {number}) AS number
            {source} AND metric = {{metric:String}}
        )
        """
        value, sample, passed, unknown, worst = self._client.rows(sql, {**parameters, "metric": query.metric or ""})[0]
        return Aggregate(
            value=None if not sample else float(value),
            sample=int(sample),
            passed=int(passed),
            unknown=int(unknown),
            worst_run_ids=tuple(worst),
        )

    def run_trend(self, query: SeriesQuery) -> RunTrend:
        """Runs over time; empty buckets are left out."""
        columns = ("status", "cost_usd", "cost_unknown_calls", "input_tokens", "output_tokens", "duration_s")
        both = replace(query, since_ns=query.before_ns)
        source, parameters = _runs(both, columns, self._clock())
        # One reading of both windows: each bucket of this one, and each window as a whole.
        sql = f"""
        SELECT started_ns >= {{split:Int64}} AS is_now, {_BUCKET.format("started_ns")} AS bucket, grouping(bucket),
            count(), countIf(status = 'error'), sumOrNull(cost_usd), sum(cost_unknown_calls), sumOrNull(input_tokens),
            sumOrNull(output_tokens), quantileExactInclusiveOrNull(0.5)(duration_s),
            quantileExactInclusiveOrNull(0.95)(duration_s)
        {source} GROUP BY GROUPING SETS ((is_now, bucket), (is_now)) ORDER BY bucket
        """
        points: list[RunPoint] = []
        windows: dict[bool, RunPoint] = {}
        for is_now, start_ns, is_whole, *numbers in self._client.rows(sql, {**parameters, **_split(query)}):
            if is_whole:
                windows[bool(is_now)] = _run_point(query.since_ns if is_now else query.before_ns, numbers)
            elif is_now:
                points.append(_run_point(start_ns, numbers))
        return RunTrend(points=tuple(points), whole=windows.get(True), before=windows.get(False))

    def score_trend(self, query: SeriesQuery) -> ScoreTrend:
        """Current scores over time, per metric."""
        columns = ("metric", "value", "passed", "error", "not_applicable", "judge_cost_usd")
        both = replace(query, since_ns=query.before_ns)
        source, parameters = _scores(both, columns, self._clock())
        sql = f"""
        SELECT run_started_ns >= {{split:Int64}} AS is_now, {_BUCKET.format("run_started_ns")} AS bucket, metric,
            countIf(good AND isNotNull(value)), countIf(good AND isNotNull(value) AND passed),
            avgOrNullIf(value, good), countIf(isNotNull(error)), countIf(isNull(error) AND not_applicable),
            sumOrNull(judge_cost_usd)
        FROM
        (
            SELECT run_started_ns, metric, value, ifNull(passed, false) AS passed, error, not_applicable,
                judge_cost_usd, isNull(error) AND NOT not_applicable AS good
            {source}
        )
        GROUP BY is_now, bucket, metric ORDER BY bucket, metric
        """
        points: list[ScorePoint] = []
        before: list[ScorePoint] = []
        for is_now, start_ns, *rest in self._client.rows(sql, {**parameters, **_split(query)}):
            (points if is_now else before).append(_score_point(start_ns if is_now else query.before_ns, rest))
        return ScoreTrend(points=tuple(points), before=tuple(before))

    def facets(self, project: str | None, since_ns: int) -> Facets:
        """Values of current runs and scores since then, most frequent first."""
        now_ns = self._clock()
        condition, parameters = project_condition(project)
        parameters.update(since=since_ns, floor=written_since(since_ns, now_ns))
        names = ("project", "agent", "environment")
        runs = current_runs((*names, "started_ns", "state"), condition)
        of_runs = (
            f"SELECT ifNull(toString(project), ''), ifNull(agent, ''), ifNull(environment, ''), count() FROM {runs} "
            "WHERE started_ns >= {since:Int64} AND state != 'withdrawn' GROUP BY GROUPING SETS "
            f"({', '.join(f'({name})' for name in names)})"
        )
        scores = current_scores(("metric", "run_started_ns", "superseded"), condition, wide=now_ns - since_ns > WIDE_NS)
        of_scores = (
            f"SELECT metric, count() FROM {scores} WHERE run_started_ns >= {{since:Int64}} AND NOT superseded "
            "GROUP BY metric"
        )
        with ThreadPoolExecutor(1) as beside:
            asked = beside.submit(self._client.rows, of_scores, parameters)
            by_column = self._client.rows(of_runs, parameters)
            metrics = asked.result()
        projects, agents, environments = (
            _frequent((str(row[at]), int(row[3])) for row in by_column) for at in range(len(names))
        )
        return Facets(
            projects=projects,
            agents=agents,
            environments=environments,
            metrics=_frequent((str(name), int(count)) for name, count in metrics),
        )


def _split(query: SeriesQuery) -> dict[str, int]:
    """Parameters of what tells the window from the one before it, and of the buckets."""
    return {"split": query.since_ns, "step": query.step_s * 1_000_000_000}


def _run_point(start_ns: int, numbers: Sequence[Any]) -> RunPoint:
    return RunPoint(
        start_ns=start_ns,
        runs=numbers[0],
        errors=numbers[1],
        cost_usd=numbers[2],
        cost_unknown_calls=numbers[3],
        input_tokens=numbers[4],
        output_tokens=numbers[5],
        latency_p50_s=numbers[6],
        latency_p95_s=numbers[7],
    )


def _score_point(start_ns: int, numbers: Sequence[Any]) -> ScorePoint:
    return ScorePoint(
        start_ns=start_ns,
        metric=numbers[0],
        scored=numbers[1],
        passed=numbers[2],
        average=numbers[3],
        errors=numbers[4],
        not_applicable=numbers[5],
        judge_cost_usd=numbers[6],
    )


def _frequent(counted: Iterable[tuple[str, int]]) -> tuple[str, ...]:
    """The most frequent values that are none of nothing."""
    found = sorted(((-count, value) for value, count in counted if value))
    return tuple(value for _, value in found[:_FACETS])


def _orNull(function: str) -> str:  # noqa: N802  # ClickHouse's name of the combinator
    """The function with NULL for an empty sample."""
    name, bracket, rest = function.partition("(")
    return f"{name}OrNull{bracket}{rest}"
