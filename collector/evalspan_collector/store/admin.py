"""Admin: what an operator does to a store: look at its health, drop what is old, delete a person's data."""

# ruff: noqa: S608 - statements are put together from constants of ours; values travel as parameters

import ast
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from evalspan.errors import InputError, StoreError
from evalspan_collector.store.client import Client

__all__ = [
    "Deleted",
    "DroppedPartition",
    "Retention",
    "StoreHealth",
    "TableHealth",
    "apply_retention",
    "delete_subject",
    "partitions_of",
    "store_health",
]

#: Tables that retention drops by day, and by month.
_DAILY: Final = ("spans", "logs")
_MONTHLY: Final = ("runs", "steps", "scores", "outcomes", "judge_calls")
#: Days of the log of arrivals; a trace that was not assembled within them never will be.
_ARRIVAL_DAYS: Final = 7
_DAY_S: Final = 86_400
_PARTITION_ID: Final = re.compile(r"[A-Za-z0-9_-]+\Z")
#: Above these the health report says so.
_MANY_PARTS: Final = 300
_LOW_DISK: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long a project's data is kept, in days; None keeps it."""

    spans_days: int | None = 30
    runs_days: int | None = 365


@dataclass(frozen=True, slots=True)
class DroppedPartition:
    """A partition that retention dropped, or would drop."""

    table: str
    project: str
    period: int
    rows: int
    bytes_on_disk: int


@dataclass(frozen=True, slots=True)
class _Partition:
    table: str
    project: str
    period: int
    partition_id: str
    rows: int
    bytes_on_disk: int


def _local(client: Client, table: str) -> tuple[str, str]:
    """The table that holds the parts, and the clause that reaches all of them."""
    cluster = client.address.cluster
    return (table, "") if cluster is None else (f"{table}_local", f" ON CLUSTER '{cluster}'")


def _partitions(client: Client, tables: Sequence[str]) -> list[_Partition]:
    names = {_local(client, table)[0]: table for table in tables}
    rows = client.rows(
        "SELECT table, partition, partition_id, sum(rows), sum(bytes_on_disk) FROM system.parts "
        "WHERE active AND database = currentDatabase() AND table IN {tables:Array(String)} "
        "GROUP BY table, partition, partition_id ORDER BY table, partition_id",
        {"tables": list(names)},
    )
    found: list[_Partition] = []
    for table, partition, partition_id, count, size in rows:
        value: Any = ast.literal_eval(partition)
        project, period = value if str(partition).startswith("(") else ("", value)
        found.append(_Partition(names[table], str(project), int(period), partition_id, int(count), int(size)))
    return found


def partitions_of(client: Client, table: str) -> list[tuple[str, int]]:
    """(project, day or month as a number) of a table's partitions."""
    return [(p.project, p.period) for p in _partitions(client, [table])]


