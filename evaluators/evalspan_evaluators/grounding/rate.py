"""Rate: numbers per time, so many of so many, what is left of a whole, and multiples by a count of the answer."""

import re
from collections.abc import Iterable, Iterator, Sequence

from evalspan_evaluators.grounding.claim import Claim
from evalspan_evaluators.grounding.context import fact_words, key_stems
from evalspan_evaluators.grounding.derive import Derivation
from evalspan_evaluators.grounding.fact import Fact
from evalspan_evaluators.grounding.fitness import clashes
from evalspan_evaluators.grounding.index import Index
from evalspan_evaluators.grounding.lookup import number_of

__all__ = ["after_percent", "complement", "is_rate", "multiple", "out_of", "over_time", "rate"]

_PER = re.compile(
    r"(?:\s[^\W\d_]+){0,2}(?:\s(?:per|a|an|each|every|pro|par|por)\s|/|毎|每)(second|s|minute|min|hour|h|day|week|month"
    r"|year|sekunde|minute|stunde|tag|woche|monat|jahr|seconde|heure|jour|semaine|mois|an|segundo|minuto|hora|día|dia"
    r"|semana|mes|mês|año|ano|秒|分|时|時|天|日|月|年)\b",
    re.IGNORECASE,
)
#: What a number of a longer time is divided by, and what that is called.
_PARTS = (60, 3600, 86400, 24, 1440, 7, 30, 31, 28, 12, 52, 365)
_OUT_OF = re.compile(
    r"(?:\s[^\W\d_]+)?\s(?:out of|of|in|von|sur|de|em|aus)(?:\s(?:every|each|the|chaque|cada))?\s", re.IGNORECASE
)
_ROUND = frozenset((10, 100, 1_000, 10_000, 100_000, 1_000_000))
_SHARES = frozenset(("rate", "pct", "percent", "percentag", "ratio", "share", "fraction", "quota", "quote", "taux"))
_EACH = frozenset(
    ("price", "rate", "cost", "fare", "fee", "per", "each", "unit", "dos", "dose", "total", "salary", "wage")
)
#: Words of keys for a span of time, how longer ones are told, and how many of it those hold.
_SPANS: tuple[tuple[frozenset[str], re.Pattern[str], tuple[int, ...]], ...] = (
    (
        frozenset(("month", "monthly")),
        re.compile(r"\b(?:years?|annual(?:ly)?|yearly|quarters?|Jahr|jährlich|par an|al año|ao ano)\b", re.IGNORECASE),
        (12, 3),
    ),
    (
        frozenset(("week", "weekly", "weekli")),
        re.compile(r"\b(?:years?|annual(?:ly)?|yearly|months?|monthly)\b", re.IGNORECASE),
        (52, 4),
    ),
    (
        frozenset(("day", "daily", "dai", "night")),
        re.compile(r"\b(?:years?|annual(?:ly)?|months?|monthly|weeks?|weekly)\b", re.IGNORECASE),
        (365, 30, 7),
    ),
    (frozenset(("hour", "hourly")), re.compile(r"\b(?:days?|daily|weeks?|weekly)\b", re.IGNORECASE), (24, 8, 40)),
)
#: Fewer digits are met by chance too often.
_FEW_DIGITS = 3
_MOST_TIMES = 1_000


def is_rate(text: str, claim: Claim) -> bool:
    """Whether a number is told per second, day, ..."""
    return _PER.match(text, claim.end) is not None


def rate(claim: Claim, facts: Iterable[Fact]) -> Derivation | None:
    """A number of a longer time, told per a shorter one."""
    q = claim.quantity
    assert q is not None
    for fact in facts:
        value = number_of(fact)
        for part in _PARTS if value else ():
            if value and abs(value / part - q.value) <= q.step * 1.02:
                return Derivation(f"{value:g} / {part}", fact)
    return None


