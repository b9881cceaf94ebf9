"""Conventions: the one table of 26 span dialects, field -> ordered sources -> converter, and its index by key."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

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
    "Plan",
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
    for _place, _source in enumerate(_sources):
        if _source.key.endswith("."):
            _FAMILIES.append((_field, _place, _source))
        else:
            _EXACT.setdefault(_source.key, []).append((_field, _place, _source))


class Option(NamedTuple):
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
#: A field that one attribute gives: field, key, converter.
Single = tuple[str, str, Convert]
#: A field that two attributes give, the better first: field, key, converter, other key, other converter.
Pair = tuple[str, str, Convert, str, Convert]


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do for spans of one shape and kind.

    Attributes:
        singles: Fields with one option that is one attribute.
        pairs: Fields with two such options: nearly always two dialects that say the same.
        choices: The other fields with their options.
        generic: Fields that take only what no other took: each option with how many earlier fields want its attribute.
        wanted: How many fields want an attribute, where it is more than one.
        leftover: Keys that no field of this kind wants.
        repairs: Dialect to the repairs that can concern such a span; filled by `normalise`.
    """

    singles: tuple[Single, ...]
    pairs: tuple[Pair, ...]
    choices: tuple[Choice, ...]
    generic: tuple[tuple[str, tuple[tuple[Option, int], ...]], ...]
    wanted: dict[str, int]
    leftover: tuple[str, ...]
    repairs: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """What the table says of one set of attribute keys: worked out once, used for every span that has it.

    Attributes:
        keys: The attribute keys.
        operation: The key that has the dialect's own word for the operation.
        names: Fields that may get a value, and the keys: what a repair can ask for.
        scratch: Fields of the table that are no fields of a span.
    """

    keys: tuple[str, ...]
    dialect: str
    kinds: tuple[Option, ...]
    operation: str | None
    choices: tuple[Choice, ...]
    names: frozenset[str]
    scratch: tuple[str, ...]
    plans: dict[str, Plan]

    def plan(self, kind: SpanKind) -> Plan:
        """What to do for a kind."""
        found = self.plans.get(kind._value_)
        if found is None:
            found = self.plans[kind._value_] = self._made(kind)
        return found

    def _made(self, kind: SpanKind) -> Plan:
        held = tuple((f, tuple(o for o in options if o.when is None or kind in o.when)) for f, options in self.choices)
        kept = tuple((f, options) for f, options in held if options)
        singles: list[Single] = []
        pairs: list[Pair] = []
        choices: list[Choice] = []
        wanted: Counter[str] = Counter()
        for field, options in kept:
            if field in GENERIC_FIELDS:
                continue
            wanted.update(_keys_of(options))
            alone = all(o.family is None for o in options)
            if alone and len(options) == 1:
                singles.append((field, options[0].key, options[0].convert))
            elif alone and len(options) == 2:
                pairs.append((field, options[0].key, options[0].convert, options[1].key, options[1].convert))
            else:
                choices.append((field, options))
        generic: list[tuple[str, tuple[tuple[Option, int], ...]]] = []
        for field, options in kept:
            if field in GENERIC_FIELDS:
                generic.append((field, tuple((o, wanted[o.key]) for o in options)))
                wanted.update(_keys_of(options))
        used = {*wanted, self.operation, *(o.key for o in self.kinds)}
        return Plan(
            singles=tuple(singles),
            pairs=tuple(pairs),
            choices=tuple(choices),
            generic=tuple(generic),
            wanted={k: times for k, times in wanted.items() if times > 1},
            leftover=tuple(k for k in self.keys if k not in used),
            repairs={},
        )


def _keys_of(options: Iterable[Option]) -> Iterator[str]:
    """The attribute keys that the options of a field would take."""
    for option in options:
        if option.family is None:
            yield option.key
        else:
            yield from (key for key, _ in option.family)


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
    hits: list[tuple[str, int, Source, tuple[tuple[str, str], ...] | None]] = []
    for key in keys:
        hits.extend((field, rank, source, None) for field, rank, source in _EXACT.get(key, ()))
    for field, rank, source in _FAMILIES:
        members: tuple[tuple[str, str], ...] | None = tuple(
            (k, k[len(source.key) :]) for k in keys if k.startswith(source.key) and len(k) > len(source.key)
        )
        if members:
            hits.append((field, rank, source, members))
    ranked: dict[str, list[tuple[int, Option]]] = {}
    for field, rank, source, members in hits:
        ranked.setdefault(field, []).append((rank, Option(source.key, source.convert, members, source.when)))
    choices: list[Choice] = [
        (field, tuple(option for _, option in sorted(ranked[field], key=_rank)))
        for field in sorted(ranked, key=_ORDER.__getitem__)
    ]
    return Shape(
        keys=keys,
        dialect=_dialect(keys),
        kinds=next((options for field, options in choices if field == "kind"), ()),
        operation=next((options[0].key for field, options in choices if field == "operation"), None),
        choices=tuple(c for c in choices if c[0] not in {"kind", "operation"}),
        names=frozenset(keys) | ranked.keys(),
        scratch=tuple(f for f in ranked if f not in _SPAN_FIELDS and f != "kind"),
        plans={},
    )


def _rank(ranked: tuple[int, Option]) -> int:
    return ranked[0]


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
