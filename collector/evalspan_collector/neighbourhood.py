"""Neighbourhood: which recent traces ran beside which, so that runs spread over several traces are put together."""

import threading
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evalspan_collector.assemble import NeighbourQuery, neighbour_query
from evalspan_collector.span import Span

__all__ = ["Neighbourhood"]

_BUCKET_NS = 60_000_000_000
#: A trace longer than this many buckets is looked up at its ends only.
_MAX_BUCKETS = 120


@dataclass(frozen=True, slots=True)
class _Entry:
    trace_id: str
    loose: bool
    start_ns: int
    end_ns: int
    places: tuple[tuple[str, str, int], ...]


class Neighbourhood:
    """Remembers where and when recent traces ran; the oldest are forgotten first; thread-safe.

    What it does not remember, the store is asked for: see `Assembler`.

    Args:
        max_traces: How many it remembers.
    """

    def __init__(self, *, max_traces: int = 50_000) -> None:
        self._max_traces = max_traces
        self._lock = threading.Lock()
        self._entries: OrderedDict[tuple[str, str], _Entry] = OrderedDict()
        self._loose: dict[tuple[str, str, int], set[str]] = defaultdict(set)
        self._held: dict[tuple[str, str, int], set[str]] = defaultdict(set)

    def note(self, trace_id: str, spans: Sequence[Span]) -> NeighbourQuery:
        """Remember a trace as it is now; what to look for beside it."""
        query = neighbour_query(spans)
        start_ns, end_ns = min(s.start_ns for s in spans), max(s.end_ns for s in spans)
        places = tuple(
            (query.project, name, bucket)
            for name in (query.processes | query.session_ids)
            for bucket in _buckets(start_ns, end_ns)
        )
        entry = _Entry(trace_id, not query.loose_only, start_ns, end_ns, places)
        key = (query.project, trace_id)
        with self._lock:
            self._forget(key)
            self._entries[key] = entry
            for place in places:
                (self._loose if entry.loose else self._held)[place].add(trace_id)
            while len(self._entries) > self._max_traces:
                self._forget(next(iter(self._entries)))
        return query

    def near(self, trace_id: str, query: NeighbourQuery) -> set[str]:
        """Remembered traces that `query` asks for, without the trace itself."""
        with self._lock:
            return self._near(trace_id, query)

    def _near(self, trace_id: str, query: NeighbourQuery) -> set[str]:
        found: set[str] = set()
        for name in query.processes | query.session_ids:
            for bucket in _buckets(query.start_ns, query.end_ns):
                place = (query.project, name, bucket)
                found |= self._loose.get(place, set())
                if not query.loose_only:
                    found |= self._held.get(place, set())
        found.discard(trace_id)
        return {other for other in found if self._overlaps(query, other)}

    def _overlaps(self, query: NeighbourQuery, trace_id: str) -> bool:
        entry = self._entries[query.project, trace_id]
        return entry.start_ns <= query.end_ns and entry.end_ns >= query.start_ns

    def _forget(self, key: tuple[str, str]) -> None:
        entry = self._entries.pop(key, None)
        if entry is None:
            return
        index = self._loose if entry.loose else self._held
        for place in entry.places:
            index[place].discard(entry.trace_id)
            if not index[place]:
                del index[place]


def _buckets(start_ns: int, end_ns: int) -> Iterable[int]:
    first, last = start_ns // _BUCKET_NS, end_ns // _BUCKET_NS
    if last - first < _MAX_BUCKETS:
        return range(first, last + 1)
    half = _MAX_BUCKETS // 2
    return (*range(first, first + half), *range(last - half, last + 1))
