"""Decode: OTLP requests, protobuf or JSON, to raw spans and log records, with a reason for each one refused."""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from google.protobuf.message import DecodeError as ProtobufError

from evalspan.errors import DecodeError
from evalspan_collector.attributes import read_message, read_value
from evalspan_collector.layout import layouts
from evalspan_collector.otlp_schema import Event, Link, LogsData, Status, TracesData
from evalspan_collector.raw import RawEvent, RawLink, RawSpan
from evalspan_collector.wire import parts_of, with_valid_strings

__all__ = [
    "Refusals",
    "bad_ids",
    "parse_request",
    "read_log_scopes",
    "read_span_scopes",
]

#: Reason to number of spans or records refused for it.
Refusals = Counter[str]

_NO_TRACE = "0" * 32
_NO_SPAN = "0" * 16
_MAX_NS = 2**63 - 1
#: Requests of more bytes are read in parts.
_LARGE = 2_097_152


def bad_ids(trace_id: bytes, span_id: bytes) -> str | None:
    """Why the ids of a span cannot be used, None when they can."""
    if len(trace_id) != 16:
        return f"trace id of {len(trace_id)} bytes, 16 needed"
    if len(span_id) != 8:
        return f"span id of {len(span_id)} bytes, 8 needed"
    if not any(trace_id):
        return "trace id is all zeros"
    if not any(span_id):
        return "span id is all zeros"
    return None


def parse_request(message_type: Callable[[], Any], body: bytes, name: str) -> tuple[Any, bool]:
    """Parse a protobuf request; strings that are no UTF-8 are repaired.

    Returns:
        The request, and whether strings had to be repaired.

    Raises:
        DecodeError: The bytes are not that message.
    """
    request = message_type()
    try:
        request.ParseFromString(body)
    except (ProtobufError, UnicodeDecodeError, RecursionError) as error:
        repaired = _repaired(message_type, body)
        if repaired is None:
            raise DecodeError(
                f"{len(body)} bytes are no {name}: {error}; send OTLP protobuf, or JSON as application/json"
            ) from error
        return repaired, True
    return request, False


def _repaired(message_type: Callable[[], Any], body: bytes) -> Any:
    """The request with its invalid strings repaired, None when that is not what is wrong."""
    request = message_type()
    try:
        request.ParseFromString(with_valid_strings(body, request.DESCRIPTOR))
    except (ProtobufError, ValueError, RecursionError):
        return None
    return request


#: A scope: resource attributes, scope {name, version}, its items.
SpanScope = tuple[dict[str, Any], dict[str, Any], Iterator[RawSpan]]
LogScope = tuple[dict[str, Any], dict[str, Any], Iterator[tuple[str, str, RawEvent]]]


def read_span_scopes(body: bytes, refusals: Refusals) -> Iterator[SpanScope]:
    """Scopes of an ExportTraceServiceRequest in protobuf, spans read lazily.

    Args:
        body: The request.
        refusals: Gets the reasons of refused spans while the spans are read.

    Raises:
        DecodeError: The bytes are no such request.
    """
    for part in _parts(body):
        request, damaged = parse_request(TracesData, part, "ExportTraceServiceRequest")
        for resource_spans in request.resource_spans:
            resource = layouts.read(resource_spans.resource.attributes[:])[0]
            for scope_spans in resource_spans.scope_spans:
                scope = {"name": scope_spans.scope.name, "version": scope_spans.scope.version}
                spans = _spans(scope_spans.spans, refusals)
                yield resource, scope, _marked(spans) if damaged else spans


def _parts(body: bytes) -> Iterable[bytes]:
    """A large request in parts, any other as it is."""
    if len(body) <= _LARGE:
        return (body,)
    try:
        return parts_of(body, _LARGE)
    except ValueError:  # told by the parser
        return (body,)


