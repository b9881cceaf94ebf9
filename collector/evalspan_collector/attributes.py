"""Attributes: OTLP's pairs of key and value from their bytes; what cannot be read costs itself only."""

from collections.abc import Iterable
from typing import Any

from google.protobuf.message import DecodeError as ProtobufError
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from evalspan_collector.shared import shared
from evalspan_collector.wire import first_text, with_valid_strings

__all__ = ["UNREADABLE", "plain", "read_message", "read_pair", "read_pairs", "read_value", "text_of"]

#: Stands for a value that is no OTLP, or nested deeper than protobuf reads.
UNREADABLE = "..."
#: Fields of a value within which a text that is no UTF-8 is looked for.
_MOST = 100_000


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


def read_pair(pair: bytes) -> tuple[str, Any]:
    """Key and value of a serialised KeyValue.

    Raises:
        ProtobufError: It is none, or a text in it is no UTF-8.
    """
    read = KeyValue.FromString(pair)
    # The same few keys come with every span: one object each makes every later comparison cheap.
    return shared(read.key), plain(read.value)


def read_pairs(pairs: Iterable[bytes]) -> tuple[dict[str, Any], bool, int]:
    """Attributes from serialised KeyValues; the last of equal keys wins.

    Returns:
        The attributes, whether a text had to be repaired because it was no UTF-8, and how many values could not be
        read at all.
    """
    found: dict[str, Any] = {}
    damaged, lost = False, 0
    for pair in pairs:
        read, repaired = read_message(KeyValue, pair)
        damaged |= repaired and read is not None
        if read is not None:
            found[shared(read.key)] = plain(read.value)
        else:
            found[first_text(pair)] = UNREADABLE
            lost += 1
    return found, damaged, lost


def read_value(data: bytes) -> Any:
    """The Python value of a serialised AnyValue."""
    read, _ = read_message(AnyValue, data)
    return UNREADABLE if read is None else plain(read)


def text_of(data: bytes) -> tuple[str, bool]:
    """A text, and whether it had to be repaired because it was no UTF-8."""
    try:
        return data.decode(), False
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace"), True


def read_message(kind: Any, data: bytes, most: int | None = _MOST) -> tuple[Any, bool]:
    """A message, and whether its texts had to be repaired; no message where the bytes are none.

    Args:
        kind: Class of the message.
        data: Its bytes.
        most: Fields after which repairing is given up, None to go through all.
    """
    try:
        return kind.FromString(data), False
    except (ProtobufError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return kind.FromString(with_valid_strings(data, kind.DESCRIPTOR, most)), True
    except (ProtobufError, ValueError, RecursionError):
        return None, True
