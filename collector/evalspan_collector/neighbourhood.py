"""Neighbourhood: which recent traces ran beside which, so that runs spread over several traces are put together."""

import threading
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from evalspan_collector.assemble import CALL_GAP_NS, NEAR_NS, NeighbourQuery, Tie, neighbour_query, ties_of
from evalspan_collector.crowd import Bystander, Union, split, time_ties
from evalspan_collector.span import LogRecord, Span
from evalspan_collector.store.current import Stamp

__all__ = ["Neighbourhood"]

_BUCKET_NS = 60_000_000_000
#: A trace longer than this many buckets is looked up at its ends only.
_MAX_BUCKETS = 120
#: How far around a trace in a crowd others are looked at that only the clock may tie to it.
_FIELD_NS = 2 * NEAR_NS

_Place = tuple[str, str, int]
_Key = tuple[str, Tie]
_At = TypeVar("_At", _Place, _Key)


#: What a trace takes in memory, each of its model calls and each of its ties, about (measured).
_TRACE_BYTES, _CALL_BYTES, _TIE_BYTES = 1_800, 350, 500


@dataclass(frozen=True, slots=True)
class _Entry:
    trace: Bystander
    query: NeighbourQuery
    stamp: Stamp

    @property
    def places(self) -> Iterator[_Place]:
        """Where and when it ran."""
        trace = self.trace
        for name in trace.processes | trace.session_ids:
            for bucket in _buckets(trace.start_ns, trace.end_ns):
                yield self.query.project, name, bucket

    @property
    def size_bytes(self) -> int:
        """What it takes in memory, about."""
        ties = self.trace.ties
        names = sum(_TIE_BYTES + len(value) for _, _, value in (*ties.offers, *ties.wants))
        return _TRACE_BYTES + _CALL_BYTES * len(ties.calls) + names


