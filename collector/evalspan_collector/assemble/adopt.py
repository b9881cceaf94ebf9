"""Adopt: subtrees that a library hung beside the span they belong to, put where they belong."""

from bisect import bisect_left, bisect_right
from collections import defaultdict

from evalspan_collector.assemble.names import agent_name
from evalspan_collector.assemble.node import Node
from evalspan_collector.assemble.tree import Trace
from evalspan_collector.span import Span, SpanKind

__all__ = ["adopt"]

_ACTIVE = frozenset({SpanKind.LLM, SpanKind.TOOL, SpanKind.AGENT, SpanKind.WORKFLOW})
_SLACK_NS = 2_000_000
#: How many neighbours in time are looked at: bounds hostile traces.
_LOOK = 64


def adopt(trace: Trace) -> None:
    """Repair the places of subtrees in `trace` (changes parents, never spans).

    Three libraries' habits: an agent span that ends up a leaf while what it did is its sibling
    (MLflow's `AgentRunner.run`, LangChain under OpenLLMetry); a sub-agent that is a sibling of the agent
    whose tool called it (OpenAI Agents under OpenLLMetry); spans whose parent never came.
    """
    active = _active_counts(trace)
    for siblings in _families(trace):
        if len(siblings) > 1:
            _agents_take_siblings(siblings, active)
            _tools_take_agents(siblings)
    _place_orphans(trace)


def _active_counts(trace: Trace) -> dict[Node, int]:
    """How many active nodes lie in each subtree, itself included."""
    counts: dict[Node, int] = {}
    for node in reversed(trace.ordered()):
        counts[node] = int(node.kind in _ACTIVE) + sum(counts[c] for c in node.children)
    return counts


def _families(trace: Trace) -> list[list[Node]]:
    return [list(node.children) for node in trace.ordered()]


def _agents_take_siblings(siblings: list[Node], active: dict[Node, int]) -> None:
    leaves = {n for n in siblings if n.kind is SpanKind.AGENT and not n.setup and active[n] == 1}
    if not leaves:
        return
    busy = [n for n in siblings if n not in leaves and active[n]]
    for agent in sorted(leaves, key=lambda n: n.key):
        begin = bisect_left(busy, agent.start - _SLACK_NS, key=lambda n: n.start)
        inside = [n for n in busy[begin : begin + _LOOK] if _later_inside(agent, n)]
        mine = [n for n in inside if n.parent is agent.parent and _belongs(agent, n)]
        for node in mine:
            agent.adopt(node)
            active[agent] += active[node]


def _later_inside(agent: Node, other: Node) -> bool:
    return agent.start <= other.start + _SLACK_NS and other.end <= agent.end + _SLACK_NS


def _belongs(agent: Node, other: Node) -> bool:
    """True when `other` can be what `agent` did: same library, not plainly another agent's doing."""
    if agent.span.scope_name != other.span.scope_name:
        return False
    names = {agent.span.agent_name or agent_name(agent.span.name), other.span.agent_name}
    return other.kind is not SpanKind.AGENT or None in names or len(names) == 1 or agent.span.agent_name is None


def _tools_take_agents(siblings: list[Node]) -> None:
    """A sub-agent beside the agent whose leaf tool span encloses it in time is that tool's doing."""
    agents = [n for n in siblings if n.kind is SpanKind.AGENT and not n.setup]
    if len(agents) < 2:
        return
    tools = sorted((t for a in agents for t in _leaf_tools(a)), key=lambda n: n.key)
    for sub in agents:
        until = bisect_right(tools, sub.start + _SLACK_NS, key=lambda n: n.start)
        near = [t for t in tools[max(0, until - _LOOK) : until] if t.parent is not sub and t.contains(sub, _SLACK_NS)]
        if len(near) == 1 and not near[0].is_below(sub):
            near[0].adopt(sub)


def _leaf_tools(agent: Node) -> list[Node]:
    return [n for n in agent.children if n.kind is SpanKind.TOOL and not n.children]


def _place_orphans(trace: Trace) -> None:
    """Give spans whose parent never came a place: under the root that was running, or under a stand-in."""
    orphans = [n for n in trace.roots if n.missing_parent]
    if not orphans:
        return
    whole = [n for n in trace.roots if not n.missing_parent]
    many = len(whole) > _LOOK or len(orphans) > 16 * _LOOK
    left: dict[str, list[Node]] = defaultdict(list)
    for orphan in orphans:
        holders = [r for r in whole[:_LOOK] if r.contains(orphan, 1_000_000_000)]
        if len(holders) == 1 and not orphan.setup:
            (holders[0] if many else _host(holders[0], orphan)).adopt(orphan)
            continue
        left[orphan.span.parent_id or ""].append(orphan)
    remaining = [n for nodes in left.values() for n in nodes]
    if len(remaining) > 1 or (remaining and remaining[0].kind not in {SpanKind.AGENT, SpanKind.WORKFLOW}):
        whole.append(_stand_in(trace, remaining))
        remaining = []
    trace.roots = sorted([*whole, *remaining], key=lambda n: n.key)


def _host(root: Node, orphan: Node) -> Node:
    """The deepest agent below `root` that was running while the orphan ran."""
    best = root
    stack = [root]
    while stack:
        node = stack.pop()
        if not node.contains(orphan, _SLACK_NS):
            continue
        if node.kind in {SpanKind.AGENT, SpanKind.WORKFLOW} and node.order >= best.order:
            best = node
        stack.extend(node.children)
    return best


def _stand_in(trace: Trace, orphans: list[Node]) -> Node:
    """A node for the parent that never came; its id is the one the earliest orphan names."""
    first = min(orphans, key=lambda n: n.key)
    span = Span(
        trace_id=trace.trace_id,
        span_id=first.span.parent_id or first.span.span_id,
        name="",
        project=trace.project,
        start_ns=first.start,
        end_ns=max(n.end for n in orphans),
        received_ns=first.span.received_ns,
        service_name=first.span.service_name,
        service_instance_id=first.span.service_instance_id,
        environment=first.span.environment,
    )
    node = Node(span, virtual=True)
    node.flags |= {"incomplete"}
    for orphan in sorted(orphans, key=lambda n: n.key):
        orphan.parent = node
        node.children.append(orphan)
    return node
