"""Decode JSON: OTLP requests in JSON to raw spans and log records; ids are hex, integers may be text."""

import binascii
from collections.abc import Callable, Iterator
from typing import Any

from evalspan.errors import DecodeError
from evalspan_collector.attributes import UNREADABLE
from evalspan_collector.decode import LogScope, Refusals, SpanScope, bad_ids
from evalspan_collector.lenient_json import is_list, is_object, parse
from evalspan_collector.nesting import MAX_CUT_CHARS, shallow
from evalspan_collector.raw import RawEvent, RawLink, RawSpan

__all__ = ["log_scopes_of", "parse_body", "read_json_log_scopes", "read_json_span_scopes", "span_scopes_of"]

_MAX_NS = 2**63 - 1
_NO_SPAN = "0" * 16
#: Levels of attribute values, each of which takes three of JSON, and levels of JSON above all of them.
_MAX_NESTING = 100
_MAX_LEVELS = 3 * _MAX_NESTING + 20
_KINDS = {
    f"SPAN_KIND_{name}": i
    for i, name in enumerate(("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER"))
}
_STATUSES = {"STATUS_CODE_UNSET": 0, "STATUS_CODE_OK": 1, "STATUS_CODE_ERROR": 2}


def _get(node: Any, camel: str, snake: str = "") -> Any:
    """A field by its JSON name, or by the name protobuf gives it."""
    if not is_object(node):
        return None
    found = node.get(camel)
    return node.get(snake) if found is None and snake else found


def _list(node: Any, camel: str, snake: str = "") -> list[Any]:
    found = _get(node, camel, snake)
    return found if is_list(found) else []


def _text(value: Any) -> str:
    """Text without lone surrogates, which no store takes."""
    if not isinstance(value, str):
        return "" if value is None else str(value)
    return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")


def _int(value: Any) -> int:
    if isinstance(value, bool):
        return 0
    if isinstance(value, str):
        value = value.strip()
        try:
            return int(value)
        except ValueError:
            return 0
    return int(value) if isinstance(value, int) or (isinstance(value, float) and abs(value) < 2**70) else 0


def _time(value: Any) -> int:
    return min(max(_int(value), 0), _MAX_NS)


def _enum(value: Any, names: dict[str, int]) -> int:
    return names.get(value, _int(value)) if isinstance(value, str) else _int(value)


def _id(value: Any) -> bytes:
    """An id from hex of any case; base64 of the right length, which some exporters send, is taken too."""
    if not isinstance(value, str) or not value:
        return b""
    try:
        return bytes.fromhex(value)
    except ValueError:
        pass
    try:
        return binascii.a2b_base64(value, strict_mode=True)
    except (binascii.Error, ValueError):
        return b""


class _Values:
    """Reads values of attributes and counts those that are nested too deep."""

    __slots__ = ("lost",)

    def __init__(self) -> None:
        self.lost = 0

    def attributes(self, node: Any) -> dict[str, Any]:
        """Attributes as a dict; a plain JSON object, which some tools write, is taken as it is."""
        listed = _get(node, "attributes")
        if is_object(listed):
            return {_text(k): v for k, v in listed.items()}
        return {_text(_get(kv, "key")): self.value(_get(kv, "value")) for kv in listed or () if is_object(kv)}

    def value(self, node: Any, depth: int = 0) -> Any:
        """The Python value of a JSON AnyValue."""
        if node == UNREADABLE or (is_object(node) and depth > _MAX_NESTING):
            self.lost += 1
            return UNREADABLE
        if not is_object(node):
            return node
        for key, value in node.items():
            reader = _VALUES.get(key)
            if reader is not None:
                return reader(self, value, depth)
        return None

    def array(self, value: Any, depth: int) -> list[Any]:
        """The Python values of an ArrayValue."""
        return [self.value(v, depth + 1) for v in _list(value, "values")]

    def kvlist(self, value: Any, depth: int) -> dict[str, Any]:
        """The Python values of a KeyValueList by key."""
        return {_text(_get(kv, "key")): self.value(_get(kv, "value"), depth + 1) for kv in _list(value, "values")}


