"""Heads: all bytes that stand before the value in a serialised pair of key and value, by key and length of the pair."""

from collections.abc import Callable

from evalspan_collector.wire import varint

__all__ = ["Heads"]

_KEY = 0x0A  # tag of KeyValue.key
_VALUE = 0x12  # tag of KeyValue.value
_TEXT = 0x0A  # tag of AnyValue.string_value
_INT = 0x18  # tag of AnyValue.int_value
#: Longer keys are few; nothing is held for them.
_LONG_KEY = 256
#: Bytes of all heads; and what each takes beside its own bytes, about.
_MAX_BYTES = 16 << 20
_OVERHEAD = 200


class _ByLength(dict[int, bytes]):
    """Heads by the length of the pair; all are empty, for keys that are read as pairs."""

    __slots__ = ()

    def __missing__(self, length: int) -> bytes:
        return b""


class Heads:
    """What stands before values, for each key; bounded by its bytes."""

    def __init__(self) -> None:
        self._by_key: dict[str, tuple[_ByLength, _ByLength]] = {}
        self.size = 0

    def of(self, key: str) -> tuple[_ByLength, _ByLength]:
        """What stands before a text, and before a whole number that is not negative."""
        found = self._by_key.get(key)
        if found is not None:
            return found
        name = key.encode()
        if len(name) > _LONG_KEY:
            return _NONE, _NONE
        start = bytes((_KEY,)) + varint(len(name)) + name
        return self._by_key.setdefault(key, (_OfKey(start, _before_text, self), _OfKey(start, _before_count, self)))

    def make_room(self, size: int) -> None:
        """Make room for one more of that size; all others are forgotten when they are too many."""
        self.size += size + _OVERHEAD
        if self.size > _MAX_BYTES:
            self._clear()
            self.size = size + _OVERHEAD

    def forget(self) -> None:
        """Begin anew."""
        self._clear()
        self._by_key.clear()

    def _clear(self) -> None:
        for heads in self._by_key.copy().values():
            for one in heads:
                one.clear()
        self.size = 0


class _OfKey(_ByLength):
    """All bytes before the value in a pair of a key, by the length of the pair; empty when there is no such pair."""

    __slots__ = ("_after", "_held", "_start")

    def __init__(self, start: bytes, after: Callable[[int], bytes], held: Heads) -> None:
        super().__init__()
        self._start = start
        self._after = after
        self._held = held

    def __missing__(self, length: int) -> bytes:
        after = self._after(length - len(self._start))
        # Nothing is removed from a pair as an empty prefix, so none begins with it.
        head = self._start + after if after else b""
        self._held.make_room(len(head))
        self[length] = head
        return head


_NONE = _ByLength()


def _before_text(size: int) -> bytes:
    """What stands between key and text where both take `size` bytes; empty when no text fits."""
    for width in range(4, 14):
        text = bytes((_TEXT,)) + varint(max(0, size - width))
        head = bytes((_VALUE,)) + varint(len(text) + max(0, size - width)) + text
        if len(head) == width <= size:
            return head
    return b""


def _before_count(size: int) -> bytes:
    """The same for a whole number of at most 63 bits."""
    return bytes((_VALUE, size - 2, _INT)) if 4 <= size <= 12 else b""
