"""Decode: OTLP requests, protobuf or JSON, to raw spans and log records, with a reason for each one refused."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from google.protobuf.message import DecodeError as ProtobufError

from evalspan.errors import DecodeError
from evalspan_collector.attributes import read_message, read_value, text_of
from evalspan_collector.layout import layouts
from evalspan_collector.otlp_schema import Event, Link, LogsData, Status, TracesData
from evalspan_collector.raw import RawEvent, RawLink, RawSpan
from evalspan_collector.shared import shared
from evalspan_collector.wire import parts_of

__all__ = [
    "Refusals",
    "bad_ids",
    "parse_request",
    "read_log_scopes",
    "read_parts",
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


def parse_request(message_type: Any, body: bytes, name: str) -> Any:
    """A protobuf request; strings that are no UTF-8 are repaired.

    Raises:
        DecodeError: The bytes are not that message.
    """
    found, _ = read_message(message_type, body, None)
    if found is None:
        raise _no_request(body, name, "it cannot be parsed")
    return found


def read_parts(message_type: Any, body: bytes, name: str) -> Iterator[Any]:
    """A protobuf request as messages that hold the same spans or records in order: one, or many when it is large.

    Args:
        message_type: `TracesData` or `LogsData`, which hold texts as bytes.
        body: The request.
        name: What it should be.

    Raises:
        DecodeError: The bytes are not that message, or almost all of them are no spans; maybe not before its last part.
    """
    try:
        for part in parts_of(body, _LARGE) if len(body) > _LARGE else (body,):
            yield message_type.FromString(part)
    except (ProtobufError, ValueError, RecursionError) as error:
        raise _no_request(body, name, error) from error


def _no_request(body: bytes, name: str, why: object) -> DecodeError:
    return DecodeError(f"{len(body)} bytes are no {name}: {why}; send OTLP protobuf, or JSON as application/json")


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
    for request in read_parts(TracesData, body, "ExportTraceServiceRequest"):
        for resource_spans in request.resource_spans:
            resource = layouts.read(resource_spans.resource.attributes[:])[0]
            for scope_spans in resource_spans.scope_spans:
                yield resource, _scope(scope_spans.scope), _spans(scope_spans.spans, refusals)


def _scope(scope: Any) -> dict[str, Any]:
    return {"name": text_of(scope.name)[0], "version": text_of(scope.version)[0]}


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
        name, repaired = _names[span.name]
        status = span.status
        code, message = _statuses[status] if status else (0, "")
        events, links = span.events, span.links
        found = RawSpan(
            trace_id,
            span_id,
            "" if parent_id == _NO_SPAN else parent_id,
            name,
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
            damaged or repaired,
            layout,
        )
        if events or links:
            _add_rare(found, events, links)
        yield found


class _Names(dict[bytes, tuple[str, bool]]):
    """Names of spans as text, and whether that had to be repaired; the same few come with most spans."""

    def __missing__(self, data: bytes) -> tuple[str, bool]:
        text, repaired = text_of(data)
        found = shared(text), repaired
        if len(data) <= 80:
            if len(self) >= 4_096:
                self.clear()
            self[data] = found
        return found


_names = _Names()


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


def read_log_scopes(body: bytes, refusals: Refusals) -> Iterator[LogScope]:
    """Scopes of an ExportLogsServiceRequest in protobuf: (trace id, span id, event) of each record.

    Raises:
        DecodeError: The bytes are no such request.
    """
    del refusals  # records without ids are no error: they belong to no span
    for request in read_parts(LogsData, body, "ExportLogsServiceRequest"):
        for resource_logs in request.resource_logs:
            resource = layouts.read(resource_logs.resource.attributes[:])[0]
            for scope_logs in resource_logs.scope_logs:
                yield resource, _scope(scope_logs.scope), _records(scope_logs.log_records)


def _records(records: Any) -> Iterator[tuple[str, str, RawEvent]]:
    for record in records:
        attributes = layouts.read(record.attributes[:])[0]
        time_ns = min(record.time_unix_nano or record.observed_time_unix_nano, _MAX_NS)
        name = text_of(record.event_name)[0] or str(attributes.get("event.name") or "")
        body = read_value(record.body) if record.body else None
        yield record.trace_id.hex(), record.span_id.hex(), RawEvent(name, time_ns, attributes, body)
