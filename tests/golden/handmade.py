"""Handmade: spans for tests of structure, with only what a test says."""

import json
from typing import Any

from evalspan_collector.message import Message, Part
from evalspan_collector.messages import dumps
from evalspan_collector.span import Span, SpanKind, Usage

__all__ = ["MS", "agent", "asks", "llm", "says", "span", "told", "tool", "tool_result"]

MS = 1_000_000
_START = 1_700_000_000_000 * MS


def span(name: str, start_ms: float, end_ms: float, parent: Span | None = None, **fields: Any) -> Span:
    """A span of trace `t1` unless said otherwise; its id is its name and start."""
    given: dict[str, Any] = {
        "trace_id": parent.trace_id if parent is not None else "t1",
        "span_id": f"{name}@{start_ms}",
        "parent_id": parent.span_id if parent is not None else None,
        "span_flags": 0x100,
        "service_instance_id": "process-1",
        "received_ns": _START,
    }
    given |= fields
    return Span(name=name, start_ns=int(_START + start_ms * MS), end_ns=int(_START + end_ms * MS), **given)


def agent(name: str, start_ms: float, end_ms: float, parent: Span | None = None, **fields: Any) -> Span:
    """An agent span."""
    return span(f"invoke_agent {name}", start_ms, end_ms, parent, kind=SpanKind.AGENT, agent_name=name, **fields)


def llm(start_ms: float, end_ms: float, parent: Span | None = None, **fields: Any) -> Span:
    """A model call of 10 tokens in and 2 out."""
    given: dict[str, Any] = {
        "kind": SpanKind.LLM, "model_request": "gpt-4o-mini", "provider": "openai",
        "usage": Usage(input_tokens=10, output_tokens=2), "scope_name": "lib.llm",
    }  # fmt: skip
    return span(fields.pop("name", "chat"), start_ms, end_ms, parent, **(given | fields))


def tool(name: str, start_ms: float, end_ms: float, parent: Span | None = None, **fields: Any) -> Span:
    """A tool span."""
    given: dict[str, Any] = {"kind": SpanKind.TOOL, "tool_name": name}
    return span(f"execute_tool {name}", start_ms, end_ms, parent, **(given | fields))


def told(*messages: Message) -> str:
    """Messages as a span carries them."""
    return dumps(messages)


def says(role: str, text: str) -> Message:
    """A message of text."""
    return Message(role=role, parts=(Part(type="text", content=text),))  # type: ignore[arg-type]  # tests say it right


def asks(*calls: tuple[str | None, str, Any]) -> Message:
    """An answer that asks for tools, each (call id, name, arguments)."""
    parts = tuple(Part(type="tool_call", id=i, name=n, arguments=a) for i, n, a in calls)
    return Message(role="assistant", parts=parts)


def tool_result(call_id: str | None, result: Any, *, is_error: bool | None = None) -> Message:
    """What a tool answered."""
    part = Part(type="tool_call_response", id=call_id, response=json.dumps(result), is_error=is_error)
    return Message(role="tool", parts=(part,))
