"""Series: values that a source lists by date or row, for `a peak of 5.2` and `5.2 in May 2021`."""

import re
from collections.abc import Sequence

from evalspan_evaluators.grounding.claim import Claim
from evalspan_evaluators.grounding.fact import Fact, Record
from evalspan_evaluators.grounding.lookup import number_of
from evalspan_evaluators.grounding.moment import Day
from evalspan_evaluators.grounding.rough import bound_of
from evalspan_evaluators.grounding.verdict import ClaimVerdict
from evalspan_evaluators.grounding.zone import minutes_of

__all__ = ["check_series"]

_MOST = re.compile(
    r"(?<!\bat )\b(?:peak(?:s|ed|ing)?|highest|maximum|max|record|largest|greatest|most|top(?:ping)?)\b[^.;,]{0,40}$",
    re.IGNORECASE,
)
_LEAST = re.compile(
    r"(?<!\bat )\b(?:lowest|minimum|min|smallest|bottom(?:ing)?|trough|least)\b[^.;,]{0,40}$", re.IGNORECASE
)
#: Words that make an extreme one among several.
_LOCAL = re.compile(
    r"\b(?:second|third|another|local|new|next|again|one of|day|week|each|until|at (?:the|that) time)\b", re.IGNORECASE
)
_GAP = re.compile(
    r"[^.;,()\n]{0,40}?\b(?:in|on|by|at|of|as of|during|around|im|en"
    r"|em|le|am)\s(?:the\s)?(?:early |late |mid-?|year |month of )?$",
    re.IGNORECASE,
)
_RANGE_BEFORE = re.compile(
    r"\b(?:rang\w+|var(?:y|ies|ied|ying)|fluctuat\w+|between|zwischen|entre)\b[^.;!?\n]*?(?:\d\.\d[^.;!?\n]*?)?$",
    re.IGNORECASE,
)
_RANGE_AFTER = re.compile(r"[^\d.;,\n]{0,25}?\b(?:to|and|bis|und|à|et|a|y|e)\s+[-$€£]?\d", re.IGNORECASE)
_RANGE_END = re.compile(r"\d[^\d.;,\n]{0,25}?\b(?:to|and|bis|und|à|et|a|y|e)\s+[-$€£]?$", re.IGNORECASE)
#: An end of a day's values: `with a high of`, `lows around`.
_END_OF_DAY = re.compile(r"\b(high|low|maximum|minimum)s?\b[^.;,\d]{0,25}$", re.IGNORECASE)
_BOTH = slice(None)
_PAIR = 2
_MIN_LENGTH = 3
#: More places of one value than these tell nothing.
_MOST_FOUND = 200
#: A date this far before a claim may still head what is said.
_REACH = 500
_HEAD = 28


def _column(fact: Fact) -> list[Fact]:
    """Facts of the same key in the sibling records."""
    parent = fact.record.parent
    if parent is None:
        return []
    return [
        f for record in parent.children[:5000] for f in record.facts if f.key == fact.key and number_of(f) is not None
    ]


def _days(record: Record) -> list[Day]:
    return [day for f in record.facts if f.moment is not None for day in f.moment.days[:1]]


def check_series(text: str, claim: Claim, found: Sequence[Fact], claims: Sequence[Claim]) -> ClaimVerdict | None:
    """A value of a series told as its extreme, or with a date, that is not so."""
    if claim.quantity is not None and claim.quantity.worded:
        return None  # `at least one dose` is no value of a list
    if text.startswith("-", claim.end):
        return None  # `3-hour precipitation`: part of a name
    if bound_of(text, claim) is not None:
        return None  # `below 1.0 by the end of May`
    rows = [f for f in found[:40] if f.record.prose is None and f.record.parent is not None]
    if not rows or len(rows) < len(found[:40]):
        return None
    if len(found) <= _MOST_FOUND:
        other = (
            _by_date_before(text, claim, found, claims)
            or _by_time(text, claim, rows, claims)
            or _by_range(text, claim, found, claims)
        )
        if other is not None:
            return other
    column = _column(rows[0])
    if len(column) < _MIN_LENGTH:
        return None
    return _by_date(text, claim, rows, column, claims) or _by_extreme(text, claim, rows, column)


