"""Wire: protobuf bytes repaired where a string is no UTF-8, and large requests cut into parts, without reading them."""

from collections.abc import Iterator
from typing import Any

__all__ = ["first_text", "parts_of", "varint", "with_valid_strings"]

#: As deep as protobuf itself reads.
_MAX_DEPTH = 100
#: Bytes for each field outside of spans in a request that is cut, on average: a span with its two ids takes as many.
#: What is finer than that holds no spans, and is not worth the time of those who wait behind it.
_FINE = 30
#: Fields that may be smaller.
_SOME = 1_000


class _Walk:
    """Goes through the fields of a message by their places, so that nothing is made for what nobody wants.

    Args:
        data: The message.
        most: Fields after which the walk ends with an error, None for no end.
        fine: Bytes that a field of a message takes on average up to any place, at the least.
    """

    __slots__ = ("_fine", "_left", "data")

    def __init__(self, data: bytes, most: int | None, fine: int = 0) -> None:
        self.data = data
        self._left = len(data) if most is None else most
        self._fine = fine

    def fields(self, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
        """Tag of each field, where it begins, where its body begins (0 unless length-delimited), and where it ends.

        Raises:
            ValueError: The bytes are no protobuf message, or it has too many fields.
        """
        data, fine = self.data, self._fine
        missing = -_SOME * fine
        while at < end:
            self._left -= 1
            if self._left < 0 or missing > 0:
                raise ValueError("too many small fields")
            start, body = at, 0
            tag, at = _read_varint(data, at)
            wire = tag & 7
            if tag < 8:
                raise ValueError("field 0")
            if wire == 2:
                length, body = _read_varint(data, at)
                at = body + length
            elif wire == 0:
                _, at = _read_varint(data, at)
            elif wire in {1, 5}:
                at += 8 if wire == 1 else 4
            else:
                raise ValueError(f"wire type {wire}")
            if at > end:
                raise ValueError("value beyond the end")
            missing += fine - (at - start)
            yield tag, start, body, at


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    if at < len(data) and data[at] < 0x80:
        return data[at], at + 1
    value = shift = 0
    for byte in data[at : at + 10]:
        at += 1
        if byte < 0x80:
            return value | byte << shift, at
        value |= (byte & 0x7F) << shift
        shift += 7
    raise ValueError("varint without end")


def with_valid_strings(data: bytes, descriptor: Any, most: int | None = None) -> bytes:
    """The message with each invalid byte in its strings replaced by U+FFFD.

    Args:
        data: A serialised message.
        descriptor: Its protobuf descriptor.
        most: Fields after which it is given up, None to go through all.

    Raises:
        ValueError: The bytes are no protobuf message, nested too deep, or have more fields.
    """
    fixed = _message(_Walk(data, most), 0, len(data), descriptor, 0)
    return data if fixed is None else fixed


def _message(walk: _Walk, at: int, end: int, descriptor: Any, depth: int) -> bytes | None:
    """A message repaired, None when nothing is wrong with its strings."""
    if depth > _MAX_DEPTH:
        raise ValueError("nested too deep")
    out = bytearray()
    known = descriptor.fields_by_number
    kept = at
    for tag, start, body, stop in walk.fields(at, end):
        field = known.get(tag >> 3) if body else None
        fixed = None if field is None else _field(walk, body, stop, field, depth)
        if fixed is not None:
            out += walk.data[kept:start] + varint(tag) + varint(len(fixed)) + fixed
            kept = stop
    return bytes(out + walk.data[kept:end]) if out else None


def _field(walk: _Walk, at: int, end: int, field: Any, depth: int) -> bytes | None:
    """The body of a length-delimited field, repaired; None when nothing is wrong with it."""
    if field.type == field.TYPE_MESSAGE:
        return _message(walk, at, end, field.message_type, depth + 1)
    if field.type == field.TYPE_STRING:
        raw = walk.data[at:end]
        try:
            raw.decode("utf-8")
        except UnicodeDecodeError:
            return raw.decode("utf-8", "replace").encode()
    return None


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
        tag, at = _read_varint(data, 0)
        length, at = _read_varint(data, at)
    except ValueError:
        return ""
    return data[at : at + length].decode("utf-8", "replace") if tag == 0x0A and at + length <= len(data) else ""


def parts_of(request: bytes, size: int) -> Iterator[bytes]:
    """The same spans (or log records) in requests of about `size` bytes, in order.

    A parsed request takes more memory than its bytes; in parts, it never does so as a whole. What stands in a resource
    and a scope beside their spans is in each of their parts; a part is as large as that at least, so that all parts
    together are a small multiple of the request, whatever it holds.

    Args:
        request: An ExportTraceServiceRequest or ExportLogsServiceRequest.
        size: Bytes of spans after which a part ends.

    Raises:
        ValueError: The bytes are no protobuf message, or have more fields than spans could need.
    """
    cutter = _Cutter(request, size)
    cutter.cut(0, len(request), ())
    return (_written(request, heads, runs) for heads, runs in cutter.parts)


#: Places of bytes that follow each other: where they begin and end.
_Runs = list[tuple[int, int]]


class _Cutter:
    """Says where a request is cut.

    Attributes:
        parts: What each part repeats of the resource and the scope that it is cut out of, and the places of the rest.
    """

    def __init__(self, request: bytes, size: int) -> None:
        # Resources and scopes that are cut are gone through twice.
        self._walk = _Walk(request, 2 * len(request) // _FINE + _SOME, _FINE)
        self._size = size
        self.parts: list[tuple[tuple[bytes, ...], _Runs]] = []

    def cut(self, at: int, end: int, heads: tuple[bytes, ...]) -> None:
        """Cut a request (no heads), a resource (its head) or a scope (the heads of both).

        What fits into a part stays as it is, known or unknown: the parser judges all of it.
        """
        least = max(self._size, sum(map(len, heads)))
        inner = 2 if heads else 1
        held: _Runs = []
        made, size = len(self.parts), 0
        for tag, start, body, stop in self._walk.fields(at, end):
            if body and heads and tag >> 3 == 1:
                continue
            if body and len(heads) < 2 and tag >> 3 == inner and stop - start > least:
                if held:
                    self.parts.append((heads, held))
                self.cut(body, stop, (*heads, self._head(body, stop)))
                held, size = [], 0
                continue
            if held and held[-1][1] == start:
                held[-1] = (held[-1][0], stop)
            else:
                held.append((start, stop))
            size += stop - start
            if size >= least:
                self.parts.append((heads, held))
                held, size = [], 0
        if held or made == len(self.parts):
            self.parts.append((heads, held))

    def _head(self, at: int, end: int) -> bytes:
        """Field 1 of a resource or scope, which says what it is; twice means both."""
        data = self._walk.data
        return b"".join(
            data[start:stop] for tag, start, body, stop in self._walk.fields(at, end) if body and tag >> 3 == 1
        )


def _written(request: bytes, heads: tuple[bytes, ...], runs: _Runs) -> bytes:
    """A part."""
    pieces = [request[start:stop] for start, stop in runs]
    size = sum(map(len, pieces))
    for level in range(len(heads), 0, -1):
        size += len(heads[level - 1])
        before = bytes(((1 if level == 1 else 2) << 3 | 2,)) + varint(size)
        pieces[:0] = before, heads[level - 1]
        size += len(before)
    return b"".join(pieces)
