"""PendingTraces: which traces have spans that no assembly has seen, and when each is due."""

import heapq
import threading
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import takewhile

__all__ = ["PendingTrace", "PendingTraces", "TraceKey", "in_shard"]

#: Project and trace id.
TraceKey = tuple[str, str]


def in_shard(trace_id: str, shard: tuple[int, int]) -> bool:
    """True when shard i of n assembles this trace; every collector gives the same answer."""
    index, count = shard
    return count == 1 or zlib.crc32(trace_id.encode()) % count == index


@dataclass(slots=True, eq=False)
class PendingTrace:
    """A trace that waits for assembly.

    Attributes:
        first_ns: When its oldest span known here was received.
        last_ns: When its newest was.
        unseen_since_ns: When the oldest span that no assembly has seen was received; None when all were.
        spans: Spans known here, for batching only.
        due_ns: When to assemble it, on the clock of received times.
        changes: Grows with every touch: tells whether spans came while it was assembled.
        heavy: Assembling it takes long; it waits in a line of its own.
    """

    key: TraceKey
    first_ns: int
    last_ns: int
    unseen_since_ns: int | None
    spans: int = 0
    due_ns: int = 0
    changes: int = 0
    heavy: bool = False


@dataclass(slots=True, eq=False)
class _Line:
    """Traces that wait for assembly beside each other.

    Attributes:
        order: When each is due; entries of earlier schedules stay and are skipped when they come up.
        ready: Those that are due, the oldest first.
        swept: The last one taken in the order of ids.
        sweeps: The next ones are taken in that order.
    """

    order: list[tuple[int, TraceKey]] = field(default_factory=list[tuple[int, TraceKey]])
    ready: dict[TraceKey, None] = field(default_factory=dict[TraceKey, None])
    swept: TraceKey = ("", "")
    sweeps: bool = False


class PendingTraces:
    """The pending set; thread-safe.

    Args:
        quiet_ns: A trace is due when nothing came for this long ...
        patience_ns: ... or, while spans keep coming, this long after the first unseen one, so that a long run shows.
        heavy_spans: A trace with more spans than this waits in the line of the heavy ones, so that one of them delays
            no other.
    """

    def __init__(self, *, quiet_ns: int, patience_ns: int, heavy_spans: int) -> None:
        self._quiet_ns = quiet_ns
        self._patience_ns = patience_ns
        self._heavy_spans = heavy_spans
        self._lock = threading.Lock()
        self._traces: dict[TraceKey, PendingTrace] = {}
        self._lines = {False: _Line(), True: _Line()}

    def __len__(self) -> int:
        return len(self._traces)

    def knows(self, key: TraceKey, last_ns: int = 0) -> bool:
        """Whether a trace waits here, with what was received up to `last_ns`."""
        trace = self._traces.get(key)
        return trace is not None and trace.last_ns >= last_ns

    def touch(self, touched: Iterable[tuple[TraceKey, int, int, int]]) -> None:
        """Note new spans: (key, first received, last received, number of spans)."""
        with self._lock:
            for key, first_ns, last_ns, spans in touched:
                trace = self._traces.get(key)
                if trace is None:
                    trace = self._traces[key] = PendingTrace(key, first_ns, last_ns, first_ns)
                trace.first_ns = min(trace.first_ns, first_ns)
                trace.last_ns = max(trace.last_ns, last_ns)
                if trace.unseen_since_ns is None:
                    trace.unseen_since_ns = first_ns
                trace.spans += spans
                trace.heavy |= trace.spans > self._heavy_spans
                trace.changes += 1
                # Big traces are looked at more rarely, so that assembling them stays linear over their life.
                patience = self._patience_ns * (1 + trace.spans // 2_000)
                self._schedule(trace, min(trace.last_ns + self._quiet_ns, trace.unseen_since_ns + patience))

    def take_due(
        self, now_ns: int, *, max_spans: int, heavy: bool = False, recalled: Callable[[TraceKey], bool] | None = None
    ) -> list[PendingTrace]:
        """Traces of one line that are due, about `max_spans` spans of them; they stay in the set.

        The oldest come first. Where more are due than can be taken, some must be read back, and then what is read
        beside each other matters more than who came first: see `_next`.

        Args:
            now_ns: On the clock of received times.
            max_spans: Spans to take.
            heavy: The line of the heavy ones.
            recalled: True when a trace need not be read back from the store; None where that does not matter.
        """
        line = self._lines[heavy]
        with self._lock:
            self._ripen(line, now_ns, heavy=heavy)
            due: list[PendingTrace] = []
            spans = 0
            for key in self._next(line, max_spans, recalled):
                if spans >= max_spans:
                    break
                del line.ready[key]
                trace = self._traces[key]
                trace.unseen_since_ns = None
                due.append(trace)
                spans += max(1, trace.spans)
                line.swept = key if line.sweeps else line.swept
        return due

    def _ripen(self, line: _Line, now_ns: int, *, heavy: bool) -> None:
        """Bring up to date which are due."""
        while line.order and line.order[0][0] <= now_ns:
            due_ns, key = heapq.heappop(line.order)
            trace = self._traces.get(key)
            if trace is not None and trace.due_ns == due_ns and trace.heavy == heavy:
                line.ready[key] = None

    def _next(self, line: _Line, max_spans: int, recalled: Callable[[TraceKey], bool] | None) -> Iterable[TraceKey]:
        """In which order to take those that are due.

        With a backlog, by turns: the newest, which are still in memory, so that whoever looks at what happens now
        sees it and the backlog grows no further; and the others by id, in which order they lie in the store: read one
        by one they would cost more than ten times as much.
        """
        if recalled is None or sum(max(1, self._traces[key].spans) for key in line.ready) <= max_spans:
            line.sweeps = False
            return list(line.ready)
        line.sweeps = not line.sweeps
        if not line.sweeps:
            fresh = list(takewhile(recalled, reversed(line.ready)))
            if fresh:
                return fresh
            line.sweeps = True
        keys = sorted(line.ready)
        start = bisect_right(keys, line.swept)
        return keys[start:] + keys[:start]

    def settle(self, key: TraceKey, *, changes: int, next_ns: int | None) -> None:
        """After assembly: forget the trace, or look at it again at `next_ns`; unless spans came meanwhile."""
        with self._lock:
            trace = self._traces.get(key)
            if trace is None or trace.changes != changes:
                return
            if next_ns is None:
                self._drop(trace)
            else:
                self._schedule(trace, next_ns)

    def make_heavy(self, key: TraceKey) -> None:
        """Put a trace that is due into the line of the heavy ones."""
        with self._lock:
            trace = self._traces.get(key)
            if trace is not None and not trace.heavy:
                trace.heavy = True
                self._schedule(trace, trace.due_ns)

    def _drop(self, trace: PendingTrace) -> None:
        del self._traces[trace.key]
        self._lines[trace.heavy].ready.pop(trace.key, None)

    def _schedule(self, trace: PendingTrace, due_ns: int) -> None:
        trace.due_ns = due_ns
        for line in self._lines.values():
            line.ready.pop(trace.key, None)
        heapq.heappush(self._lines[trace.heavy].order, (due_ns, trace.key))
