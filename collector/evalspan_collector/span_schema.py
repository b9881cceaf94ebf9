"""Span schema: OTLP's trace messages as the collector reads them, with a span's attributes left as bytes.

Protobuf makes two Python objects for each attribute that is looked at, and attributes are most of a span. Read as
bytes, one by one, they cost half of that: see `attributes.read_pairs`. Everything else is as OTLP defines it, taken
from its own definition; the bytes on the wire are the same.
"""

from typing import Any

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from opentelemetry.proto.trace.v1 import trace_pb2

__all__ = ["TracesData"]

_PACKAGE = "evalspan.read"


def _traces_data() -> Any:
    """The class of a request's message: TracesData is the same on the wire as ExportTraceServiceRequest."""
    file = FileDescriptorProto()
    trace_pb2.DESCRIPTOR.CopyToProto(file)
    theirs = f".{file.package}."
    file.name, file.package = "evalspan/read/trace.proto", _PACKAGE
    for message in file.message_type:
        _rename(message, theirs)
        for nested in message.nested_type:
            _rename(nested, theirs)
        for field in message.field:
            if message.name == "Span" and field.name == "attributes":
                field.type = FieldDescriptorProto.TYPE_BYTES
                field.ClearField("type_name")
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.TracesData"))


def _rename(message: Any, theirs: str) -> None:
    """References among the trace messages point to ours; those to common messages stay."""
    for field in message.field:
        if field.type_name.startswith(theirs):
            field.type_name = f".{_PACKAGE}." + field.type_name.removeprefix(theirs)


#: A request to read spans from.
TracesData: Any = _traces_data()
