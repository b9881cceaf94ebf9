"""Workload: agent runs as plain tuples of tool calls, the same for us and for every peer; standard library only."""

import random
from collections.abc import Sequence
from typing import Any

__all__ = ["TOOLS", "Call", "Pair", "longest_common", "pairs"]

TOOLS = (
    "search_kb", "get_order", "refund_payment", "send_email", "lookup_user",
    "run_sql", "web_search", "book_flight", "get_weather", "calc",
)  # fmt: skip

Call = tuple[str, dict[str, Any]]
#: Expected calls, actual calls.
Pair = tuple[list[Call], list[Call]]


def pairs(count: int, seed: int = 5) -> list[Pair]:
    """Runs of ten calls as expected and as made; three in ten have two neighbours swapped."""
    rng = random.Random(seed)
    made: list[Pair] = []
    for _ in range(count):
        expected: list[Call] = [
            (rng.choice(TOOLS), {"id": f"A-{rng.randrange(99)}", "limit": rng.randrange(9)}) for _ in range(10)
        ]
        actual = list(expected)
        if rng.random() < 0.3:
            at = rng.randrange(9)
            actual[at], actual[at + 1] = actual[at + 1], actual[at]
        made.append((expected, actual))
    return made


def longest_common(left: Sequence[object], right: Sequence[object]) -> int:
    """Length of the longest common subsequence, the textbook way: the floor that results are compared with."""
    size = len(right)
    before = [0] * (size + 1)
    for one in left:
        row = [0]
        for at in range(size):
            if one == right[at]:
                row.append(before[at] + 1)
            else:  # `max` would be half of the time
                row.append(before[at + 1] if before[at + 1] >= row[at] else row[at])  # noqa: FURB136
        before = row
    return before[size]
