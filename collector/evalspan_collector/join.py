"""Join: log records to the spans they belong to, whichever came first."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from evalspan_collector.events import KNOWN_EVENTS, event_facts
from evalspan_collector.lenient_json import parse
from evalspan_collector.raw import RawEvent
from evalspan_collector.span import LogRecord, Span

__all__ = ["join_logs"]

_CONTENT = ("input_messages", "output_messages", "system_prompt", "tool_arguments", "tool_result", "documents")


def join_logs(spans: Iterable[Span], logs: Iterable[LogRecord]) -> list[Span]:
    """Fill fields that a span lacks from the log records with its trace and span id.

    Pure and independent of order: records are sorted by time, then by their place in the request. What the
    span itself says wins; joining twice changes nothing.
    """
    by_span: defaultdict[tuple[str, str], list[LogRecord]] = defaultdict(list)
    for log in logs:
        if log.event_name in KNOWN_EVENTS:
            by_span[log.trace_id, log.span_id].append(log)
    if not by_span:
        return list(spans)
    return [_joined(s, by_span[s.trace_id, s.span_id]) if (s.trace_id, s.span_id) in by_span else s for s in spans]


def _joined(span: Span, logs: list[LogRecord]) -> Span:
    facts = event_facts(_events(logs), span.kind, span.start_ns)
    missing: dict[str, Any] = {}
    for field, value in facts.items():
        held = getattr(span, field)
        if held is None or held == ():
            missing[field] = value
    if not missing:
        return span
    if span.content != "truncated" and any(f in missing for f in _CONTENT):
        missing["content"] = "captured"
    if span.sources:
        missing["sources"] = {**span.sources, **dict.fromkeys((f for f in missing if f != "content"), "log record")}
    return replace(span, **missing)


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
