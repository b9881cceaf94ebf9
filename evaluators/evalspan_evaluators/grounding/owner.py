"""Owner: whose value a value is, by the names that stand with it in its record, sentence or call."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from evalspan_evaluators.grounding.claim import Claim
from evalspan_evaluators.grounding.context import Context, attribute_match
from evalspan_evaluators.grounding.fact import Fact, Record
from evalspan_evaluators.grounding.fitness import clashes, is_small, same_type
from evalspan_evaluators.grounding.index import Index
from evalspan_evaluators.grounding.lookup import number_of
from evalspan_evaluators.grounding.mention import Mention
from evalspan_evaluators.grounding.text import STOP_WORDS, key_words, stem
from evalspan_evaluators.grounding.unit import measure

__all__ = ["Owners", "Said"]

_WORD = re.compile(r"[A-Za-z]+[-_]?\d[\w-]*|[^\W_]+(?:['’][^\W\d_]+)?")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]{2,}")
#: Facts of one value looked at; a value that stands in more places tells nothing about its owner.
_MOST_FOUND = 60
#: What the user, the prompt or the agent itself says may be meant of anything.
_HEARD = ("user", "system_prompt", "tool_arguments")
#: Values of subjects looked at.
_MOST_OWN = 400
_LONG = 80
_SHORT = 30


def _tokens(text: str) -> Iterator[tuple[str, bool]]:
    """Words in lower case and whether each is written like a name; of scripts without spaces every two letters."""
    for match in _WORD.finditer(text):
        word = match[0]
        run = _CJK.search(word)
        if run is not None:
            for at in range(len(run[0]) - 1):
                yield run[0][at : at + 2], True
        elif len(word) > 1 and not word.isdigit() and word.lower() not in STOP_WORDS:
            yield word.lower().removesuffix("'s"), word[0].isupper()


@dataclass(frozen=True, slots=True)
class _About:
    """Tokens that stand with a value, and those of them that name something.

    Attributes:
        record: The record or sentence of the value.
        names: Tokens of its prose that are written like names.
        first: The name a sentence starts with, empty when it starts with none.
        by_key: Names by the field or argument that holds them.
    """

    record: Record
    tokens: frozenset[str]
    names: frozenset[str]
    first: str
    by_key: frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Said:
    """The words of an answer around a claim, without the claim.

    Attributes:
        near: The words next to it, whose names are the subject.
        sentence: The whole sentence, for a subject further away.
    """

    near: str
    sentence: str


class Owners:
    """Tells of values that they belong to another subject than the one an answer speaks of."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self._about: dict[int, _About] = {}
        self._arguments: dict[tuple[int, str | None], list[Record]] | None = None
        self._starts: frozenset[str] | None = None
        self._value_words: frozenset[str] | None = None

    def may_tell(self, claim: Claim, context: Context, found: Sequence[Fact]) -> bool:
        """Whether the facts that hold a claimed value can tell whose it is."""
        if not found or len(found) > _MOST_FOUND or any(f.record.source.kind in _HEARD for f in found):
            return False
        # Records are compared by their links.
        return any(f.record.prose is not None for f in found) or (is_small(claim) and _measured(claim, context) != "")

    def own_value(
        self, said: Said, claim: Claim, context: Context, mentions: Sequence[Mention], found: Sequence[Fact]
    ) -> Fact | None:
        """The subject's own value where a claim states one that only another subject has; else None.

        Args:
            said: What the answer says around the claim.
            claim: The number, date or time.
            context: The words that say what the value is.
            mentions: The mentions in reach of the claim, for a sentence without names.
            found: Facts that hold the claimed value, of which `may_tell` is true.
        """
        around = frozenset(t for t, _ in _tokens(said.sentence))
        unit = claim.quantity.unit if claim.quantity is not None else ""
        known = frozenset(t for m in mentions for t, _ in _tokens(m.text))
        names = self._names(said.near, known, unit) or self._names(said.sentence, known, unit) or known
        theirs = [self._of(f.record) for f in found]
        if not names or any(names & about.tokens for about in theirs):
            return None
        best: tuple[float, Fact] | None = None
        for fact in self._candidates(names, mentions):
            ours = self._of(fact.record)
            telling = (names & ours.tokens).difference(*(about.tokens for about in theirs))
            if not telling or not _same_measure(claim, context, fact, found):
                continue
            if _says(fact, claim):
                return None
            if not all(_differs(ours, other, telling, around, self._values()) for other in theirs):
                continue
            near = attribute_match(context.all, fact) + (fact.record.source.kind == "tool_result")
            if best is None or near > best[0]:
                best = (near, fact)
        return best[1] if best else None

    def _names(self, text: str, known: frozenset[str], unit: str) -> frozenset[str]:
        """The names of a text that some source holds; only those that are values there, where any is."""
        found = frozenset(
            t
            for t, named in _tokens(text)
            if named and t in self.index.blob and not measure((t,)) and stem(t) != unit and self._may_head(t)
        )
        return found & known or found

    def _may_head(self, token: str) -> bool:
        """Of a script without spaces only what starts a sentence or stands in a value counts as a name."""
        if token[0] < "\u3040" or token in self._values():
            return True
        if self._starts is None:
            self._starts = frozenset(r.prose.lstrip("-*• ")[:2] for r in self.index.records if r.prose is not None)
        return token in self._starts

    def _values(self) -> frozenset[str]:
        """Words of the short values of all records."""
        if self._value_words is None:
            texts = (text for text in self.index.strings if len(text) <= _SHORT)
            self._value_words = frozenset(t for text in texts for t, _ in _tokens(text))
        return self._value_words

    def _candidates(self, names: frozenset[str], mentions: Sequence[Mention]) -> Iterator[Fact]:
        """Values of records, calls and sentences that name the subject."""
        seen: set[int] = set()
        budget = _MOST_OWN
        for record in self._homes(names, mentions):
            for fact in record.below(budget):
                if id(fact) not in seen:
                    seen.add(id(fact))
                    yield fact
                budget -= 1
            if budget <= 0:
                return

    def _homes(self, names: frozenset[str], mentions: Sequence[Mention]) -> Iterator[Record]:
        calls: set[tuple[int, str | None]] = set()
        for mention in mentions:
            if any(t in names for t, _ in _tokens(mention.text)):
                yield from mention.records[:12]
                calls.update(
                    (r.source.call, r.source.tool) for r in mention.records[:12] if r.source.kind == "tool_arguments"
                )
        for record in self.index.records:
            source = record.source
            asked = record.parent is None and source.kind == "tool_result" and (source.call, source.tool) in calls
            if asked or (record.prose is not None and record.facts and names & self._of(record).tokens):
                yield record

    def _of(self, record: Record) -> _About:
        known = self._about.get(id(record))
        if known is None:
            known = self._about[id(record)] = self._read(record)
        return known

    def _read(self, record: Record) -> _About:
        tokens: set[str] = set()
        names: set[str] = set()
        by_key: set[tuple[str, str]] = set()
        first = ""
        homes = [*record.chain(), *self._arguments_of(record)]
        for home in homes:
            if home.prose is not None:
                pairs = list(_tokens(home.prose))
                tokens.update(t for t, _ in pairs)
                names.update(t for t, named in pairs if named and not measure((t,)))
                if pairs and pairs[0][1] and home.prose.lstrip("-*• ").lower().startswith(pairs[0][0]):
                    first = pairs[0][0]
                continue
            for key, text in _strings(home):
                for token, _ in _tokens(text):
                    tokens.add(token)
                    by_key.add((key, token))
        return _About(record, frozenset(tokens), frozenset(names), first, frozenset(by_key))

    def _arguments_of(self, record: Record) -> Iterable[Record]:
        """What the call of a result was asked for."""
        if record.source.kind != "tool_result" or record.source.call == -1:
            return ()
        if self._arguments is None:
            self._arguments = {}
            for other in self.index.records:
                if other.source.kind == "tool_arguments":
                    self._arguments.setdefault((other.source.call, other.source.tool), []).append(other)
        return self._arguments.get((record.source.call, record.source.tool), ())


