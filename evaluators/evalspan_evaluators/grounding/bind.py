"""Bind: which record an answer speaks of at a claim, and what that record says."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from evalspan_evaluators.grounding.claim import Claim
from evalspan_evaluators.grounding.context import (
    Context,
    attribute_match,
    fact_words,
    key_stems,
    may_stand_near,
    own_match,
)
from evalspan_evaluators.grounding.fact import Fact
from evalspan_evaluators.grounding.index import Index
from evalspan_evaluators.grounding.layout import Layout
from evalspan_evaluators.grounding.mention import Mention, Mentions
from evalspan_evaluators.grounding.unit import dimension

__all__ = ["Binder", "Scope", "closeness", "is_number", "known_units", "linked", "links", "same_key"]

#: A key names the value when its parts match the claim's words at least this well.
ATTRIBUTE = 0.6
_MAX_FACTS = 400
#: A longer line is a paragraph: its other sentences may have other subjects.
_SHORT_LINE = 240


class Scope(NamedTuple):
    """Subjects a claim may speak of.

    Attributes:
        near: The nearest subject: last mention before the claim in its sentence, or the head of its block.
        line: Every strong mention of its sentence and line.
        around: Mentions of the lines over and under it, and of the sentence before.
        all: Every mention in scope, once by what it says.
    """

    near: tuple[Mention, ...]
    line: tuple[Mention, ...]
    around: tuple[Mention, ...]
    all: tuple[Mention, ...]


class Binder:
    """Finds the subject of a claim and the facts of that subject."""

    def __init__(self, text: str, index: Index, spans: Sequence[tuple[int, int]]) -> None:
        self.text = text
        self.index = index
        self.spans = spans
        self._starts = [start for start, _ in spans]
        self.layout = Layout(text)
        self.mentions = Mentions(text, index)
        self._keyed: dict[tuple[str, str], list[Fact]] | None = None
        self._prose: list[Fact] | None = None

    def sentence(self, offset: int) -> tuple[int, int]:
        """The sentence or line that holds an offset."""
        position = bisect_right(self._starts, offset) - 1
        if position >= 0 and offset < self.spans[position][1]:
            return self.spans[position]
        return (max(0, offset - 200), min(len(self.text), offset + 200))

    def keyed(self) -> dict[tuple[str, str], list[Fact]]:
        """Numeric facts of records by key and the named key around it."""
        if self._keyed is None:
            self._keyed = {}
            for _, fact in self.index.numbers:
                if fact.record.prose is None:
                    self._keyed.setdefault((fact.key, fact.record.named_key), []).append(fact)
        return self._keyed

    def prose(self) -> list[Fact]:
        """Numeric facts of sentences."""
        if self._prose is None:
            self._prose = [f for _, f in self.index.numbers if f.record.prose is not None]
        return self._prose

    def scope(self, claim: Claim, context: Context) -> Scope:
        """The subjects in reach of a claim, without the claim itself."""
        start, end = context.sentence
        line = self.layout.lines[self.layout.line_at(claim.start)] if self.layout.lines else None
        own = [m for m in self.mentions.within(start, end) if not _same_place(m, claim)]
        before = [m for m in own if m.end <= claim.start]
        around: list[Mention] = []
        if line is not None and line.end - line.start <= _SHORT_LINE:
            own_line = [m for m in self.mentions.within(line.start, line.end) if not _same_place(m, claim)]
            own.extend(m for m in own_line if m not in own)
        if line is not None:
            position = self.layout.line_at(claim.start)
            for head in self.layout.headers(position)[:3]:
                around.extend(self.mentions.within(head.start, head.end))
            for deeper in self.layout.body(position)[:8]:
                around.extend(self.mentions.within(deeper.start, deeper.end))
        near = self._subjects(before) or own[:1]
        if not own:
            around.extend(m for m in self._sentence_before(start))
            near = around[:1]
        every = {m.text.lower(): m for m in (*around, *own, *near)}
        return Scope(tuple(near), tuple(own), tuple(around), tuple(every.values()))

    def _subjects(self, before: list[Mention]) -> list[Mention]:
        """Mentions before a claim, likeliest subject first: the last one that hangs on no preposition."""
        free = [m for m in before if not _HANGS.search(self.text, max(0, m.start - 14), m.start)]
        return list(dict.fromkeys((*reversed(free[-1:]), *reversed(before[-2:]))))

    def _sentence_before(self, start: int) -> list[Mention]:
        position = bisect_left(self._starts, start)
        for span in reversed(self.spans[max(0, position - 2) : position]):
            found = self.mentions.within(*span)
            if found:
                return found
        return []

    def attribute_facts(
        self, mention: Mention, words: tuple[str, ...], fits: Callable[[Fact], bool] = lambda _: True
    ) -> list[Fact]:
        """Numeric facts of the mention's records whose key the words name, the best-named ones only."""
        scored: list[tuple[float, Fact]] = []
        budget = _MAX_FACTS
        for record in mention.records[:12]:
            for fact in record.below(budget):
                budget -= 1
                if fact.quantity is None and not is_number(fact):
                    continue
                match = own_match(words, fact)
                if match >= ATTRIBUTE and fits(fact):
                    scored.append((match, fact))
        if not scored:
            return []
        best = max(s for s, _ in scored)
        return [f for s, f in scored if s >= best - 0.05]

    def blank(self, mention: Mention, words: tuple[str, ...]) -> Fact | None:
        """The mention's field that the words name, where the source says there is no value."""
        for record in mention.records[:4]:
            for fact in record.facts:
                if (
                    isinstance(fact.value, str)
                    and fact.value.lower() in _BLANKS
                    and own_match(words, fact) >= ATTRIBUTE
                ):
                    return fact
        return None


