"""Spans and logs in ClickHouse, and the log of what came for which trace."""

# ruff: noqa: S608 - statements are put together from constants of ours; values travel as parameters

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from evalspan_collector.run import Run
from evalspan_collector.span import LogRecord, Span
from evalspan_collector.store.client import Client, UnencodableError
from evalspan_collector.store.contract import OpenTrace
from evalspan_collector.store.current import Stamp
from evalspan_collector.store.span_rows import (
    LOG_COLUMNS,
    SPAN_COLUMNS,
    Columns,
    clean_log,
    clean_span,
    log_columns,
    logs_from,
    span_columns,
    spans_from,
)

__all__ = ["SpanTables"]

_Item = TypeVar("_Item", Span, LogRecord)
_DAY_NS: Final = 86_400 * 1_000_000_000
#: ClickHouse refuses a block that makes over 100 partitions.
_PARTITIONS: Final = 50
_PAGE: Final = 5_000
_SPANS_SQL: Final = f"SELECT {', '.join(SPAN_COLUMNS)} FROM spans FINAL"
_LOGS_SQL: Final = f"SELECT {', '.join(LOG_COLUMNS)} FROM logs FINAL"

_ARRIVAL_COLUMNS: Final = (
    "noted_ns", "project", "trace_id", "run_id", "first_received_ns", "last_received_ns", "spans", "settled_ns", "open",
    "start_ns", "end_ns", "processes", "session_ids",
)  # fmt: skip

# A trace is open while something came after what was assembled, or one of its runs was written open.
_OPEN_SQL: Final = """
SELECT project, trace_id, min(first_ns), max(last_ns), sum(came)
FROM
(
    SELECT project, trace_id, run_id,
        minIf(first_received_ns, spans > 0) AS first_ns, maxIf(last_received_ns, spans > 0) AS last_ns,
        sum(spans) AS came, max(settled_ns) AS settled, argMax(open, noted_ns) AS open_now
    FROM arrivals
    WHERE noted_ns >= {since:Int64}
    GROUP BY project, trace_id, run_id
)
GROUP BY project, trace_id
HAVING (max(last_ns) > max(settled) AND max(last_ns) >= {since:Int64}) OR max(open_now) > 0
ORDER BY max(last_ns), trace_id
LIMIT {limit:UInt32}
"""

_NEIGHBOURS_SQL: Final = """
SELECT trace_id
FROM arrivals
WHERE project = {project:String} AND spans > 0 AND start_ns <= {end:UInt64} AND end_ns >= {start:UInt64}
    AND (hasAny(processes, {processes:Array(String)}) OR hasAny(session_ids, {sessions:Array(String)}))
GROUP BY trace_id
ORDER BY min(start_ns), trace_id
LIMIT {limit:UInt32}
"""


@dataclass(slots=True)
class _Arrival:
    """What one block brought for one trace."""

    first_ns: int
    last_ns: int
    start_ns: int
    end_ns: int
    count: int = 0
    processes: set[str] = field(default_factory=set[str])
    session_ids: set[str] = field(default_factory=set[str])


