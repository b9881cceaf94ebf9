"""Runs and steps in ClickHouse: written as revisions, read as the current ones."""

# ruff: noqa: S608 - statements are put together from constants of ours; values travel as parameters

from collections.abc import Callable, Sequence
from typing import Any, Final

from evalspan_collector.records import RunSummary
from evalspan_collector.run import Run
from evalspan_collector.store._current import DAY_NS, current_runs, current_scores, project_condition, written_since
from evalspan_collector.store.client import Client
from evalspan_collector.store.contract import RunQuery
from evalspan_collector.store.run_rows import (
    AHEAD_NS,
    RUN_COLUMNS,
    STEP_COLUMNS,
    SUMMARY_COLUMNS,
    run_row,
    step_rows,
    summaries_from,
    summary_of,
)

__all__ = ["RunTables"]

_COLUMNS: Final = ", ".join(SUMMARY_COLUMNS)

#: Field of a query to its column and its condition; the value travels as the parameter of the field's name.
_CONDITIONS: Final = {
    "agent": ("agent", "agent = {agent:String}"),
    "status": ("status", "status = {status:String}"),
    "state": ("state", "state = {state:String}"),
    "session_id": ("session_id", "session_id = {session_id:String}"),
    "user_id": ("user_id", "user_id = {user_id:String}"),
    "service": ("service", "service = {service:String}"),
    "environment": ("environment", "environment = {environment:String}"),
    "model": ("models", "has(models, {model:String})"),
    "tool": ("tool_names", "has(tool_names, {tool:String})"),
    "flag": ("flags", "has(flags, {flag:String})"),
    "since_ns": ("started_ns", "started_ns >= {since_ns:Int64}"),
    "until_ns": ("started_ns", "started_ns < {until_ns:Int64}"),
    # Only whether it matches is carried on, not the texts.
    "text": (
        (
            "(positionCaseInsensitiveUTF8(ifNull(input, ''), {text:String}) > 0"
            " OR positionCaseInsensitiveUTF8(ifNull(output, ''), {text:String}) > 0"
            " OR positionCaseInsensitiveUTF8(ifNull(error, ''), {text:String}) > 0) AS matched"
        ),
        "matched",
    ),
}

#: How far back a list looks first; a page that is not full then looks further.
_LOOKS_NS: Final = (DAY_NS, 8 * DAY_NS)

#: What a run's rows can be found by, wherever they lie.
_INDEXED: Final = ("session_id", "user_id")

