"""Status: whether a run failed, even where its root's status hides it."""

from evalspan_collector.assemble.calls import Call
from evalspan_collector.assemble.content import Content
from evalspan_collector.assemble.execution import Findings
from evalspan_collector.assemble.node import Node
from evalspan_collector.span import Span, SpanKind

__all__ = ["error_of", "error_text"]

#: No model answers over a network in less: an agent that ended sooner without a call never asked one.
_TOO_SHORT_NS = 20_000_000
_STRUCTURE = frozenset({SpanKind.AGENT, SpanKind.WORKFLOW, SpanKind.CHAIN, SpanKind.GUARDRAIL, SpanKind.UNKNOWN})


def error_text(span: Span) -> str:
    """What a failed span says about it, in one line."""
    for event in span.events:
        if event.name == "exception" and event.attributes.get("exception.message"):
            kind = event.attributes.get("exception.type", "")
            return f"{kind}: {event.attributes['exception.message']}" if kind else event.attributes["exception.message"]
    return span.error_message or span.status_message or span.error_type or "error"


def error_of(found: Findings, content: Content) -> tuple[str, str] | None:
    """The error of a run and the rule that found it, None when the run went well.

    In order: the root says so; the root never came; the last thing the run did failed; an agent or a turn
    failed and nothing was answered after it; the run ended while the model waited for a tool.
    """
    draft, root = found.draft, found.draft.root.span
    if root.is_error and draft.root.kind is not SpanKind.TOOL:
        return error_text(root), "root"
    last = found.last_call
    if last is not None and last.failed and not _worked_above(last):
        return error_text(last.lead.span), "last model call"
    failed = _failed_structure(found.nodes, found.calls)
    if failed is not None:
        return error_text(failed.span), "agent or turn"
    if draft.root.virtual:
        return "the run's root span never came: it did not end as it should", "missing root"
    if not draft.anchored:
        return None
    return _unfinished(found, content)


def _worked_above(call: Call) -> bool:
    """True when a wrapper of the failed call succeeded all the same: it tried again or had a fallback."""
    above = call.lead.above_call
    while above is not None:
        if not above.span.is_error:
            return True
        above = above.above_call
    return False


def _failed_structure(nodes: list[Node], calls: list[Call]) -> Node | None:
    """The last failed agent, turn or guardrail that no successful model call followed."""
    answered = max((c.lead.end for c in calls if not c.failed), default=0)
    failed = [n for n in nodes if n.kind in _STRUCTURE and n.span.is_error and not n.hidden and not _is_tools_own(n)]
    late = [n for n in failed if n.end >= answered and n.kind is not SpanKind.UNKNOWN]
    return max(late, key=lambda n: (n.end, n.key)) if late else None


def _is_tools_own(node: Node) -> bool:
    """Inside of a tool, or a chain that only ran a failed tool: the tool's failure, which the agent may survive."""
    if node.above_tool is not None:
        return True
    failed = [c for c in node.children if c.span.is_error]
    return node.kind is SpanKind.CHAIN and bool(failed) and all(c.kind is SpanKind.TOOL for c in failed)


def _unfinished(found: Findings, content: Content) -> tuple[str, str] | None:
    root, last = found.draft.root, found.last_call
    if last is None:
        silent = not found.executions and content.output is None and not root.span.usage.known
        agentic = root.kind in (SpanKind.AGENT, SpanKind.WORKFLOW)
        if silent and agentic and root.end - root.start < _TOO_SHORT_NS:
            return "the agent ended without asking a model", "ended at once"
        return None
    waiting = found.waiting
    nothing_ran = not any(e.request is not None and e.request.call is last for e in found.executions)
    if waiting and nothing_ran and content.sources.get("output") in (None, "last model call"):
        names = ", ".join(p.name or "?" for p in waiting)
        return f"the run ended while the model waited for {names}", "ended while waiting"
    return None
