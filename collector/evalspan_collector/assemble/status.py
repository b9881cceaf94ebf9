"""Status: whether a run failed, even where its root's status hides it."""

from evalspan_collector.assemble.calls import Call
from evalspan_collector.assemble.content import Content
from evalspan_collector.assemble.node import Node
from evalspan_collector.assemble.reading import Reader
from evalspan_collector.assemble.roots import Draft
from evalspan_collector.assemble.tools import Execution
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


def error_of(
    draft: Draft, nodes: list[Node], calls: list[Call], executions: list[Execution], content: Content, reader: Reader
) -> tuple[str, str] | None:
    """The error of a run and the rule that found it, None when the run went well.

    In order: the root says so; the root never came; the last thing the run did failed; an agent or a turn
    failed and nothing was answered after it; the run ended while the model waited for a tool.
    """
    root = draft.root.span
    if root.is_error and draft.root.kind is not SpanKind.TOOL:
        return error_text(root), "root"
    last = _last_call(calls)
    if last is not None and last.failed and not _worked_after(last, nodes, calls):
        return error_text(last.lead.span), "last model call"
    failed = _failed_structure(nodes, calls)
    if failed is not None:
        return error_text(failed.span), "agent or turn"
    if draft.root.virtual:
        return "the run's root span never came: it did not end as it should", "missing root"
    if not draft.anchored:
        return None
    return _unfinished(draft, last, calls, executions, content, reader)


def _last_call(calls: list[Call]) -> Call | None:
    return max(calls, key=lambda c: (c.lead.end, c.lead.key)) if calls else None


def _worked_after(call: Call, nodes: list[Node], calls: list[Call]) -> bool:
    """True when a wrapper of the failed call succeeded, or the agent answered without the model (a fallback)."""
    at = call.lead.parent
    while at is not None:
        if at.kind is SpanKind.LLM and not at.span.is_error:
            return True
        at = at.parent
    return False


def _failed_structure(nodes: list[Node], calls: list[Call]) -> Node | None:
    """The last failed agent, turn or guardrail that no successful model call followed."""
    answered = max((c.lead.end for c in calls if not c.failed), default=0)
    failed = [n for n in nodes if n.kind in _STRUCTURE and n.span.is_error and not n.hidden and not _is_tools_own(n)]
    late = [n for n in failed if n.end >= answered and n.kind is not SpanKind.UNKNOWN]
    return max(late, key=lambda n: (n.end, n.key)) if late else None


def _is_tools_own(node: Node) -> bool:
    """Inside of a tool, or a chain that only ran a failed tool: the tool's failure, which the agent may survive."""
    at: Node | None = node.parent
    while at is not None:
        if at.kind is SpanKind.TOOL:
            return True
        at = at.parent
    failed = [c for c in node.children if c.span.is_error]
    return node.kind is SpanKind.CHAIN and bool(failed) and all(c.kind is SpanKind.TOOL for c in failed)


def _unfinished(
    draft: Draft, last: Call | None, calls: list[Call], executions: list[Execution], content: Content, reader: Reader
) -> tuple[str, str] | None:
    root = draft.root
    if last is None:
        idle = (
            not executions and content.output is None and root.kind is SpanKind.AGENT or root.kind is SpanKind.WORKFLOW
        )
        nothing = idle and not executions and content.output is None and not root.span.usage.known
        if nothing and root.end - root.start < _TOO_SHORT_NS:
            return "the agent ended without asking a model", "ended at once"
        return None
    asked = [p for m in reader.output_of(last) for p in m.tool_calls if not p.server_side]
    claimed = {id(e.request.part) for e in executions if e.request is not None}
    open_calls = [p for p in asked if id(p) not in claimed]
    if open_calls and len(open_calls) == len(asked) and content.sources.get("output") in (None, "last model call"):
        names = ", ".join(p.name or "?" for p in open_calls)
        return f"the run ended while the model waited for {names}", "ended while waiting"
    return None
