"""Relevance: which sources, and which records of a long list, an answer can speak of, told by equal values."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evalspan_evaluators.grounding.claim import Claim
from evalspan_evaluators.grounding.source import Source, Texts
from evalspan_evaluators.jsonvalue import is_list, is_object

__all__ = ["Relevance"]

_MAX_WORDS = 4
_WORD = re.compile(r"[^\s\"“”«»*`|]+")
_FIGURE = re.compile(r"(?<![A-Za-z])[A-Za-z]*+\d[\w.:-]*\w")
_EDGE = ".,;:!?()[]{}'"
_TELLING = 3
#: A longer text is prose: it is searched, not compared.
_PROSE = 60
_MAX_DEPTH = 6
#: A value of at most so many records of a list tells them from the others.
_RARE = 4
_SMALL = 100
#: Sources of this size in all are read whole.
_FEW_LETTERS = 8000
_ITSELF = object()
_ALWAYS: frozenset[Any] = frozenset((_ITSELF,))


class Relevance:
    """The values an answer names, in the forms sources write them."""

    def __init__(self, text: str, claims: Iterable[Claim]) -> None:
        words = [w.strip(_EDGE) for w in _WORD.findall(text)]
        low = [w.lower() for w in words]
        values: set[Any] = {w for w in (*words, *low) if len(w) > 1}
        for size in range(2, _MAX_WORDS + 1):
            values.update(map(" ".join, zip(*(words[at:] for at in range(size)), strict=False)))
            values.update(map(" ".join, zip(*(low[at:] for at in range(size)), strict=False)))
            values.update(map("_".join, zip(*(low[at:] for at in range(size)), strict=False)))
        days: set[str] = set()
        for claim in claims:
            if claim.quantity is not None:
                numbers = [v * claim.quantity.scale for v in claim.quantity.values]
                numbers += [v / 100 for v in claim.quantity.values if claim.quantity.percent]
                # A small whole number stands in many records by chance.
                exact = claim.quantity.decimals > 0
                values.update(s * v for v in numbers if exact or v % 1 or v >= _SMALL for s in (1, -1))
            elif claim.moment is not None:
                days.update(str(day) for day in claim.moment.days if day.day and day.year)
        self._values = frozenset(values)
        self._days = frozenset(days)
        #: Whether a text names something, by text: the records of a list share most of them.
        self._known: dict[str, bool] = {}
        self._figures = tuple({t for t in _FIGURE.findall(text) if len(t) > _TELLING or "." in t} | days)
        self._words = frozenset(w for w in words if w[:1].isupper() and len(w) > _TELLING)
        self._telling = tuple(
            {
                w
                for w in words
                if len(w) >= _TELLING and (w[:1].isupper() or (not w.isalpha() and any(c.isdigit() for c in w)))
            }
        )

    def likely(self, texts: Texts) -> tuple[Source, ...]:
        """The sources without the tool results that hold no longer figure, date or id of the answer."""
        if not self._figures or sum(len(texts.of(s)) for s in texts.sources) <= _FEW_LETTERS:
            return texts.sources
        # The last result always counts: it says what the last call did.
        last = next((s for s in reversed(texts.sources) if s.kind == "tool_result"), None)
        return tuple(
            s
            for s in texts.sources
            if s.kind != "tool_result" or s.failed or s is last or any(f in texts.of(s) for f in self._figures)
        )

    def kept(self, records: Sequence[tuple[Any, Any]]) -> set[int]:
        """Positions of the records that are named by more than a value many of them share.

        Args:
            records: Key and value of each; values that are no objects are kept.
        """
        named: list[frozenset[Any]] = []
        counts: Counter[Any] = Counter()
        for key, record in records:
            found = self._named(key, record) if is_object(record) else _ALWAYS
            named.append(found)
            counts.update(found)
        most = max(_RARE, len(records) // 5)
        return {at for at, found in enumerate(named) if any(counts[v] <= most or v is _ITSELF for v in found)}

    def _named(self, key: Any, record: Mapping[Any, Any]) -> frozenset[Any]:
        """What of a record the answer names."""
        try:
            found = self._values.intersection(record.values())
        except TypeError:
            return _ALWAYS if self.touches(record) or key in self._values else frozenset()
        if key in self._values:
            return _ALWAYS
        known = self._known
        for value in record.values():
            if isinstance(value, str):
                named = known.get(value)
                if named is None:
                    named = known[value] = self.names(value)
                if named:
                    found = found.union((value,))
        return found

    def touches(self, record: Mapping[Any, Any], depth: int = 0) -> bool:
        """Whether a record with others inside it, or one of those, holds a value the answer names."""
        return any(
            (self.names(value) or value in self._values) if isinstance(value, str) else self._inside(value, depth)
            for value in record.values()
        )

    def _inside(self, value: Any, depth: int) -> bool:
        """Whether a value that no set can hold, or one beside it, is named."""
        if depth > _MAX_DEPTH:
            return True
        if is_object(value):
            return self.touches(value, depth + 1)
        if is_list(value):
            return any(self._inside(item, depth + 1) for item in value)
        return value in self._values

    def names(self, text: str) -> bool:
        """Whether a text is a day the answer names, ends in a name of it, or is prose with a name or figure of it."""
        if len(text) > _PROSE:
            return any(t in text for t in self._telling)
        return text[:10] in self._days or (" " in text and text[text.rfind(" ") + 1 :] in self._words)
