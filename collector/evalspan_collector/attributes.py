"""Attributes: OTLP's pairs of key and value to Python values, from messages and from their bytes."""

import sys
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from google.protobuf.message import DecodeError as ProtobufError
from opentelemetry.proto.common.v1.common_pb2 import KeyValue

from evalspan_collector.wire import varint, with_valid_strings

__all__ = ["attribute_map", "plain", "read_pairs"]

_KEY = 0x0A  # tag of KeyValue.key
_VALUE = b"\x12"  # tag of KeyValue.value
_TEXT = b"\x0a"  # tag of AnyValue.string_value
#: Pairs of at most so many bytes are remembered: operations, models, providers, the session of a run.
_SHORT = 80
_REMEMBERED = 4_096


def plain(value: Any) -> Any:
    """The Python value of a protobuf AnyValue; nested maps keep the last of equal keys."""
    found = value.string_value
    if found:
        return found
    which = value.WhichOneof("value")
    if which is None:
        return None
    if which == "array_value":
        return [plain(v) for v in value.array_value.values]
    if which == "kvlist_value":
        return {kv.key: plain(kv.value) for kv in value.kvlist_value.values}
    if which == "bytes_value":
        return value.bytes_value.hex()
    return getattr(value, which)


def attribute_map(pairs: Any) -> dict[str, Any]:
    """Attributes from KeyValue messages; the last of equal keys wins."""
    found: dict[str, Any] = {}
    for pair in pairs:
        value = pair.value
        found[pair.key] = value.string_value or value.int_value or plain(value)
    return found


def read_pairs(pairs: Iterable[bytes]) -> tuple[dict[str, Any], bool]:
    """Attributes from serialised KeyValues; the last of equal keys wins.

    Returns:
        The attributes, and whether a text had to be repaired because it was no UTF-8.

    Raises:
        ProtobufError: A pair is no KeyValue.
    """
    try:
        return dict(map(_read, pairs)), False
    except (UnicodeDecodeError, ProtobufError):
        return dict(map(_repaired, pairs)), True


class _Pairs(dict[bytes, tuple[str, Any]]):
    """Serialised pairs already read: most of a span's attributes are short and were there before."""

    def __missing__(self, pair: bytes) -> tuple[str, Any]:
        found = _text_pair(pair) or _any_pair(pair)
        if len(pair) <= _SHORT and not isinstance(found[1], list | dict):
            if len(self) >= _REMEMBERED:
                self.clear()
            self[pair] = found
        return found


_read = _Pairs().__getitem__


def _text_pair(pair: bytes) -> tuple[str, str] | None:
    """A pair with a text, laid out as every exporter does; None for any other."""
    if len(pair) < 2 or pair[0] != _KEY or pair[1] > 0x7F:
        return None
    end = 2 + pair[1]
    head = _head(len(pair) - end)
    if not pair.startswith(head, end):
        return None
    # The same few keys come with every span: one object each makes every later comparison cheap.
    return sys.intern(pair[2:end].decode()), pair[end + len(head) :].decode()


@lru_cache(maxsize=8_192)
def _head(size: int) -> bytes:
    """The bytes between key and text of a pair that holds `size` bytes behind its key."""
    for width in range(4, 14):
        text = _TEXT + varint(max(0, size - width))
        head = _VALUE + varint(len(text) + max(0, size - width)) + text
        if len(head) == width <= size:
            return head
    return b"\xff"  # no text fits: nothing starts like this


def _any_pair(pair: bytes) -> tuple[str, Any]:
    read = KeyValue.FromString(pair)
    return sys.intern(read.key), plain(read.value)


def _repaired(pair: bytes) -> tuple[str, Any]:
    try:
        return _any_pair(pair)
    except ProtobufError:
        try:
            return _any_pair(with_valid_strings(pair, KeyValue.DESCRIPTOR))
        except ValueError as error:
            raise ProtobufError(str(error)) from error
