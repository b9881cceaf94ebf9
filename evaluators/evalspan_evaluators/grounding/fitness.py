"""Fitness: whether a value of the sources can be what a claim speaks of."""

import re
from difflib import SequenceMatcher

from evalspan_evaluators.grounding.bind import is_number
from evalspan_evaluators.grounding.claim import Claim
from evalspan_evaluators.grounding.context import fact_words
from evalspan_evaluators.grounding.fact import Fact
from evalspan_evaluators.grounding.lookup import number_of
from evalspan_evaluators.grounding.quantity import Quantity
from evalspan_evaluators.grounding.text import key_words
from evalspan_evaluators.grounding.unit import dimension

__all__ = [
    "MOST_ALIKE",
    "clashes",
    "comparable",
    "digit_likeness",
    "is_bookkeeping",
    "is_small",
    "may_resemble",
    "same_type",
]

#: The likeness of two numbers with the same digits.
MOST_ALIKE = 0.8
_LETTERS = re.compile(r"[A-Za-z]{4,}")
_STAMPS = frozenset(["created", "updated", "modified", "timestamp", "at", "fetched", "generated", "inserted"])
_MONEY_WORDS = frozenset(
    (
        "pric",
        "price",
        "cost",
        "fee",
        "rate",
        "rent",
        "salary",
        "wage",
        "amount",
        "fare",
        "charg",
        "prei",
        "prix",
        "precio",
    )
)
_COUNT_WORDS = frozenset(
    [
        "seat",
        "count",
        "quantity",
        "qty",
        "num",
        "age",
        "year",
        "month",
        "day",
        "hour",
        "minut",
        "second",
        "id",
        "zip",
        "phone",
        "index",
        "page",
        "rank",
        "position",
        "size",
    ]
)


def is_bookkeeping(fact: Fact) -> bool:
    """A `created_at`-like stamp, which answers seldom speak of."""
    return fact.record.prose is None and bool(_STAMPS.intersection(key_words(fact.key)))


def is_small(claim: Claim) -> bool:
    """A plain whole number below 100, which stands by chance in many places."""
    q = claim.quantity
    return (
        q is not None
        and claim.kind in ("number", "duration")
        and q.decimals == 0
        and q.scale == 1
        and abs(q.value) < 100
    )


def clashes(claim: Claim, fact: Fact) -> bool:
    """Money is no count and no time."""
    if fact.quantity is not None and fact.quantity.currency and claim.quantity is not None:
        ours = claim.quantity.currency
        return ours is not None and ours != fact.quantity.currency and {ours, fact.quantity.currency} != {"USD"}
    if claim.kind == "money":
        if isinstance(fact.value, str) and fact.record.prose is None and _LETTERS.search(fact.value):
            return True  # Suite 744
        parts = fact_words(fact) if fact.record.prose is None else (fact.quantity.unit,) if fact.quantity else ()
        if not _MONEY_WORDS.isdisjoint(parts):
            return False  # `price_month`
        return any(w in _COUNT_WORDS or dimension(w) == "time" for w in parts)
    return False


def comparable(claim: Claim, fact: Fact) -> bool:
    """Whether a field can hold what the claim states, right or wrong."""
    if claim.kind == "duration" and not any(dimension(w) == "time" for w in fact_words(fact)):
        return False
    return not clashes(claim, fact) and number_of(fact) is not None


def same_type(fact: Fact, claim: Claim) -> bool:
    """Whether both are numbers, or both are dates or times."""
    if claim.quantity is not None:
        return fact.quantity is not None or is_number(fact)
    return fact.moment is not None and claim.moment is not None and fact.moment.kind == claim.moment.kind


def _digits(q: Quantity) -> str:
    return q.digits.replace(",", "")


def _digits_of(fact: Fact) -> str:
    """The digits of a value as written; empty when it is no number."""
    if fact.quantity is not None:
        return _digits(fact.quantity)
    value = number_of(fact)
    return "" if value is None else f"{abs(value):.10g}"


def may_resemble(claim: Claim, fact: Fact) -> bool:
    """Whether both may be written with the same number of digits or marks, told without writing them all."""
    assert claim.quantity is not None
    wanted = len(_digits(claim.quantity))
    return wanted >= 3 and len(_digits_of(fact)) == wanted


def digit_likeness(claim: Claim, fact: Fact, *, above: float = -1.0) -> float:
    """How alike two numbers are written: 0.8 for at most one changed or two swapped digits of three or more.

    Less alike ones, at most 0.5, are told from each other only if they may be more alike than `above`; else 0.
    """
    assert claim.quantity is not None
    ours, theirs = _digits(claim.quantity), _digits_of(fact)
    if len(ours) < 3 or len(theirs) < 3:
        return 0.0
    if ours == theirs or (len(ours) == len(theirs) and sum(a != b for a, b in zip(ours, theirs, strict=True)) == 1):
        return MOST_ALIKE
    if len(ours) >= 4 and len(ours) == len(theirs) and sorted(ours) == sorted(theirs):
        return MOST_ALIKE
    shared = min(len(ours), len(theirs))
    if shared / (len(ours) + len(theirs)) <= above:
        return 0.0
    shared = sum(min(ours.count(digit), theirs.count(digit)) for digit in set(ours))
    if shared / (len(ours) + len(theirs)) <= above:
        return 0.0
    return 0.5 * SequenceMatcher(None, ours, theirs).ratio()