def _by_date(
    text: str, claim: Claim, rows: Sequence[Fact], column: Sequence[Fact], claims: Sequence[Claim]
) -> ClaimVerdict | None:
    after = next((c for c in claims if c.kind in ("date", "weekday") and c.start >= claim.end), None)
    if after is None or after.moment is None or _GAP.fullmatch(text, claim.end, after.start) is None:
        return None
    if any(c.quantity is not None and claim.end <= c.start < after.start for c in claims):
        return None
    days = after.moment.days if after.kind == "date" else _days_meant(after, rows[0].record.parent)
    if any(day.agrees(known) for f in rows for known in _days(f.record) for day in days):
        return None
    meant = [f for f in column if any(day.agrees(known) for known in _days(f.record) for day in days)]
    if not meant:
        return None
    return ClaimVerdict(claim=claim, outcome="contradicted", fact=meant[0], code="OTHER_DATE")


def _by_date_before(text: str, claim: Claim, found: Sequence[Fact], claims: Sequence[Claim]) -> ClaimVerdict | None:
    """`On January 4th, it is 4.5 °C`, also in the sentences that follow: the value must be of a row of that day."""
    if claim.quantity is None or claim.quantity.approximate:
        return None
    date = _day_of(text, claim, claims)
    listed = [(f, row) for f in found if (row := _row(f.record)) is not None]
    if date is None or len(listed) < len(found):
        return None
    parent = listed[0][1].parent
    days = _days_meant(date, parent)
    if not days or any(_is_of(row, days) for _, row in listed):
        return None
    keys = {(f.key, f.record.key if f.record is not row else "") for f, row in listed}
    meant = [
        f
        for row in (parent.children[:5000] if parent is not None else ())
        if _is_of(row, days)
        for record in (row, *row.children)
        for f in record.facts
        if (f.key, record.key if record is not row else "") in keys and number_of(f) is not None
    ]
    if not meant:
        return None
    value = claim.quantity.value
    truth = min(meant, key=lambda f: abs((number_of(f) or 0.0) - value))
    return ClaimVerdict(claim=claim, outcome="contradicted", fact=truth, code="OTHER_DATE")


def _by_time(text: str, claim: Claim, rows: Sequence[Fact], claims: Sequence[Claim]) -> ClaimVerdict | None:
    """`At 18:00 it was 24.4`: the only time of the sentence, before its only number, says of which row that must be."""
    start = max(text.rfind(mark, 0, claim.start) for mark in (". ", "\n", "; ")) + 1
    stop = min((at for mark in (". ", "\n", "; ") if (at := text.find(mark, claim.end)) >= 0), default=len(text))
    told = [c for c in claims if start <= c.start < stop and (c.kind == "time" or c.quantity is not None)]
    if len(told) != _PAIR or told[0].kind != "time" or told[1] is not claim or told[0].moment is None:
        return None
    minutes = frozenset(told[0].moment.minutes)
    parent = rows[0].record.parent
    if parent is None or any(f.record.parent is not parent or _minutes(f.record) & minutes for f in rows):
        return None
    keys = {f.key for f in rows}
    meant = [f for row in parent.children[:5000] if _minutes(row) & minutes for f in row.facts if f.key in keys]
    if len(meant) != 1 or number_of(meant[0]) is None:
        return None
    return ClaimVerdict(claim=claim, outcome="contradicted", fact=meant[0], code="OTHER_DATE")


def _minutes(row: Record) -> frozenset[int]:
    return frozenset(minute for f in row.facts for minute in minutes_of(f))


def _by_range(text: str, claim: Claim, found: Sequence[Fact], claims: Sequence[Claim]) -> ClaimVerdict | None:
    """`ranging from 3.7 to 9.1`, `a high of 9.1`: the least or the greatest value of some field, on the day told."""
    q, meant = claim.quantity, _ends_meant(text, claim)
    if q is None or q.approximate or meant is None:
        return None
    if all(abs(abs(number_of(f) or 0.0) - abs(q.value)) > q.step * 1.01 for f in found):
        return None  # told in another unit
    listed = [(f, row) for f in found if (row := _row(f.record)) is not None]
    if len(listed) < len(found) or len({id(row.parent) for _, row in listed}) != 1:
        return None
    parent = listed[0][1].parent
    date = _day_of(text, claim, claims)
    days = _days_meant(date, parent) if date is not None else ()
    if not days and (date is not None or meant != _BOTH):
        return None
    ends = [end for column in _columns(listed, parent, days) for end in _ends(column)[meant]]
    if not ends or any(abs(abs(number_of(f) or 0.0) - abs(q.value)) <= q.step * 1.01 for f in ends):
        return None
    truth = min(ends, key=lambda f: abs((number_of(f) or 0.0) - q.value))
    return ClaimVerdict(claim=claim, outcome="contradicted", fact=truth, code="NOT_EXTREME")