def out_of(text: str, claim: Claim, claims: Sequence[Claim], index: Index) -> Derivation | None:
    """`15 out of every 1,000`: the share that a source holds as a rate."""
    at = claims.index(claim)
    for first, second in ((claim, claims[at + 1 : at + 2]), (claim, claims[max(0, at - 1) : at])):
        if not second:
            continue
        part, whole = (first, second[0]) if second[0].start > first.start else (second[0], first)
        if part.quantity is None or whole.quantity is None:
            continue
        one = part.quantity.value == 1
        if not one and whole.quantity.value not in _ROUND:
            continue
        gap = text[part.start + len(part.quantity.digits) if part.quantity.digits else part.end : whole.start]
        if _OUT_OF.fullmatch(gap) is None or not 0 < part.quantity.value < whole.quantity.value:
            continue
        share = part.quantity.value / whole.quantity.value  # or what is left of one
        # `1 in 17`: the second number is the rounded one.
        step = 0.5 * share / (whole.quantity.value - 0.5) if one else part.quantity.step / whole.quantity.value
        for fact in (*_shares(index, share, step), *_shares(index, 1 - share, step)):
            return Derivation(f"{part.quantity.value:g} / {whole.quantity.value:g}", fact)
    return None


def complement(claim: Claim, index: Index) -> Derivation | None:
    """`98.5 % succeeded` of an error rate of 1.5 %."""
    q = claim.quantity
    if q is None or not q.percent or not 0 < q.value < 100:
        return None
    found = next(_shares(index, 1 - q.value / 100, q.step / 100), None)
    return Derivation(f"100 % - {found.text}", found) if found is not None else None


def _shares(index: Index, share: float, step: float) -> Iterator[Fact]:
    """Values that say they are a share, as a fraction or in percent."""
    for value, reach in ((share, step), (100 * share, 100 * step)):
        for fact in index.near(value, reach * 1.001):
            percent = fact.quantity is not None and fact.quantity.percent
            if percent or not _SHARES.isdisjoint(fact_words(fact)):
                yield fact


def multiple(claim: Claim, counts: Iterable[Claim], index: Index) -> Derivation | None:
    """`10 shares would cost $1,874.20`: a value of the sources times a count of the answer or the question."""
    q = claim.quantity
    if q is None or q.percent:
        return None
    few = len(q.digits.strip("0.,").replace(".", "").replace(",", "")) < _FEW_DIGITS
    for count in counts:
        times = count.quantity.value if count.quantity is not None else 0.0
        if count is claim or not 2 <= times <= _MOST_TIMES or times != int(times):
            continue
        for fact in index.near(q.value / times, q.step / times * 1.02):
            if not clashes(claim, fact) and (_is_each(fact) or (_is_precise(fact) and not few)):
                return Derivation(f"{number_of(fact) or 0.0:.10g} * {times:g}", fact)
    return None


def after_percent(claim: Claim, percents: Iterable[Claim], index: Index) -> Derivation | None:
    """`$39.20 with the 20% discount`: a value of the sources less or more by a percentage of the sentence."""
    q = claim.quantity
    if q is None or q.percent or len(q.digits.replace(".", "").replace(",", "").strip("0")) < _FEW_DIGITS:
        return None
    for other in percents:
        part = other.quantity.value / 100 if other.quantity is not None else 0.0
        for factor, sign in ((1 - part, "-"), (1 + part, "+")):
            if not 0 < part < 1:
                continue
            for fact in index.near(q.value / factor, q.step / factor * 1.02):
                if not clashes(claim, fact) and fact.record.source.kind != "user":
                    return Derivation(f"{number_of(fact) or 0.0:.10g} {sign} {100 * part:g} %", fact)
    return None


def over_time(claim: Claim, sentence: str, index: Index) -> Derivation | None:
    """`$1,020 a year` of a monthly fee of 85: a value of one span of time, told for a longer one."""
    q = claim.quantity
    if q is None or q.percent:
        return None
    for spans, pattern, parts in _SPANS:
        if pattern.search(sentence) is None:
            continue
        for part in parts:
            for fact in index.near(q.value / part, q.step / part * 1.02):
                if fact.record.prose is None and not clashes(claim, fact) and not spans.isdisjoint(key_stems(fact.key)):
                    return Derivation(f"{number_of(fact) or 0.0:.10g} * {part}", fact)
    return None


def _is_each(fact: Fact) -> bool:
    """Whether a value says what one of something is: a price, a rate, a dose."""
    return fact.record.prose is None and not _EACH.isdisjoint(key_stems(fact.key))


def _is_precise(fact: Fact) -> bool:
    return len(f"{abs(number_of(fact) or 0.0):.10g}".replace(".", "").strip("0")) >= _FEW_DIGITS
