"""Spans and logs in ClickHouse, and the log of what came for which trace."""

# ruff: noqa: S608 - statements are put together from constants of ours; values travel as parameters

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

from evalspan_collector.run import Run
from evalspan_collector.span import LogRecord, Span
from evalspan_collector.store.arrivals import ARRIVAL_COLUMNS, Arrivals, arrival_rows, log_arrivals
from evalspan_collector.store.client import Client, UnencodableError
from evalspan_collector.store.contract import OpenTrace
from evalspan_collector.store.current import Stamp
from evalspan_collector.store.span_block import SpanBlock
from evalspan_collector.store.span_rows import (
    LOG_COLUMNS,
    SPAN_COLUMNS,
    clean_log,
    log_columns,
    logs_from,
    spans_from,
)

__all__ = ["SpanTables"]

_Item = TypeVar("_Item", Span, LogRecord)
_DAY_NS: Final = 86_400 * 1_000_000_000
#: ClickHouse refuses a block that makes over 100 partitions.
_PARTITIONS: Final = 50
_PAGE: Final = 5_000
#: A block holds a span once, or a merge finds it: looking for doubles at every insert costs a third of it.
_AS_SENT: Final = {"optimize_on_insert": 0, "max_partitions_per_insert_block": 0}
_SPANS_SQL: Final = f"SELECT {', '.join(SPAN_COLUMNS)} FROM spans FINAL"
_LOGS_SQL: Final = f"SELECT {', '.join(LOG_COLUMNS)} FROM logs FINAL"

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
HAVING ((max(last_ns) > max(settled) AND max(last_ns) >= {since:Int64}) OR max(open_now) > 0)
    AND (max(last_ns), project, trace_id) > ({after_ns:Int64}, {after_project:String}, {after_trace:String})
ORDER BY max(last_ns), project, trace_id
LIMIT {limit:UInt32}
"""

_STAMPS_SQL: Final = """
SELECT trace_id, 0, uniqExact(span_id), max(received_ns) FROM spans
WHERE project = {project:String} AND trace_id IN {ids:Array(String)} GROUP BY trace_id
UNION ALL
SELECT trace_id, 1, uniqExact((span_id, time_ns, event_name, sequence, content_hash)), max(received_ns) FROM logs
WHERE project = {project:String} AND trace_id IN {ids:Array(String)} GROUP BY trace_id
"""

# The window lets whole granules be passed over: rows lie in the order in which they came.
_FIRST_SQL: Final = """
SELECT trace_id, min(first_received_ns)
FROM arrivals
WHERE project = {project:String} AND spans > 0 AND start_ns <= {end:UInt64} AND end_ns >= {start:UInt64}
    AND trace_id IN {ids:Array(String)}
GROUP BY trace_id
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


#: The wide columns are read only of rows whose keys match; the condition is on the sorting key, so no copy is missed.
_KEYS_FIRST: Final = "SETTINGS optimize_move_to_prewhere_if_final = 1"


class SpanTables:
    """The tables spans, logs and arrivals."""

    def __init__(self, client: Client, clock: Callable[[], int] = time.time_ns) -> None:
        self._client = client
        self._clock = clock

    def insert_spans(self, spans: Sequence[Span], token: str) -> None:
        """Inserts spans, then notes their traces; the same token again changes nothing."""
        for part, part_token in _partitions(spans, token):
            block = SpanBlock()
            block.add(part)
            self.insert_block(block, part_token)

    def insert_block(self, block: SpanBlock, token: str) -> None:
        """Inserts a block that is ready, likewise."""
        if len(block):
            self._client.insert_native("spans", block.names(), block.native(), token=token, settings=_AS_SENT)
            self._note_arrivals(block.arrivals, token)

    def insert_logs(self, logs: Sequence[LogRecord], token: str) -> None:
        """Inserts log records, likewise."""
        for part, part_token in _partitions(logs, token):
            try:
                self._client.insert("logs", LOG_COLUMNS, log_columns(part), token=part_token)
                stored = part
            except (UnencodableError, UnicodeError):
                # Rare, so the usual block is not searched for it: one value in it fits no column.
                stored = [clean_log(log) for log in part]
                self._client.insert("logs", LOG_COLUMNS, log_columns(stored), token=part_token)
            self._note_arrivals(log_arrivals(stored), part_token)

    def _note_arrivals(self, arrivals: Arrivals, token: str) -> None:
        rows = arrival_rows(arrivals, self._clock())
        if rows:
            self._client.insert("arrivals", ARRIVAL_COLUMNS, list(zip(*rows, strict=True)), token=f"{token}:arrivals")

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
            self._client.insert("arrivals", ARRIVAL_COLUMNS, list(zip(*rows, strict=True)), token=f"{token}:arrivals")

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
                "arrivals", ARRIVAL_COLUMNS, list(zip(*rows, strict=True)), token=f"settled:{project}:{now}"
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
            f"{sql} WHERE project = {{project:String}} AND trace_id IN {{ids:Array(String)}} {_KEYS_FIRST}",
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

    def stamps(self, project: str, trace_ids: Sequence[str]) -> dict[str, Stamp]:
        """The stamp of each trace that has anything; read from the keys alone."""
        if not trace_ids:
            return {}
        parameters = {"project": project, "ids": list(trace_ids)}
        found: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
        for trace_id, is_log, count, newest in self._client.rows(_STAMPS_SQL, parameters):
            found[trace_id][2 * is_log : 2 * is_log + 2] = int(count), int(newest)
        return {trace_id: Stamp(*numbers) for trace_id, numbers in found.items()}

    def first_arrivals(self, project: str, trace_ids: Sequence[str], *, window: tuple[int, int]) -> dict[str, int]:
        """When the first span of each trace in the window was received, those since replaced included."""
        if not trace_ids:
            return {}
        parameters = {
            "project": project,
            "ids": list(trace_ids),
            "start": max(window[0], 0),
            "end": max(window[1], 0),
        }
        return {str(trace_id): int(first_ns) for trace_id, first_ns in self._client.rows(_FIRST_SQL, parameters)}

    def open_traces(self, since_received_ns: int, after: OpenTrace | None, limit: int) -> list[OpenTrace]:
        """Traces with something newer than their last assembly, oldest first."""
        after_ns, project, trace_id = after.order if after else (-1, "", "")
        rows = self._client.rows(
            _OPEN_SQL,
            {
                "since": since_received_ns,
                "after_ns": after_ns,
                "after_project": project,
                "after_trace": trace_id,
                "limit": limit,
            },
        )
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
