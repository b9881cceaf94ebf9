"""PendingTraces: which traces have spans that no assembly has seen, and when each is due."""

import heapq
import threading
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

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
        self._orders: dict[bool, list[tuple[int, TraceKey]]] = {False: [], True: []}

    def __len__(self) -> int:
        return len(self._traces)

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

    def take_due(self, now_ns: int, *, max_spans: int, heavy: bool = False) -> list[PendingTrace]:
        """Traces of one line that are due, oldest first, about `max_spans` spans of them; they stay in the set."""
        due: list[PendingTrace] = []
        spans = 0
        order = self._orders[heavy]
        with self._lock:
            while order and order[0][0] <= now_ns and spans < max_spans:
                due_ns, key = heapq.heappop(order)
                trace = self._traces.get(key)
                if trace is None or trace.due_ns != due_ns or trace.heavy != heavy:
                    continue  # rescheduled since
                trace.unseen_since_ns = None
                due.append(trace)
                spans += max(1, trace.spans)
        return due

    def settle(self, key: TraceKey, *, changes: int, next_ns: int | None) -> None:
        """After assembly: forget the trace, or look at it again at `next_ns`; unless spans came meanwhile."""
        with self._lock:
            trace = self._traces.get(key)
            if trace is None or trace.changes != changes:
                return
            if next_ns is None:
                del self._traces[key]
            else:
                self._schedule(trace, next_ns)

    def make_heavy(self, key: TraceKey) -> None:
        """Put a trace that is due into the line of the heavy ones."""
        with self._lock:
            trace = self._traces.get(key)
            if trace is not None and not trace.heavy:
                trace.heavy = True
                self._schedule(trace, trace.due_ns)

    def _schedule(self, trace: PendingTrace, due_ns: int) -> None:
        # Entries of earlier schedules stay in the heap and are skipped when they come up.
        trace.due_ns = due_ns
        heapq.heappush(self._orders[trace.heavy], (due_ns, trace.key))
