"""Comparison: how two sequences of tool names agree, measured in every usual way at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import eq

__all__ = ["Comparison", "compare", "surplus"]


@dataclass(slots=True)
class Comparison:
    """Counts from which every mode's value follows.

    Attributes:
        expected: Length of the expected sequence.
        actual: Length of the actual sequence.
        positions: Places at which both hold the same name, up to the shorter length.
        prefix: Expected names found in order, greedily, until the first that is not found.
        lcs: Length of the longest common subsequence.
        shared: Size of the multiset intersection.
    """

    expected: int
    actual: int
    positions: int
    prefix: int
    lcs: int
    shared: int


@lru_cache(maxsize=512)
def _table(expected: tuple[str, ...]) -> tuple[dict[str, int], dict[str, int]]:
    """How often each name is expected, and at which places as bits."""
    counts: dict[str, int] = {}
    masks: dict[str, int] = {}
    for index, name in enumerate(expected):
        counts[name] = counts.get(name, 0) + 1
        masks[name] = masks.get(name, 0) | (1 << index)
    return counts, masks


def compare(expected: tuple[str, ...], actual: Sequence[str]) -> Comparison:
    """Compare in one pass over each, plus one big-integer step per actual name where they differ."""
    wanted = len(expected)
    positions = sum(map(eq, expected, actual))
    rest = iter(actual)
    prefix = 0
    for name in expected:
        if name not in rest:
            break
        prefix += 1
    if prefix == wanted:  # a full match in order is a full match in every looser sense
        return Comparison(wanted, len(actual), positions, prefix, prefix, prefix)
    counts, masks = _table(expected)
    counts = counts.copy()
    shared = 0
    # Bit-parallel longest common subsequence (Hyyrö 2004): zeros in `row` count the matches so far.
    ones = row = (1 << wanted) - 1
    for name in actual:
        if name not in masks:
            continue
        if counts[name]:
            counts[name] -= 1
            shared += 1
        hit = row & masks[name]
        row = ((row + hit) | (row - hit)) & ones
    return Comparison(wanted, len(actual), positions, prefix, wanted - row.bit_count(), shared)


def surplus(left: Sequence[str], right: Sequence[str]) -> list[str]:
    """Names of `left` that `right` does not hold as often, in order: the multiset difference."""
    counts: dict[str, int] = {}
    for name in right:
        counts[name] = counts.get(name, 0) + 1
    over: list[str] = []
    for name in left:
        if counts.get(name, 0):
            counts[name] -= 1
        else:
            over.append(name)
    return over