class Neighbourhood:
    """Remembers where and when recent traces ran; the oldest are forgotten first; thread-safe.

    What it does not remember, the store is asked for: see `Assembler`.

    Args:
        max_bytes: What all of it may take in memory, about: some 20,000 traces of agents with five calls each.
    """

    def __init__(self, *, max_bytes: int = 96 << 20) -> None:
        self._max_bytes = max_bytes
        self.size_bytes = 0
        self._lock = threading.Lock()
        self._entries: OrderedDict[tuple[str, str], _Entry] = OrderedDict()
        self._loose: dict[_Place, set[str]] = defaultdict(set)
        self._held: dict[_Place, set[str]] = defaultdict(set)
        self._clocked: dict[_Place, set[str]] = defaultdict(set)
        self._scopes: dict[_Place, Counter[str]] = defaultdict(Counter)
        self._offers: dict[_Key, set[str]] = defaultdict(set)
        self._wants: dict[_Key, set[str]] = defaultdict(set)

    def note(self, trace_id: str, spans: Sequence[Span], logs: Sequence[LogRecord] = ()) -> NeighbourQuery:
        """Remember a trace as it is now; what to look for beside it."""
        stamp = Stamp.of(spans, logs)
        key = (spans[0].project, trace_id)
        with self._lock:
            known = self._entries.get(key)
            if known is not None and known.stamp == stamp:
                self._entries.move_to_end(key)
                return known.query
        entry = _entry(trace_id, spans, logs, stamp)
        with self._lock:
            self._forget(key)
            self._entries[key] = entry
            self._add(entry)
            while self.size_bytes > self._max_bytes and len(self._entries) > 1:
                self._forget(next(iter(self._entries)))
        return entry.query

    def knows(self, project: str, trace_id: str) -> bool:
        """True when the trace is remembered."""
        with self._lock:
            return (project, trace_id) in self._entries

    def near(self, trace_id: str, query: NeighbourQuery, *, limit: int) -> list[str] | None:
        """Remembered traces that may share a run with a noted one, by id; None when they are more than `limit`."""
        with self._lock:
            one = self._entries[query.project, trace_id].trace
            found = {trace_id}
            for others in self._around(one, query.project):
                for other_id in others:
                    if other_id not in found and _are_near(one, self._entries[query.project, other_id].trace):
                        found.add(other_id)
                        if len(found) > limit + 1:
                            return None
        return sorted(found - {trace_id})

    def _around(self, one: Bystander, project: str) -> Iterator[Iterable[str]]:
        """Traces that may be near, in parts."""
        for index, loose in ((self._loose, True), (self._held, False)):
            reach_ns = _reach_ns((one.loose, loose))
            if reach_ns is not None:
                for name in one.processes | one.session_ids:
                    for bucket in _buckets(one.start_ns - reach_ns, one.end_ns + reach_ns):
                        yield index.get((project, name, bucket), ())

    def groups(self, project: str, trace_ids: Iterable[str], *, limit: int) -> list[list[str]]:
        """The noted traces among many others, each in one group of at most `limit` with those it is tied to."""
        with self._lock:
            wanted = [t for t in trace_ids if (project, t) in self._entries]
            members = self._tied(project, wanted, limit)
        due = set(wanted)
        parts = [[t.trace_id for t in part] for tied in members for part in split(tied, limit)]
        return [part for part in parts if not due.isdisjoint(part)]

    def _tied(self, project: str, wanted: Sequence[str], limit: int) -> list[list[Bystander]]:
        """The wanted traces and all that are tied to them, or more than `limit` of these."""
        around = set(wanted)
        # Each step widens a group, and those beyond the limit are left as they are: so it ends.
        while True:
            tied = self._tied_within(project, wanted, around)
            more = {t.trace_id for group in tied if len(group) <= limit for t in group} - around
            if not more:
                return tied
            around |= more

    def _tied_within(self, project: str, wanted: Sequence[str], around: Iterable[str]) -> list[list[Bystander]]:
        """Groups of tied traces; those that only the clock ties are seen where they ran shortly beside `around`."""
        field = self._field(project, around)
        union = Union()
        answers = {tie for trace in field for call in trace.ties.calls for tie in call.answers}
        pairs = list(time_ties(field, (tie for tie in answers if (project, tie) in self._offers)))
        beside: dict[str, list[str]] = defaultdict(list)
        for one, other in pairs:
            union.join(one, other)
            beside[one].append(other)
            beside[other].append(one)
        seen, keys, waiting = set(wanted), set[Tie](), list(wanted)
        while waiting:
            trace_id = waiting.pop()
            ties = self._entries[project, trace_id].trace.ties
            fresh = (ties.offers | ties.wants) - keys
            keys |= fresh
            found = list(beside.get(trace_id, ()))
            for tie in fresh:
                found.extend(self._join_by(project, tie, union))
            reached = set(found) - seen
            seen |= reached
            waiting.extend(reached)
        tied: dict[str, list[Bystander]] = defaultdict(list)
        for trace_id in seen:
            tied[union.find(trace_id)].append(self._entries[project, trace_id].trace)
        return sorted((sorted(t, key=lambda b: b.order) for t in tied.values()), key=lambda t: t[0].order)

    def _join_by(self, project: str, tie: Tie, union: Union) -> list[str]:
        """Join the traces of one fact, as far as they are near each other in time."""
        wants, offers = self._wants.get((project, tie)), self._offers.get((project, tie))
        if not wants or not offers:
            return []
        traces = sorted((self._entries[project, t].trace for t in wants | offers), key=lambda t: t.order)
        until_ns = traces[0].end_ns
        for one, other in pairwise(traces):
            until_ns = max(until_ns, one.end_ns)
            if other.start_ns - until_ns <= CALL_GAP_NS:
                union.join(one.trace_id, other.trace_id)
        return [trace.trace_id for trace in traces]

    def _field(self, project: str, trace_ids: Iterable[str]) -> list[Bystander]:
        """Traces of the same processes at about the same time, and these themselves."""
        places: set[_Place] = set()
        found: set[str] = set(trace_ids)
        for trace_id in found:
            trace = self._entries[project, trace_id].trace
            for bucket in _buckets(trace.start_ns - _FIELD_NS, trace.end_ns + _FIELD_NS):
                places.update((project, process, bucket) for process in trace.processes)
        # Most traces tell all by their facts; the others need to be seen only beside what the clock may tie.
        clocked = {trace_id for place in places for trace_id in self._clocked.get(place, ())}
        scopes = {scope for place in places for scope in self._scopes.get(place, ())}
        found |= clocked
        if len(scopes) > 1 or any(self._entries[project, t].trace.ties.retrievals for t in found):
            for place in places:
                found |= self._loose.get(place, set()) | self._held.get(place, set())
        return [self._entries[project, trace_id].trace for trace_id in found]

    def _forget(self, key: tuple[str, str]) -> None:
        entry = self._entries.pop(key, None)
        if entry is None:
            return
        self.size_bytes -= entry.size_bytes
        project, trace = entry.query.project, entry.trace
        spots, clocked, scopes = self._loose if trace.loose else self._held, trace.clocked, trace.scopes
        for place in entry.places:
            _discard(spots, place, trace.trace_id)
            if clocked:
                _discard(self._clocked, place, trace.trace_id)
            if scopes:
                self._scopes[place] -= Counter(scopes)
                if not self._scopes[place]:
                    del self._scopes[place]
        for index, ties in ((self._offers, trace.ties.offers), (self._wants, trace.ties.wants)):
            for tie in ties:
                _discard(index, (project, tie), trace.trace_id)

    def _add(self, entry: _Entry) -> None:
        self.size_bytes += entry.size_bytes
        project, trace = entry.query.project, entry.trace
        spots, clocked, scopes = self._loose if trace.loose else self._held, trace.clocked, trace.scopes
        for place in entry.places:
            spots[place].add(trace.trace_id)
            if clocked:
                self._clocked[place].add(trace.trace_id)
            if scopes:
                self._scopes[place].update(scopes)
        for index, ties in ((self._offers, trace.ties.offers), (self._wants, trace.ties.wants)):
            for tie in ties:
                index[project, tie].add(trace.trace_id)