class SpanTables:
    """The tables spans, logs and arrivals."""

    def __init__(self, client: Client, clock: Callable[[], int] = time.time_ns) -> None:
        self._client = client
        self._clock = clock

    def insert_spans(self, spans: Sequence[Span], token: str) -> None:
        """Inserts spans, then notes their traces; the same token again changes nothing."""
        for part, part_token in _partitions(spans, token):
            columns = self._insert("spans", SPAN_COLUMNS, part, span_columns, clean_span, part_token)
            self._note_arrivals(_span_arrivals(columns), part_token)

    def insert_logs(self, logs: Sequence[LogRecord], token: str) -> None:
        """Inserts log records, likewise."""
        for part, part_token in _partitions(logs, token):
            self._insert("logs", LOG_COLUMNS, part, log_columns, clean_log, part_token)
            self._note_arrivals(_log_arrivals(part), part_token)

    def _insert(  # noqa: PLR0917  # called twice, below each other
        self,
        table: str,
        names: Sequence[str],
        items: Sequence[_Item],
        columns_of: Callable[[Sequence[_Item]], Columns],
        clean: Callable[[_Item], _Item],
        token: str,
    ) -> Columns:
        try:
            columns = columns_of(items)
            self._client.insert(table, names, columns, token=token)
        except (UnencodableError, UnicodeError):
            # Rare, so the usual block is not searched for it: one value in it fits no column.
            columns = columns_of([clean(item) for item in items])
            self._client.insert(table, names, columns, token=token)
        return columns

    def _note_arrivals(self, arrivals: dict[tuple[str, str], _Arrival], token: str) -> None:
        known = {key: found for key, found in arrivals.items() if key[1]}
        if not known:
            return
        now = max(self._clock(), *(found.last_ns for found in known.values()))
        rows = [
            (
                now, project, trace_id, "", found.first_ns, found.last_ns, found.count, 0, 0, found.start_ns,
                found.end_ns, sorted(found.processes), sorted(found.session_ids),
            )
            for (project, trace_id), found in known.items()
        ]  # fmt: skip
        self._client.insert("arrivals", _ARRIVAL_COLUMNS, list(zip(*rows, strict=True)), token=f"{token}:arrivals")

    def note_runs(self, runs: Sequence[Run], token: str) -> None:
        """Marks the traces of closed runs as assembled up to what the runs hold."""
        now = max(self._clock(), *(run.last_received_ns for run in runs))
        rows: list[tuple[Any, ...]] = [
            (
                now, run.project, trace_id, run.run_id, 0, 0, 0, 0 if run.state == "open" else run.last_received_ns,
                int(run.state == "open"), 0, 0, [], [],
            )
            for run in runs
            for trace_id in (run.trace_ids or (run.trace_id,))
        ]  # fmt: skip
        if rows:
            self._client.insert("arrivals", _ARRIVAL_COLUMNS, list(zip(*rows, strict=True)), token=f"{token}:arrivals")

    def note_settled(self, project: str, traces: Sequence[tuple[str, int]], run_ids: Sequence[str] = ()) -> None:
        """Marks traces as assembled up to a received time, and runs as no longer open."""
        now = max(self._clock(), *(through for _, through in traces)) if traces else 0
        keys = run_ids or ("",)
        rows: list[tuple[Any, ...]] = [
            (now, project, trace_id, run_id, 0, 0, 0, through, 0, 0, 0, [], [])
            for trace_id, through in traces
            for run_id in keys
        ]
        if rows:
            self._client.insert(
                "arrivals", _ARRIVAL_COLUMNS, list(zip(*rows, strict=True)), token=f"settled:{project}:{now}"
            )

    def spans(self, project: str, trace_ids: Sequence[str]) -> list[Span]:
        """Every span of these traces, once."""
        return spans_from(*self._of_traces(_SPANS_SQL, project, trace_ids)) if trace_ids else []

    def logs(self, project: str, trace_ids: Sequence[str]) -> list[LogRecord]:
        """Every log record of these traces, in time order."""
        return logs_from(*self._of_traces(_LOGS_SQL, project, trace_ids)) if trace_ids else []

    def _of_traces(
        self, sql: str, project: str, trace_ids: Sequence[str]
    ) -> tuple[tuple[str, ...], list[Sequence[Any]]]:
        return self._client.columns(
            f"{sql} WHERE project = {{project:String}} AND trace_id IN {{ids:Array(String)}}",
            {"project": project, "ids": list(trace_ids)},
        )

    def stamp(self, project: str, trace_ids: Sequence[str]) -> Stamp:
        """What tells whether anything of these traces changed, without reading it."""
        parameters = {"project": project, "ids": list(trace_ids)}
        where = "WHERE project = {project:String} AND trace_id IN {ids:Array(String)}"
        found = [
            self._client.rows(f"SELECT count(), max(received_ns) FROM {table} FINAL {where}", parameters)[0]
            for table in ("spans", "logs")
        ]
        return Stamp(*(int(number) for row in found for number in row))

    def open_traces(self, since_received_ns: int, limit: int) -> list[OpenTrace]:
        """Traces with something newer than their last assembly, oldest first."""
        rows = self._client.rows(_OPEN_SQL, {"since": since_received_ns, "limit": limit})
        return [
            OpenTrace(project=project, trace_id=trace_id, first_received_ns=first, last_received_ns=last, spans=count)
            for project, trace_id, first, last, count in rows
        ]

    def neighbours(
        self,
        project: str,
        processes: Sequence[str],
        session_ids: Sequence[str],
        *,
        window: tuple[int, int],
        limit: int,
    ) -> list[str]:
        """Traces of these processes or sessions whose spans overlap the window, earliest first."""
        parameters = {
            "project": project,
            "processes": list(processes),
            "sessions": list(session_ids),
            "start": max(window[0], 0),
            "end": max(window[1], 0),
            "limit": limit,
        }
        return [str(row[0]) for row in self._client.rows(_NEIGHBOURS_SQL, parameters)]

    def iterate(self, project: str, since_ns: int, until_ns: int) -> Iterator[Span]:
        """Spans received in [since_ns, until_ns), in the order of their key, a page at a time."""
        after = ("", "")
        while True:
            page = spans_from(
                *self._client.columns(
                    f"{_SPANS_SQL} WHERE project = {{project:String}} AND received_ns >= {{since:Int64}} "
                    "AND received_ns < {until:Int64} AND (trace_id, span_id) > ({trace:String}, {span:String}) "
                    "ORDER BY trace_id, span_id LIMIT {limit:UInt32}",
                    {
                        "project": project,
                        "since": since_ns,
                        "until": until_ns,
                        "trace": after[0],
                        "span": after[1],
                        "limit": _PAGE,
                    },
                )
            )
            yield from page
            if len(page) < _PAGE:
                return
            after = (page[-1].trace_id, page[-1].span_id)


