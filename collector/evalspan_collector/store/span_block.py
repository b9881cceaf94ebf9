"""Span block: spans as one block of ClickHouse's Native format, encoded while they are at hand.

A request's spans are encoded right after they were made, while the processor's caches still hold them. A column that
holds nothing so far costs a count; one that never held anything is left out of the insert, and the table fills it in.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, Final, Protocol

from clickhouse_connect.datatypes.registry import get_from_name

from evalspan_collector.span import Span
from evalspan_collector.store.arrivals import Arrivals, note_spans
from evalspan_collector.store.span_rows import FAILED, OPTIONAL, clean_span, rare_texts
from evalspan_collector.wire import varint

__all__ = ["SpanBlock"]

_DAY_NS: Final = 86_400 * 1_000_000_000
#: Each partition of a block becomes a part on disk; ClickHouse itself advises against more than 100.
_PARTITIONS: Final = 50
#: Spans encoded at a time: as many as stay in the processor's caches.
_STEP: Final = 128
_BLANK: Final = ""


class _Context:
    """What the driver's encoder of text asks of an insert."""

    encoding = "utf-8"
    column_name = ""


_TEXT: Final[Any] = get_from_name("String")
_CONTEXT: Final = _Context()


class _Column(Protocol):
    """One column under construction."""

    @property
    def kind(self) -> str:
        """Type as the block names it."""
        ...

    @property
    def empty(self) -> bool:
        """True when every value so far is what the table fills in."""
        ...

    def add(self, values: Sequence[Any]) -> None:
        """Append values; raises when one does not fit, and may be half done then."""
        ...

    def parts(self) -> Iterable[bytes | bytearray]:
        """The encoded column."""
        ...

    def mark(self) -> tuple[int, ...]:
        """Where it stands, for `reset`."""
        ...

    def reset(self, mark: tuple[int, ...]) -> None:
        """Forget what came since the mark."""
        ...


class _Text:
    """Text; nothing is an empty text."""

    kind: str = "String"

    def __init__(self) -> None:
        self._data = bytearray()
        self._blanks = 0

    @property
    def empty(self) -> bool:
        return not self._data

    def add(self, values: Sequence[Any]) -> None:
        if not self._data:
            if values.count(_BLANK) == len(values):
                self._blanks += len(values)
                return
            self._data += bytes(self._blanks)  # an empty text is one zero
            self._blanks = 0
        _TEXT.write_column_data(values, self._data, _CONTEXT)

    def parts(self) -> Iterable[bytes | bytearray]:
        return (self._data,)

    def mark(self) -> tuple[int, ...]:
        return len(self._data), self._blanks

    def reset(self, mark: tuple[int, ...]) -> None:
        del self._data[mark[0] :]
        self._blanks = mark[1]


class _Number:
    """Numbers of one size; a column of zeros is empty, unless zero says something."""

    def __init__(self, kind: str, code: str, *, always: bool = False) -> None:
        self.kind = kind
        self.empty = not always
        self._data: array[Any] = array(code)

    def add(self, values: Sequence[Any]) -> None:
        if self.empty and values.count(0) != len(values):
            self.empty = False
        self._data.extend(values)

    def parts(self) -> Iterable[bytes | bytearray]:
        return (self._data.tobytes(),)

    def mark(self) -> tuple[int, ...]:
        return len(self._data), self.empty

    def reset(self, mark: tuple[int, ...]) -> None:
        del self._data[mark[0] :]
        self.empty = bool(mark[1])


class _Nullable:
    """Numbers that may be unknown."""

    def __init__(self, kind: str, code: str) -> None:
        self.kind = f"Nullable({kind})"
        self.empty = True
        self._nulls = bytearray()
        self._data: array[Any] = array(code)

    def add(self, values: Sequence[Any]) -> None:
        missing = values.count(None)
        if missing == len(values):
            self._nulls += b"\1" * missing
            self._data.frombytes(bytes(missing * self._data.itemsize))
            return
        self.empty = False
        self._data.extend([value or 0 for value in values] if missing else values)
        self._nulls += bytes([value is None for value in values])

    def parts(self) -> Iterable[bytes | bytearray]:
        return self._nulls, self._data.tobytes()

    def mark(self) -> tuple[int, ...]:
        return len(self._nulls), len(self._data), self.empty

    def reset(self, mark: tuple[int, ...]) -> None:
        del self._nulls[mark[0] :]
        del self._data[mark[1] :]
        self.empty = bool(mark[2])


class _Texts:
    """Lists of texts; with `pairs`, maps of text to text."""

    def __init__(self, *, pairs: bool = False) -> None:
        self.kind = "Map(String, String)" if pairs else "Array(String)"
        self._ends: array[int] = array("Q")
        self._end = 0
        self._items = tuple(_Items() for _ in range(1 + pairs))

    @property
    def empty(self) -> bool:
        return not self._end

    def add(self, values: Sequence[Any]) -> None:
        end = self._end
        for value in values:
            end += len(value)
            self._ends.append(end)
        if end == self._end:
            return
        self._end = end
        self._items[0].add([item for value in values for item in value])
        if len(self._items) > 1:
            self._items[1].add([item for value in values for item in value.values()])

    def parts(self) -> Iterable[bytes | bytearray]:
        return self._ends.tobytes(), *(items.data for items in self._items)

    def mark(self) -> tuple[int, ...]:
        return len(self._ends), self._end, *(len(items.data) for items in self._items)

    def reset(self, mark: tuple[int, ...]) -> None:
        del self._ends[mark[0] :]
        self._end = mark[1]
        for items, size in zip(self._items, mark[2:], strict=True):
            del items.data[size:]