def _strings(record: Record) -> Iterator[tuple[str, str]]:
    """Short texts of a record by key, and the key of the record itself where it is a name."""
    for fact in record.facts[:60]:
        if isinstance(fact.value, str) and len(fact.value) < _LONG and fact.place < 0:
            yield fact.key, fact.value
    if isinstance(record.key, str) and record.key[:1] not in (".", "[", "$", ""):
        yield "", record.key


def _differs(
    ours: _About, other: _About, telling: frozenset[str], said: frozenset[str], values: frozenset[str]
) -> bool:
    """Whether the other value names a subject of its own in the place where ours names the telling one."""
    keys = {key for key, token in ours.by_key if token in telling}
    rivals = {token for key, token in other.by_key if key in keys}
    if rivals and not rivals & said:
        return True
    if other.record.prose is None:
        return False
    free = other.names - said - ours.tokens - {other.first}
    if free and not (other.names & said - ours.tokens):
        return True
    if not other.first or other.first in said or other.first in ours.tokens:
        return False
    # Any word is written like a name at the start of a sentence.
    shape = _shape(other.record)
    if ours.record.source is other.record.source:
        return shape != "" and shape == _shape(ours.record)
    return ours.first in telling or shape in (":", "：") or other.first in values


def _shape(record: Record) -> str:
    """What follows the first word of a sentence: lines of one list share it."""
    match = _WORD.search(record.prose or "")
    return (record.prose or "")[match.end() :].lstrip()[:1] if match else ""


