"""Infer: what spans without a kind stand for, from what the models asked for."""

import re
from collections.abc import Iterable

from evalspan_collector.assemble.calls import Call
from evalspan_collector.assemble.names import tool_name
from evalspan_collector.assemble.node import Node, ancestors, is_transport
from evalspan_collector.assemble.reading import Reader
from evalspan_collector.assemble.tree import Trace
from evalspan_collector.span import SpanKind

__all__ = ["infer_kinds"]

_TOOL_FINISH = re.compile(r"tool|function_call", re.IGNORECASE)
_UNSAID = frozenset({SpanKind.UNKNOWN, SpanKind.CHAIN})


def infer_kinds(trace: Trace, calls: Iterable[Call], reader: Reader) -> None:
    """Refine kinds in `trace`: decorators of general tracers (Logfire, OpenLIT) name functions and say no more.

    A span named like a tool that a model of the trace asked for is that tool; a span below such a tool that
    asks models itself is a sub-agent.
    """
    asked = {p.name for c in calls for m in reader.output_of(c) for p in m.tool_calls if p.name}
    unsaid = [n for n in trace.nodes.values() if n.kind in _UNSAID and not n.hidden]
    found = [n for n in unsaid if tool_name(n.span.name) in asked]
    if not asked and not any(n.kind is SpanKind.TOOL for n in trace.nodes.values()):
        found = [n for n in unsaid if _between_calls(n)]
    for node in found:
        node.kind = SpanKind.TOOL
    if found:
        seen: set[Node] = set()
        for node in trace.nodes.values():
            if node.kind is SpanKind.LLM and not node.hidden:
                _mark_agent_above(node, seen)


def _between_calls(node: Node) -> bool:
    """True for a function that ran right after a model call, beside it, had stopped to use a tool."""
    if node.parent is None or node.kind is not SpanKind.UNKNOWN or is_transport(node):
        return False
    before = [c for c in node.parent.children if c.kind is SpanKind.LLM and c.end <= node.start]
    return bool(before) and any(_TOOL_FINISH.search(r) for r in before[-1].span.finish_reasons)


def _mark_agent_above(call: Node, seen: set[Node]) -> None:
    """The outermost unsaid span between a model call and the tool around it is a sub-agent."""
    best: Node | None = None
    for node in ancestors(call):
        if node in seen:
            return
        seen.add(node)
        if node.kind is SpanKind.TOOL:
            if best is not None:
                best.kind = SpanKind.AGENT
            return
        if node.kind not in _UNSAID and node.kind is not SpanKind.LLM:
            return
        if node.kind in _UNSAID and not is_transport(node):
            best = node
