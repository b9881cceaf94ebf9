"""Grounding's search for calculations never leaves out a pair that gives the value."""

import random
from itertools import permutations

from evalspan_evaluators.grounding.reach import may_reach


def test_a_sum_difference_product_or_share_of_two_numbers_is_always_told_reachable() -> None:
    rng = random.Random(11)
    for _ in range(400):
        values = [
            rng.choice([0.0, 1.0, -3.0, 1e9, rng.uniform(-50, 50), round(rng.uniform(0, 5000), 2)]) for _ in range(9)
        ]
        a, b = rng.sample(values, 2)
        results = {"difference": a - b, "total": a + b, "product": a * b, "ratio": a / b if b else 0.0}
        for name, value in results.items():
            if name == "ratio" and not b:
                continue
            assert may_reach(values, abs(value) - 0.005, abs(value) + 0.005, **{name: True}), (values, name, a, b)


def test_a_value_no_pair_gives_is_told_unreachable() -> None:
    values = [3.0, 8.0, 21.0, 55.0, 144.0, 377.0]
    sums = {x + y for x, y in permutations(values, 2)}
    assert 500.0 not in sums
    assert not may_reach(values, 499.5, 500.5, total=True)
    assert not may_reach(values, 400.0, 500.0, difference=True)
