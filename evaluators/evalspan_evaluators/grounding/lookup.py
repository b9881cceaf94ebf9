"""Lookup: whether a value stands in the sources, with rounding, percent, scale and unit conversion."""

from collections.abc import Iterable, Iterator

from evalspan_evaluators.grounding.claim import Claim
from evalspan_evaluators.grounding.fact import Fact
from evalspan_evaluators.grounding.index import Index
from evalspan_evaluators.grounding.moment import Day
from evalspan_evaluators.grounding.quantity import Quantity
from evalspan_evaluators.grounding.unit import convert, dimension, measure, units

__all__ = ["find_days", "find_numbers", "find_times", "number_of"]

_SLACK = 1e-9


def number_of(fact: Fact) -> float | None:
    """The signed number of a fact, None when it is no number."""
    if fact.quantity is not None:
        return fact.quantity.value
    value = fact.value
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value)
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _conversions(q: Quantity, value: float, step: float) -> Iterator[tuple[float, float, bool]]:
    """Targets with tolerance: the value as it stands, as a fraction, unscaled; True where the fact must be plain."""
    yield value, step, False
    if q.percent:
        yield value / 100, step / 100, True
    if q.scale != 1:
        yield value / q.scale, step / q.scale, True
    if q.percent and abs(value) >= 100:
        yield value / 100 + 1, step / 100, True


def _unit_targets(q: Quantity, value: float) -> Iterator[tuple[float, float]]:
    name = dimension(q.unit)
    if q.unit in ("°f", "fahrenheit"):
        yield (value - 32) * 5 / 9, 5 / 9
    elif q.unit in ("°c", "celsius"):
        yield value * 9 / 5 + 32, 9 / 5
    if not name:
        return
    for unit in units(name):
        factor = convert(1.0, q.unit, unit)
        if factor is not None and factor != 1.0:
            yield value * factor, factor


def find_numbers(claim: Claim, index: Index) -> list[Fact]:
    """Facts that this number may restate, the plainest reading first."""
    q = claim.quantity
    if q is None:
        return []
    for reading in q.values:
        value, step = reading * q.scale, q.step if reading == q.values[0] else 0.5 * q.scale * 1e-3
        for target, tolerance, plain in _conversions(q, value, step):
            found = index.near(target, tolerance * (1 + 1e-6) + _SLACK * abs(target))
            found = [
                f for f in found if _fits(q, f, index, plain=plain, unscaled=plain and q.scale != 1 and not q.percent)
            ]
            if found:
                return _closest(found, target)
        for target, factor in _unit_targets(q, value):
            found = [f for f in index.near(target, abs(factor) * step + _SLACK) if _has_unit_near(f, q, factor)]
            if found:
                return found
    return _approximately(q, index)


def _fits(q: Quantity, fact: Fact, index: Index, *, plain: bool, unscaled: bool) -> bool:
    """Whether scale and percent of a fact allow it to be this number."""
    other = fact.quantity
    if other is not None and plain and (other.percent or other.scale != 1):
        return False
    if _has_other_unit(q, fact):
        return False
    if other is not None and other.percent and (q.scale != 1 or q.currency):
        return False
    return not unscaled or q.scale in index.scales(fact.record.source)


def _has_other_unit(q: Quantity, fact: Fact) -> bool:
    """Whether the field or text says another unit of the same measure: 6.2 m/s is not 6.2 km/h."""
    kind = dimension(q.unit)
    if not kind:
        return False
    from evalspan_evaluators.grounding.context import key_stems

    said = fact.quantity.unit if fact.quantity is not None else ""
    last = next(iter(key_stems(fact.key)[-1:]), "") if fact.record.prose is None else ""
    own = said if dimension(said) == kind else last if dimension(last) == kind else ""
    return own != "" and convert(1.0, q.unit, own) != 1.0


def _closest(found: list[Fact], target: float) -> list[Fact]:
    return sorted(found, key=lambda f: abs(abs(number_of(f) or 0.0) - abs(target)))


def _has_unit_near(fact: Fact, q: Quantity, factor: float) -> bool:
    unit = fact.quantity.unit if fact.quantity is not None else ""
    from evalspan_evaluators.grounding.context import fact_words

    if measure((q.unit,)) == "temperature":
        return measure((unit, *fact_words(fact))) == "temperature" or fact.key[-2:] in ("_c", "_f")
    for word in (unit, *fact_words(fact)):
        other = convert(1.0, q.unit, word) if word else None
        if other is not None and abs(other - factor) < 1e-9 * abs(factor):
            return True
    return False


def _approximately(q: Quantity, index: Index) -> list[Fact]:
    """`about 19,000` may stand for 18,734: within half of the last digit that is not zero, at most 5 %."""
    digits = q.digits.replace(",", "").replace(".", "").rstrip("0")
    if not q.approximate or not digits or len(digits) == len(q.digits.replace(",", "").replace(".", "")):
        return []
    value = abs(q.value)
    width = 10.0 ** (len(str(int(value))) - len(digits)) if value >= 1 else q.step
    return _closest(index.near(value, min(width, 0.05 * value)), value)


def find_days(days: Iterable[Day], index: Index) -> list[Fact]:
    """Facts that name one of these days; missing parts agree with anything."""
    wanted = tuple(days)
    for day in wanted:
        if day in index.days:
            return index.days[day]
    return [
        fact
        for day in wanted
        for known, facts in index.days.items()
        if day.agrees(known) and _no_vaguer(day, known)
        for fact in facts
    ]


def _no_vaguer(claimed: Day, known: Day) -> bool:
    """A source that names only the year does not support a day of it."""
    return bool(known.day or not claimed.day) and bool(known.month or not claimed.month)


def find_times(minutes: Iterable[int], index: Index) -> list[Fact]:
    """Facts that name one of these times of day."""
    return [fact for minute in minutes for fact in index.minutes.get(minute, ())]