_HANGS = re.compile(
    r"\b(?:for|to|against|over|from|at|in|into|vs\.?|für|gegen|pour|contre"
    r"|para|contra)\s(?:the |his |her |its |their |host |visiting )?$",
    re.IGNORECASE,
)
_BLANKS = frozenset(("n/a", "na", "none", "null", "-", "--", "—"))


#: Keys that say nothing without the object around them: `unit_price.amount`, `total.amount`.
_BARE = frozenset(("", "amount", "value"))
_PLACE = re.compile(r"\[\d+\]")


def is_number(fact: Fact) -> bool:
    """Whether the value is a number or a text that is one."""
    value = fact.value
    if isinstance(value, bool):
        return False
    if isinstance(value, int | float):
        return True
    return isinstance(value, str) and value.lstrip("-").replace(".", "", 1).isdigit()


def _same_place(mention: Mention, claim: Claim) -> bool:
    return mention.start < claim.end and claim.start < mention.end


def linked(facts: Iterable[Fact], mentions: Sequence[Mention]) -> bool:
    """Whether any of the facts belongs with any of the mentions."""
    return any(m.reach.holds(f.record) for f in list(facts)[:200] for m in mentions)


def closeness(fact: Fact, mentions: Sequence[Mention]) -> float:
    """How many of the mentions a fact belongs with, where a mention of few records counts more than one of many."""
    record = fact.record
    total = 0.0
    for mention in mentions:
        if mention.reach.holds(record):
            total += 1.0 / len(mention.records)
    return total


def links(fact: Fact, mentions: Sequence[Mention]) -> int:
    """How many of the mentions a fact belongs with."""
    return sum(m.reach.holds(fact.record) for m in mentions)


def same_key(fact: Fact, others: Iterable[Fact]) -> bool:
    """Whether a fact has the key of one of the others, in a record of the same kind."""
    home = _home(fact)
    return any(fact.key == o.key and home == _home(o) for o in others)


def _home(fact: Fact) -> str:
    """The name of the object around a value whose key says nothing, the place in a list left out; else empty."""
    if fact.key not in _BARE:
        return ""
    named = fact.record.named_key
    return named if fact.key == "" else _PLACE.sub("", named)


def known_units(binder: Binder, words: tuple[str, ...]) -> tuple[list[Fact], list[Fact]]:
    """Numeric facts that count what the words name: those with it in key or sentence, and those that say just that."""
    loose: list[Fact] = []
    exact: list[Fact] = []
    if not words:
        return loose, exact
    of_time = {word for word in words if dimension(word) == "time"}
    for (key, _), facts in binder.keyed().items():
        timed = bool(of_time) and not of_time.isdisjoint(key_stems(key))
        if timed or own_match(words, facts[0]) >= ATTRIBUTE:
            exact.extend(facts)
        if timed or attribute_match(words, facts[0]) >= ATTRIBUTE:
            loose.extend(facts)
    wanted = set(words)
    heads = tuple(word[: min(3, len(word) - 1)] for word in wanted)
    for fact in binder.prose():
        if may_stand_near(fact, heads) and wanted.intersection(near := fact_words(fact)):
            loose.append(fact)
            unit = fact.quantity.unit if fact.quantity is not None else ""
            if (dimension(unit) and unit in wanted) or len(wanted.intersection(near)) >= 3:
                exact.append(fact)
    return loose, exact
