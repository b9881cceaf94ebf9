"""Conventions: the one table of 26 span dialects, field -> ordered sources -> converter, and its index by key."""

from dataclasses import dataclass

from evalspan_collector.conventions._content import CONTENT
from evalspan_collector.conventions._dialects import KEY_DIALECTS, SCOPE_DIALECTS
from evalspan_collector.conventions._grouping import GROUPING, RESOURCE
from evalspan_collector.conventions._kind import KIND, NAME_PATTERNS
from evalspan_collector.conventions._names import NAMES
from evalspan_collector.conventions._providers import NOT_PROVIDERS, PROVIDERS
from evalspan_collector.conventions._source import Rows, Source
from evalspan_collector.conventions._usage import USAGE

__all__ = [
    "FIELDS",
    "GENERIC_FIELDS",
    "NAME_PATTERNS",
    "NOT_PROVIDERS",
    "PROVIDERS",
    "RESOURCE",
    "Entry",
    "Hit",
    "Source",
    "dialect_of_rank",
    "lookup",
    "scope_dialect",
]

#: Every field and its sources, best first.
FIELDS: Rows = {**KIND, **NAMES, **USAGE, **GROUPING, **CONTENT}
#: Fields that take only what no other field took.
GENERIC_FIELDS = ("input_value", "output_value")

#: One possible use of an attribute: field, rank among the field's sources, source, rest of the key of a family.
Hit = tuple[str, int, Source, str | None]


@dataclass(frozen=True, slots=True)
class Entry:
    """What the table knows of one attribute key."""

    hits: tuple[Hit, ...]
    dialect_rank: int


_NO_DIALECT = len(KEY_DIALECTS)
_EXACT: dict[str, list[Hit]] = {}
_FAMILIES: list[tuple[str, Hit]] = []
for _field, _sources in FIELDS.items():
    for _rank, _source in enumerate(_sources):
        if _source.key.endswith("."):
            _FAMILIES.append((_source.key, (_field, _rank, _source, None)))
        else:
            _EXACT.setdefault(_source.key, []).append((_field, _rank, _source, None))

#: Keys seen so far: real traffic has few hundred. Bounded, since keys come from outside.
_SEEN: dict[str, Entry] = {}
_SEEN_LIMIT = 20_000
_SEEN_KEY_CHARS = 200


def lookup(key: str) -> Entry:
    """What the table says of an attribute key; remembered, so that a known key costs one dict access."""
    entry = _SEEN.get(key)
    if entry is None:
        entry = _find(key)
        if len(key) <= _SEEN_KEY_CHARS:
            if len(_SEEN) >= _SEEN_LIMIT:
                _SEEN.clear()
            _SEEN[key] = entry
    return entry


def _find(key: str) -> Entry:
    hits = list(_EXACT.get(key, ()))
    for prefix, (field, rank, source, _) in _FAMILIES:
        if key.startswith(prefix):
            hits.append((field, rank, source, key[len(prefix) :]))
    rank = next((i for i, (prefix, _) in enumerate(KEY_DIALECTS) if key.startswith(prefix)), _NO_DIALECT)
    return Entry(tuple(hits), rank)


def dialect_of_rank(rank: int) -> str:
    """The dialect that the best-ranked key of a span tells."""
    return KEY_DIALECTS[rank][1] if rank < _NO_DIALECT else "unknown"


def scope_dialect(scope: str) -> str | None:
    """The dialect that an instrumentation scope belongs to, None when it says nothing."""
    for pattern, dialect in SCOPE_DIALECTS:
        if scope == pattern or (pattern.endswith("*") and scope.startswith(pattern[:-1])):
            return dialect
    return None
