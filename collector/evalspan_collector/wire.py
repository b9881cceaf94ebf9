"""Wire: protobuf bytes repaired where a string is no UTF-8, and large requests cut into parts, without reading them."""

from collections.abc import Iterator
from typing import Any

__all__ = ["first_text", "parts_of", "varint", "with_valid_strings"]

#: As deep as protobuf itself reads.
_MAX_DEPTH = 100


def with_valid_strings(data: bytes, descriptor: Any) -> bytes:
    """The message with each invalid byte in its strings replaced by U+FFFD.

    Args:
        data: A serialised message.
        descriptor: Its protobuf descriptor.

    Raises:
        ValueError: The bytes are no protobuf message, or nested too deep.
    """
    return _message(memoryview(data), descriptor, 0)


def _message(data: memoryview, descriptor: Any, depth: int) -> bytes:
    if depth > _MAX_DEPTH:
        raise ValueError("nested too deep")
    out = bytearray()
    fields = descriptor.fields_by_number
    for tag, whole, body in _walk(data):
        if body is None:
            out += whole
        else:
            fixed = _field(body, fields.get(tag >> 3), depth)
            out += varint(tag) + varint(len(fixed)) + fixed
    return bytes(out)


def _walk(data: memoryview) -> Iterator[tuple[int, memoryview, memoryview | None]]:
    """Tag and bytes of each field, and its body where that is length-delimited.

    Raises:
        ValueError: The bytes are no protobuf message.
    """
    at, end = 0, len(data)
    while at < end:
        start = at
        tag, at = _read_varint(data, at)
        wire = tag & 7
        body: memoryview | None = None
        if wire == 2:
            length, at = _read_varint(data, at)
            body = data[at : at + length]
            at += length
        elif wire == 0:
            _, at = _read_varint(data, at)
        elif wire in {1, 5}:
            at += 8 if wire == 1 else 4
        else:
            raise ValueError(f"wire type {wire}")
        if at > end:
            raise ValueError("value beyond the end")
        yield tag, data[start:at], body


def _field(body: memoryview, field: Any, depth: int) -> bytes:
    """The body of a length-delimited field, repaired."""
    if field is None:
        return bytes(body)
    if field.type == field.TYPE_MESSAGE:
        return _message(body, field.message_type, depth + 1)
    if field.type == field.TYPE_STRING:
        raw = bytes(body)
        try:
            raw.decode("utf-8")
        except UnicodeDecodeError:
            return raw.decode("utf-8", "replace").encode()
        return raw
    return bytes(body)


def _read_varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise ValueError("varint without end")


def varint(value: int) -> bytes:
    """A number as protobuf writes it, seven bits a byte."""
    out = bytearray()
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def first_text(data: bytes) -> str:
    """The text that a message begins with as its field 1, empty when it does not; for naming what cannot be read."""
    try:
        tag, at = _read_varint(memoryview(data), 0)
        length, at = _read_varint(memoryview(data), at)
    except ValueError:
        return ""
    return data[at : at + length].decode("utf-8", "replace") if tag == 0x0A and at + length <= len(data) else ""


def parts_of(request: bytes, size: int) -> Iterator[bytes]:
    """The same spans (or log records) in requests of about `size` bytes, in order.

    A parsed request takes more memory than its bytes; in parts, it never does so as a whole.

    Args:
        request: An ExportTraceServiceRequest or ExportLogsServiceRequest.
        size: Bytes of spans after which a part ends.

    Raises:
        ValueError: The bytes are no protobuf message.
    """
    scopes = [
        (resource_head, *_divided(scope, 2))
        for resource in _divided(memoryview(request), 1)[1]
        for resource_head, found in (_divided(resource, 2),)
        for scope in found
    ]
    return _parts(scopes, size)


_Pieces = list[memoryview]


def _parts(scopes: list[tuple[_Pieces, _Pieces, _Pieces]], size: int) -> Iterator[bytes]:
    """Requests from what stands in each resource, what stands in each scope, and its spans."""
    for resource_head, scope_head, spans in scopes:
        held: _Pieces = []
        room = size
        for number, span in enumerate(spans, 1):
            held.append(span)
            room -= len(span)
            if room <= 0 or number == len(spans):
                body = b"".join((*scope_head, *(piece for s in held for piece in (_length(2, s), s))))
                body = b"".join((*resource_head, _length(2, body), body))
                yield _length(1, body) + body
                held, room = [], size


def _length(field: int, body: bytes | memoryview) -> bytes:
    """What stands before a field of bytes."""
    return bytes((field << 3 | 2,)) + varint(len(body))


def _divided(data: memoryview, field: int) -> tuple[_Pieces, _Pieces]:
    """All other fields as they are, and the bodies of a repeated field."""
    others: _Pieces = []
    found: _Pieces = []
    for tag, whole, body in _walk(data):
        if body is not None and tag >> 3 == field:
            found.append(body)
        else:
            others.append(whole)
    return others, found
