"""Derived spans: model calls that a framework tells only inside the messages of its agent's span."""

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from evalspan_collector.lenient_json import is_list, is_object, unwrap
from evalspan_collector.messages import dumps, from_value
from evalspan_collector.python_repr import read_repr
from evalspan_collector.span import Span, SpanKind, Usage
from evalspan_collector.usage_objects import usage_of

__all__ = ["FROM_MESSAGES", "calls_in_messages", "with_derived"]

#: Flag of a model call that only an agent's messages tell.
FROM_MESSAGES = "from_messages"
_HAYSTACK = "openinference.instrumentation.haystack"


def with_derived(spans: list[Span], scope: str) -> list[Span]:
    """The spans of a scope, each agent followed by the model calls that only its messages tell."""
    if scope != _HAYSTACK:
        return spans
    return [found for span in spans for found in calls_in_messages(span)]


def calls_in_messages(span: Span) -> Iterator[Span]:
    """A span, and if it is haystack's Agent, one model call for each answer that is new in its output.

    The calls get ids made from the agent's, so that reading the span again gives the same ones.
    """
    held = unwrap(span.output_value)
    listed = held.get("messages") if is_object(held) else None
    if not span.name.startswith("Agent.") or not is_list(listed):
        yield span
        return
    asked = unwrap(span.input_value)
    earlier = asked.get("messages") if is_object(asked) else None
    known = {str(m) for m in earlier} if is_list(earlier) else set[str]()
    yield replace(span, kind=SpanKind.AGENT, operation="invoke_agent")
    for place, message in enumerate(listed):
        found = read_repr(message) if isinstance(message, str) else message
        if not is_object(found) or found.get("_role", found.get("role")) != "assistant" or str(message) in known:
            continue
        yield _call(span, found, listed[:place], place)


def _call(span: Span, answer: dict[str, Any], before: list[Any], place: int) -> Span:
    meta = answer.get("_meta", answer.get("meta"))
    meta = meta if is_object(meta) else {}
    stated = meta.get("usage")
    counts = usage_of(stated) if is_object(stated) else {}
    model = meta.get("model")
    reason = meta.get("finish_reason")
    at = min(span.start_ns + place + 1, span.end_ns)
    return Span(
        trace_id=span.trace_id,
        span_id=hashlib.sha256(f"{span.trace_id}{span.span_id}{place}".encode()).hexdigest()[:16],
        parent_id=span.span_id,
        name=f"chat {model}" if isinstance(model, str) else "chat",
        start_ns=at,
        end_ns=at,
        project=span.project,
        received_ns=span.received_ns,
        scope_name=span.scope_name,
        scope_version=span.scope_version,
        service_name=span.service_name,
        service_version=span.service_version,
        service_instance_id=span.service_instance_id,
        environment=span.environment,
        dialect=span.dialect,
        kind=SpanKind.LLM,
        operation="chat",
        agent_name=span.agent_name,
        model_response=model if isinstance(model, str) else None,
        finish_reasons=(reason,) if isinstance(reason, str) else (),
        usage=Usage(
            counts.get("input_tokens"),
            counts.get("output_tokens"),
            counts.get("cache_read_tokens"),
            counts.get("cache_write_tokens"),
            counts.get("reasoning_tokens"),
        ),
        content="captured",
        input_messages=dumps(from_value(before, "user")) if before else None,
        output_messages=dumps(from_value([answer], "assistant")),
        session_id=span.session_id,
        user_id=span.user_id,
        flags=(FROM_MESSAGES,),
    )
