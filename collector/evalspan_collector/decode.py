"""Decode: OTLP requests, protobuf or JSON, to raw spans and log records, with a reason for each one refused."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from google.protobuf.message import DecodeError as ProtobufError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from evalspan.errors import DecodeError
from evalspan_collector.attributes import attribute_map, plain, read_pairs
from evalspan_collector.raw import RawEvent, RawLink, RawSpan
from evalspan_collector.span_schema import TracesData
from evalspan_collector.wire import with_valid_strings

__all__ = [
    "Refusals",
    "attribute_map",
    "bad_ids",
    "count_refused",
    "parse_request",
    "plain",
    "read_log_scopes",
    "read_span_scopes",
]

#: Reason to number of spans or records refused for it.
Refusals = Counter[str]

_NO_TRACE = "0" * 32
_NO_SPAN = "0" * 16
_MAX_NS = 2**63 - 1


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


def count_refused(body: bytes, refusals: Refusals) -> None:
    """Count the spans of a protobuf request that will be refused, reading nothing but their ids.

    Raises:
        DecodeError: The bytes are no ExportTraceServiceRequest.
    """
    request, _ = parse_request(ExportTraceServiceRequest, body, "ExportTraceServiceRequest")
    for resource_spans in request.resource_spans:
        for scope_spans in resource_spans.scope_spans:
            for span in scope_spans.spans:
                reason = bad_ids(span.trace_id, span.span_id)
                if reason is not None:
                    refusals[reason] += 1


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
    request, damaged = parse_request(TracesData, body, "ExportTraceServiceRequest")
    for resource_spans in request.resource_spans:
        resource = attribute_map(resource_spans.resource.attributes)
        for scope_spans in resource_spans.scope_spans:
            scope = {"name": scope_spans.scope.name, "version": scope_spans.scope.version}
            spans = _spans(scope_spans.spans, refusals)
            yield resource, scope, _marked(spans) if damaged else spans


def _spans(spans: Any, refusals: Refusals) -> Iterator[RawSpan]:
    for span in spans:
        trace_id, span_id = span.trace_id, span.span_id
        trace_hex, span_hex = trace_id.hex(), span_id.hex()
        if len(trace_hex) != 32 or len(span_hex) != 16 or trace_hex == _NO_TRACE or span_hex == _NO_SPAN:
            refusals[bad_ids(trace_id, span_id) or "bad id"] += 1
            continue
        parent = span.parent_span_id.hex()
        try:
            attributes, damaged = read_pairs(span.attributes)
        except ProtobufError as error:
            raise DecodeError(f"an attribute of span {span_hex!r} is no KeyValue: {error}; send OTLP") from error
        code, message = 0, ""
        if span.HasField("status"):
            status = span.status
            code, message = status.code, status.message
        start = span.start_time_unix_nano
        end = span.end_time_unix_nano
        events, links = span.events, span.links
        yield RawSpan(
            trace_hex,
            span_hex,
            "" if parent == _NO_SPAN else parent,
            span.name,
            span.kind,
            span.flags,
            min(start, _MAX_NS),
            min(end, _MAX_NS),
            code,
            message,
            attributes,
            _events(events) if events else [],
            [RawLink(li.trace_id.hex(), li.span_id.hex(), attribute_map(li.attributes)) for li in links]
            if links
            else [],
            span.dropped_attributes_count,
            damaged,
        )


def _events(events: Any) -> list[RawEvent]:
    return [
        RawEvent(e.name, min(e.time_unix_nano, _MAX_NS), attribute_map(e.attributes), None, i)
        for i, e in enumerate(events)
    ]


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
    request, _ = parse_request(ExportLogsServiceRequest, body, "ExportLogsServiceRequest")
    for resource_logs in request.resource_logs:
        resource = attribute_map(resource_logs.resource.attributes)
        for scope_logs in resource_logs.scope_logs:
            scope = {"name": scope_logs.scope.name, "version": scope_logs.scope.version}
            yield resource, scope, _records(scope_logs.log_records)


def _records(records: Any) -> Iterator[tuple[str, str, RawEvent]]:
    for record in records:
        attributes = attribute_map(record.attributes)
        time_ns = min(record.time_unix_nano or record.observed_time_unix_nano, _MAX_NS)
        name = record.event_name or str(attributes.get("event.name") or "")
        yield record.trace_id.hex(), record.span_id.hex(), RawEvent(name, time_ns, attributes, plain(record.body))
