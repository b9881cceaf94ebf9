"""Elapsed: a duration told in two units, such as `9 h 35 min`, against one a source holds in a single unit."""

import re

from evalspan_evaluators.grounding.claim import Claim
from evalspan_evaluators.grounding.context import fact_words
from evalspan_evaluators.grounding.fact import Fact
from evalspan_evaluators.grounding.index import Index
from evalspan_evaluators.grounding.lookup import find_numbers
from evalspan_evaluators.grounding.quantity import Quantity
from evalspan_evaluators.grounding.unit import measure

__all__ = ["find_elapsed"]

_AND = r"\s?(?:,|and|und|et|y|e)?\s?"
_HOURS = r"(?:hours?|hrs?\.?|h|stunden?|std\.?|heures?|horas?|時間|小时|小時)"
_MINUTES = r"(?:minutes?|minuten|minutos?|mins?\.?|m|分钟|分鐘|分間|分)"
_SECONDS = r"(?:seconds?|sekunden?|secondes?|segundos?|secs?\.?|sek\.?|s|秒)"
_DAYS = r"(?:days?|d|tagen?|jours?|días?|dias?|天|日間?)"
#: Each form with the seconds of its two units and the unit that the whole is told in.
_FORMS: tuple[tuple[re.Pattern[str], int, int, str], ...] = tuple(
    (re.compile(rf"(?<![\d.,:])(\d{{1,4}})\s?{large}{_AND}(\d{{1,2}}){small}(?!\w)", re.IGNORECASE), a, b, unit)
    for large, small, a, b, unit in (
        (_DAYS, rf"\s?{_HOURS}", 86400, 3600, "hour"),
        (_HOURS, rf"(?:\s?{_MINUTES})?", 3600, 60, "minute"),
        (_MINUTES, rf"\s?{_SECONDS}", 60, 1, "second"),
    )
)
#: Letters of the longest form before and behind one of its numbers.
_REACH = 24


def find_elapsed(text: str, claim: Claim, index: Index) -> tuple[Fact, str] | None:
    """A value of the sources that equals the whole duration a claim is part of, and how it is made up.

    Args:
        text: The answer.
        claim: A number, duration or time of it: `9h35` may be read as a time of day.
        index: The sources.
    """
    start = max(0, claim.start - _REACH)
    for pattern, large, small, unit in _FORMS:
        for match in pattern.finditer(text, start, min(len(text), claim.end + _REACH)):
            if not (match.start() <= claim.start and claim.end <= match.end()):
                continue
            total = (int(match[1]) * large + int(match[2]) * small) / small
            quantity = Quantity(match.start(), match.end(), match[0], (total,), unit=unit, digits=f"{total:.0f}")
            whole = Claim("duration", match[0], match.start(), match.end(), quantity=quantity)
            known = next((f for f in find_numbers(whole, index) if measure(fact_words(f)) == "time"), None)
            if known is not None:
                return known, f"{match[1]} * {large // small} + {match[2]} = {total:.0f} {unit}s"
    return None