_JUDGED: Final = """
(run_id, revision) NOT IN
(
    SELECT run_id, run_revision FROM
    (
        SELECT run_id, run_revision, outcome, rule_version FROM outcomes
        WHERE project = {project:String} AND rule = {rule:String} AND created_ns >= {outcome_floor:Int64}
        ORDER BY created_ns DESC LIMIT 1 BY run_id, run_revision
    )
    WHERE rule_version = {rule_version:String} AND outcome != 'waiting'
)
"""


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
            f"SELECT {_COLUMNS} FROM runs WHERE {condition} AND run_id = {{run_id:String}} "
            "ORDER BY updated_ns DESC LIMIT 1 BY project",
            {**parameters, "run_id": run_id},
        )
        return next((found for found in summaries_from(rows) if found.state != "withdrawn"), None)

    def query(self, query: RunQuery, now_ns: int) -> list[RunSummary]:
        """Current rows, newest start first.

        A list mostly wants the newest: it looks back a little, and further while the page is not full.
        """
        condition, parameters = project_condition(query.project)
        columns = ["project", "run_id", "started_ns", "state"]
        conditions = ["state != 'withdrawn'"]
        for name, (column, text) in _CONDITIONS.items():
            value = getattr(query, name)
            if value is not None:
                columns.append(column)
                conditions.append(text)
                parameters[name] = value
        if query.before is not None:
            conditions.append("(started_ns, run_id) < ({before_ns:Int64}, {before_id:String})")
            parameters.update(before_ns=query.before[0], before_id=query.before[1])
        if query.metric is not None or query.passed is not None or query.max_score is not None:
            conditions.append(_scored(query, condition, parameters))
        looks: tuple[int, ...] = _LOOKS_NS
        settings: dict[str, Any] = {}
        for name in _INDEXED:
            if getattr(query, name) is not None:  # few runs of all times, which an index finds
                looks, settings = (), {"optimize_use_projections": 0}
                condition += f" AND run_id IN (SELECT run_id FROM runs WHERE {condition} AND {_CONDITIONS[name][1]})"
                break
        parameters["limit"] = query.limit
        sql = (
            f"SELECT project, run_id, started_ns FROM {current_runs(columns, condition)} "
            f"WHERE {' AND '.join(conditions)} ORDER BY started_ns DESC, run_id DESC LIMIT {{limit:UInt32}}"
        )
        ends = (now_ns, query.until_ns, query.before[0] if query.before else None)
        newest, oldest = min(at for at in ends if at is not None), query.since_ns or 0
        rows: list[tuple[Any, ...]] = []
        for since_ns in (*(newest - look for look in looks if newest - look > oldest), oldest):
            rows = self._client.rows(sql, {**parameters, "floor": written_since(since_ns, now_ns)}, settings)
            if len(rows) >= query.limit and rows[-1][2] >= since_ns:
                break
        found = self._current([(str(row[0]), str(row[1])) for row in rows])
        shown = [run for run in found if run.state != "withdrawn"]
        return sorted(shown, key=lambda run: (run.started_ns, run.run_id), reverse=True)

    def _current(self, keys: Sequence[tuple[str, str]]) -> list[RunSummary]:
        """The current rows of these (project, run_id), with their content; in no order."""
        if not keys:
            return []
        rows = self._client.rows(
            f"SELECT {_COLUMNS} FROM runs "
            "PREWHERE (project, run_id) IN arrayZip({projects:Array(String)}, {ids:Array(String)}) "
            "ORDER BY updated_ns DESC LIMIT 1 BY project, run_id",
            {"projects": [key[0] for key in keys], "ids": [key[1] for key in keys]},
        )
        return summaries_from(rows)

    def last_revisions(self, project: str, run_ids: Sequence[str]) -> list[RunSummary]:
        """The newest row of each of these runs, of withdrawn ones too; by the key, so whatever its times are."""
        if not run_ids:
            return []
        rows = self._client.rows(
            f"SELECT {_COLUMNS} FROM runs WHERE project = {{project:String}} AND run_id IN {{ids:Array(String)}} "
            "ORDER BY updated_ns DESC LIMIT 1 BY run_id",
            {"project": project, "ids": list(run_ids)},
        )
        return summaries_from(rows)

    def of_traces(self, project: str, trace_ids: Sequence[str]) -> list[RunSummary]:
        """Current rows of the runs these traces belong to."""
        if not trace_ids:
            return []
        rows = self._client.rows(
            "SELECT DISTINCT run_id FROM runs "
            "WHERE project = {project:String} AND hasAny(trace_ids, {ids:Array(String)})",
            {"project": project, "ids": list(trace_ids)},
        )
        wanted = set(trace_ids)
        found = self._current([(project, str(row[0])) for row in rows])
        mine = [run for run in found if run.state != "withdrawn" and not wanted.isdisjoint(run.trace_ids)]
        return sorted(mine, key=lambda run: (run.started_ns, run.run_id))

    def changed(self, after_ns: int, limit: int) -> list[RunSummary]:
        """Closed, amended or withdrawn rows written after then, oldest first."""
        return self._written("1", ["state != 'open'"], {"floor": after_ns + 1, "limit": limit})

    def unjudged(self, project: str, rule: str, rule_version: str, since_ns: int, limit: int) -> list[RunSummary]:
        """Closed or amended runs without a final outcome of the rule for their revision, oldest first."""
        condition, parameters = project_condition(project)
        parameters.update(
            rule=rule,
            rule_version=rule_version,
            floor=since_ns,
            outcome_floor=max(since_ns - AHEAD_NS, 0),
            limit=limit,
        )
        return self._written(condition, ["state IN ('closed', 'amended')", _JUDGED], parameters)

    def mark(self) -> tuple[int, ...]:
        """Rows of runs and of outcomes, which the engine knows without reading any."""
        rows = self._client.rows("SELECT (SELECT count() FROM runs), (SELECT count() FROM outcomes)")
        return tuple(int(count) for count in rows[0])

    def _written(self, condition: str, conditions: Sequence[str], parameters: dict[str, Any]) -> list[RunSummary]:
        """Current rows written since a time, oldest first.

        One that was written again meanwhile is left to the next call: given now, with its new time, it would hide from
        a reader who goes on after the last time those that were written in between.
        """
        source = current_runs(("project", "run_id", "updated_ns", "revision", "state"), condition)
        rows = self._client.rows(
            f"SELECT project, run_id, updated_ns FROM {source} WHERE {' AND '.join(conditions)} "
            "ORDER BY updated_ns, run_id LIMIT {limit:UInt32}",
            parameters,
        )
        chosen = {(str(row[0]), str(row[1])): int(row[2]) for row in rows}
        found = [run for run in self._current(list(chosen)) if run.updated_ns == chosen[run.project, run.run_id]]
        return sorted(found, key=lambda run: (run.updated_ns, run.run_id))


def _scored(query: RunQuery, condition: str, parameters: dict[str, Any]) -> str:
    """Runs with a current score of the asked kind."""
    conditions = ["NOT superseded"]
    if query.metric is not None:
        conditions.append("metric = {metric:String}")
        parameters["metric"] = query.metric
    if query.passed is not None:
        conditions.append("passed = {passed:Bool}")
        parameters["passed"] = query.passed
    if query.max_score is not None:
        conditions.append("value <= {max_score:Float64}")
        parameters["max_score"] = query.max_score
    source = current_scores(("project", "run_id", "metric", "passed", "value", "superseded"), condition)
    return f"(project, run_id) IN (SELECT project, run_id FROM {source} WHERE {' AND '.join(conditions)})"


def _storable(value: Any) -> Any:
    """Text without the lone surrogates that no encoding holds."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, tuple):
        return tuple(_storable(item) for item in value)  # pyright: ignore[reportUnknownVariableType]  # of text
    return value