def _discard(index: dict[_At, set[str]], at: _At, trace_id: str) -> None:
    index[at].discard(trace_id)
    if not index[at]:
        del index[at]


def _entry(trace_id: str, spans: Sequence[Span], logs: Sequence[LogRecord], stamp: Stamp) -> _Entry:
    query = neighbour_query(spans)
    trace = Bystander(
        trace_id=trace_id,
        loose=not query.loose_only,
        start_ns=min(s.start_ns for s in spans),
        end_ns=max(s.end_ns for s in spans),
        processes=query.processes,
        session_ids=query.session_ids,
        ties=ties_of(spans, logs),
    )
    return _Entry(trace, query, stamp)


def _reach_ns(kinds: tuple[bool, bool]) -> int | None:
    """How far apart two traces of one run may be, by whether each is loose; None when they are never of one run.

    The same from either side, so that groups do not overlap.
    """
    if all(kinds):
        return CALL_GAP_NS
    return NEAR_NS if any(kinds) else None


def _are_near(one: Bystander, other: Bystander) -> bool:
    reach_ns = _reach_ns((one.loose, other.loose))
    if reach_ns is None:
        return False
    return one.start_ns - reach_ns <= other.end_ns and other.start_ns <= one.end_ns + reach_ns


def _buckets(start_ns: int, end_ns: int) -> Iterable[int]:
    first, last = start_ns // _BUCKET_NS, end_ns // _BUCKET_NS
    if last - first < _MAX_BUCKETS:
        return range(first, last + 1)
    half = _MAX_BUCKETS // 2
    return (*range(first, first + half), *range(last - half, last + 1))
