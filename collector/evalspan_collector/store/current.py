"""Current: what every store needs to give a run as it is now: a strict clock, and row and content joined."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, Protocol, TypeVar, cast

from evalspan_collector.records import RunSummary
from evalspan_collector.run import Run, RunState
from evalspan_collector.span import LogRecord, Span
from evalspan_collector.store.run_rows import run_from_summary

__all__ = ["Assemble", "LastAssembly", "Readable", "Stamp", "Ticker", "current_run", "current_runs"]

_Item = TypeVar("_Item", Span, LogRecord)

#: Spans and logs of some traces to their runs.
Assemble = Callable[[Sequence[Span], Sequence[LogRecord]], Sequence[Run]]


class Ticker:
    """A clock that never gives the same time twice, nor an earlier one."""

    def __init__(self, clock: Callable[[], int] = time.time_ns) -> None:
        self._clock = clock
        self._last = 0
        self._guard = threading.Lock()

    def __call__(self) -> int:
        """The next time, in nanoseconds since the epoch."""
        with self._guard:
            self._last = max(self._clock(), self._last + 1)
            return self._last


class Stamp(NamedTuple):
    """How many spans and log records some traces have, and when the newest of each was received.

    A stamp changes with every span that comes, is replaced, or is dropped by retention.
    """

    spans: int
    last_span_ns: int
    logs: int
    last_log_ns: int

    @classmethod
    def of(cls, spans: Sequence[Span], logs: Sequence[LogRecord]) -> "Stamp":
        """The stamp of what was read."""
        return cls(len(spans), _newest(spans), len(logs), _newest(logs))


def _newest(items: Iterable[Span | LogRecord]) -> int:
    return max((item.received_ns for item in items), default=0)


class _Assembly(NamedTuple):
    project: str
    trace_ids: tuple[str, ...]
    stamp: Stamp
    runs: Mapping[str, Run]


#: Spans of which reading and assembling takes more than a second.
_MANY_SPANS: Final = 5_000


class LastAssembly:
    """Keeps the runs of the last traces that held several, or were large: who reads one mostly reads on in it soon.

    Without it a trace of n runs is loaded and assembled n times, and one such trace occupies a worker for hours; and
    the screen of a large run is read anew with each click.
    """

    def __init__(self, assemble: Assemble) -> None:
        self._assemble = assemble
        self._last: _Assembly | None = None

    def get(self, project: str, trace_ids: tuple[str, ...], stamp: Callable[[], Stamp]) -> Mapping[str, Run] | None:
        """The runs of these traces by id, None when they are not kept or their spans changed.

        `stamp` asks for the stamp of the traces as they are now; called only when their runs are kept.
        """
        last = self._last
        if last is None or (last.project, last.trace_ids) != (project, trace_ids) or last.stamp != stamp():
            return None
        return last.runs

    def make(
        self, project: str, trace_ids: tuple[str, ...], spans: Sequence[Span], logs: Sequence[LogRecord]
    ) -> Mapping[str, Run]:
        """Assemble what was read of these traces, and keep it when that gives several runs or took long."""
        runs = {run.run_id: run for run in self._assemble(spans, logs)}
        if len(runs) > 1 or len(spans) >= _MANY_SPANS:
            self._last = _Assembly(project, trace_ids, Stamp.of(spans, logs), runs)
        return runs


def current_run(summary: RunSummary, assembled: Mapping[str, Run]) -> Run:
    """The run with its content, in the state its row says; the bare row where its spans are gone."""
    found = assembled.get(summary.run_id)
    if found is None:
        return run_from_summary(summary)
    return replace(
        found,
        project=summary.project,
        revision=summary.revision,
        state=cast("RunState", summary.state),
        cost_usd=summary.cost_usd,
        cost_unknown_calls=summary.cost_unknown_calls,
    )


class Readable(Protocol):
    """What `current_runs` asks of a store."""

    def spans(self, project: str, trace_ids: Sequence[str]) -> list[Span]:
        """Every span of these traces, once."""
        ...

    def logs(self, project: str, trace_ids: Sequence[str]) -> list[LogRecord]:
        """Every log record of these traces."""
        ...

    def runs_of_traces(self, project: str, trace_ids: Sequence[str]) -> list[RunSummary]:
        """Current rows of the runs of these traces, without withdrawn ones."""
        ...


def current_runs(summaries: Sequence[RunSummary], store: Readable, assembly: LastAssembly) -> list[Run]:
    """The runs as they are now, in the order of their rows, with three reads for each project.

    A run that was withdrawn after its row was read is left out.
    """
    found: dict[tuple[str, str], Run] = {}
    for project in dict.fromkeys(summary.project for summary in summaries):
        wanted = {summary.run_id: summary for summary in summaries if summary.project == project}
        traces = tuple(dict.fromkeys(trace for row in wanted.values() for trace in row.trace_ids))
        rows = [row for row in store.runs_of_traces(project, traces) if row.run_id in wanted]
        traces = tuple(dict.fromkeys(trace for row in rows for trace in row.trace_ids))
        spans, logs = _by_trace(store.spans(project, traces)), _by_trace(store.logs(project, traces))
        assembled: dict[tuple[str, ...], Mapping[str, Run]] = {}
        for row in rows:
            if row.trace_ids not in assembled:
                own_spans = [span for trace in row.trace_ids for span in spans.get(trace, ())]
                own_logs = [log for trace in row.trace_ids for log in logs.get(trace, ())]
                assembled[row.trace_ids] = assembly.make(project, row.trace_ids, own_spans, own_logs)
            found[project, row.run_id] = current_run(row, assembled[row.trace_ids])
    keys = [(summary.project, summary.run_id) for summary in summaries]
    return [found[key] for key in keys if key in found]


def _by_trace(items: Iterable[_Item]) -> dict[str, list[_Item]]:
    grouped: dict[str, list[_Item]] = {}
    for item in items:
        grouped.setdefault(item.trace_id, []).append(item)
    return grouped
