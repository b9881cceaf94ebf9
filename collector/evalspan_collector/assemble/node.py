"""Node: one span in its place in the tree of its trace."""

from bisect import insort
from collections.abc import Iterable, Iterator

from evalspan_collector.span import Span, SpanKind

__all__ = ["RANK", "Node", "ancestors", "is_transport", "preorder", "settle"]

#: Kinds that hold what others do.
RANK = frozenset({SpanKind.AGENT, SpanKind.WORKFLOW})

#: Attributes of spans that carry a call (HTTP, RPC, queues) or ask a database.
_TRANSPORT_KEYS = ("http.", "url.", "rpc.", "messaging.", "server.", "client.", "network.", "net.", "db.")


class Node:
    """A span with its parent and children; the only mutable thing of assembly.

    Attributes:
        start: Start by the span's own clock, nanoseconds.
        end: End by the span's own clock, never before the start.
        key: Order among siblings: start, the longer first, then ids, so that it is total.
        kind: What the node stands for in the run; starts as the span's kind, structure may refine it.
        effective_start: Start for ordering: never before the parent's, so that a skewed clock of
            another process cannot put a child before what caused it.
        virtual: No such span was received; the node stands for the parent that several orphans name.
        missing_parent: The span names a parent that was not received and is not known to be elsewhere.
        hidden: The node is bookkeeping of a library (`create_agent`, a duplicate) and no step.
        setup: The node prepares an agent and runs nothing.
        order: Number in preorder; the subtree is the numbers up to and including `last`.
        flags: What assembly had to repair here.
        above_rank: Nearest agent or workflow above; this one and the next two are set by `settle`.
        above_tool: Nearest tool above.
        above_call: Nearest model call above with no agent, workflow or tool in between.
    """

    __slots__ = (
        "above_call",
        "above_rank",
        "above_tool",
        "children",
        "effective_start",
        "end",
        "flags",
        "hidden",
        "key",
        "kind",
        "last",
        "missing_parent",
        "order",
        "parent",
        "setup",
        "span",
        "start",
        "virtual",
    )

    def __init__(self, span: Span, *, virtual: bool = False) -> None:
        start, end = span.start_ns, span.end_ns
        self.span = span
        self.start = start
        self.end = max(end, start)
        self.key = (start, -end, span.trace_id, span.span_id)
        self.kind = span.kind
        self.parent: Node | None = None
        self.children: list[Node] = []
        self.effective_start = start
        self.virtual = virtual
        self.missing_parent = False
        self.hidden = False
        self.setup = False
        self.order = self.last = 0
        self.flags: frozenset[str] = frozenset()
        self.above_rank: Node | None = None
        self.above_tool: Node | None = None
        self.above_call: Node | None = None

    def is_kind(self, *kinds: SpanKind) -> bool:
        """True when the node stands for one of these kinds."""
        return self.kind in kinds

    def is_below(self, other: "Node") -> bool:
        """True when `other` is this node or one of its ancestors in the tree as received."""
        return self.span.trace_id == other.span.trace_id and other.order <= self.order <= other.last

    def adopt(self, child: "Node") -> None:
        """Move `child` (with its subtree) below this node."""
        if child.parent is not None:
            child.parent.children.remove(child)
        child.parent = self
        insort(self.children, child, key=lambda n: n.key)

    def contains(self, other: "Node", slack_ns: int = 5_000_000) -> bool:
        """True when the interval of `other` lies inside this one's, up to `slack_ns` at both ends."""
        return self.start - slack_ns <= other.start and other.end <= self.end + slack_ns


def preorder(root: Node) -> list[Node]:
    """Every node below and including `root`, parents first, without recursion."""
    found: list[Node] = []
    stack = [root]
    while stack:
        node = stack.pop()
        found.append(node)
        if node.children:
            stack.extend(reversed(node.children))
    return found


def ancestors(node: Node) -> Iterator[Node]:
    """The parents of `node`, nearest first."""
    at = node.parent
    while at is not None:
        yield at
        at = at.parent


def is_transport(node: Node) -> bool:
    """HTTP, RPC, queue and database spans carry a call; they are not what an agent did."""
    span = node.span
    if node.kind is not SpanKind.UNKNOWN or node.virtual:
        return False
    return span.otel_kind in (2, 3, 4, 5) and any(k.startswith(_TRANSPORT_KEYS) for k in span.attributes)


def settle(roots: Iterable[Node]) -> None:
    """Tell every node below `roots` what is above it, in one pass; to be done again when kinds or places changed."""
    for root in roots:
        for node in preorder(root):
            parent = node.parent
            if parent is None:
                node.above_rank = node.above_tool = node.above_call = None
                continue
            holds = parent.kind in RANK and not parent.hidden
            node.above_rank = parent if holds else parent.above_rank
            node.above_tool = parent if parent.kind is SpanKind.TOOL else parent.above_tool
            node.above_call = _call_above(parent)


def _call_above(parent: Node) -> Node | None:
    if parent.kind in RANK or parent.kind in (SpanKind.TOOL, SpanKind.MCP):
        return None
    return parent if parent.kind is SpanKind.LLM and not parent.hidden else parent.above_call
