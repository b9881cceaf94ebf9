"""Join: log records to the spans they belong to, whichever came first."""

import hashlib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from evalspan_collector.converters import finish_list, integer, text
from evalspan_collector.derived import FROM_MESSAGES
from evalspan_collector.events import KNOWN_EVENTS, event_facts
from evalspan_collector.lenient_json import parse
from evalspan_collector.raw import RawEvent
from evalspan_collector.span import LogRecord, Span, SpanKind, Usage

__all__ = ["join_logs"]

_CONTENT = ("input_messages", "output_messages", "system_prompt", "tool_arguments", "tool_result", "documents")
_DETAILS = "gen_ai.client.inference.operation.details"
_COUNTS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")


def join_logs(spans: Iterable[Span], logs: Iterable[LogRecord]) -> list[Span]:
    """Fill fields that a span lacks from the log records with its trace and span id.

    Pure and independent of order: records are sorted by time, then by their place in the request. What the
    span itself says wins; joining twice changes nothing. Where one span has the records of several model calls
    (each with usage of its own), each becomes a model-call span below it.
    """
    spans = _without_retold_calls(list(spans))
    by_span: defaultdict[tuple[str, str], list[LogRecord]] = defaultdict(list)
    for log in logs:
        if log.event_name in KNOWN_EVENTS:
            by_span[log.trace_id, log.span_id].append(log)
    if not by_span:
        return spans
    callers = {(s.trace_id, s.parent_id) for s in spans if s.kind is SpanKind.LLM}
    joined: list[Span] = []
    for span in spans:
        records = by_span.get((span.trace_id, span.span_id))
        own_calls = (span.trace_id, span.span_id) in callers
        joined.extend([span] if records is None else _joined(span, records, has_calls=own_calls))
    return joined


def _without_retold_calls(spans: list[Span]) -> list[Span]:
    """Leave out calls derived from an agent's messages where the agent has model-call spans of its own."""
    derived = {(s.trace_id, s.parent_id) for s in spans if FROM_MESSAGES in s.flags}
    if not derived:
        return spans
    parents = {(s.trace_id, s.span_id): s.parent_id for s in spans}
    told: set[tuple[str, str | None]] = set()
    for span in spans:
        if span.kind is not SpanKind.LLM or FROM_MESSAGES in span.flags:
            continue
        at, seen = span.parent_id, set[str]()
        while at is not None and at not in seen:
            seen.add(at)
            told.add((span.trace_id, at))
            at = parents.get((span.trace_id, at))
    return [s for s in spans if FROM_MESSAGES not in s.flags or (s.trace_id, s.parent_id) not in told]


def _joined(span: Span, logs: list[LogRecord], *, has_calls: bool) -> list[Span]:
    events = _events(logs)
    if span.kind is SpanKind.LLM or has_calls:
        return [_filled(span, events)]
    calls = [e for e in events if _is_call(e)]
    if not calls or (len(calls) == 1 and span.kind is not SpanKind.AGENT):
        return [_filled(span, events)]
    return [_filled(span, [e for e in events if e not in calls]), *(_call(span, e, n) for n, e in enumerate(calls))]


def _is_call(event: RawEvent) -> bool:
    """True for the record of one model call with its usage."""
    held = event.attributes
    if event.name != _DETAILS or str(held.get("gen_ai.operation.name", "")).startswith("invoke_"):
        return False
    return integer(held.get("gen_ai.usage.input_tokens")) is not None


def _filled(span: Span, events: list[RawEvent]) -> Span:
    """The span with what its events add."""
    facts = event_facts(events, span.kind, span.start_ns)
    missing: dict[str, Any] = {}
    counts = [facts.pop(name, None) for name in (*_COUNTS, "total_tokens")][:5]
    if any(c is not None for c in counts):
        held = [getattr(span.usage, name) for name in _COUNTS]
        usage = Usage(*(c if h is None else h for h, c in zip(held, counts, strict=True)))
        if usage != span.usage:
            missing["usage"] = usage
    for field, value in facts.items():
        held_value = getattr(span, field)
        if held_value is None or held_value == ():
            missing[field] = value
    if not missing:
        return span
    if span.content != "truncated" and any(f in missing for f in _CONTENT):
        missing["content"] = "captured"
    if span.sources:
        missing["sources"] = {**span.sources, **dict.fromkeys((f for f in missing if f != "content"), "log record")}
    return replace(span, **missing)


def _call(span: Span, event: RawEvent, number: int) -> Span:
    """A model call that only a log record tells of, as a span below the agent that made it."""
    held = event.attributes
    span_id = hashlib.sha256(f"{span.trace_id}{span.span_id}{event.time_ns}{number}".encode()).hexdigest()[:16]
    counts = [
        integer(held.get(f"gen_ai.usage.{name}"))
        for name in ("input_tokens", "output_tokens", "cache_read.input_tokens")
    ]
    write = integer(
        held.get("gen_ai.usage.cache_write.input_tokens", held.get("gen_ai.usage.cache_creation.input_tokens"))
    )
    reasoning = integer(held.get("gen_ai.usage.reasoning.output_tokens"))
    facts = event_facts([event], SpanKind.LLM, 0)
    return Span(
        trace_id=span.trace_id,
        span_id=span_id,
        parent_id=span.span_id,
        name=f"chat {text(held.get('gen_ai.request.model')) or span.model_request or ''}".strip(),
        start_ns=event.time_ns,
        end_ns=event.time_ns,
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
        operation=text(held.get("gen_ai.operation.name")) or "chat",
        agent_name=text(held.get("gen_ai.agent.name")) or span.agent_name,
        model_request=text(held.get("gen_ai.request.model")) or span.model_request,
        model_response=text(held.get("gen_ai.response.model")),
        provider=span.provider,
        response_id=text(held.get("gen_ai.response.id")),
        finish_reasons=finish_list(held.get("gen_ai.response.finish_reasons")) or (),
        usage=Usage(counts[0], counts[1], counts[2], write, reasoning),
        session_id=text(held.get("gen_ai.conversation.id")) or span.session_id,
        user_id=span.user_id,
        content="captured" if any(f in facts for f in _CONTENT) else "not_captured",
        flags=("from_log",),
        **{f: v for f, v in facts.items() if f in _CONTENT or f == "tool_definitions"},
    )


def _events(logs: list[LogRecord]) -> list[RawEvent]:
    """Each distinct record once, in an order that does not depend on arrival."""
    seen: set[tuple[str, int, str | None, str]] = set()
    events: list[RawEvent] = []
    ordered = sorted(logs, key=lambda g: (g.time_ns, g.received_ns, g.sequence, g.event_name, g.body or ""))
    for log in ordered:
        key = (log.event_name, log.time_ns, log.body, repr(sorted(log.attributes.items())))
        if key in seen:
            continue
        seen.add(key)
        body = None if log.body is None else parse(log.body)
        events.append(RawEvent(log.event_name, log.time_ns, dict(log.attributes), body, len(events)))
    return events