def _period_end(period: int) -> datetime:
    """The first moment after a day (20261130) or a month (202611)."""
    if period > 999_999:
        day = datetime(period // 10_000, period // 100 % 100, period % 100, tzinfo=UTC)
        return day + timedelta(days=1)
    year, month = divmod(period, 100)
    return datetime(year + month // 12, month % 12 + 1, 1, tzinfo=UTC)


def apply_retention(
    client: Client,
    retention: Mapping[str, Retention],
    *,
    default: Retention | None = None,
    dry_run: bool = False,
    clock: Callable[[], int] = time.time_ns,
) -> list[DroppedPartition]:
    """Drops the partitions that lie wholly before a project's limit; rewrites nothing.

    Args:
        client: Connection of a store.
        retention: Limits by project.
        default: Limits of every other project; None keeps them all.
        dry_run: Only say what would be dropped.
        clock: Nanoseconds since the epoch.
    """
    now = datetime.fromtimestamp(clock() / 1e9, tz=UTC)
    dropped: list[DroppedPartition] = []
    for found in _partitions(client, (*_DAILY, *_MONTHLY, "arrivals")):
        days = _days(found, retention.get(found.project, default or Retention(spans_days=None, runs_days=None)))
        age = now - _period_end(found.period)
        if days is None or age.total_seconds() < days * _DAY_S:  # in seconds, which hold any number of days
            continue
        if not dry_run:
            _drop(client, found)
        dropped.append(
            DroppedPartition(found.table, found.project, found.period, found.rows, found.bytes_on_disk)
        )  # fmt: skip
    return dropped


def _days(partition: _Partition, limits: Retention) -> int | None:
    if partition.table == "arrivals":
        return _ARRIVAL_DAYS
    return limits.spans_days if partition.table in _DAILY else limits.runs_days


def _drop(client: Client, partition: _Partition) -> None:
    if not _PARTITION_ID.match(partition.partition_id):
        raise StoreError(f"partition id {partition.partition_id!r} of {partition.table!r} is none")
    table, everywhere = _local(client, partition.table)
    client.execute(f"ALTER TABLE {table}{everywhere} DROP PARTITION ID '{partition.partition_id}'")


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """What the deletion of a person's or session's data removed.

    Attributes:
        rows: Rows that were removed, by table.
    """

    traces: int
    runs: int
    rows: dict[str, int]


_SUBJECTS: Final = {"user": "user_id", "session": "session_id"}
_BY_TRACE: Final = ("spans", "logs", "arrivals")
_BY_RUN: Final = ("runs", "steps", "scores", "outcomes", "annotations", "datasets", "experiments")
#: A row of a run that says only that there was one: what is written of it later is dropped, see `ScoreTables`.
_ERASED: Final = "state = 'withdrawn' AND trace_id = ''"
#: Runs that were deleted, without those of which something came in anew.
_ALL_ERASED: Final = f"""
SELECT run_id FROM runs
WHERE project = {{project:String}}
    AND run_id IN (SELECT run_id FROM runs WHERE project = {{project:String}} AND {_ERASED})
GROUP BY run_id HAVING argMax({_ERASED}, updated_ns)
"""
#: How often a deletion looks again for what was on its way while it worked.
_PASSES: Final = 3
_ERASE: Final = """
INSERT INTO runs (project, run_id, updated_ns, revision, started_ns, state)
SELECT project, run_id, greatest({now:Int64}, max(updated_ns) + 1), max(revision), max(started_ns), 'withdrawn'
FROM runs WHERE project = {project:String} AND run_id IN {ids:Array(String)} GROUP BY project, run_id
"""


def delete_subject(
    client: Client,
    *,
    project: str,
    user: str | None = None,
    session: str | None = None,
    clock: Callable[[], int] = time.time_ns,
) -> Deleted:
    """Removes every trace and run of a user or a session, from the disk and not only from sight.

    Parts that held the rows are rewritten before this returns; the old ones leave the disk when the engine
    next cleans up (half a minute in the embedded store). Backups made before are not touched. The ids of the runs stay,
    so that a judge's answer that is still under way is dropped when it comes; so does what was spent on judging them,
    without the run's id. What came in while it worked goes too; spans that come later are new data. Whatever
    else is found about deleted runs of the project goes with it.

    Raises:
        InputError: Neither or both of user and session are given.
    """
    given = {name: value for name, value in (("user", user), ("session", session)) if value}
    if len(given) != 1:
        raise InputError("name either a user or a session whose data to delete")
    ((kind, value),) = given.items()
    traces: set[str] = set()
    runs: set[str] = set()
    rows: dict[str, int] = dict.fromkeys((*_BY_TRACE, *_BY_RUN, "judge_calls"), 0)
    for _ in range(_PASSES):
        of_traces, of_runs = _of_subject(client, project, _SUBJECTS[kind], value)
        if not of_traces and not of_runs:
            break
        traces |= of_traces
        runs |= of_runs
        if of_runs:
            client.execute(_ERASE, {"project": project, "ids": sorted(of_runs), "now": clock()}, {"async_insert": 0})
        for table in _BY_TRACE:
            rows[table] += _delete(client, table, "trace_id", project, of_traces)
        for table in (*_BY_RUN, "judge_calls"):
            rows[table] += _delete(client, table, "run_id", project, of_runs)
    for table in (*_BY_RUN, "judge_calls"):
        rows[table] += _delete(client, table, "run_id", project, _left(client, table, project))
    return Deleted(traces=len(traces), runs=len(runs), rows=rows)


def _of_subject(client: Client, project: str, column: str, value: str) -> tuple[set[str], set[str]]:
    """Traces and runs of a user or session; a run of a trace that is partly theirs is too."""
    parameters: dict[str, Any] = {"project": project, "value": value}
    own = f"project = {{project:String}} AND {column} = {{value:String}}"
    # Every revision counts, also those that a later one replaced.
    runs = client.rows(f"SELECT DISTINCT run_id, trace_ids FROM runs WHERE {own}", parameters)
    traces = {str(row[0]) for row in client.rows(f"SELECT DISTINCT trace_id FROM spans WHERE {own}", parameters)}
    for _, trace_ids in runs:
        traces.update(trace_ids)
    ids = {str(row[0]) for row in runs}
    where = "project = {project:String} AND hasAny(trace_ids, {traces:Array(String)})"
    of_traces = client.rows(
        f"SELECT DISTINCT run_id FROM runs WHERE {where}", {"project": project, "traces": sorted(traces)}
    )
    ids.update(str(row[0]) for row in of_traces)
    return traces, ids


def _left(client: Client, table: str, project: str) -> set[str]:
    """Deleted runs about which something is left: it was written in the moment of their deletion."""
    where = f"project = {{project:String}} AND run_id IN ({_ALL_ERASED})"
    if table == "runs":
        where += f" AND NOT ({_ERASED})"
    return {
        str(row[0]) for row in client.rows(f"SELECT DISTINCT run_id FROM {table} WHERE {where}", {"project": project})
    }


def _delete(client: Client, table: str, key: str, project: str, values: Collection[str]) -> int:
    """Removes rows; of judge calls the cost stays, since a daily cap counts it, but not whose run they were about."""
    if not values:
        return 0
    where = f"project = {{project:String}} AND {key} IN {{values:Array(String)}}"
    if table == "runs":
        where += f" AND NOT ({_ERASED})"
    parameters = {"project": project, "values": sorted(values)}
    count = int(client.rows(f"SELECT count() FROM {table} WHERE {where}", parameters)[0][0])
    if count:
        local, everywhere = _local(client, table)
        what = "UPDATE run_id = '', error = NULL" if table == "judge_calls" else "DELETE"
        client.execute(f"ALTER TABLE {local}{everywhere} {what} WHERE {where}", parameters, {"mutations_sync": 2})
    return count


@dataclass(frozen=True, slots=True, kw_only=True)
class TableHealth:
    """One table on the disk."""

    name: str
    rows: int
    parts: int
    partitions: int
    bytes_on_disk: int
    bytes_uncompressed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreHealth:
    """State of a store.

    Attributes:
        disk_free: Bytes; None where the engine does not say.
        system_log_bytes: What ClickHouse's own logs take.
        merges: Merges that run now.
        mutations: Deletions that are not done yet.
        detached_parts: Parts the engine put aside as damaged.
        newest_ns: When the newest span or log record was written; None in an empty store.
        open_traces: Traces that wait for their assembly.
        problems: Sentences for an operator; empty when all is well.
    """

    version: str
    migration: int
    tables: tuple[TableHealth, ...]
    disk_free: int | None
    disk_total: int | None
    system_log_bytes: int
    merges: int
    mutations: int
    detached_parts: int
    newest_ns: int | None
    open_traces: int
    problems: tuple[str, ...]


def store_health(client: Client) -> StoreHealth:
    """Looks at parts, disk, merges, system logs and lag."""
    tables = tuple(
        TableHealth(
            name=row[0],
            rows=int(row[1]),
            parts=int(row[2]),
            partitions=int(row[3]),
            bytes_on_disk=int(row[4]),
            bytes_uncompressed=int(row[5]),
        )
        for row in client.rows(
            "SELECT table, sum(rows), count(), uniqExact(partition_id), sum(bytes_on_disk), "
            "sum(data_uncompressed_bytes) FROM system.parts WHERE active AND database = currentDatabase() "
            "GROUP BY table ORDER BY table"
        )
    )
    disks = client.rows("SELECT min(free_space), min(total_space) FROM system.disks WHERE total_space > 0")
    logs = (
        "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = 'system' AND table LIKE '%\\\\_log%'"
    )
    newest = _number(client, "SELECT max(noted_ns) FROM arrivals WHERE spans > 0")
    free, total = (int(disks[0][0]) or None, int(disks[0][1]) or None) if disks else (None, None)
    mine = "WHERE database = currentDatabase()"
    mutations = _number(client, f"SELECT count() FROM system.mutations {mine} AND NOT is_done")
    detached = _number(client, f"SELECT count() FROM system.detached_parts {mine}")
    system_logs = _number(client, logs)
    return StoreHealth(
        version=str(client.rows("SELECT version()")[0][0]),
        migration=_number(client, "SELECT max(number) FROM migrations"),
        tables=tables,
        disk_free=free,
        disk_total=total,
        system_log_bytes=system_logs,
        merges=_number(client, f"SELECT count() FROM system.merges {mine}"),
        mutations=mutations,
        detached_parts=detached,
        newest_ns=newest or None,
        open_traces=_number(client, _WAITING),
        problems=tuple(_problems(tables, free, total, system_logs, mutations, detached)),
    )


_WAITING: Final = """
SELECT count() FROM
(
    SELECT maxIf(last_received_ns, spans > 0) AS last_ns, max(settled_ns) AS settled
    FROM arrivals GROUP BY project, trace_id HAVING last_ns > settled
)
"""


def _number(client: Client, sql: str) -> int:
    return int(client.rows(sql)[0][0] or 0)


def _problems(  # noqa: PLR0917  # one fact each
    tables: Sequence[TableHealth], free: int | None, total: int | None, logs: int, mutations: int, detached: int
) -> list[str]:
    found = [
        f"table {table.name!r} has {table.parts} parts in {table.partitions} partitions: insert larger blocks"
        for table in tables
        if table.parts > _MANY_PARTS + 10 * table.partitions
    ]
    if free is not None and total and free < total * _LOW_DISK:
        found.append(f"{free / total:.0%} of the disk is free: shorten the retention or add space")
    own = sum(table.bytes_on_disk for table in tables)
    if logs > max(own, 1_000_000_000):
        found.append(f"ClickHouse's own logs take {logs:,} bytes, more than the data: cap system.*_log with a TTL")
    if mutations:
        found.append(f"{mutations} deletions are not done: see system.mutations")
    if detached:
        found.append(f"{detached} parts are detached: see system.detached_parts, then drop or attach them")
    return found
