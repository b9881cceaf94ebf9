"""Assemble: the spans of one or several traces to runs; pure, and the same for any order of arrival."""

from collections import defaultdict
from collections.abc import Iterable

from evalspan_collector.assemble.adopt import adopt
from evalspan_collector.assemble.build import build_run, run_id_of
from evalspan_collector.assemble.calls import CALL_SLACK_NS, Call, could_be_one_call, find_calls
from evalspan_collector.assemble.infer import infer_kinds
from evalspan_collector.assemble.neighbours import NEAR_NS, NeighbourQuery, is_loose, neighbour_query
from evalspan_collector.assemble.node import Node, preorder, settle
from evalspan_collector.assemble.queue import queue_calls, queue_spans
from evalspan_collector.assemble.reading import Reader
from evalspan_collector.assemble.roots import Draft, find_drafts
from evalspan_collector.assemble.stitch import BLIND_GAP_NS, CALL_GAP_NS, stitch
from evalspan_collector.assemble.ties import CallSpot, Tie, Ties, ties_of
from evalspan_collector.assemble.tree import build_traces
from evalspan_collector.join import join_logs
from evalspan_collector.prices import Prices
from evalspan_collector.run import Run
from evalspan_collector.span import LogRecord, Span

__all__ = [
    "BLIND_GAP_NS",
    "CALL_GAP_NS",
    "CALL_SLACK_NS",
    "NEAR_NS",
    "CallSpot",
    "NeighbourQuery",
    "Tie",
    "Ties",
    "assemble",
    "could_be_one_call",
    "is_loose",
    "neighbour_query",
    "run_id_of",
    "ties_of",
]


def assemble(spans: Iterable[Span], logs: Iterable[LogRecord] = (), *, prices: Prices | None = None) -> tuple[Run, ...]:
    """Rebuild the runs that spans tell of.

    Args:
        spans: Spans of one or several traces, in any order, duplicates allowed. Traces that belong
            together (`neighbour_query`) must be handed in together to be stitched.
        logs: Log records with content of these spans.
        prices: Computes the cost of calls whose spans carry none.

    Returns:
        The runs in order of start; the same for every permutation and duplication of the input. `revision`
        and `state` are the defaults: `evalspan_collector.completion` sets them.
    """
    spans = join_logs(spans, logs)
    traces = build_traces(spans)
    loose = frozenset(t.trace_id for t in traces if is_loose([n.span for n in t.nodes.values()]))
    for trace in traces:
        settle(trace.roots)
    calls = find_calls(traces, loose)
    reader = Reader()
    by_trace: dict[str, list[Call]] = defaultdict(list)
    for call in calls:
        by_trace[call.lead.span.trace_id].append(call)
    drafts: list[Draft] = []
    outside: list[Node] = []
    for trace in traces:
        infer_kinds(trace, by_trace[trace.trace_id], reader)
        adopt(trace)
        settle(trace.roots)
        found = find_drafts(trace)
        drafts.extend(found)
        if not found:
            outside.extend(trace.roots)
    drafts = stitch(drafts, _by_root(drafts, calls), outside, reader)
    by_root = _by_root(drafts, calls)
    about = _about(drafts, spans)
    _hear_queues(drafts, spans, by_root, about)
    runs = [build_run(d, by_root.get(d.root, []), about.get(d.root, []), reader, prices) for d in drafts]
    return tuple(sorted(runs, key=lambda r: (r.started_ns, r.trace_id, r.run_id)))


def _hear_queues(
    drafts: list[Draft], spans: list[Span], by_root: dict[Node, list[Call]], about: dict[Node, list[Span]]
) -> None:
    """Add what the messages of agent queues tell to runs that have no model calls of their own."""
    teams = queue_spans(spans)
    if not teams:
        return
    since = 0
    for draft in drafts:
        if not by_root.get(draft.root):
            calls, told = queue_calls(draft, teams, since)
            by_root[draft.root] = calls
            about.setdefault(draft.root, []).extend(told)
        since = max(since, *(r.end for r in draft.roots))


def _by_root(drafts: list[Draft], calls: list[Call]) -> dict[Node, list[Call]]:
    """The calls of each draft, by its root, in order of start."""
    root_of: dict[Node, Node] = {}
    for draft in drafts:
        for root in draft.roots:
            for node in preorder(root):
                root_of[node] = draft.root
    found: dict[Node, list[Call]] = defaultdict(list)
    for call in calls:
        if call.lead in root_of:
            found[root_of[call.lead]].append(call)
    return found


def _about(drafts: list[Draft], spans: list[Span]) -> dict[Node, list[Span]]:
    """Spans outside of the runs that evaluate one of their spans, pointed at by exactly one link."""
    carriers = [s for s in spans if s.evaluations and len(s.links) == 1]
    if not carriers:
        return {}
    wanted = {(s.links[0].trace_id, s.links[0].span_id) for s in carriers}
    place: dict[tuple[str, str], Node] = {}
    inside: set[tuple[str, str]] = set()
    for draft in drafts:
        for node in draft.nodes():
            key = (node.span.trace_id, node.span.span_id)
            inside.add(key)
            if key in wanted:
                place[key] = draft.root
    found: dict[Node, list[Span]] = defaultdict(list)
    for span in sorted(carriers, key=lambda s: (s.start_ns, s.span_id)):
        target = place.get((span.links[0].trace_id, span.links[0].span_id))
        if target is not None and (span.trace_id, span.span_id) not in inside:
            found[target].append(span)
    return found
