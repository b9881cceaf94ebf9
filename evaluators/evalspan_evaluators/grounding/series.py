"""Series: values that a source lists by date or row, for `a peak of 5.2` and `5.2 in May 2021`."""

import re
from collections.abc import Sequence

from evalspan_evaluators.grounding.claim import Claim
from evalspan_evaluators.grounding.index import Fact, Record
from evalspan_evaluators.grounding.lookup import number_of
from evalspan_evaluators.grounding.moment import Day
from evalspan_evaluators.grounding.verdict import ClaimVerdict

__all__ = ["check_series"]

_MOST = re.compile(
    r"\b(?:peak(?:s|ed|ing)?|highest|maximum|max|record|largest|greatest|most|top(?:ping)?)\b[^.;,]{0,40}$",
    re.IGNORECASE,
)
_LEAST = re.compile(r"\b(?:lowest|minimum|min|smallest|bottom(?:ing)?|trough|least)\b[^.;,]{0,40}$", re.IGNORECASE)
#: Words that make an extreme one among several.
_LOCAL = re.compile(
    r"\b(?:second|third|another|local|new|next|again|one of|day|week|each|until|at (?:the|that) time)\b", re.IGNORECASE
)
_GAP = re.compile(
    r"[^.;,()\n]{0,40}?\b(?:in|on|by|at|of|as of|during|around|im|en"
    r"|em|le|am)\s(?:the\s)?(?:early |late |mid-?|year |month of )?$",
    re.IGNORECASE,
)
_MIN_LENGTH = 4


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
    rows = [f for f in found[:40] if f.record.prose is None and f.record.parent is not None]
    if not rows or len(rows) < len(found[:40]):
        return None
    column = _column(rows[0])
    if len(column) < _MIN_LENGTH:
        return None
    return _by_date(text, claim, rows, column, claims) or _by_extreme(text, claim, rows, column)


def _by_date(
    text: str, claim: Claim, rows: Sequence[Fact], column: Sequence[Fact], claims: Sequence[Claim]
) -> ClaimVerdict | None:
    after = next((c for c in claims if c.kind == "date" and c.start >= claim.end), None)
    if after is None or after.moment is None or _GAP.fullmatch(text, claim.end, after.start) is None:
        return None
    if any(c.quantity is not None and claim.end <= c.start < after.start for c in claims):
        return None
    days = after.moment.days
    if any(day.agrees(known) for f in rows for known in _days(f.record) for day in days):
        return None
    meant = [f for f in column if any(day.agrees(known) for known in _days(f.record) for day in days)]
    if not meant:
        return None
    return ClaimVerdict(claim=claim, outcome="contradicted", fact=meant[0], code="OTHER_DATE")


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
