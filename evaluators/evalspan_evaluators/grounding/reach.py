"""Reach: whether two numbers of a group can give a target at all, told without trying every pair."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

__all__ = ["may_reach"]

#: Rounding errors of the calculation, of its size.
_SLACK = 1e-9
#: Pairs of so few numbers are sooner tried.
_FEW = 5


def may_reach(
    values: Sequence[float],
    low: float,
    high: float,
    *,
    difference: bool = False,
    total: bool = False,
    product: bool = False,
    ratio: bool = False,
    percent: bool = False,
) -> bool:
    """Whether the chosen operations on some two of the values may give a size between `low` and `high`.

    Every value is asked which partners it needs, and these are looked up in the sorted values: n log n instead of
    the n * n / 2 pairs. Never false where a pair does; it may be true where none does, and is for few values.

    Args:
        values: The numbers of a group.
        low: Least size of the result.
        high: Greatest size of the result.
        difference: a - b.
        total: a + b, and half of it.
        product: a * b.
        ratio: a / b.
        percent: a of b, or the change from b to a, in percent.
    """
    if len(values) <= _FEW:
        return True
    ordered = sorted(values)
    least, most = ordered[0], ordered[-1]
    wanted: list[tuple[str, float, float]] = []
    if difference and low <= most - least:
        wanted.append(("difference", low, high))
    for first, last in ((low, high), (-high, -low)):
        if total:
            wanted += (
                ("total", x * first, x * last) for x in (1, 2) if x * first <= 2 * most and 2 * least <= x * last
            )
        if product:
            wanted.append(("product", first, last))
        if ratio:
            wanted.append(("share", first, last))
        if percent:
            wanted += (("share", first / 100, last / 100), ("share", 1 + first / 100, 1 + last / 100))
    return any(_has_partner(ordered, *each) for each in wanted)


def _has_partner(ordered: Sequence[float], operation: str, low: float, high: float) -> bool:
    """Whether some value finds another one in the range that the operation asks for."""
    for a in ordered:
        if operation == "difference":
            first, last = a - high, a - low
        elif operation == "total":
            first, last = low - a, high - a
        elif operation == "share":
            first, last = (a * low, a * high) if a >= 0 else (a * high, a * low)
        elif a:
            first, last = (low / a, high / a) if a > 0 else (high / a, low / a)
        else:
            return True
        slack = _SLACK * (abs(first) + abs(last) + abs(a))
        first, last = first - slack, last + slack
        at = bisect_left(ordered, first)
        if at < len(ordered) and ordered[at] <= last:
            # The value itself is no other one.
            found = bisect_right(ordered, last, at) - at
            if found > (first <= a <= last):
                return True
    return False