def _partitions(items: Sequence[_Item], token: str) -> Iterator[tuple[Sequence[_Item], str]]:
    """The items in blocks that stay below ClickHouse's limit of partitions; mostly they are one."""
    keys = {(item.project, item.received_ns // _DAY_NS) for item in items}
    if not keys:
        return
    if len(keys) <= _PARTITIONS:
        yield items, token
        return
    number = {key: index // _PARTITIONS for index, key in enumerate(sorted(keys))}
    groups: dict[int, list[_Item]] = defaultdict(list)
    for item in items:
        groups[number[item.project, item.received_ns // _DAY_NS]].append(item)
    for index, group in sorted(groups.items()):
        yield group, f"{token}:{index}"


_AT: Final = {name: position for position, name in enumerate(SPAN_COLUMNS)}
_ARRIVAL_FIELDS: Final = tuple(
    _AT[name]
    for name in (
        "project", "trace_id", "received_ns", "start_ns", "end_ns", "service_instance_id", "service_name", "session_id",
    )
)  # fmt: skip


def _span_arrivals(columns: Columns) -> dict[tuple[str, str], _Arrival]:
    found: dict[tuple[str, str], _Arrival] = {}
    for project, trace_id, received, start, end, instance, service, session in zip(
        *(columns[at] for at in _ARRIVAL_FIELDS), strict=True
    ):
        arrival = found.get((project, trace_id))
        if arrival is None:
            arrival = found[project, trace_id] = _Arrival(received, received, start, end)
        arrival.count += 1
        arrival.first_ns = min(arrival.first_ns, received)
        arrival.last_ns = max(arrival.last_ns, received)
        arrival.start_ns = min(arrival.start_ns, start)
        arrival.end_ns = max(arrival.end_ns, end)
        arrival.processes.update(name for name in (instance, service) if name)
        if session:
            arrival.session_ids.add(session)
    return found


def _log_arrivals(logs: Iterable[LogRecord]) -> dict[tuple[str, str], _Arrival]:
    found: dict[tuple[str, str], _Arrival] = {}
    for log in logs:
        time_ns = min(max(log.time_ns, 0), 2**64 - 1)
        key = (log.project, log.trace_id)
        arrival = found.setdefault(key, _Arrival(log.received_ns, log.received_ns, time_ns, time_ns))
        arrival.count += 1
        arrival.first_ns = min(arrival.first_ns, log.received_ns)
        arrival.last_ns = max(arrival.last_ns, log.received_ns)
    return found
