"""Zone: times of day told in another time zone than the source's."""

import re

from evalspan_evaluators.grounding.claim import Claim
from evalspan_evaluators.grounding.fact import Fact
from evalspan_evaluators.grounding.index import Index

__all__ = ["find_zoned", "minutes_of"]

#: Hours ahead of UTC of the zones that texts name; where one abbreviation has several meanings, all.
_HOURS: dict[str, tuple[float, ...]] = {
    "utc": (0,),
    "gmt": (0,),
    "z": (0,),
    "wet": (0,),
    "bst": (1,),
    "cet": (1,),
    "mez": (1,),
    "cest": (2,),
    "mesz": (2,),
    "eet": (2,),
    "eest": (3,),
    "msk": (3,),
    "ist": (5.5, 2, 1),
    "sgt": (8,),
    "hkt": (8,),
    "jst": (9,),
    "kst": (9,),
    "aest": (10,),
    "aedt": (11,),
    "est": (-5,),
    "edt": (-4,),
    "et": (-5, -4),
    "cst": (-6, 8),
    "cdt": (-5,),
    "ct": (-6, -5),
    "mst": (-7,),
    "mdt": (-6,),
    "mt": (-7, -6),
    "pst": (-8,),
    "pdt": (-7,),
    "pt": (-8, -7),
    "brt": (-3,),
}
_NAME = re.compile(r"\s?\(?(?:(?:UTC|GMT)\s?([+-]\d{1,2})(?::?(\d\d))?|([A-Za-z]{1,4})\b)")
_OFFSET = re.compile(r"T(\d\d):(\d\d)(?::\d\d(?:\.\d+)?)?(?:(Z)|([+-])(\d\d):?(\d\d))$")
_CLOCK = re.compile(r"\d[T ]([01]\d|2[0-3]):([0-5]\d)")
_DAY = 24 * 60
#: Stamps looked at.
_MOST = 3_000


def _meant(text: str, claim: Claim) -> tuple[float, ...]:
    """Hours ahead of UTC of the zone behind a time; none where no zone is named."""
    match = _NAME.match(text, claim.end)
    if match is None:
        return ()
    if match[1]:
        hours = int(match[1])
        return (hours + int(match[2] or 0) / 60 * (1 if hours >= 0 else -1),)
    return _HOURS.get(match[3].lower(), ())


def find_zoned(text: str, claim: Claim, index: Index) -> Fact | None:
    """A stamp of the sources with a zone of its own that is, in the zone the answer names, the time claimed."""
    zones = _meant(text, claim)
    if not zones or claim.moment is None:
        return None
    wanted = {round(minute - hours * 60) % _DAY for minute in claim.moment.minutes for hours in zones}
    looked = 0
    for facts in index.minutes.values():
        for fact in facts:
            looked += 1
            if looked > _MOST:
                return None
            if _universal(fact) in wanted:
                return fact
    return None


def minutes_of(fact: Fact) -> frozenset[int]:
    """Minutes after midnight of a value that is or holds a time of day, as written; none where it holds none."""
    if fact.moment is not None and fact.moment.minutes:
        return frozenset(fact.moment.minutes)
    match = _CLOCK.search(fact.value) if isinstance(fact.value, str) else None
    return frozenset((int(match[1]) * 60 + int(match[2]),)) if match is not None else frozenset()


def _universal(fact: Fact) -> int | None:
    """Minutes after midnight UTC of a stamp; None where it names no zone."""
    match = _OFFSET.search(fact.value) if isinstance(fact.value, str) else None
    if match is None:
        return None
    ahead = 0 if match[3] else (int(match[5]) * 60 + int(match[6])) * (1 if match[4] == "+" else -1)
    return (int(match[1]) * 60 + int(match[2]) - ahead) % _DAY
