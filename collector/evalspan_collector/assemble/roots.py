"""Roots: which subtrees of a trace are runs."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from evalspan_collector.assemble.node import Node, ancestors, is_transport, preorder
from evalspan_collector.assemble.tree import Trace
from evalspan_collector.span import SpanKind

__all__ = ["Draft", "find_drafts"]

_AGENTIC = frozenset({SpanKind.AGENT, SpanKind.WORKFLOW})
#: Kinds that make a trace without an agent a run.
_WORK = frozenset({SpanKind.LLM, SpanKind.TOOL})
#: Kinds that may be the top of what an agent library did.
_TOPS = _AGENTIC | {SpanKind.CHAIN}
_NEUTRAL = frozenset({SpanKind.UNKNOWN, SpanKind.CHAIN, SpanKind.MCP})
_LIBRARY_SCOPES = ("openinference.instrumentation.", "opentelemetry.instrumentation.", "langsmith", "mlflow.")


@dataclass(eq=False, slots=True)
class Draft:
    """The nodes of one run before it is written down.

    Attributes:
        roots: The root of the run; more than one when it was stitched from several traces, the first first.
        anchored: An agent, a workflow or a library's own top span stands for the run; otherwise the
            root was inferred from what it holds.
        bare: Nothing but model calls: a part of a run, or a run of one call.
        complete: The root was received.
        confidence: How sure the stitching is, None for one trace.
    """

    roots: list[Node]
    anchored: bool = True
    bare: bool = False
    complete: bool = True
    confidence: float | None = None
    flags: set[str] = field(default_factory=set[str])

    @property
    def root(self) -> Node:
        """The node whose id names the run."""
        return self.roots[0]

    def nodes(self) -> Iterator[Node]:
        """Every node of the run, parents first."""
        for root in self.roots:
            yield from preorder(root)


def find_drafts(trace: Trace) -> list[Draft]:
    """The runs of one trace, in order of start; none when nothing in it is an agent's or a model's work."""
    work = _work_counts(trace.roots)
    drafts: list[Draft] = []
    for root in trace.roots:
        drafts.extend(_drafts_below(root, work))
    for draft in drafts:
        draft.flags |= trace.flags
    return drafts


def _work_counts(roots: Iterable[Node]) -> dict[Node, int]:
    """How many nodes of work lie in each subtree, itself included."""
    counts: dict[Node, int] = {}
    for node in reversed([n for r in roots for n in preorder(r)]):
        own = node.kind in _WORK and not node.hidden and not _is_served_tool(node)
        counts[node] = int(own or _is_candidate(node)) + sum(counts[c] for c in node.children)
    return counts


def _is_served_tool(node: Node) -> bool:
    """The serving end of an MCP call whose caller is elsewhere."""
    return node.span.otel_kind == 2 and node.kind in {SpanKind.TOOL, SpanKind.MCP}


def _is_candidate(node: Node) -> bool:
    return node.kind in _AGENTIC and not node.setup and not node.hidden


def _drafts_below(root: Node, work: dict[Node, int]) -> list[Draft]:
    if not work.get(root):
        return []
    if root.virtual:
        return [Draft([root], anchored=False, complete=False, flags={"incomplete"})]
    tops = [t for t in _top_candidates(root) if _did_something(t, work)]
    if not tops:
        return [_inferred(root, work)] if _counts_without_candidates(root) else []
    if all(t.above_tool is not None for t in tops):
        return [_inferred(root, work)]  # only sub-agents have a span: whoever called their tools is the agent
    library_top = _library_top(root, tops, work)
    if library_top is not None:
        tops = [library_top]
    tops = [part for top in tops for part in _without_grouping(top)]
    drafts = [Draft([top], complete=not top.virtual and not top.missing_parent) for top in tops]
    for draft in drafts:
        if not draft.complete:
            draft.flags.add("incomplete")
    return drafts


def _top_candidates(root: Node) -> list[Node]:
    """Agent and workflow nodes with no such node above them."""
    found: list[Node] = []
    stack = [root]
    while stack:
        node = stack.pop()
        if _is_candidate(node):
            found.append(node)
        else:
            stack.extend(reversed(node.children))
    return sorted(found, key=lambda n: n.key)


def _did_something(node: Node, work: dict[Node, int]) -> bool:
    """An agent always did; a workflow (`workflow.build`) only when something is in it or on it."""
    span = node.span
    if node.kind is SpanKind.AGENT or work[node] > 1 or span.is_error:
        return True
    said = (span.run_input, span.run_output, span.input_messages, span.output_messages, span.output_value)
    return any(said) or span.usage.known


def _counts_without_candidates(root: Node) -> bool:
    return any(n.kind in _WORK and not n.hidden and not _is_served_tool(n) for n in preorder(root))


def _library_top(root: Node, tops: list[Node], work: dict[Node, int]) -> Node | None:
    """The chain above all candidates that their own library opened: it is the run (LangGraph, CrewAI)."""
    first = tops[0]
    best: Node | None = None
    for node in ancestors(first):
        same_library = node.span.scope_name == first.span.scope_name
        if node.kind is SpanKind.CHAIN and same_library and node.span.scope_name.startswith(_LIBRARY_SCOPES):
            best = node
    if best is None:
        return None
    inside = sum(1 for t in tops if t.is_below(best))
    return best if inside == len(tops) and work[best] == work[root] else None


def _without_grouping(top: Node) -> list[Node]:
    """The invocations below a span that only groups them, else the span itself.

    The OpenAI Agents SDK opens one workflow span per `trace()` block; a block may hold several
    `Runner.run` calls, each a run of its own. A hand-off inside one call is no second run.
    """
    if not _is_trace_block(top):
        return [top]
    parts = [c for c in top.children if c.kind in _TOPS and any(n.kind is SpanKind.AGENT for n in preorder(c))]
    invocations = _invocations(parts)
    return [part[0] for part in invocations] if len(invocations) > 1 else [top]


def _is_trace_block(node: Node) -> bool:
    scope = node.span.scope_name.replace("-", "_")
    if "openai_agents" in scope:
        return node.parent is None or node.parent.span.scope_name != node.span.scope_name
    return scope.startswith("mlflow.") and sum(c.span.name == "AgentRunner.run" for c in node.children) > 1


def _invocations(parts: list[Node]) -> list[list[Node]]:
    """Group sibling agents into invocations: an agent that took over by hand-off continues the one before."""
    groups: list[list[Node]] = []
    for part in parts:
        if groups and _took_over(groups[-1][-1], part):
            groups[-1].append(part)
        else:
            groups.append([part])
    return groups


def _took_over(before: Node, after: Node) -> bool:
    if before.kind is not SpanKind.AGENT or after.kind is not SpanKind.AGENT:
        return False
    if after.start < before.end - 1_000_000:
        return True
    # The runner starts the next agent of a hand-off at once; a second call goes through the user's own code.
    return _hands_off(before) or after.start - before.end < 2_000_000


def _hands_off(agent: Node) -> bool:
    return any("handoff" in n.span.name.lower() or n.span.handoff_to for n in preorder(agent))


def _inferred(root: Node, work: dict[Node, int]) -> Draft:
    """A run without an agent span: the outermost span around all its work that is not mere transport."""
    lowest = root
    while work[lowest] and lowest.kind not in _WORK:
        inside = [c for c in lowest.children if work[c]]
        if len(inside) != 1 or lowest.kind not in _NEUTRAL:
            break
        lowest = inside[0]
    top = lowest
    for node in ancestors(lowest):
        if is_transport(node):
            break
        top = node
    complete = not top.virtual and not top.missing_parent
    return Draft(
        [top],
        anchored=top.kind not in _WORK and not top.virtual,
        bare=top.kind is SpanKind.LLM,
        complete=complete,
        flags=set() if complete else {"incomplete"},
    )
