"""Wire: protobuf bytes repaired where a string field is not UTF-8, so that the rest of a request can be read."""

from typing import Any

__all__ = ["first_text", "varint", "with_valid_strings"]

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
    at, end = 0, len(data)
    fields = descriptor.fields_by_number
    while at < end:
        start = at
        tag, at = _read_varint(data, at)
        wire = tag & 7
        if wire == 2:
            length, at = _read_varint(data, at)
            if at + length > end:
                raise ValueError("length beyond the end")
            body = data[at : at + length]
            at += length
            fixed = _field(body, fields.get(tag >> 3), depth)
            out += varint(tag) + varint(len(fixed)) + fixed
            continue
        if wire == 0:
            _, at = _read_varint(data, at)
        elif wire in {1, 5}:
            at += 8 if wire == 1 else 4
        else:
            raise ValueError(f"wire type {wire}")
        if at > end:
            raise ValueError("value beyond the end")
        out += data[start:at]
    return bytes(out)


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
