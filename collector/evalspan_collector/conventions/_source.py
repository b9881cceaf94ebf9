"""Source: one row of the convention table, an attribute that may give a field its value."""

from collections.abc import Iterable
from dataclasses import dataclass

from evalspan_collector.converters import Convert, text
from evalspan_collector.span import SpanKind

__all__ = ["Rows", "Source", "rows"]


@dataclass(frozen=True, slots=True)
class Source:
    """Where a field may come from.

    Attributes:
        key: Attribute key; one that ends in a dot is a family, whose converter gets {rest of key: value}.
        convert: Value to field value, None when it says nothing.
        when: Kinds of span for which the row holds; None for all.
    """

    key: str
    convert: Convert = text
    when: frozenset[SpanKind] | None = None


#: The ordered sources of each field.
Rows = dict[str, tuple[Source, ...]]


def rows(*keys: str, convert: Convert = text, when: Iterable[SpanKind] | None = None) -> tuple[Source, ...]:
    """Several keys with one converter and condition, best first."""
    kinds = None if when is None else frozenset(when)
    return tuple(Source(key, convert, kinds) for key in keys)
