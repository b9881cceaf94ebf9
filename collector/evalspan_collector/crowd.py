"""Crowd: which of many traces that ran beside each other are to be assembled together; each goes to one group.

A process that makes ten bare calls a second has thousands of traces beside each one. Those that share a fact
(`Ties`) stay together; where even these are too many, they are cut by conversation and then by the clock, at places
that depend on the traces alone and not on which of them came when.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from evalspan_collector.assemble import BLIND_GAP_NS, CALL_SLACK_NS, CallSpot, Tie, Ties, could_be_one_call

__all__ = ["Bystander", "Union", "split", "time_ties"]

#: How many earlier, still running calls each is compared with: bounds hostile traces.
_LOOK_BACK = 64
#: The widest window of time of a group that had to be cut, about 34 seconds: whoever looks at a trace of a window sees
#: all of it, so everybody cuts at the same places.
_WIDEST_NS = 1 << 35


@dataclass(frozen=True, slots=True)
class Bystander:
    """A remembered trace: where and when it ran, and its ties."""

    trace_id: str
    loose: bool
    start_ns: int
    end_ns: int
    processes: frozenset[str]
    session_ids: frozenset[str]
    ties: Ties

    @property
    def clocked(self) -> bool:
        """True when only the clock may tie it to another trace, whatever that one is."""
        return bool(self.ties.retrievals) or any(c.waits or c.blind or c.answers for c in self.ties.calls)

    @property
    def scopes(self) -> frozenset[str]:
        """The libraries that recorded its calls."""
        return frozenset(call.scope for call in self.ties.calls)

    @property
    def order(self) -> tuple[int, str]:
        """By start; the id settles equal ones."""
        return (self.start_ns, self.trace_id)


_Placed = tuple[CallSpot, Bystander]


class Union:
    """Union-find over trace ids."""

    def __init__(self) -> None:
        self._up: dict[str, str] = {}

    def find(self, one: str) -> str:
        """The id that stands for all that are joined with this one."""
        up = self._up
        at = one
        while (above := up.get(at, at)) != at:
            up[at] = up.get(above, above)
            at = above
        return at

    def join(self, one: str, other: str) -> None:
        """Both are of one group."""
        a, b = sorted((self.find(one), self.find(other)))
        self._up[b] = a


def time_ties(traces: Sequence[Bystander], offered: Iterable[Tie]) -> Iterator[tuple[str, str]]:
    """Pairs of traces that only the clock ties, each with its neighbour in time rather than with all.

    Args:
        traces: In any order.
        offered: Ids that calls asked for: answers to others were renamed, so the clock must tell.
    """
    ordered = sorted(traces, key=lambda t: t.order)
    calls = [(call, trace) for trace in ordered for call in trace.ties.calls]
    calls.sort(key=lambda c: (c[0].start_ns, c[1].trace_id))
    yield from _after_waiting(calls, frozenset(offered))
    if len({call.scope for call, _ in calls}) > 1:
        yield from _told_twice(calls)
    yield from _before_work(ordered)


def _after_waiting(calls: Sequence[_Placed], offered: frozenset[Tie]) -> Iterator[tuple[str, str]]:
    """A call that waits for a tool, and calls soon after it that do not tell what they go on from."""
    waiting: dict[tuple[str, str | None], list[tuple[int, str]]] = defaultdict(list)
    for call, trace in calls:
        if call.waits:
            waiting[call.process, call.model].append((call.end_ns, trace.trace_id))
    for ends in waiting.values():
        ends.sort()
    reached: dict[tuple[str, str | None], int] = defaultdict(int)
    for call, trace in calls:
        if not call.blind and (not call.answers or not call.answers.isdisjoint(offered)):
            continue
        ends = waiting.get((call.process, call.model), [])
        first = bisect_left(ends, (call.start_ns - BLIND_GAP_NS, ""))
        last = bisect_right(ends, (call.start_ns, "\U0010ffff"))
        if first == last:
            continue
        # All that wait are tied to this one, and so to each other: which it goes on from is for `stitch` to say.
        yield ends[last - 1][1], trace.trace_id
        for at in range(max(first, reached[call.process, call.model]), last - 1):
            yield ends[at][1], ends[at + 1][1]
        reached[call.process, call.model] = last - 1


def _told_twice(calls: Sequence[_Placed]) -> Iterator[tuple[str, str]]:
    """Two spans of two libraries that may describe one call."""
    running: list[_Placed] = []
    for call, trace in calls:
        running = [r for r in running if r[0].end_ns + CALL_SLACK_NS >= call.start_ns][-_LOOK_BACK:]
        for other, its in running:
            if its is not trace and (its.loose or trace.loose) and _could_be_one(other, call):
                yield its.trace_id, trace.trace_id
        running.append((call, trace))


def _could_be_one(one: CallSpot, two: CallSpot) -> bool:
    if one.scope == two.scope:
        return False
    if one.facts.response_id and one.facts.response_id == two.facts.response_id:
        return True
    if one.instance != two.instance:
        return False
    inside = one.start_ns - CALL_SLACK_NS <= two.start_ns and two.end_ns <= one.end_ns + CALL_SLACK_NS
    around = two.start_ns - CALL_SLACK_NS <= one.start_ns and one.end_ns <= two.end_ns + CALL_SLACK_NS
    return (inside or around) and could_be_one_call(one.facts, two.facts)


def _before_work(ordered: Sequence[Bystander]) -> Iterator[tuple[str, str]]:
    """A lone retrieval, and the work of its process that begins next."""
    alone = [t for t in ordered if t.ties.retrievals]
    if not alone:
        return
    begins: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for trace in ordered:
        for process in trace.processes if trace.ties.begins else ():
            begins[process].extend((begin, trace.trace_id) for begin in set(trace.ties.begins))
    for known in begins.values():
        known.sort()
    for trace in alone:
        for start_ns, end_ns, process in trace.ties.retrievals:
            known = begins.get(process, [])
            at = bisect_left(known, (start_ns, ""))
            if at < len(known) and known[at][0] <= end_ns + BLIND_GAP_NS:
                yield known[at][1], trace.trace_id


def split(traces: Iterable[Bystander], limit: int) -> Iterator[list[Bystander]]:
    """Traces that are tied, in parts of at most `limit`: by conversation, then by windows of the clock."""
    ordered = sorted(traces, key=lambda t: t.order)
    if len(ordered) <= limit:
        yield ordered
        return
    sessions: dict[str, list[Bystander]] = defaultdict(list)
    for trace in ordered:
        sessions[next(iter(trace.session_ids)) if len(trace.session_ids) == 1 else ""].append(trace)
    for session_id, part in sessions.items():
        if session_id and len(part) <= limit:
            yield part
        else:
            yield from _windows(part, limit, _WIDEST_NS)


def _windows(ordered: list[Bystander], limit: int, width_ns: int) -> Iterator[list[Bystander]]:
    """Windows lie at multiples of their width and are halved while they hold too many: new traces move few edges."""
    if not width_ns:
        yield from (ordered[at : at + limit] for at in range(0, len(ordered), limit))
        return
    cells: dict[int, list[Bystander]] = defaultdict(list)
    for trace in ordered:
        cells[trace.start_ns // width_ns].append(trace)
    for cell in cells.values():
        if len(cell) <= limit:
            yield cell
        else:
            yield from _windows(cell, limit, width_ns // 2)
