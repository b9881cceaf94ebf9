"""Runs and steps in ClickHouse: written as revisions, read as the current ones."""

# ruff: noqa: S608 - statements are put together from constants of ours; values travel as parameters

from collections.abc import Callable, Sequence
from typing import Any, Final

from evalspan_collector.records import RunSummary
from evalspan_collector.run import Run
from evalspan_collector.store.client import Client
from evalspan_collector.store.contract import RunQuery
from evalspan_collector.store.run_rows import (
    RUN_COLUMNS,
    STEP_COLUMNS,
    SUMMARY_COLUMNS,
    run_row,
    step_rows,
    summaries_from,
    summary_of,
)

__all__ = ["RunTables", "project_condition", "recent_condition"]

_DAY_NS: Final = 86_400 * 1_000_000_000
_SELECT: Final = f"SELECT {', '.join(SUMMARY_COLUMNS)} FROM runs FINAL"

#: Field of a query to its condition; the value travels as the parameter of the same name.
_CONDITIONS: Final = {
    "agent": "agent = {agent:String}",
    "status": "status = {status:String}",
    "state": "state = {state:String}",
    "session_id": "session_id = {session_id:String}",
    "user_id": "user_id = {user_id:String}",
    "service": "service = {service:String}",
    "environment": "environment = {environment:String}",
    "model": "has(models, {model:String})",
    "tool": "has(tool_names, {tool:String})",
    "flag": "has(flags, {flag:String})",
    "since_ns": "started_ns >= {since_ns:Int64}",
    "until_ns": "started_ns < {until_ns:Int64}",
    "text": "(positionCaseInsensitiveUTF8(ifNull(input, ''), {text:String}) > 0"
    " OR positionCaseInsensitiveUTF8(ifNull(output, ''), {text:String}) > 0"
    " OR positionCaseInsensitiveUTF8(ifNull(error, ''), {text:String}) > 0)",
}

_UNJUDGED: Final = (
    "project = {project:String}",
    "state IN ('closed', 'amended')",
    "updated_ns >= {since:Int64}",
    (
        "(run_id, revision) NOT IN (SELECT run_id, run_revision FROM outcomes FINAL "
        "WHERE project = {project:String} AND rule = {rule:String} AND rule_version = {rule_version:String} "
        "AND outcome != 'waiting' AND created_ns >= {outcome_since:Int64})"
    ),
)


def project_condition(project: str | None) -> tuple[str, dict[str, Any]]:
    """The condition every read starts with; None means every project."""
    return ("1", {}) if project is None else ("project = {project:String}", {"project": project})


def recent_condition(column: str, since_ns: int, now_ns: int) -> tuple[str, dict[str, Any]]:
    """Prunes partitions: a row about a run that started since then was written since a day before then."""
    return f"{column} >= {{floor:Int64}}", {"floor": max(min(since_ns, now_ns) - _DAY_NS, 0)}