def _spans(spans: Any, refusals: Refusals) -> Iterator[RawSpan]:
    read = layouts.read
    trace, parent, trace_id, parent_id = b"", b"", "", ""
    for span in spans:
        # The same objects for neighbours: they take less room and are quickly compared.
        if span.trace_id != trace:
            trace = span.trace_id
            trace_id = trace.hex()
        if span.parent_span_id != parent:
            parent = span.parent_span_id
            parent_id = parent.hex()
        span_id = span.span_id.hex()
        if len(trace_id) != 32 or len(span_id) != 16 or trace_id == _NO_TRACE or span_id == _NO_SPAN:
            refusals[bad_ids(span.trace_id, span.span_id) or "bad id"] += 1
            continue
        attributes, layout, damaged, lost = read(span.attributes[:])
        status = span.status
        code, message = _statuses[status] if status else (0, "")
        events, links = span.events, span.links
        found = RawSpan(
            trace_id,
            span_id,
            "" if parent_id == _NO_SPAN else parent_id,
            sys.intern(span.name),
            span.kind,
            span.flags,
            min(span.start_time_unix_nano, _MAX_NS),
            min(span.end_time_unix_nano, _MAX_NS),
            code,
            message,
            attributes,
            (),
            (),
            span.dropped_attributes_count + lost,
            damaged,
            layout,
        )
        if events or links:
            _add_rare(found, events, links)
        yield found


class _Statuses(dict[bytes, tuple[int, str]]):
    """Serialised statuses to code and message; the same few come with most spans."""

    def __missing__(self, data: bytes) -> tuple[int, str]:
        status, _ = read_message(Status, data)
        found = (0, "") if status is None else (status.code, status.message)
        if len(data) <= 80:
            if len(self) >= 1_024:
                self.clear()
            self[data] = found
        return found


_statuses = _Statuses()


def _add_rare(span: RawSpan, events: Any, links: Any) -> None:
    """Add what few spans have."""
    read_events: list[RawEvent] = []
    for number, data in enumerate(events):
        event, damaged = read_message(Event, data)
        span.damaged |= damaged and event is not None
        if event is None:
            span.dropped += 1
            continue
        attributes, _, damaged, lost = layouts.read(event.attributes[:])
        span.damaged |= damaged
        span.dropped += lost
        read_events.append(RawEvent(event.name, min(event.time_unix_nano, _MAX_NS), attributes, None, number))
    read_links: list[RawLink] = []
    for data in links:
        link, _ = read_message(Link, data)
        if link is not None:
            read_links.append(RawLink(link.trace_id.hex(), link.span_id.hex(), layouts.read(link.attributes[:])[0]))
    span.events, span.links = read_events, read_links


def _marked(spans: Iterator[RawSpan]) -> Iterator[RawSpan]:
    """Spans of a repaired request: those with a replaced byte are marked."""
    for span in spans:
        span.damaged |= "\ufffd" in span.name or any("\ufffd" in str(pair) for pair in span.attributes.items())
        yield span


def read_log_scopes(body: bytes, refusals: Refusals) -> Iterator[LogScope]:
    """Scopes of an ExportLogsServiceRequest in protobuf: (trace id, span id, event) of each record.

    Raises:
        DecodeError: The bytes are no such request.
    """
    del refusals  # records without ids are no error: they belong to no span
    request, _ = parse_request(LogsData, body, "ExportLogsServiceRequest")
    for resource_logs in request.resource_logs:
        resource = layouts.read(resource_logs.resource.attributes[:])[0]
        for scope_logs in resource_logs.scope_logs:
            scope = {"name": scope_logs.scope.name, "version": scope_logs.scope.version}
            yield resource, scope, _records(scope_logs.log_records)


def _records(records: Any) -> Iterator[tuple[str, str, RawEvent]]:
    for record in records:
        attributes = layouts.read(record.attributes[:])[0]
        time_ns = min(record.time_unix_nano or record.observed_time_unix_nano, _MAX_NS)
        name = record.event_name or str(attributes.get("event.name") or "")
        body = read_value(record.body) if record.body else None
        yield record.trace_id.hex(), record.span_id.hex(), RawEvent(name, time_ns, attributes, body)