def _says(fact: Fact, claim: Claim) -> bool:
    """Whether a value of the subject is what is claimed, also after rounding."""
    if claim.moment is not None and fact.moment is not None:
        return bool(set(claim.moment.minutes) & set(fact.moment.minutes)) or any(
            a.agrees(b) for a in claim.moment.days for b in fact.moment.days
        )
    value, q = number_of(fact), claim.quantity
    return value is None or q is None or any(abs(abs(value) - abs(v * q.scale)) <= q.step for v in q.values)


def _around(context: Context) -> tuple[str, ...]:
    """The words that may name what is claimed."""
    return (*context.label, *context.after[:2], *context.before[-3:])


def _measured(claim: Claim, context: Context) -> str:
    """What a claimed number measures by its unit or the words next to it."""
    q = claim.quantity
    return "" if q is None or q.percent or q.currency else measure((q.unit, *_around(context)))


def _same_measure(claim: Claim, context: Context, fact: Fact, found: Sequence[Fact]) -> bool:
    """Whether a value can be the true one of what is claimed: same field, same unit, or named by the claim's words."""
    if not same_type(fact, claim) or (claim.quantity is not None and clashes(claim, fact)):
        return False
    q, other = claim.quantity, fact.quantity
    around = _around(context)
    named = _same_field(fact, found) or attribute_match(around, fact) >= 0.6
    if q is None:
        return named
    ours = _measured(claim, context)
    if fact.record.prose is None:
        theirs = measure(key_words(fact.key)) or (measure((other.unit,)) if other is not None else "")
        if ours and theirs:
            return ours == theirs
        if is_small(claim):
            # A small number stands in some field of some record by chance.
            return any(f.record.prose is not None for f in found) and attribute_match(around, fact) >= 0.6
        return named
    if other is None or q.percent != other.percent or (q.currency is None) != (other.currency is None):
        return False
    theirs = measure((other.unit,))
    if ours or theirs:
        return ours == theirs
    return q.percent or q.currency is not None or (q.unit != "" and q.unit == other.unit)


def _same_field(fact: Fact, found: Sequence[Fact]) -> bool:
    return fact.key != "" and any(f.key == fact.key for f in found)