class RunTables:
    """The tables runs and steps."""

    def __init__(self, client: Client, clock: Callable[[], int], fingerprint: Callable[[Run], str]) -> None:
        self._client = client
        self._clock = clock
        self._fingerprint = fingerprint

    def write(self, runs: Sequence[Run], token: str) -> None:
        """Adds revisions: first their steps, then the rows that make them current."""
        rows: list[tuple[Any, ...]] = []
        steps: list[tuple[Any, ...]] = []
        for run in runs:
            # Distinct times, so that a reader who remembers the last one misses none.
            updated_ns = self._clock()
            summary = summary_of(run, updated_ns=updated_ns, fingerprint=run.fingerprint or self._fingerprint(run))
            rows.append(run_row(run, summary))
            steps.extend(step_rows(run, updated_ns))
        if steps:
            self._insert("steps", STEP_COLUMNS, steps, f"{token}:steps")
        if rows:
            self._insert("runs", RUN_COLUMNS, rows, token)

    def _insert(self, table: str, names: Sequence[str], rows: Sequence[tuple[Any, ...]], token: str) -> None:
        for index in range(0, len(rows), 20_000):
            part = rows[index : index + 20_000]
            part_token = token if index == 0 else f"{token}:{index}"
            columns: list[Sequence[Any]] = list(zip(*part, strict=True))
            try:
                self._client.insert(table, names, columns, token=part_token)
            except UnicodeError:
                columns = [[_storable(value) for value in column] for column in columns]
                self._client.insert(table, names, columns, token=part_token)

    def withdraw(self, project: str, run_ids: Sequence[str], now_ns: int) -> list[tuple[str, int]]:
        """Tombstones runs; returns their traces with what they were assembled up to."""
        names = ", ".join(
            {
                "state": "'withdrawn'",
                "updated_ns": "greatest({now:Int64}, updated_ns + 1)",
                "input": "NULL",
                "output": "NULL",
            }.get(name, name)
            + f" AS new_{name}"
            for name in RUN_COLUMNS
        )
        parameters = {"project": project, "ids": list(run_ids), "now": max(now_ns, self._clock())}
        where = "WHERE project = {project:String} AND run_id IN {ids:Array(String)}"
        traces = self._client.rows(
            f"SELECT trace, max(last_received_ns) FROM runs FINAL ARRAY JOIN trace_ids AS trace {where} GROUP BY trace",
            parameters,
        )
        self._client.execute(
            f"INSERT INTO runs ({', '.join(RUN_COLUMNS)}) SELECT {names} FROM runs FINAL {where} "
            "AND state != 'withdrawn'",
            parameters,
            {"async_insert": 0},
        )
        return [(str(trace), int(through)) for trace, through in traces]

    def summary(self, project: str | None, run_id: str) -> RunSummary | None:
        """The run's current row, None when there is none or it was withdrawn."""
        condition, parameters = project_condition(project)
        rows = self._client.rows(
            f"{_SELECT} WHERE {condition} AND run_id = {{run_id:String}} AND state != 'withdrawn' LIMIT 1",
            {**parameters, "run_id": run_id},
        )
        return next(iter(summaries_from(rows)), None)

    def query(self, query: RunQuery, now_ns: int) -> list[RunSummary]:
        """Current rows, newest start first."""
        condition, parameters = project_condition(query.project)
        conditions = [condition, "state != 'withdrawn'"]
        for name, text in _CONDITIONS.items():
            value = getattr(query, name)
            if value is not None:
                conditions.append(text)
                parameters[name] = value
        if query.since_ns is not None:
            text, more = recent_condition("updated_ns", query.since_ns, now_ns)
            conditions.append(text)
            parameters.update(more)
        if query.before is not None:
            conditions.append("(started_ns, run_id) < ({before_ns:Int64}, {before_id:String})")
            parameters.update(before_ns=query.before[0], before_id=query.before[1])
        any_row, current = list(conditions), list(conditions)
        if query.metric is not None or query.passed is not None or query.max_score is not None:
            scored = _scored(query, condition, parameters)
            any_row.append(scored.format(final="", more=""))
            current.append(scored.format(final="FINAL", more="AND run_id IN {ids:Array(String)}"))
        return self._page(any_row, current, parameters, "started_ns", query.limit, newest_first=True)

    def _page(
        self,
        any_row: Sequence[str],
        current: Sequence[str],
        parameters: dict[str, Any],
        column: str,
        limit: int,
        *,
        newest_first: bool = False,
    ) -> list[RunSummary]:
        """The first current rows by (column, run_id).

        FINAL over all runs costs a merge of them all. So candidates come from narrow columns of any revision, and
        only they are read as current rows. A current row is one of those revisions, so none can be missed up to the
        last candidate; behind it the answer is incomplete, and more candidates are taken.
        """
        direction = " DESC" if newest_first else ""
        order = f"{column}{direction}, run_id{direction}"
        wanted = limit + limit // 4 + 10
        while True:
            rows = self._client.rows(
                f"SELECT project, run_id, {column} FROM runs WHERE {' AND '.join(any_row)} "
                f"ORDER BY {order} LIMIT {{wanted:UInt32}}",
                {**parameters, "wanted": wanted},
            )
            if not rows:
                return []
            keys = dict.fromkeys((str(row[0]), str(row[1])) for row in rows)
            found = summaries_from(
                self._client.rows(
                    f"{_SELECT} PREWHERE (project, run_id) IN "
                    "arrayZip({projects:Array(String)}, {ids:Array(String)}) "
                    f"WHERE {' AND '.join(current)} ORDER BY {order}",
                    {**parameters, "projects": [key[0] for key in keys], "ids": [key[1] for key in keys]},
                )
            )
            if len(rows) < wanted:
                return found[:limit]
            last = (int(rows[-1][2]), str(rows[-1][1]))
            places = [(int(getattr(summary, column)), summary.run_id) for summary in found]
            inside = sum(place >= last if newest_first else place <= last for place in places)
            if inside >= limit:
                return found[:limit]
            wanted *= 4

    def of_traces(self, project: str, trace_ids: Sequence[str]) -> list[RunSummary]:
        """Current rows of the runs these traces belong to."""
        if not trace_ids:
            return []
        rows = self._client.rows(
            f"{_SELECT} WHERE project = {{project:String}} AND hasAny(trace_ids, {{ids:Array(String)}}) "
            "AND state != 'withdrawn' ORDER BY started_ns, run_id",
            {"project": project, "ids": list(trace_ids)},
        )
        return summaries_from(rows)

    def changed(self, after_ns: int, limit: int) -> list[RunSummary]:
        """Closed, amended or withdrawn rows written after then, oldest first."""
        conditions = ["state != 'open'", "updated_ns > {after:Int64}"]
        return self._page(conditions, conditions, {"after": after_ns}, "updated_ns", limit)

    def unjudged(self, project: str, rule: str, rule_version: str, since_ns: int, limit: int) -> list[RunSummary]:
        """Closed or amended runs without a final outcome of the rule for their revision, oldest first."""
        parameters = {
            "project": project,
            "rule": rule,
            "rule_version": rule_version,
            "since": since_ns,
            "outcome_since": max(since_ns - _DAY_NS, 0),
        }
        return self._page(_UNJUDGED, _UNJUDGED, parameters, "updated_ns", limit)


def _scored(query: RunQuery, condition: str, parameters: dict[str, Any]) -> str:
    """Runs with a score of the asked kind; `{final}` and `{more}` narrow it to current ones of some runs."""
    conditions = [condition, "NOT superseded"]
    if query.metric is not None:
        conditions.append("metric = {metric:String}")
        parameters["metric"] = query.metric
    if query.passed is not None:
        conditions.append("passed = {passed:Bool}")
        parameters["passed"] = query.passed
    if query.max_score is not None:
        conditions.append("value <= {max_score:Float64}")
        parameters["max_score"] = query.max_score
    where = " AND ".join(conditions).replace("{", "{{").replace("}", "}}")
    return f"(project, run_id) IN (SELECT project, run_id FROM scores {{final}} WHERE {where} {{more}})"


def _storable(value: Any) -> Any:
    """Text without the lone surrogates that no encoding holds."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, tuple):
        return tuple(_storable(item) for item in value)  # pyright: ignore[reportUnknownVariableType]  # of text
    return value