class _Items:
    """Texts without places to be left out."""

    def __init__(self) -> None:
        self.data = bytearray()

    def add(self, values: list[str]) -> None:
        _TEXT.write_column_data(values, self.data, _CONTEXT)


#: Column to its encoder; the columns of text are all others.
_TYPED: Final[dict[str, Callable[[], _Column]]] = {
    "start_ns": lambda: _Number("UInt64", "Q"),
    "end_ns": lambda: _Number("UInt64", "Q"),
    "received_ns": lambda: _Number("Int64", "q", always=True),
    "otel_kind": lambda: _Number("UInt8", "B"),
    "span_flags": lambda: _Number("UInt32", "I"),
    "cost_carried": lambda: _Nullable("Float64", "d"),
    "flags": _Texts,
    "attributes": lambda: _Texts(pairs=True),
}
_PLAIN_TEXTS: Final = (
    "project", "trace_id", "span_id", "name", "status", "status_message", "scope_name", "scope_version", "service_name",
    "service_version", "service_instance_id", "dialect", "kind", "operation", "content",
)  # fmt: skip
#: Fields that are columns as they are.
_DIRECT: Final[tuple[str, ...]] = (*_PLAIN_TEXTS, *_TYPED)
#: Everything a span gives, in one go: a tuple per span, turned over, costs less than a list per field.
_FIELDS: Final = attrgetter(*_DIRECT, *OPTIONAL, "failed", "usage.input_tokens", "usage.output_tokens")


class SpanBlock:
    """Spans for one insert, in the order they were added."""

    def __init__(self) -> None:
        #: As they are stored: without what no column holds.
        self.spans: list[Span] = []
        #: What it brings for each trace.
        self.arrivals: Arrivals = {}
        self._partitions: set[tuple[str, int]] = set()
        self._columns: dict[str, _Column] = {name: _TYPED.get(name, _Text)() for name in (*_DIRECT, *OPTIONAL)}
        self._columns["failed"] = _Number("Int8", "b", always=True)
        self._columns["input_tokens"] = _Nullable("Int64", "q")
        self._columns["output_tokens"] = _Nullable("Int64", "q")
        self._columns["extra"] = _Text()

    def __len__(self) -> int:
        return len(self.spans)

    @property
    def is_wide(self) -> bool:
        """True when it spreads over as many partitions as one insert should."""
        return len(self._partitions) >= _PARTITIONS

    def add(self, spans: Sequence[Span]) -> None:
        """Add spans, all or none; a value that no column holds is replaced.

        Raises:
            Exception: What an encoder raised for a value that cannot even be replaced.
        """
        marks = [column.mark() for column in self._columns.values()]
        added: list[Span] = []
        try:
            for start in range(0, len(spans), _STEP):
                added.extend(self._encode_cleaned(spans[start : start + _STEP]))
        except Exception:
            self._reset(marks)
            raise
        self.spans.extend(added)
        self._partitions.update({(span.project, span.received_ns // _DAY_NS) for span in added})
        note_spans(self.arrivals, added)

    def _encode_cleaned(self, spans: Sequence[Span]) -> Sequence[Span]:
        marks = [column.mark() for column in self._columns.values()]
        try:
            self._encode(spans)
        except Exception:  # noqa: BLE001  # a lone surrogate, a number out of range: whatever the encoders raise
            self._reset(marks)
            spans = [clean_span(span) for span in spans]
            self._encode(spans)
        return spans

    def _reset(self, marks: Sequence[tuple[int, ...]]) -> None:
        for column, mark in zip(self._columns.values(), marks, strict=True):
            column.reset(mark)

    def _encode(self, spans: Sequence[Span]) -> None:
        columns = self._columns
        fields: list[tuple[Any, ...]] = list(zip(*map(_FIELDS, spans), strict=True))
        for name, values in zip(_DIRECT, fields, strict=False):
            columns[name].add(values)
        blanks: dict[int, list[str]] = {}
        for name, values in zip(OPTIONAL, fields[len(_DIRECT) :], strict=False):
            missing = values.count(None)
            texts = [value or _BLANK for value in values] if missing else values
            if texts.count(_BLANK) != missing:
                for position, value in enumerate(values):
                    if value == _BLANK:
                        blanks.setdefault(position, []).append(name)
            columns[name].add(texts)
        columns["failed"].add([FAILED[value] for value in fields[-3]])
        columns["input_tokens"].add(fields[-2])
        columns["output_tokens"].add(fields[-1])
        columns["extra"].add(rare_texts(spans, blanks))

    def names(self) -> list[str]:
        """The columns that hold something."""
        return [name for name, column in self._columns.items() if not column.empty]

    def native(self) -> Iterator[bytes | bytearray]:
        """The block in ClickHouse's Native format, in pieces."""
        names = self.names()
        yield varint(len(names)) + varint(len(self.spans))
        for name in names:
            column = self._columns[name]
            yield _text(name) + _text(column.kind)
            yield from column.parts()


def _text(text: str) -> bytes:
    raw = text.encode()
    return varint(len(raw)) + raw
