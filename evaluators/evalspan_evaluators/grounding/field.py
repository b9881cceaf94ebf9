"""Field: a value that stands in another field of its record than the one an answer names."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from evalspan_evaluators.grounding.claim import Claim
from evalspan_evaluators.grounding.context import (
    attribute_match,
    context_of,
    key_stems,
    own_name,
    stems_of,
    tail_of,
    without_span,
)
from evalspan_evaluators.grounding.fact import Fact, Record
from evalspan_evaluators.grounding.fitness import comparable, is_bookkeeping, is_small
from evalspan_evaluators.grounding.lookup import number_of
from evalspan_evaluators.grounding.unit import measure

__all__ = ["Around", "may_mean", "named_field", "other_currency", "other_sign", "share_of_same"]

#: The words next to a claim name a field this well where it is the one meant, and the field that holds the value at
#: most so well anywhere in the sentence.
_NAMED, _UNNAMED = 0.85, 0.5
_FULLY = 0.95
#: Fields of one value looked at; a value that stands in more tells nothing.
_MOST_FOUND = 12
_MOST_FIELDS = 80
#: What the user, the prompt or the agent itself says may be meant of anything.
_HEARD = ("user", "system_prompt", "tool_arguments", "earlier_turn")
#: `p95`, `q3`: names with a number of their own.
_CODE = re.compile(r"(?<![A-Za-z\d])[A-Za-z]{1,6}\d{1,4}(?![A-Za-z\d])")
_BREAK = re.compile(r"[,;:.]\s|\b(?:and|but|while|with|und|et|y|e)\b|[、，。（(]", re.IGNORECASE)
_LONGEST = 120
_SHARES = frozenset(("rate", "pct", "percent", "percentag", "ratio", "share"))
_SIGNED = frozenset(("chang", "change", "delta", "diff", "differenc", "growth", "return", "performanc", "variation"))
_DOWN = re.compile(
    r"\b(?:down|fell|fallen|falling|dropp?(?:ed|ing|s)?|declin(?:ed|ing|es)|decreas(?:ed|ing|es)|lost|losing|sank|slid"
    r"|lower|gefallen|gesunken|minus|en baisse de|bajó|caiu)\s(?:by |of |um |about |around |nearly )?[\W]{0,2}$",
    re.IGNORECASE,
)
_UP = re.compile(
    r"\b(?:up|rose|risen|rising|gain(?:ed|ing|s)?|climb(?:ed|ing|s)?|grew|grown|increas(?:ed|ing|es)|jump(?:ed|s)"
    r"|higher|gestiegen|plus|en hausse de|subió|subiu)\s(?:by |of |um |about |around |nearly )?[\W]{0,2}$",
    re.IGNORECASE,
)
#: Currencies that one sign or word may stand for.
_FAMILIES = (
    frozenset(["USD", "CAD", "AUD", "NZD", "SGD", "HKD", "TWD", "MXN", "ARS", "CLP", "COP"]),
    frozenset(("JPY", "CNY")),
    frozenset(["MXN", "ARS", "CLP", "COP", "PHP", "UYU"]),
    frozenset(["INR", "PKR", "LKR", "NPR"]),
    frozenset(["SEK", "NOK", "DKK", "ISK"]),
)
_ISO_CODE = re.compile(r"[A-Z]{3}")


class _Words(NamedTuple):
    """Stems right before a claim, those and the ones right behind it, and all of its sentence."""

    ahead: tuple[str, ...]
    near: tuple[str, ...]
    said: frozenset[str]


class Around(NamedTuple):
    """Where a claim stands.

    Attributes:
        text: The answer.
        before: Where the claim before it ends: words ahead of that name another value.
        sentence: Offsets of its sentence.
    """

    text: str
    before: int
    sentence: tuple[int, int]


def _fields(record: Record) -> Iterator[Fact]:
    """The fields of a record, and those of the plain objects in it and around it."""
    yield from record.facts[:_MOST_FIELDS]
    for inner in record.children[:20]:
        if _is_plain(inner):
            yield from inner.facts[:20]
    if record.parent is not None and _is_plain(record):
        yield from record.parent.facts[:_MOST_FIELDS]


def _is_plain(record: Record) -> bool:
    """Whether a record is an object under a name, no row of a list."""
    return isinstance(record.key, str) and record.key[:1] not in ".[$" and record.prose is None


def named_field(around: Around, claim: Claim, found: Sequence[Fact], says: Callable[[Fact], bool]) -> Fact | None:
    """The field that the words next to a claim name, where the value stands only in fields they do not name.

    Args:
        around: Where the claim stands.
        claim: The number, date or time.
        found: The fields that hold the value.
        says: Whether a field can hold what the claim states, but holds something else.
    """
    if not found or len(found) > _MOST_FOUND:
        return None
    if any(f.record.prose is not None or f.record.source.kind in _HEARD for f in found):
        return None
    text, sentence = around.text, around.sentence
    ahead = text[max(around.before, sentence[0]) : claim.start]
    if around.before > sentence[0]:
        # What follows another value without a break may belong to that one.
        breaks = [m.end() for m in _BREAK.finditer(ahead)]
        ahead = ahead[breaks[-1] :] if breaks else ""
    if len(ahead) > _LONGEST:
        return None
    codes = {code.lower() for code in _CODE.findall(ahead)}
    said = frozenset(stems_of(text[sentence[0] : sentence[1]]))
    before = context_of(ahead, len(ahead), len(ahead), (0, len(ahead))).before[-4:]
    # Behind a small number stands what it counts.
    words = _Words(before, before if is_small(claim) else before + _behind(text, claim, sentence), said)
    meant: Fact | None = None
    for fact in found:
        other = _other(fact, words, codes, says)
        if other is None:
            return None
        meant = meant or other
    return meant


def _behind(text: str, claim: Claim, sentence: tuple[int, int]) -> tuple[str, ...]:
    tail = tail_of(text, claim.end, sentence[1])
    return context_of(tail, 0, 0, (0, len(tail))).after[:2]


def _other(fact: Fact, words: "_Words", codes: set[str], says: Callable[[Fact], bool]) -> Fact | None:
    """The field beside one that the words name instead of it."""
    ahead, near, around = words
    own = _codes(fact.key)
    if codes & own or (own and not codes) or is_bookkeeping(fact):
        return None
    fields = [f for f in _fields(fact.record) if f is not fact and f.key != fact.key and says(f)]
    if own or codes:
        return next((f for f in fields if codes & _codes(f.key)), None)
    parts = frozenset(key_stems(fact.key))
    if own_name(tuple(around), fact) > _UNNAMED or not around.isdisjoint(parts):
        # Its own words are said too, so only a field is meant that says more: `prev_revenue` of `revenue`.
        # A field named in full is meant rather than one named by a word they share: `last_seen` of `first_seen`.
        partly = 0 < own_name(ahead, fact) < _FULLY
        fields = [f for f in fields if parts < frozenset(key_stems(f.key)) or (partly and own_name(ahead, f) >= _FULLY)]
    best: tuple[float, Fact] | None = None
    for other in fields:
        if other.record is fact.record:
            match = own_name(near, other)
        else:
            match = attribute_match(near, other) if attribute_match(around, fact) <= _UNNAMED else 0.0
        if match >= _NAMED and (best is None or match > best[0]):
            best = (match, other)
    return best[1] if best is not None else None


def _codes(key: str) -> set[str]:
    return {code.lower() for code in _CODE.findall(without_span(key).replace("_", " "))}


def may_mean(claim: Claim, fact: Fact) -> Callable[[Fact], bool]:
    """Tells of fields whether they measure what the field of a number measures, and hold another number."""
    assert claim.quantity is not None
    value, kind, share = claim.quantity, measure(key_stems(fact.key)), _is_share(fact)

    def says(other: Fact) -> bool:
        number = number_of(other)
        if number is None or not comparable(claim, other) or abs(abs(number) - abs(value.value)) <= value.step * 1.01:
            return False
        return measure(key_stems(other.key)) == kind and _is_share(other) == share

    return says


def _is_share(fact: Fact) -> bool:
    return not _SHARES.isdisjoint(key_stems(fact.key)) or bool(fact.quantity and fact.quantity.percent)


def share_of_same(claim: Claim, found: Sequence[Fact]) -> Fact | None:
    """The share (`change_pct`) of what a claim tells in percent with the plain value (`change`)."""
    if claim.kind != "percent" or not found or len(found) > _MOST_FOUND:
        return None
    told: Fact | None = None
    for fact in found:
        if fact.record.prose is not None or _is_share(fact) or fact.record.source.kind in _HEARD:
            return None
        own = frozenset(key_stems(fact.key))
        told = next(
            (f for f in _fields(fact.record) if own and own < frozenset(key_stems(f.key)) and _is_share(f)), None
        )
        if told is None or number_of(told) is None:
            return None
    return told


def other_sign(text: str, claim: Claim, found: Sequence[Fact]) -> Fact | None:
    """A change told as a fall that was a rise, or the other way round."""
    ahead = text[max(0, claim.start - 40) : claim.start]
    falls, rises = _DOWN.search(ahead), _UP.search(ahead)
    if (falls is None) == (rises is None) or not found or len(found) > _MOST_FOUND:
        return None
    for fact in found:
        number = number_of(fact)
        if fact.record.prose is not None or not number or _SIGNED.isdisjoint(key_stems(fact.key)):
            return None
        if (number < 0) == (falls is not None):
            return None
    return found[0]


def other_currency(claim: Claim, found: Sequence[Fact]) -> Fact | None:
    """The currency of the record that holds an amount, where the answer tells another one."""
    ours = claim.quantity.currency if claim.quantity is not None else None
    if ours is None or not found or len(found) > _MOST_FOUND:
        return None
    told: Fact | None = None
    for fact in found:
        if fact.record.prose is not None or fact.record.source.kind in _HEARD:
            return None
        told = _currency_of(fact)
        if told is None or told.value == ours or any(ours in f and told.value in f for f in _FAMILIES):
            return None
    return told


def _currency_of(fact: Fact) -> Fact | None:
    """The nearest field that names a currency."""
    for record in fact.record.chain():
        for other in record.facts[:_MOST_FIELDS]:
            if "currency" in other.key.lower() and isinstance(other.value, str) and _ISO_CODE.fullmatch(other.value):
                return other
    return None
