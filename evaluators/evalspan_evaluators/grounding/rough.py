"""Rough: bounds such as `more than 2%` or `under $190`, and equivalents such as `23 kg (50 lb)`."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from evalspan_evaluators.grounding.claim import Claim
from evalspan_evaluators.grounding.context import Context, attribute_match, key_stems
from evalspan_evaluators.grounding.fact import Fact
from evalspan_evaluators.grounding.fitness import comparable
from evalspan_evaluators.grounding.index import Index
from evalspan_evaluators.grounding.lookup import number_of
from evalspan_evaluators.grounding.unit import convert, dimension

__all__ = ["Bound", "bound_of", "equivalent", "find_within"]

_MORE = re.compile(
    r"(?:\b(?:more than|over|above|exceed(?:s|ed|ing)?|topp(?:ed|ing|s)|surpass(?:ed|es|ing)?|at least"
    r"|greater than|higher than|beyond|no(?:t)? less than"
    r"|no(?:t)? fewer than|mehr als|über|mindestens|plus de|au moins|más de|al menos|mais de|pelo menos)\s"
    r"|超过|超過|至少|大于)(?:the |a )?\W{0,3}$",
    re.IGNORECASE,
)
_LESS = re.compile(
    r"(?:\b(?:less than|under|below|fewer than|lower than|at most|up to|no(?:t)? more than|within|weniger als|unter"
    r"|höchstens|moins de|au plus|menos de|como máximo|no máximo)\s|不到|少于|低于|小于)(?:the |a )?\W{0,3}$",
    re.IGNORECASE,
)
_MORE_BEHIND = re.compile(r"\s?(?:以上|を超え|or more|or higher|and above|und mehr|ou plus|o más|ou mais)")
_LESS_BEHIND = re.compile(r"\s?(?:以下|以内|未満|or less|or fewer|or lower|and below|ou moins|o menos|ou menos)")
_LONGEST = 32
#: A bound says something of values up to so many times as far away.
_FARTHEST = 1.6
#: Words name a field this well, at least, where it is what the bound is about.
_NAMED = 0.6
_LIMITS = frozenset(("max", "maximum", "min", "minimum", "limit", "cap", "ceil", "floor", "threshold", "allowanc"))
_BRACKETED = re.compile(
    r"(?:[^\W\d_.°]{1,12}(?:[./][^\W\d_]{0,2})?\s?){0,3}"
    r"\(\s?(?:about|approx\.?|around|roughly|~|≈|ca\.?|etwa|env\.?)?\s?"
)
#: Equivalents are often rounded to a handy number.
_EQUIVALENT = 0.025


class Bound(NamedTuple):
    """A claimed number that a value lies above or below of."""

    above: bool
    value: float

    def holds(self, value: float) -> bool:
        """Whether a value keeps to it."""
        return value >= self.value if self.above else value <= self.value


def bound_of(text: str, claim: Claim) -> Bound | None:
    """The bound that a claim is told as, None where it is told as a value."""
    if claim.quantity is None:
        return None
    before = text[max(0, claim.start - _LONGEST) : claim.start]
    value = abs(claim.quantity.value)
    if _MORE.search(before) or _MORE_BEHIND.match(text, claim.end):
        return Bound(above=True, value=value)
    if _LESS.search(before) or _LESS_BEHIND.match(text, claim.end):
        return Bound(above=False, value=value)
    return None


def find_within(claim: Claim, bound: Bound, context: Context, index: Index) -> tuple[Fact | None, bool]:
    """A value near a bound on the right side of it, and whether the words around the claim name its field."""
    assert claim.quantity is not None
    best: tuple[float, Fact] | None = None
    for scale in (1.0, 0.01) if claim.quantity.percent else (1.0,):
        far = bound.value * (_FARTHEST if bound.above else 1 / _FARTHEST)
        middle, reach = (bound.value + far) / 2 * scale, abs(bound.value - far) / 2 * scale
        for fact in index.near(middle, reach):
            # Of a sentence or a limit (`max_kg`) the answer repeats the bound itself.
            if fact.record.prose is not None or not _LIMITS.isdisjoint(key_stems(fact.key)):
                continue
            if not comparable(claim, fact) or (scale != 1.0 and abs(number_of(fact) or 0.0) > 1.0):
                continue
            near = attribute_match(context.all, fact)
            if best is None or near > best[0]:
                best = (near, fact)
    return (best[1], best[0] >= _NAMED) if best is not None else (None, False)


def equivalent(text: str, claim: Claim, claims: Sequence[Claim]) -> tuple[Claim, bool] | None:
    """The value that a bracketed one right behind it tells again in another unit, and whether they agree."""
    q = claim.quantity
    if q is None or not dimension(q.unit):
        return None
    before = next((c for c in reversed(claims) if c.quantity is not None and c.end <= claim.start), None)
    if before is None or before.quantity is None or before.quantity.unit == q.unit:
        return None
    if _BRACKETED.fullmatch(text[before.end : claim.start].lstrip()) is None:
        return None
    value = convert(before.quantity.value, before.quantity.unit, q.unit)
    if value is None:
        return None
    return before, abs(value - q.value) <= max(_EQUIVALENT * abs(value), 1.01 * q.step)
