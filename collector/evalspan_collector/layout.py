"""Layout: what the attributes of many spans have in common, told from their bytes: the same keys, the same constants.

Most attributes of a span were on another span before, with the same value: operations, models, providers, names of
tools. A key with few values is constant, one with many varies, and which is which is learnt from the traffic. Spans
with the same keys and the same constants share a layout, and whatever follows from constants is worked out once for it.
"""

from collections.abc import Iterable
from typing import Any

from google.protobuf.message import DecodeError as ProtobufError

from evalspan_collector.attributes import read_pair, read_pairs
from evalspan_collector.heads import Heads
from evalspan_collector.lenient_json import is_list

__all__ = ["Layout", "Layouts", "layouts"]

#: A key with more values than this varies.
_VALUES = 16
#: Longer pairs are never constant; tool definitions and system prompts are mostly shorter.
_LONG = 16_384
#: Beyond these everything is forgotten and learnt again: bytes of constants, keys and layouts come from outside.
_MAX_BYTES = 8 << 20
_MAX_LAYOUTS = 4_096
#: Keys in all layouts, and in one: no instrumentation gives a span as many.
_MAX_PLACES = 262_144
_WIDE = 1_024
#: Layouts with the same constants at the same places.
_ALIKE = 8
#: Layouts are worth their making when so many spans have each.
_WORTH = 4


class Layout:
    """The keys of a span's attributes and the values that are constant.

    Attributes:
        keys: All keys in order.
        constants: The attributes, None for those that vary.
        varying: Keys of those that vary, in order.
        forms: For the use of `normalise`: dialect of the scope to what follows from the constants.
    """

    __slots__ = ("_lists", "_places", "constants", "forms", "keys", "varying")

    def __init__(self, keys: tuple[str, ...], values: Iterable["_Constant | None"], heads: Heads) -> None:
        held = tuple(zip(keys, values, strict=True))
        self.keys = keys
        self.constants: dict[str, Any] = {k: None if v is None else v.value for k, v in held}
        self.varying = tuple(k for k, v in held if v is None)
        self.forms: dict[str | None, Any] = {}
        self._lists = tuple(k for k, v in self.constants.items() if isinstance(v, list))
        self._places = tuple((n, k, *heads.of(k)) for n, (k, v) in enumerate(held) if v is None)

    def read(self, pairs: list[bytes]) -> dict[str, Any] | None:
        """The attributes of a span with these constants, None when its other keys are not those of this layout.

        Raises:
            UnicodeDecodeError: A text is no UTF-8.
        """
        found = self.constants.copy()
        for place, key, texts, counts in self._places:
            pair = pairs[place]
            rest = pair.removeprefix(texts[len(pair)])
            if rest is not pair:
                found[key] = rest.decode()
                continue
            rest = pair.removeprefix(counts[len(pair)])
            if rest is not pair:
                found[key] = _whole[rest]
                continue
            name, found[key] = read_pair(pair)
            if name != key:
                return None
        for key in self._lists:
            found[key] = list(found[key])
        return found


class _Constant:
    """The value of a pair that is constant; one object for each such pair."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Layouts:
    """Reads the attributes of spans and learns their layouts.

    Threads may share it: everything it holds can be learnt again, and nothing held is ever changed.
    """

    def __init__(self) -> None:
        self._constants: dict[bytes, _Constant] = {}
        #: By what is constant at each place; a few layouts may agree in that.
        self._layouts: dict[tuple[_Constant | None, ...], list[Layout]] = {}
        #: Key to the number of its constants.
        self._known: dict[str, int] = {}
        self._limit = _VALUES
        self._heads = Heads()
        self._made = self._keys = self._held_bytes = self._spans = 0

    def read(self, pairs: list[bytes]) -> tuple[dict[str, Any], Layout | None, bool, int]:
        """Attributes from serialised KeyValues; the last of equal keys wins.

        Returns:
            The attributes, their layout where they have one, whether a text had to be repaired because it was no
            UTF-8, and how many values could not be read at all.
        """
        self._spans += 1
        try:
            for layout in self._layouts.get(tuple(map(self._constants.get, pairs)), ()):
                found = layout.read(pairs)
                if found is not None:
                    return found, layout, False, 0
            if len(pairs) <= _WIDE:
                return *self._learn(pairs), False, 0
        except (UnicodeDecodeError, ProtobufError):
            pass
        found, damaged, lost = read_pairs(pairs)
        return found, None, damaged, lost

    def _learn(self, pairs: list[bytes]) -> tuple[dict[str, Any], Layout | None]:
        """Read pairs and keep how they were laid out, unless a key comes twice or there are too many alike."""
        if self._made >= _MAX_LAYOUTS or self._keys >= _MAX_PLACES or self._held_bytes >= _MAX_BYTES:
            self._make_room()
        read = [*map(read_pair, pairs)]
        found = dict(read)
        if len(found) < len(read):
            return found, None
        for pair, (key, value) in zip(pairs, read, strict=True):
            known = self._known.get(key, 0)
            if not known:
                self._held_bytes += len(key)
            if known < self._limit and len(pair) <= _LONG and pair not in self._constants and _is_flat(value):
                self._known[key] = known + 1
                self._held_bytes += len(pair)
                self._constants[pair] = _Constant([*value] if isinstance(value, list) else value)
        constants = tuple(map(self._constants.get, pairs))
        alike = self._layouts.setdefault(constants, [])
        if len(alike) >= _ALIKE:
            return found, None
        layout = Layout(tuple(found), constants, self._heads)
        alike.append(layout)
        self._made += 1
        self._keys += len(pairs)
        return found, layout

    def _make_room(self) -> None:
        """Begin anew; take fewer values for constants when that was too many, more again when it was not."""
        worth = self._spans >= _WORTH * self._made
        self._limit = min(_VALUES, self._limit * 2 or 1) if worth else self._limit // 2
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        self._constants.clear()
        self._layouts.clear()
        self._known.clear()
        self._heads.forget()
        self._made = self._keys = self._held_bytes = self._spans = 0


#: What this process has learnt.
layouts = Layouts()


_SCALARS = frozenset({str, int, float, bool})


def _is_flat(value: Any) -> bool:
    """True for what may be held and handed out again: a scalar or a list of scalars."""
    return type(value) in _SCALARS or (is_list(value) and all(type(v) in _SCALARS for v in value))


class _Whole(dict[bytes, int]):
    """Whole numbers by their bytes; most are counts, and few."""

    def __missing__(self, data: bytes) -> int:
        value = shift = 0
        for byte in data[:-1]:
            if byte < 0x80:
                raise ProtobufError("bytes behind a number")
            value |= (byte & 0x7F) << shift
            shift += 7
        if not data or data[-1] >= 0x80:
            raise ProtobufError("a number without end")
        value |= data[-1] << shift
        if len(data) < 3:
            self[data] = value
        return value


_whole = _Whole()
