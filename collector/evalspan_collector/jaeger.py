"""Jaeger: its JSON export to the OTLP JSON it came from."""

from typing import Any

from evalspan_collector.lenient_json import is_list, is_object

__all__ = ["is_jaeger", "jaeger_to_otlp"]

_KINDS = {"internal": 1, "server": 2, "client": 3, "producer": 4, "consumer": 5}
_STATUSES = {"OK": 1, "ERROR": 2}
#: Tags that Jaeger makes of fields of the span; they become the fields again.
_FIELD_TAGS = frozenset(
    {
        "span.kind",
        "otel.status_code",
        "otel.status_description",
        "otel.scope.name",
        "otel.scope.version",
        "otel.library.name",
        "otel.library.version",
        "internal.span.format",
        "w3c.tracestate",
    }
)


def is_jaeger(value: Any) -> bool:
    """True for a Jaeger trace, or the answer of its query interface."""
    if not is_object(value):
        return False
    if is_list(value.get("spans")) and ("processes" in value or "traceID" in value):
        return True
    data = value.get("data")
    return is_list(data) and bool(data) and all(is_jaeger(d) for d in data)


def jaeger_to_otlp(value: dict[str, Any]) -> dict[str, Any]:
    """An ExportTraceServiceRequest in JSON with the spans of a Jaeger export."""
    traces = value["data"] if is_list(value.get("data")) else [value]
    resources: list[dict[str, Any]] = []
    for trace in traces:
        processes = trace.get("processes")
        processes = processes if is_object(processes) else {}
        for span in trace.get("spans") or ():
            if is_object(span):
                process: Any = span.get("process") or processes.get(str(span.get("processID")))
                resources.append(_resource_span(span, process if is_object(process) else {}))
    return {"resourceSpans": resources}


def _resource_span(span: dict[str, Any], process: dict[str, Any]) -> dict[str, Any]:
    tags = _tags(span.get("tags"))
    resource = [_attribute("service.name", process.get("serviceName", "")), *_attributes(_tags(process.get("tags")))]
    scope = {
        "name": tags.get("otel.scope.name", tags.get("otel.library.name", "")),
        "version": tags.get("otel.scope.version", tags.get("otel.library.version", "")),
    }
    return {"resource": {"attributes": resource}, "scopeSpans": [{"scope": scope, "spans": [_span(span, tags)]}]}


def _span(span: dict[str, Any], tags: dict[str, Any]) -> dict[str, Any]:
    start = _micros(span.get("startTime"))
    status = _STATUSES.get(
        str(tags.get("otel.status_code", "")).upper(), 2 if tags.get("error") in (True, "true") else 0
    )
    trace_id = _id(span.get("traceID"), 32)
    references = [r for r in span.get("references") or () if is_object(r)]
    parents = [r for r in references if r.get("refType") == "CHILD_OF" and _id(r.get("traceID"), 32) == trace_id]
    parent = parents[0].get("spanID") if parents else span.get("parentSpanID")
    return {
        "traceId": trace_id,
        "spanId": _id(span.get("spanID"), 16),
        "parentSpanId": _id(parent, 16) if parent else "",
        "name": span.get("operationName", ""),
        "kind": _KINDS.get(str(tags.get("span.kind", "")).lower(), 0),
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + _micros(span.get("duration"))),
        "status": {"code": status, "message": tags.get("otel.status_description", "")},
        "attributes": _attributes(tags),
        "events": [_event(entry) for entry in span.get("logs") or () if is_object(entry)],
        "links": [
            {"traceId": _id(r.get("traceID"), 32), "spanId": _id(r.get("spanID"), 16)}
            for r in references
            if r not in parents[:1]
        ],
    }


def _event(entry: dict[str, Any]) -> dict[str, Any]:
    fields = _tags(entry.get("fields"))
    name = fields.pop("event", fields.pop("name", "log"))
    return {"name": str(name), "timeUnixNano": str(_micros(entry.get("timestamp"))), "attributes": _attributes(fields)}


def _id(value: Any, digits: int) -> str:
    """Hex of full length: Jaeger leaves leading zeros out."""
    return value.rjust(digits, "0") if isinstance(value, str) and value else ""


def _micros(value: Any) -> int:
    """Microseconds, number or text, to nanoseconds."""
    try:
        return int(value) * 1000
    except (TypeError, ValueError):
        return 0


def _tags(tags: Any) -> dict[str, Any]:
    return {t["key"]: t.get("value") for t in tags or () if is_object(t) and isinstance(t.get("key"), str)}


def _attributes(tags: dict[str, Any]) -> list[dict[str, Any]]:
    return [_attribute(k, v) for k, v in tags.items() if k not in _FIELD_TAGS]


def _attribute(key: str, value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"key": key, "value": {"boolValue": value}}
    if isinstance(value, int):
        return {"key": key, "value": {"intValue": str(value)}}
    if isinstance(value, float):
        return {"key": key, "value": {"doubleValue": value}}
    return {"key": key, "value": {"stringValue": "" if value is None else str(value)}}
