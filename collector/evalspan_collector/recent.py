"""Recent traces: the spans and log records that this process has just put into the store, still in memory.

Most runs close seconds after their last span, and then everything of them is here: assembling them needs no reading
back, which would cost the store more than the insert did. Whether everything is here is for the store to say, which
counts: see `gather`.
"""

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from evalspan_collector.run import Run
from evalspan_collector.span import LogRecord, Span
from evalspan_collector.store.current import Stamp

__all__ = ["KnownRun", "RecentTraces", "Snapshot"]

_Key = tuple[str, str]
_LogKey = tuple[str, int, str, int, str | None, tuple[tuple[str, str], ...]]


@dataclass(frozen=True, slots=True)
class KnownRun:
    """What assembly needs of a run that was written before."""

    run_id: str
    trace_ids: tuple[str, ...]
    revision: int
    state: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is remembered of a trace at one moment.

    Attributes:
        first_ns: When the first of what is remembered was received.
        runs_known: `runs` are all that were written of it, not only those this process wrote since `first_ns`.
    """

    spans: list[Span]
    logs: list[LogRecord]
    runs: list[KnownRun]
    first_ns: int = 0
    runs_known: bool = False

    @property
    def stamp(self) -> Stamp:
        """To be compared with the store's."""
        return Stamp.of(self.spans, self.logs)


@dataclass(slots=True, eq=False)
class _Trace:
    spans: dict[str, Span] = field(default_factory=dict[str, Span])
    logs: dict[_LogKey, LogRecord] = field(default_factory=dict[_LogKey, LogRecord])
    runs: dict[str, KnownRun] = field(default_factory=dict[str, KnownRun])
    first_ns: int = 2**63
    runs_known: bool = False


class RecentTraces:
    """The newest blocks' traces, forgotten block by block; thread-safe.

    Args:
        max_bytes: Bytes on the wire of the blocks that are remembered; in memory they take about twice as much.
    """

    def __init__(self, *, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._traces: dict[_Key, _Trace] = {}
        self._blocks: deque[tuple[int, frozenset[_Key]]] = deque()
        self._bytes = 0

    def add(self, spans: Iterable[Span], logs: Iterable[LogRecord], *, size_bytes: int) -> None:
        """Remember a block that the store has confirmed; of two spans with one id the newer counts, as in the store."""
        with self._lock:
            touched: set[_Key] = set()
            key, trace = ("", ""), _Trace()
            for span in spans:
                if key != (span.project, span.trace_id):
                    key = (span.project, span.trace_id)
                    trace = self._touch(key, touched)
                trace.first_ns = min(trace.first_ns, span.received_ns)
                known = trace.spans.get(span.span_id)
                if known is None or span.received_ns >= known.received_ns:
                    trace.spans[span.span_id] = span
            for record in logs:
                if record.trace_id:
                    trace = self._touch((record.project, record.trace_id), touched)
                    trace.first_ns = min(trace.first_ns, record.received_ns)
                    trace.logs[_log_key(record)] = record
            self._blocks.append((size_bytes, frozenset(touched)))
            self._bytes += size_bytes
            self._forget()

    def _touch(self, key: _Key, touched: set[_Key]) -> _Trace:
        touched.add(key)
        trace = self._traces.get(key)
        if trace is None:
            trace = self._traces[key] = _Trace()
        return trace

    def _forget(self) -> None:
        # A trace goes as a whole with its oldest block; what comes for it later is not all of it, as the counts tell.
        while self._bytes > self._max_bytes and self._blocks:
            size, keys = self._blocks.popleft()
            self._bytes -= size
            for key in keys:
                self._traces.pop(key, None)

    def holds(self, key: _Key) -> bool:
        """Whether something of a trace, named by project and id, is remembered."""
        return key in self._traces

    def get(self, project: str, trace_id: str) -> Snapshot | None:
        """What is remembered of a trace; None when nothing is."""
        with self._lock:
            trace = self._traces.get((project, trace_id))
            if trace is None:
                return None
            return Snapshot(
                list(trace.spans.values()),
                list(trace.logs.values()),
                list(trace.runs.values()),
                trace.first_ns,
                trace.runs_known,
            )

    def know_runs(self, project: str, trace_ids: Iterable[str], runs: Iterable[KnownRun] = ()) -> None:
        """The store holds these runs of these traces, and no others; what comes to be is noted here."""
        runs = list(runs)
        with self._lock:
            for trace_id in trace_ids:
                trace = self._traces.get((project, trace_id))
                if trace is not None:
                    trace.runs_known = True
                    for run in runs:
                        noted = trace.runs.get(run.run_id)
                        # What this process wrote meanwhile is newer than what was read.
                        if trace_id in run.trace_ids and (noted is None or noted.revision < run.revision):
                            trace.runs[run.run_id] = run

    def note_runs(self, runs: Iterable[Run]) -> None:
        """Remember what was written about traces that are remembered."""
        with self._lock:
            for run in runs:
                trace_ids = run.trace_ids or (run.trace_id,)
                known = KnownRun(run.run_id, trace_ids, run.revision, run.state, run.fingerprint)
                for trace_id in trace_ids:
                    trace = self._traces.get((run.project, trace_id))
                    if trace is not None:
                        trace.runs[run.run_id] = known

    def forget_runs(self, project: str, trace_ids: Iterable[str], run_ids: Sequence[str]) -> None:
        """These runs of these traces were withdrawn."""
        with self._lock:
            for trace_id in trace_ids:
                trace = self._traces.get((project, trace_id))
                if trace is not None:
                    for run_id in run_ids:
                        trace.runs.pop(run_id, None)


def _log_key(record: LogRecord) -> _LogKey:
    attributes = tuple(sorted(record.attributes.items()))
    return record.span_id, record.time_ns, record.event_name, record.sequence, record.body, attributes
