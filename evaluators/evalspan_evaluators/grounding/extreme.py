"""Extreme: when the greatest or the least of a list is told to be, `with the lowest on January 5th at 20:00`."""

import re
from collections.abc import Sequence

from evalspan_evaluators.grounding.claim import Claim
from evalspan_evaluators.grounding.fact import Fact, Record
from evalspan_evaluators.grounding.index import Index
from evalspan_evaluators.grounding.lookup import find_numbers, number_of
from evalspan_evaluators.grounding.verdict import ClaimVerdict
from evalspan_evaluators.grounding.zone import minutes_of

__all__ = ["check_extreme_day", "only_list"]

_AHEAD = re.compile(
    r"(?<!\ba )(?<!another )(?<!second )\b"
    r"(?:(?P<most>highest|maximum|max|peak(?:ed|s|ing)?|greatest|largest|warmest|hottest)"
    r"|(?P<least>lowest|minimum|min|smallest|coldest|coolest))\b"
    r"[^.;,()\d]{0,40}\b(?:on|at|in|am|um|im|le|el|em)\s(?:the\s)?$",
    re.IGNORECASE,
)
#: A time behind the date of an extreme.
_THEN = re.compile(r",?\s(?:at|um|à|a las|às)\s", re.IGNORECASE)
_REACH = 80
_MOST_FOUND = 40
_SHORTEST_LIST = 3


def check_extreme_day(
    text: str, claim: Claim, sentence: tuple[int, int], claims: Sequence[Claim], index: Index
) -> ClaimVerdict | None:
    """Contradicted where the sentence tells the extreme value itself, and its rows are of other days or times.

    Args:
        text: The answer.
        claim: A date or a time.
        sentence: Offsets of its sentence.
        claims: Those of the whole answer.
        index: The sources.
    """
    day = _day_before(text, claim, claims) if claim.kind == "time" else claim
    if day is None or day.moment is None or claim.moment is None:
        return None
    match = _AHEAD.search(text, max(sentence[0], day.start - _REACH), day.start)
    if match is None:
        return None
    told = [c for c in claims if c.quantity is not None and sentence[0] <= c.start < match.start()]
    most = match["most"] is not None
    rows = _rows(told, index, most=most) if told else _rows_of_only_list(index, most=most)
    if not rows or any(_agrees(row, claim, day) for _, row in rows):
        return None
    return ClaimVerdict(claim=claim, outcome="contradicted", fact=rows[0][0], code="OTHER_DATE")


def _day_before(text: str, claim: Claim, claims: Sequence[Claim]) -> Claim | None:
    """The date that a time goes with."""
    before = next((c for c in reversed(claims) if c.end <= claim.start), None)
    if before is None or before.kind != "date" or _THEN.fullmatch(text, before.end, claim.start) is None:
        return None
    return before


def _rows(told: Sequence[Claim], index: Index, *, most: bool) -> list[tuple[Fact, Record]]:
    """The rows of a dated list that hold the greatest or the least number told; none where it stands elsewhere too."""
    pick = max if most else min
    end = pick(told, key=lambda c: c.quantity.value if c.quantity is not None else 0.0)
    found = find_numbers(end, index)
    if not found or len(found) > _MOST_FOUND:
        return []
    rows = [(fact, row) for fact in found if (row := _row(fact.record)) is not None and number_of(fact) is not None]
    return rows if len(rows) == len(found) else []


def _rows_of_only_list(index: Index, *, most: bool) -> list[tuple[Fact, Record]]:
    """The rows with the greatest or the least value of the only list."""
    rows = only_list(index)
    if not rows:
        return []
    values = [number_of(fact) or 0.0 for fact, _ in rows]
    end = max(values) if most else min(values)
    return [pair for pair, value in zip(rows, values, strict=True) if value == end]


def only_list(index: Index) -> list[tuple[Fact, Record]]:
    """Numbers and rows of the dated list of the sources, where there is one, of one number a row; else none."""
    if index.cut or index.pruned:
        return []
    rows = [(fact, row) for _, fact in index.numbers if (row := _row(fact.record)) is not None and fact.moment is None]
    one = len({id(row.parent) for _, row in rows}) == 1 and len({id(row) for _, row in rows}) == len(rows)
    return rows if one else []


def _row(record: Record) -> Record | None:
    """The dated row of a list that a record is or is part of."""
    for outer in record.chain():
        dated = any(f.moment is not None and f.moment.days for f in outer.facts)
        if dated and outer.parent is not None and len(outer.parent.children) >= _SHORTEST_LIST:
            return outer
    return None


def _agrees(row: Record, claim: Claim, day: Claim) -> bool:
    """Whether a row is of the day told, and of the time where that is what is claimed."""
    assert day.moment is not None
    assert claim.moment is not None
    stamps = [f for f in row.facts if f.moment is not None]
    known = [d for f in stamps if f.moment is not None for d in f.moment.days]
    if not any(told.agrees(d) for told in day.moment.days for d in known):
        return False
    if claim.kind != "time":
        return True
    minutes = {minute for f in stamps for minute in minutes_of(f)}
    return not minutes or not minutes.isdisjoint(claim.moment.minutes)
