"""Conventions: the one table of 26 span dialects, field -> ordered sources -> converter, and its index by key."""

from dataclasses import dataclass, fields
from typing import Any

from evalspan_collector.conventions._content import CONTENT
from evalspan_collector.conventions._dialects import KEY_DIALECTS, SCOPE_DIALECTS
from evalspan_collector.conventions._grouping import GROUPING, RESOURCE
from evalspan_collector.conventions._kind import KIND, NAME_PATTERNS
from evalspan_collector.conventions._names import NAMES
from evalspan_collector.conventions._providers import NOT_PROVIDERS, PROVIDERS
from evalspan_collector.conventions._source import Rows, Source
from evalspan_collector.conventions._usage import USAGE
from evalspan_collector.converters import Convert
from evalspan_collector.span import Span, SpanKind

__all__ = [
    "FIELDS",
    "GENERIC_FIELDS",
    "NAME_PATTERNS",
    "NOT_PROVIDERS",
    "PROVIDERS",
    "RESOURCE",
    "Choice",
    "Option",
    "Shape",
    "Source",
    "scope_dialect",
    "shape_of",
]

#: Every field and its sources, best first.
FIELDS: Rows = {**KIND, **NAMES, **USAGE, **GROUPING, **CONTENT}
#: Fields that take only what no other field took.
GENERIC_FIELDS = ("input_value", "output_value")

#: Attribute key -> (field, rank among the field's sources, source).
_EXACT: dict[str, list[tuple[str, int, Source]]] = {}
_FAMILIES: list[tuple[str, int, Source]] = []
_SPAN_FIELDS = frozenset(f.name for f in fields(Span))
_ORDER = {field: i for i, field in enumerate(FIELDS)}
for _field, _sources in FIELDS.items():
    for _rank, _source in enumerate(_sources):
        if _source.key.endswith("."):
            _FAMILIES.append((_field, _rank, _source))
        else:
            _EXACT.setdefault(_source.key, []).append((_field, _rank, _source))



@dataclass(frozen=True, slots=True)
class Option:
    """One way to fill a field of a span with given keys.

    Attributes:
        key: The attribute, or the beginning of the family's keys.
        convert: Value to field value.
        family: Keys of a family and the rest of each, None for a single attribute.
        when: Kinds it is for, None for all.
    """

    key: str
    convert: Convert
    family: tuple[tuple[str, str], ...] | None
    when: frozenset[SpanKind] | None


#: A field with its options, best first.
Choice = tuple[str, tuple[Option, ...]]


@dataclass(frozen=True, slots=True)
class Shape:
    """What the table says of one set of attribute keys: worked out once, used for every span that has it."""

    dialect: str
    kinds: tuple[Option, ...]
    choices: tuple[Choice, ...]
    generic: tuple[Choice, ...]
    #: Fields that may get a value, and the keys: what a repair can ask for.
    names: frozenset[str]
    #: Fields of the table that are no fields of a span.
    scratch: tuple[str, ...]
    repairs: dict[tuple[str, SpanKind], Any]
    by_kind: dict[SpanKind, tuple[tuple[Choice, ...], tuple[Choice, ...]]]

    def of_kind(self, kind: SpanKind) -> tuple[tuple[Choice, ...], tuple[Choice, ...]]:
        """The specific and the generic choices that hold for a kind."""
        found = self.by_kind.get(kind)
        if found is None:
            found = self.by_kind[kind] = _narrowed(self.choices, kind), _narrowed(self.generic, kind)
        return found


def _narrowed(choices: tuple[Choice, ...], kind: SpanKind) -> tuple[Choice, ...]:
    kept = ((field, tuple(o for o in options if o.when is None or kind in o.when)) for field, options in choices)
    return tuple((field, options) for field, options in kept if options)


#: Shapes seen so far: real traffic has a few hundred. Bounded, since keys come from outside.
_SHAPES: dict[tuple[str, ...], Shape] = {}
_SHAPES_LIMIT = 2_000
_SHAPE_KEYS = 200


def shape_of(keys: tuple[str, ...]) -> Shape:
    """What the table says of these attribute keys."""
    found = _SHAPES.get(keys)
    if found is None:
        found = _shape(keys)
        if len(keys) <= _SHAPE_KEYS:
            if len(_SHAPES) >= _SHAPES_LIMIT:
                _SHAPES.clear()
            _SHAPES[keys] = found
    return found


def _shape(keys: tuple[str, ...]) -> Shape:
    ranked: dict[str, list[tuple[int, Option]]] = {}
    for key in keys:
        for field, rank, source in _EXACT.get(key, ()):
            ranked.setdefault(field, []).append((rank, Option(key, source.convert, None, source.when)))
    for field, rank, source in _FAMILIES:
        members = tuple((k, k[len(source.key) :]) for k in keys if k.startswith(source.key) and len(k) > len(source.key))
        if members:
            ranked.setdefault(field, []).append((rank, Option(source.key, source.convert, members, source.when)))
    choices: list[Choice] = []
    for field in sorted(ranked, key=_ORDER.__getitem__):
        choices.append((field, tuple(option for _, option in sorted(ranked[field], key=lambda r: r[0]))))
    return Shape(
        dialect=_dialect(keys),
        kinds=next((options for field, options in choices if field == "kind"), ()),
        choices=tuple(c for c in choices if c[0] != "kind" and c[0] not in GENERIC_FIELDS),
        generic=tuple(c for c in choices if c[0] in GENERIC_FIELDS),
        names=frozenset(keys) | ranked.keys(),
        scratch=tuple(f for f in ranked if f not in _SPAN_FIELDS and f != "kind"),
        repairs={},
        by_kind={},
    )


def _dialect(keys: tuple[str, ...]) -> str:
    """The dialect that the most telling key belongs to."""
    for prefix, dialect in KEY_DIALECTS:
        if any(k.startswith(prefix) for k in keys):
            return dialect
    return "unknown"


def scope_dialect(scope: str) -> str | None:
    """The dialect that an instrumentation scope belongs to, None when it says nothing."""
    for pattern, dialect in SCOPE_DIALECTS:
        if scope == pattern or (pattern.endswith("*") and scope.startswith(pattern[:-1])):
            return dialect
    return None
