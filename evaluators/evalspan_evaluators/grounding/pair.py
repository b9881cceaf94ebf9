"""Pair: two numbers that belong together, such as `5 - 7 FT` or `3-for-5`, and the fields a record has for them."""

import re
from collections import defaultdict

from evalspan_evaluators.grounding.claim import Claim
from evalspan_evaluators.grounding.fact import Fact, Record
from evalspan_evaluators.grounding.lookup import number_of
from evalspan_evaluators.grounding.text import key_words

__all__ = ["is_share", "pair_fields", "pair_unit", "stands_apart"]

_UNIT = r"\s?(\d?[^\W\d_][^\W_]{1,15})\b"
_BEFORE_SECOND = re.compile(r"\s?(?:-|–|/)\s?(?:(?:for|of)\s?-\s?)?(\d+)" + _UNIT)
_BEHIND = re.compile(_UNIT)
_FIRST = re.compile(r"(\d+)\s?(?:-|–|/)\s?(?:(?:for|of)\s?-\s?)?$")
_SHARE_AFTER = re.compile(r"\s?[-–]\s?(?:for|of)\s?[-–]\s?(\d+)")
_SHARE_BEFORE = re.compile(r"\d\s?[-–]\s?(?:for|of)\s?[-–]\s?$")
#: Letters that may follow a unit in a key: `FT` in `FTM` and `FTA`.
_MOST_FOLLOWING = 1
#: Letters with which keys of one family begin, and families that show a record to be made of pairs.
_FAMILY, _FAMILIES = 2, 2
#: Letters before a claim in which the first half of its pair is looked for.
_REACH = 14


def pair_unit(text: str, claim: Claim) -> str:
    """The word behind the pair that a claim is a half of, in lower case; empty when there is none."""
    match = _BEFORE_SECOND.match(text, claim.end)
    if match is not None:
        return match[2].lower()
    behind = _BEHIND.match(text, claim.end)
    return behind[1].lower() if behind is not None else ""


def is_share(text: str, claim: Claim) -> bool:
    """Whether a claim is a half of `7 - of - 12` or `3-for-3`: so many of so many, which one subject has."""
    before = _SHARE_BEFORE.search(text, max(0, claim.start - _REACH), claim.start)
    return before is not None or _SHARE_AFTER.match(text, claim.end) is not None


def pair_fields(record: Record, unit: str) -> list[Fact]:
    """The numbers of a record whose keys begin with the unit; fewer than two say nothing of a pair."""
    return [fact for fact in record.facts if _begins(fact.key, unit) and number_of(fact) is not None] if unit else []


def stands_apart(text: str, claim: Claim, record: Record) -> bool:
    """Whether a record keeps its pairs in families of keys (`FTM`, `FTA`) and none of these holds the claim's pair."""
    values = _halves(text, claim)
    families: dict[str, list[float]] = defaultdict(list)
    for fact in record.facts:
        value = number_of(fact)
        if value is not None and len(fact.key) > _FAMILY:
            families[fact.key[:_FAMILY].lower()].append(value)
    pairs = [numbers for numbers in families.values() if len(numbers) >= 2]
    return bool(values) and len(pairs) >= _FAMILIES and not any(_hold(numbers, values) for numbers in pairs)


def _halves(text: str, claim: Claim) -> tuple[float, ...]:
    """Both numbers of the claim's pair; empty when it is none with a unit."""
    if claim.quantity is None:
        return ()
    after = _BEFORE_SECOND.match(text, claim.end) or _SHARE_AFTER.match(text, claim.end)
    if after is not None:
        return claim.quantity.value, float(after[1])
    before = _FIRST.search(text, max(0, claim.start - _REACH), claim.start)
    if before is not None and (_BEHIND.match(text, claim.end) or is_share(text, claim)):
        return float(before[1]), claim.quantity.value
    return ()


def _hold(numbers: list[float], values: tuple[float, ...]) -> bool:
    """Whether both values are among the numbers, at two places."""
    first, second = values
    return first in numbers and second in numbers and (first != second or numbers.count(first) >= 2)


def _begins(key: str, unit: str) -> bool:
    low = key.lower()
    return low.startswith(unit) and (len(low) - len(unit) <= _MOST_FOLLOWING or key_words(key)[:1] == (unit,))
