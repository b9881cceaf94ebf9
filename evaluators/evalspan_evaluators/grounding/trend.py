"""Trend: a rise or a fall from one value to another, or from one day to another, that went the other way."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import fmean

from evalspan_evaluators.grounding.claim import Claim
from evalspan_evaluators.grounding.extreme import only_list
from evalspan_evaluators.grounding.fact import Fact
from evalspan_evaluators.grounding.index import Index
from evalspan_evaluators.grounding.lookup import number_of
from evalspan_evaluators.grounding.verdict import ClaimVerdict

__all__ = ["check_trends"]

_WAY = re.compile(
    r"\b(?:(?P<up>increas(?:e[ds]?|ing)|ris(?:e[ns]?|ing)|rose|gr[eo]wn?|grow(?:s|ing|th)|climb(?:s|ed|ing)?|upward|gestiegen|steigt"
    r"|Anstieg|augment\w+|hausse|aument\w+|subi[óu]\w*)"
    r"|(?P<down>decreas(?:e[ds]?|ing)|declin(?:e[ds]?|ing)|f[ae]ll(?:s|en|ing)?|drop(?:s|ped|ping)?|reduc(?:e[ds]?|tion)|downward"
    r"|gesunken|sinkt|Rückgang|baiss\w+|diminu\w+|dismin\w+|caiu|queda))\b"
    r"[^.;!?\n\d]{0,50}?\b(?:from|between|von|zwischen|de|entre)\s(?:the\s|around\s|about\s)?\W{0,2}$",
    re.IGNORECASE,
)
_TO = re.compile(
    r"\s?(?:%|°?[^\W\d_]{0,12})(?:/[^\W\d_]{1,3})?"
    r"\s?(?:to|and|until|through|bis|auf|und|à|a|y|e|–|-)\s(?:about |around )?\W{0,2}",
    re.IGNORECASE,
)
_REACH = 90
#: Means of two days that differ by less, as a share of the larger, tell no way.
_FLAT = 0.05


def check_trends(text: str, claims: Sequence[Claim], index: Index) -> Iterator[ClaimVerdict]:
    """The words of rises that were falls, and of falls that were rises; minor, for the values may be right."""
    for first, second in pairwise(claims):
        if _TO.fullmatch(text, first.end, second.start) is None:
            continue
        match = _WAY.search(text, max(0, first.start - _REACH), first.start)
        if match is None:
            continue
        told = _of_numbers(first, second) or _of_days(first, second, index)
        if told is None or told[0] == (match["up"] is not None):
            continue
        name = "up" if match["up"] is not None else "down"
        claim = Claim("polarity", match[name], match.start(name), match.end(name))
        yield ClaimVerdict(claim=claim, outcome="contradicted", severity="minor", fact=told[1], code="OTHER_SIGN")


def _of_numbers(first: Claim, second: Claim) -> tuple[bool, Fact | None] | None:
    """Whether the second number is the larger one; None where they are no two values of one thing."""
    one, two = first.quantity, second.quantity
    if one is None or two is None or (one.percent, one.currency) != (two.percent, two.currency):
        return None
    return None if one.value == two.value else (two.value > one.value, None)


def _of_days(first: Claim, second: Claim, index: Index) -> tuple[bool, Fact | None] | None:
    """Whether the only dated list of the sources holds more on the second day, month or year."""
    if first.kind != "date" or second.kind != "date" or first.moment is None or second.moment is None:
        return None
    rows = only_list(index)
    year = second.moment.days[0].year
    means: list[float] = []
    found: list[Fact] = []
    for claim in (first, second):
        assert claim.moment is not None
        day = claim.moment.days[0]
        day = day if day.year else day._replace(year=year)
        of_day = [f for f, row in rows for s in row.facts if s.moment and any(day.agrees(k) for k in s.moment.days)]
        if not of_day:
            return None
        means.append(fmean(number_of(f) or 0.0 for f in of_day))
        found.append(of_day[-1])
    if abs(means[1] - means[0]) <= _FLAT * max(abs(means[0]), abs(means[1])):
        return None
    return means[1] > means[0], found[1]
