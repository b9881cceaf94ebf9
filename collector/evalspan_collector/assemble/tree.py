"""Tree: the spans of each trace, linked to their parents, whatever order or shape they came in."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from evalspan_collector.assemble.node import Node, preorder
from evalspan_collector.span import Span, SpanKind

__all__ = ["Trace", "build_traces", "distinct"]

#: A clock of another host may be this far off before we say so.
SKEW_NS = 1_000_000_000
#: Bits of the OTLP span flags: whether "the parent is remote" is known, and whether it is.
REMOTE_KNOWN, REMOTE = 0x100, 0x200


class Trace:
    """The tree (or trees) of one trace.

    Attributes:
        roots: Nodes without a received parent, in order of start.
        nodes: All nodes by span id.
        flags: What was found while building: `cycle`, `duplicate_span_id`.
    """

    __slots__ = ("flags", "nodes", "project", "roots", "trace_id")

    def __init__(self, trace_id: str, project: str, nodes: dict[str, Node]) -> None:
        self.trace_id = trace_id
        self.project = project
        self.nodes = nodes
        self.roots: list[Node] = []
        self.flags: set[str] = set()

    def ordered(self) -> list[Node]:
        """All nodes, parents first, siblings by start."""
        return [n for root in self.roots for n in preorder(root)]


def distinct(spans: Iterable[Span]) -> tuple[dict[tuple[str, str], dict[str, Span]], set[tuple[str, str]]]:
    """Group spans by (project, trace), each span id once.

    Returns:
        Spans by (project, trace id) and span id, and the (project, trace id) pairs in which one span
        id stood for different spans.
    """
    traces: dict[tuple[str, str], dict[str, Span]] = defaultdict(dict)
    conflicts: set[tuple[str, str]] = set()
    for span in spans:
        place = (span.project, span.trace_id)
        known = traces[place].get(span.span_id)
        if known is None:
            traces[place][span.span_id] = span
            continue
        kept, conflicting = _better(known, span)
        traces[place][span.span_id] = kept
        if conflicting:
            conflicts.add(place)
    return traces, conflicts


def _better(one: Span, other: Span) -> tuple[Span, bool]:
    """The span to keep of two with the same id (the same whichever came first), and whether they differ."""
    first = min(one.received_ns, other.received_ns)
    same = replace(one, received_ns=first) == replace(other, received_ns=first)
    if same:
        return (one if one.received_ns == first else other), False
    # A pending or partial copy of a span (Logfire's pending spans, a retried export) loses to the finished one.
    return max(one, other, key=_completeness), True


def _completeness(span: Span) -> tuple[bool, int, int, int, str]:
    said = sum(getattr(span, name) not in (None, "", ()) for name in _SAID)
    return (span.end_ns > span.start_ns, said + len(span.attributes), span.end_ns, -span.start_ns, repr(span))


_SAID = tuple(name for name in Span.__slots__ if name not in {"attributes", "events", "links", "received_ns"})


def build_traces(spans: Iterable[Span]) -> list[Trace]:
    """Build the tree of every trace; iterative, linear but for sorting siblings."""
    grouped, conflicts = distinct(spans)
    traces: list[Trace] = []
    for place in sorted(grouped):
        project, trace_id = place
        trace = Trace(trace_id, project, {i: Node(s) for i, s in grouped.pop(place).items() if not _is_noise(s)})
        if place in conflicts:
            trace.flags.add("duplicate_span_id")
        _link(trace)
        _number(trace)
        traces.append(trace)
    return traces


def _is_noise(span: Span) -> bool:
    """Spans that announce or merge other spans: Logfire's pending copies, ADK's merged tool responses."""
    if "placeholder" in span.flags or "duplicate" in span.flags:
        return True
    if span.attributes.get("logfire.span_type") == "pending_span":
        return True
    return span.tool_name == "(merged tools)" or span.name == "execute_tool (merged tools)"


def _link(trace: Trace) -> None:
    nodes = trace.nodes
    for node in nodes.values():
        parent_id = node.span.parent_id
        if not parent_id:
            continue
        parent = nodes.get(parent_id)
        if parent is None or parent is node:
            _mark_parentless(node, is_self=parent is node, trace=trace)
            continue
        node.parent = parent
    _break_cycles(trace)
    for node in nodes.values():
        if node.parent is not None:
            node.parent.children.append(node)
    for node in nodes.values():
        if len(node.children) > 1:
            node.children.sort(key=lambda n: n.key)
    trace.roots = sorted((n for n in nodes.values() if n.parent is None), key=lambda n: n.key)


def _mark_parentless(node: Node, *, is_self: bool, trace: Trace) -> None:
    if is_self:
        trace.flags.add("cycle")
        return
    remote = node.span.span_flags & REMOTE_KNOWN and node.span.span_flags & REMOTE
    node.missing_parent = not remote
    if not remote:
        node.flags |= {"orphans"}


def _break_cycles(trace: Trace) -> None:
    """Cut each ring of parents at its earliest span; every node is walked once."""
    state: dict[Node, int] = {}
    for start in trace.nodes.values():
        path: list[Node] = []
        at: Node | None = start
        while at is not None and at not in state:
            state[at] = 1
            path.append(at)
            at = at.parent
        if at is not None and state[at] == 1:
            ring = path[path.index(at) :]
            min(ring, key=lambda n: n.key).parent = None
            trace.flags.add("cycle")
        for node in path:
            state[node] = 2


def _number(trace: Trace) -> None:
    """Give each node its preorder number and its start for ordering; flag skewed clocks."""
    ordered = trace.ordered()
    for number, node in enumerate(ordered):
        node.order = node.last = number
        parent = node.parent
        if parent is None:
            continue
        node.effective_start = max(node.start, parent.effective_start)
        other_host = node.span.service_instance_id != parent.span.service_instance_id
        outside = node.start < parent.start - SKEW_NS or (
            node.end > parent.end + SKEW_NS and parent.span.otel_kind not in (4, 5)
        )
        if other_host and outside:
            node.flags |= {"clock_skew"}
    for node in reversed(ordered):
        if node.parent is not None:
            node.parent.last = max(node.parent.last, node.last)
        _refine(node)


def _refine(node: Node) -> None:
    """What no single span field says: spans that only prepare, and calls that only count."""
    name = node.span.name
    if node.span.operation == "create_agent" or name.startswith("create_agent"):
        node.setup = node.hidden = True
        node.kind = SpanKind.UNKNOWN
    elif name.endswith("count_tokens") and node.kind is SpanKind.LLM:
        node.hidden = True
        node.kind = SpanKind.UNKNOWN