def _ends_meant(text: str, claim: Claim) -> slice | None:
    """Which of the least and the greatest value a number is told to be; None for neither."""
    before = text[max(0, claim.start - 70) : claim.start]
    if _LOCAL.search(before):
        return None
    ranges = _RANGE_AFTER.match(text, claim.end) is not None or _RANGE_END.search(before) is not None
    if ranges and _RANGE_BEFORE.search(before) is not None:
        return _BOTH
    end = _END_OF_DAY.search(before)
    if end is None:
        return None
    return slice(1, 2) if end[1].lower() in ("high", "maximum") else slice(0, 1)


def _columns(listed: Sequence[tuple[Fact, Record]], parent: Record | None, days: Sequence[Day]) -> list[list[Fact]]:
    """The numbers of the fields that hold the value, of the rows of these days."""
    there = [(f, row) for f, row in listed if _is_of(row, days)] or listed
    columns: dict[tuple[str, str | int], list[Fact]] = {(f.key, _inner(f.record, row)): [] for f, row in there}
    for row in parent.children[:5000] if parent is not None else ():
        if days and not _is_of(row, days):
            continue
        for record in (row, *row.children):
            for fact in record.facts:
                column = columns.get((fact.key, _inner(record, row)))
                if column is not None and number_of(fact) is not None:
                    column.append(fact)
    return [column for column in columns.values() if column]


def _is_of(row: Record, days: Sequence[Day]) -> bool:
    """Whether a row is dated one of these days."""
    return any(day.agrees(known) for known in _days(row) for day in days)


def _inner(record: Record, row: Record) -> str | int:
    return "" if record is row else record.key


def _ends(column: Sequence[Fact]) -> list[Fact]:
    return [min(column, key=lambda f: number_of(f) or 0.0), max(column, key=lambda f: number_of(f) or 0.0)]


def _day_of(text: str, claim: Claim, claims: Sequence[Claim]) -> Claim | None:
    """The only date of the claim's sentence before the claim, else the one that heads the text there."""
    dates = [c for c in claims if c.kind in ("date", "weekday") and claim.start - _REACH < c.start]
    last = next((c for c in reversed(dates) if c.end <= claim.start), None)
    if last is None or "\n\n" in text[last.end : claim.start]:
        return None
    start = max(text.rfind(mark, 0, last.start) for mark in (". ", "\n", "! ", "? "))
    ends = [at for mark in (". ", "\n") if (at := text.find(mark, last.end)) >= 0]
    end = min(ends, default=len(text))
    told = [c.kind for c in dates if start < c.start < end]
    # A weekday beside its date is no second day.
    if (told.count("date") or told.count("weekday")) != 1 or (last.kind != "date" and "date" in told):
        return None
    headed = last.start - start <= _HEAD
    if claim.start < end or headed:
        after = next((c for c in dates if c.start >= claim.end), None)
        stop = min((at for mark in (". ", "\n") if (at := text.find(mark, claim.end)) >= 0), default=len(text))
        return None if after is not None and after.start < stop else last
    return None


def _days_meant(date: Claim, parent: Record | None) -> tuple[Day, ...]:
    """The days a date or weekday means among the rows of a list; none where it does not say which."""
    if date.moment is None or parent is None:
        return ()
    if date.kind == "date":
        return date.moment.days if all(day.day for day in date.moment.days) else ()
    known = {day for row in parent.children[:5000] for day in _days(row)}
    same = [day for day in known if (on := day.ordinal()) is not None and on.weekday() == date.moment.weekday]
    return tuple(same) if len(same) == 1 else ()


def _row(record: Record) -> Record | None:
    """The row of a dated list that a record is, or is part of."""
    for outer in record.chain():
        if outer.parent is not None and len(outer.parent.children) >= 2 and _days(outer):
            return outer
    return None


def _by_extreme(text: str, claim: Claim, rows: Sequence[Fact], column: Sequence[Fact]) -> ClaimVerdict | None:
    start = max(0, claim.start - 70)
    most = _MOST.search(text, start, claim.start)
    least = _LEAST.search(text, start, claim.start)
    if most is None and least is None:
        return None
    window = text[max(0, claim.start - 70) : claim.end + 40]
    if _LOCAL.search(window):
        return None
    pick = max if most is not None and (least is None or most.start() > least.start()) else min
    truth = pick(column, key=lambda f: number_of(f) or 0.0)
    if any(number_of(f) == number_of(truth) for f in rows):
        return None
    return ClaimVerdict(
        claim=claim,
        outcome="contradicted",
        fact=truth,
        code="NOT_EXTREME",
        formula=f"{pick.__name__} of {len(column)} values",
    )