def _double(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _bytes(value: Any) -> str:
    try:
        return binascii.a2b_base64(value).hex() if isinstance(value, str) else ""
    except (binascii.Error, ValueError):
        return _text(value)


def _bool(value: Any) -> bool:
    return value is True or value == "true"


def _scalar(read: Callable[[Any], Any]) -> "_Reader":
    return lambda _, value, __: read(value)


_Reader = Callable[[_Values, Any, int], Any]
_NAMES: dict[str, _Reader] = {
    "string": _scalar(_text),
    "int": _scalar(_int),
    "bool": _scalar(_bool),
    "double": _scalar(_double),
    "array": _Values.array,
    "kvlist": _Values.kvlist,
    "bytes": _scalar(_bytes),
}
#: By the names of JSON and of protobuf.
_VALUES = {f"{name}{end}": read for name, read in _NAMES.items() for end in ("Value", "_value")}


def parse_body(body: bytes, what: str) -> Any:
    """The JSON object of a request.

    Raises:
        DecodeError: The body is no JSON object.
    """
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = body.decode("utf-8", "replace")
    found = parse(text)
    if not is_object(found) and text.lstrip()[:1] == "{" and len(text) <= MAX_CUT_CHARS:
        found = parse(shallow(text, _MAX_LEVELS, f'"{UNREADABLE}"'))
    if not is_object(found):
        raise DecodeError(f"{len(body)} bytes are no JSON object (starts {text[:40]!r}): send {what} as OTLP JSON")
    return found


def read_json_span_scopes(body: bytes, refusals: Refusals) -> Iterator[SpanScope]:
    """Scopes of an ExportTraceServiceRequest in JSON.

    Raises:
        DecodeError: The body is no JSON object.
    """
    yield from span_scopes_of(parse_body(body, "ExportTraceServiceRequest"), refusals)


def read_json_log_scopes(body: bytes, refusals: Refusals) -> Iterator[LogScope]:
    """Scopes of an ExportLogsServiceRequest in JSON.

    Raises:
        DecodeError: The body is no JSON object.
    """
    del refusals  # records without ids are no error: they belong to no span
    yield from log_scopes_of(parse_body(body, "ExportLogsServiceRequest"))


def _scope_of(node: Any) -> dict[str, Any]:
    scope = _get(node, "scope")
    if scope is None:
        scope = _get(node, "instrumentationLibrary", "instrumentation_library")
    return {"name": _text(_get(scope, "name")), "version": _text(_get(scope, "version"))}


def span_scopes_of(request: Any, refusals: Refusals) -> Iterator[SpanScope]:
    """Scopes of a parsed JSON request; `batches`, Tempo's older word for the resources, is read too."""
    resources = _list(request, "resourceSpans", "resource_spans") or _list(request, "batches")
    for resource_spans in resources:
        resource = _Values().attributes(_get(resource_spans, "resource"))
        scopes = _list(resource_spans, "scopeSpans", "scope_spans") or _list(
            resource_spans, "instrumentationLibrarySpans"
        )
        for scope_spans in scopes:
            yield resource, _scope_of(scope_spans), _spans(_list(scope_spans, "spans"), refusals)


def _spans(spans: list[Any], refusals: Refusals) -> Iterator[RawSpan]:
    for span in spans:
        if not is_object(span):
            refusals["span is no JSON object"] += 1
            continue
        trace_id, span_id = _id(_get(span, "traceId", "trace_id")), _id(_get(span, "spanId", "span_id"))
        reason = bad_ids(trace_id, span_id)
        if reason:
            refusals[reason] += 1
            continue
        yield _span(span, trace_id.hex(), span_id.hex())


def _span(span: dict[str, Any], trace_id: str, span_id: str) -> RawSpan:
    parent = _id(_get(span, "parentSpanId", "parent_span_id")).hex()
    status = _get(span, "status")
    values = _Values()
    found = RawSpan(
        trace_id,
        span_id,
        "" if parent == _NO_SPAN else parent,
        _text(_get(span, "name")),
        _enum(_get(span, "kind"), _KINDS),
        _int(_get(span, "flags")),
        _time(_get(span, "startTimeUnixNano", "start_time_unix_nano")),
        _time(_get(span, "endTimeUnixNano", "end_time_unix_nano")),
        _enum(_get(status, "code"), _STATUSES),
        _text(_get(status, "message")),
        values.attributes(span),
        [_event(e, i, values) for i, e in enumerate(_list(span, "events"))],
        [_link(li, values) for li in _list(span, "links")],
        _int(_get(span, "droppedAttributesCount", "dropped_attributes_count")),
    )
    found.dropped += values.lost
    return found


def _event(event: Any, sequence: int, values: _Values) -> RawEvent:
    return RawEvent(
        _text(_get(event, "name")),
        _time(_get(event, "timeUnixNano", "time_unix_nano")),
        values.attributes(event),
        None,
        sequence,
    )


def _link(link: Any, values: _Values) -> RawLink:
    return RawLink(
        _id(_get(link, "traceId", "trace_id")).hex(),
        _id(_get(link, "spanId", "span_id")).hex(),
        values.attributes(link),
    )


def log_scopes_of(request: Any) -> Iterator[LogScope]:
    """Scopes of a parsed JSON request with log records."""
    for resource_logs in _list(request, "resourceLogs", "resource_logs"):
        resource = _Values().attributes(_get(resource_logs, "resource"))
        scopes = _list(resource_logs, "scopeLogs", "scope_logs") or _list(resource_logs, "instrumentationLibraryLogs")
        for scope_logs in scopes:
            yield resource, _scope_of(scope_logs), _records(_list(scope_logs, "logRecords", "log_records"))


def _records(records: list[Any]) -> Iterator[tuple[str, str, RawEvent]]:
    for record in records:
        if not is_object(record):
            continue
        values = _Values()
        attributes = values.attributes(record)
        name = _text(_get(record, "eventName", "event_name")) or _text(attributes.get("event.name"))
        time_ns = _time(_get(record, "timeUnixNano", "time_unix_nano")) or _time(
            _get(record, "observedTimeUnixNano", "observed_time_unix_nano")
        )
        ids = _id(_get(record, "traceId", "trace_id")).hex(), _id(_get(record, "spanId", "span_id")).hex()
        yield *ids, RawEvent(name, time_ns, attributes, values.value(_get(record, "body")))
