"""OTLP schema: OTLP's trace and log messages as the collector reads them, with what is inside a span left as bytes.

Protobuf makes two Python objects for each attribute that is looked at, and attributes are most of a span. Read as
bytes, one by one, they cost half of that: see `layout`. A value that cannot be read, or is nested too deep, then
costs itself and not the request that it came with. Texts of requests are bytes too, so that one that is no UTF-8 costs
itself and a request that cannot be parsed is none. Fields that nobody reads are left out. The bytes on the wire are
OTLP's.
"""

from typing import Any

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto

__all__ = ["FIELDS", "Event", "Link", "LogsData", "Status", "TracesData"]

#: Message to its fields: number, name, type; a star marks a list.
FIELDS: dict[str, tuple[tuple[int, str, str], ...]] = {
    "TracesData": ((1, "resource_spans", "ResourceSpans*"),),
    "ResourceSpans": ((1, "resource", "Resource"), (2, "scope_spans", "ScopeSpans*")),
    "ScopeSpans": ((1, "scope", "InstrumentationScope"), (2, "spans", "Span*")),
    "Resource": ((1, "attributes", "bytes*"),),
    "InstrumentationScope": ((1, "name", "bytes"), (2, "version", "bytes")),
    "Span": (
        (1, "trace_id", "bytes"),
        (2, "span_id", "bytes"),
        (4, "parent_span_id", "bytes"),
        (5, "name", "bytes"),
        (6, "kind", "int32"),
        (7, "start_time_unix_nano", "fixed64"),
        (8, "end_time_unix_nano", "fixed64"),
        (9, "attributes", "bytes*"),
        (10, "dropped_attributes_count", "uint32"),
        (11, "events", "bytes*"),
        (13, "links", "bytes*"),
        (15, "status", "bytes"),
        (16, "flags", "fixed32"),
    ),
    "Event": ((1, "time_unix_nano", "fixed64"), (2, "name", "string"), (3, "attributes", "bytes*")),
    "Link": ((1, "trace_id", "bytes"), (2, "span_id", "bytes"), (4, "attributes", "bytes*")),
    "Status": ((2, "message", "string"), (3, "code", "int32")),
    "LogsData": ((1, "resource_logs", "ResourceLogs*"),),
    "ResourceLogs": ((1, "resource", "Resource"), (2, "scope_logs", "ScopeLogs*")),
    "ScopeLogs": ((1, "scope", "InstrumentationScope"), (2, "log_records", "LogRecord*")),
    "LogRecord": (
        (1, "time_unix_nano", "fixed64"),
        (5, "body", "bytes"),
        (6, "attributes", "bytes*"),
        (9, "trace_id", "bytes"),
        (10, "span_id", "bytes"),
        (11, "observed_time_unix_nano", "fixed64"),
        (12, "event_name", "bytes"),
    ),
}

_PACKAGE = "evalspan.read"


def _pool() -> Any:
    file = FileDescriptorProto(name="evalspan/read.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in FIELDS.items():
        message = file.message_type.add(name=name)
        for number, field, kind in fields:
            made = message.field.add(name=field, number=number)
            one = kind.removesuffix("*")
            made.label = made.LABEL_OPTIONAL if one == kind else made.LABEL_REPEATED
            if one in FIELDS:
                made.type, made.type_name = made.TYPE_MESSAGE, f".{_PACKAGE}.{one}"
            else:
                made.type = FieldDescriptorProto.Type.Value(f"TYPE_{one.upper()}")
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(file.SerializeToString())
    return pool


def _class(name: str) -> Any:
    return message_factory.GetMessageClass(_read.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


_read = _pool()
#: Requests: TracesData is the same on the wire as ExportTraceServiceRequest, LogsData as ExportLogsServiceRequest.
TracesData: Any = _class("TracesData")
LogsData: Any = _class("LogsData")
#: What a span holds as bytes.
Event: Any = _class("Event")
Link: Any = _class("Link")
Status: Any = _class("Status")
