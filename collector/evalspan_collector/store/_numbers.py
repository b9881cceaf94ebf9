"""Numbers in ClickHouse: aggregates over windows, series over time, and the values that filters offer."""

# ruff: noqa: S608 - statements are put together from constants of ours; values travel as parameters

from collections.abc import Callable
from typing import Any, Final

from evalspan_collector.records import Aggregate
from evalspan_collector.store._runs import project_condition, recent_condition
from evalspan_collector.store.client import Client
from evalspan_collector.store.contract import AggregateQuery, Facets, RunPoint, ScorePoint, SeriesQuery

__all__ = ["WORST", "NumberReader"]

#: Runs named beside an aggregate.
WORST: Final = 5
_FACETS: Final = 200

#: What a run contributes; NULL is unknown and left out.
_OF_RUN: Final = {
    "cost": "cost_usd",
    "latency": "duration_s",
    "tokens": "if(isNull(input_tokens) AND isNull(output_tokens), NULL,"
    " ifNull(input_tokens, 0) + ifNull(output_tokens, 0))",
    "error_rate": "toFloat64(status = 'error')",
    "runs": "toFloat64(1)",
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


def _window(query: AggregateQuery | SeriesQuery, start: str, written: str, now_ns: int) -> tuple[str, dict[str, Any]]:
    condition, parameters = project_condition(query.project)
    prune, more = recent_condition(written, query.since_ns, now_ns)
    conditions = [condition, f"{start} >= {{since:Int64}}", f"{start} < {{until:Int64}}", prune]
    if query.agent is not None:
        conditions.append("agent = {agent:String}")
    return " AND ".join(conditions), {
        **parameters,
        **more,
        "since": query.since_ns,
        "until": query.until_ns,
        "agent": query.agent or "",
        "environment": query.environment or "",
    }


def _runs_where(query: AggregateQuery | SeriesQuery, now_ns: int) -> tuple[str, dict[str, Any]]:
    where, parameters = _window(query, "started_ns", "updated_ns", now_ns)
    if query.environment is not None:
        where += " AND environment = {environment:String}"
    return f"{where} AND state != 'withdrawn'", parameters


def _scores_where(query: AggregateQuery | SeriesQuery, now_ns: int) -> tuple[str, dict[str, Any]]:
    where, parameters = _window(query, "run_started_ns", "created_ns", now_ns)
    if query.environment is not None:
        runs, _ = _runs_where(query, now_ns)
        where += f" AND (project, run_id) IN (SELECT project, run_id FROM runs FINAL WHERE {runs})"
    return f"{where} AND NOT superseded", parameters


class NumberReader:
    """Totals, read from current runs and scores; nothing is counted by increments."""

    def __init__(self, client: Client, clock: Callable[[], int]) -> None:
        self._client = client
        self._clock = clock

    def aggregate(self, query: AggregateQuery) -> Aggregate:
        """One number over a window."""
        if query.of in ("score", "pass_rate"):
            return self._of_scores(query)
        where, parameters = _runs_where(query, self._clock())
        function = {"error_rate": "avg", "runs": "sum"}.get(query.of) or _FUNCTIONS[query.aggregate]
        sql = f"""
        SELECT {_orNull(function)}(number), count(number), countIf(isNull(number)),
            arrayMap(x -> x.2, arraySlice(arrayReverseSort(x -> (x.1, x.2),
                groupArrayIf((assumeNotNull(number), run_id), number > 0)), 1, {WORST}))
        FROM (SELECT run_id, {_OF_RUN[query.of]} AS number FROM runs FINAL WHERE {where})
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
        where, parameters = _scores_where(query, self._clock())
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
            FROM scores FINAL WHERE {where} AND metric = {{metric:String}}
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

    def run_series(self, query: SeriesQuery) -> list[RunPoint]:
        """Runs over time; empty buckets are left out."""
        where, parameters = _runs_where(query, self._clock())
        sql = f"""
        SELECT intDiv(started_ns, {{step:Int64}}) * {{step:Int64}} AS bucket, count(), countIf(status = 'error'),
            sumOrNull(cost_usd), sum(cost_unknown_calls), sumOrNull(input_tokens), sumOrNull(output_tokens),
            quantileExactInclusiveOrNull(0.5)(duration_s), quantileExactInclusiveOrNull(0.95)(duration_s)
        FROM runs FINAL WHERE {where} GROUP BY bucket ORDER BY bucket
        """
        rows = self._client.rows(sql, {**parameters, "step": query.step_s * 1_000_000_000})
        return [
            RunPoint(
                start_ns=row[0],
                runs=row[1],
                errors=row[2],
                cost_usd=row[3],
                cost_unknown_calls=row[4],
                input_tokens=row[5],
                output_tokens=row[6],
                latency_p50_s=row[7],
                latency_p95_s=row[8],
            )
            for row in rows
        ]

    def score_series(self, query: SeriesQuery) -> list[ScorePoint]:
        """Current scores over time, per metric."""
        where, parameters = _scores_where(query, self._clock())
        sql = f"""
        SELECT intDiv(run_started_ns, {{step:Int64}}) * {{step:Int64}} AS bucket, metric,
            countIf(good AND isNotNull(value)), countIf(good AND isNotNull(value) AND passed),
            avgOrNullIf(value, good), countIf(isNotNull(error)), countIf(isNull(error) AND not_applicable),
            sumOrNull(judge_cost_usd)
        FROM
        (
            SELECT run_started_ns, metric, value, ifNull(passed, false) AS passed, error, not_applicable,
                judge_cost_usd, isNull(error) AND NOT not_applicable AS good
            FROM scores FINAL WHERE {where}
        )
        GROUP BY bucket, metric ORDER BY bucket, metric
        """
        rows = self._client.rows(sql, {**parameters, "step": query.step_s * 1_000_000_000})
        return [
            ScorePoint(
                start_ns=row[0],
                metric=row[1],
                scored=row[2],
                passed=row[3],
                average=row[4],
                errors=row[5],
                not_applicable=row[6],
                judge_cost_usd=row[7],
            )
            for row in rows
        ]

    def facets(self, project: str | None, since_ns: int) -> Facets:
        """Values of current runs and scores since then, most frequent first."""
        condition, parameters = project_condition(project)
        prune, more = recent_condition("updated_ns", since_ns, self._clock())
        where = f"{condition} AND {prune} AND started_ns >= {{since:Int64}} AND state != 'withdrawn'"
        values = {**parameters, **more, "since": since_ns, "limit": _FACETS}
        names: dict[str, tuple[str, ...]] = {}
        for column in ("project", "agent", "environment"):
            names[column] = self._frequent(column, f"runs FINAL WHERE {where} AND isNotNull({column})", values)
        scores = (
            f"scores FINAL WHERE {condition} AND created_ns >= {{floor:Int64}} "
            "AND run_started_ns >= {since:Int64} AND NOT superseded"
        )
        return Facets(
            projects=names["project"],
            agents=names["agent"],
            environments=names["environment"],
            metrics=self._frequent("metric", scores, values),
        )

    def _frequent(self, column: str, source: str, parameters: dict[str, Any]) -> tuple[str, ...]:
        sql = f"SELECT {column}, count() FROM {source} GROUP BY {column} ORDER BY count() DESC, {column}"
        return tuple(str(row[0]) for row in self._client.rows(f"{sql} LIMIT {{limit:UInt32}}", parameters))


def _orNull(function: str) -> str:  # noqa: N802  # ClickHouse's name of the combinator
    """The function with NULL for an empty sample."""
    name, bracket, rest = function.partition("(")
    return f"{name}OrNull{bracket}{rest}"
