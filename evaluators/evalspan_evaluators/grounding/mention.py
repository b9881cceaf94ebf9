"""Mention: where an answer names a value that identifies a record of the sources."""

import re
from dataclasses import dataclass

from evalspan_evaluators.grounding.index import Fact, Index, Record
from evalspan_evaluators.grounding.text import STOP_WORDS

__all__ = ["Mention", "Mentions", "connected"]

_TOKEN = re.compile(r"[^\W_]+(?:['.&][^\W_]+)*")
_NAME_KEYS = ("name", "title", "label", "id", "code", "number", "key", "ticker", "symbol", "sku")
_MAX_PARTS = 6
_MAX_RECORDS = 12


@dataclass(frozen=True, slots=True)
class Mention:
    """One place of the answer that names values of the sources.

    Attributes:
        facts: The values it may name.
        strong: It looks like a name or an id, not like an ordinary word.
        records: Records that hold one of the facts.
    """

    start: int
    end: int
    text: str
    facts: tuple[Fact, ...]
    strong: bool
    records: tuple[Record, ...]


def _parts(text: str) -> tuple[str, ...]:
    return tuple(_TOKEN.findall(text.lower()))


def _is_strong(fact: Fact) -> bool:
    value = str(fact.value)
    return any(c.isdigit() for c in value) or any(c.isupper() for c in value)


class Mentions:
    """Every mention of an answer, longest first where they overlap."""

    def __init__(self, text: str, index: Index) -> None:
        self.items: list[Mention] = []
        tokens = [(m.start(), m.end(), m[0].lower()) for m in _TOKEN.finditer(text)]
        names = _names(index, {t for _, _, t in tokens})
        taken_to = -1
        for at, (start, _, token) in enumerate(tokens):
            if start < taken_to:
                continue
            for parts, facts in names.get(token, ()):
                last = at + len(parts) - 1
                if last < len(tokens) and all(tokens[at + i][2] == p for i, p in enumerate(parts)):
                    end = tokens[last][1]
                    strong = any(_is_strong(f) for f in facts) and (text[start:end] != text[start:end].lower() or any(c.isdigit() for c in text[start:end]))
                    records = tuple(dict.fromkeys(f.record for f in facts))
                    self.items.append(Mention(start, end, text[start:end], tuple(facts), strong, records))
                    taken_to = end
                    break

    def within(self, start: int, end: int, *, strong: bool = True) -> list[Mention]:
        """Mentions inside a span of the answer."""
        return [m for m in self.items if start <= m.start and m.end <= end and (m.strong or not strong)]


def _names(index: Index, present: set[str]) -> dict[str, list[tuple[tuple[str, ...], list[Fact]]]]:
    """Names by first token, longest first; full names also by their last part."""
    found: dict[tuple[str, ...], list[Fact]] = {}
    for text, facts in index.strings.items():
        if len(text) > 60:
            continue
        parts = _parts(text)
        if not parts or len(parts) > _MAX_PARTS or not any(c.isalpha() for c in text) or (len(parts) == 1 and (len(text) < 2 or text in STOP_WORDS)):
            continue
        if parts[0] in present:
            found.setdefault(parts, []).extend(facts)
        if 2 <= len(parts) <= 4 and parts[-1] in present and _is_person_like(facts[0]):
            found.setdefault(parts[-1:], []).extend(facts)
    names: dict[str, list[tuple[tuple[str, ...], list[Fact]]]] = {}
    for parts in sorted(found, key=len, reverse=True):
        names.setdefault(parts[0], []).append((parts, found[parts]))
    return names


def _is_person_like(fact: Fact) -> bool:
    words = str(fact.value).split()
    return len(words) >= 2 and all(w[:1].isupper() for w in words) and words[-1].isalpha() and len(words[-1]) > 3


def connected(fact: Fact, other: Fact) -> bool:
    """Whether two values belong together: one record inside the other, or arguments and result of one call."""
    a, b = fact.record, other.record
    if a is b:
        return True
    if a.source is b.source:
        return _inside(a, b) or _inside(b, a)
    return (
        a.source.call >= 0
        and a.source.call == b.source.call
        and a.source.tool == b.source.tool
        and a.source.kind != b.source.kind
    )


def _inside(inner: Record, outer: Record) -> bool:
    at: Record | None = inner
    while at is not None:
        if at is outer:
            return True
        at = at.parent
    return False
