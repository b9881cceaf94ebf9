"""Statistics of repeated runs and paired comparisons."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalspan_evaluators.statistics import (
    bootstrap_interval,
    flakiness,
    mcnemar,
    mean,
    paired_permutation,
    pass_at_k,
    pass_hat_k,
    percentile,
    standard_deviation,
    wilson_interval,
)


@given(st.integers(1, 8), st.data())
def test_pass_at_k_and_pass_hat_k_are_the_shares_over_all_subsets_of_runs(runs: int, data: st.DataObject) -> None:
    passes = data.draw(st.integers(0, runs))
    k = data.draw(st.integers(1, runs))
    results = [True] * passes + [False] * (runs - passes)
    subsets = list(itertools.combinations(results, k))

    assert pass_at_k(passes, runs, k) == pytest.approx(sum(any(s) for s in subsets) / len(subsets))
    assert pass_hat_k(passes, runs, k) == pytest.approx(sum(all(s) for s in subsets) / len(subsets))


def test_seed_e15_one_run_of_k_is_the_pass_rate_and_k_beyond_the_runs_is_refused() -> None:
    assert pass_at_k(8, 10, 1) == pass_hat_k(8, 10, 1) == pytest.approx(0.8)
    with pytest.raises(ValueError, match="k is 11"):
        pass_at_k(8, 10, 11)
    with pytest.raises(ValueError, match="11 passes of 10 runs"):
        pass_hat_k(11, 10, 1)


def test_the_wilson_interval_is_the_textbook_one() -> None:
    # Agresti & Coull's worked numbers: 8 of 10 gives 0.490 to 0.943.
    interval = wilson_interval(8, 10)

    assert (round(interval.low, 3), round(interval.high, 3)) == (0.490, 0.943)
    assert wilson_interval(0, 10).low == 0.0
    assert wilson_interval(10, 10).high == 1.0


@given(st.integers(1, 500), st.data())
def test_the_wilson_interval_holds_its_share_and_lies_in_0_to_1(runs: int, data: st.DataObject) -> None:
    passes = data.draw(st.integers(0, runs))
    interval = wilson_interval(passes, runs)

    assert 0.0 <= interval.low <= passes / runs <= interval.high <= 1.0
    assert wilson_interval(passes, runs, confidence=0.5).low >= interval.low


def test_the_bootstrap_interval_holds_the_mean_and_repeats_for_a_seed() -> None:
    values = [60.0, 70.0, 80.0, 90.0, 100.0]
    interval = bootstrap_interval(values)

    assert interval is not None
    assert interval.low < 80.0 < interval.high
    assert interval == bootstrap_interval(values)
    assert bootstrap_interval([]) is None
    same = bootstrap_interval([5.0, 5.0])
    assert same is not None
    assert (same.low, same.high) == (5.0, 5.0)


def test_seed_e15_percentiles_interpolate_linearly() -> None:
    assert percentile([1, 2, 3, 4], 0.5) == 2.5
    assert percentile([4, 1, 3, 2], 0.95) == pytest.approx(3.85)
    assert percentile([], 0.5) is None


def test_unknown_is_none() -> None:
    assert mean([]) is None
    assert standard_deviation([1.0]) is None


@pytest.mark.parametrize(
    ("passed", "scores", "patterns", "value", "label"),
    [
        ([True] * 4, [90.0] * 4, 1, 0.0, "stable"),
        ([True, False] * 5, [90.0] * 10, 1, 0.4, "moderate"),
        ([True] * 10, [90.0] * 10, 10, 0.1, "low"),
        ([True, False], [100.0, 0.0], 2, 1.0, "flaky"),
    ],
)
def test_seed_e16_flakiness_adds_its_four_parts(
    passed: list[bool], scores: list[float], patterns: int, value: float, label: str
) -> None:
    found = flakiness(passed, scores, patterns)

    assert found.value == pytest.approx(value)
    assert found.label == label


def test_seed_e16_flakiness_weighs_variation_and_range_in_percent() -> None:
    scores = [80.0, 100.0]
    deviation = math.sqrt(200)

    assert flakiness([True, True], scores).value == pytest.approx(0.3 * (100 * deviation / 90) / 50 + 0.2 * 20 / 50)


def test_the_permutation_test_tries_every_sign_of_few_pairs() -> None:
    # Five differences of one sign: 2 of 32 assignments are as extreme.
    test = paired_permutation([0.0] * 5, [1.0] * 5)

    assert test.p_value == pytest.approx(2 / 32)
    assert (test.pairs, test.difference) == (5, 1.0)


def test_the_permutation_test_of_many_pairs_finds_a_shift_and_nothing_in_noise() -> None:
    before = [float(i % 7) for i in range(60)]
    noise = [b + (1 if i % 2 else -1) for i, b in enumerate(before)]

    assert paired_permutation(before, [b + 0.5 + i % 2 for i, b in enumerate(before)]).p_value < 0.001
    assert paired_permutation(before, noise).p_value > 0.5
    assert paired_permutation([], []).p_value == 1.0
    with pytest.raises(ValueError, match="1 results before and 2 after"):
        paired_permutation([1.0], [1.0, 2.0])


def test_mcnemar_counts_only_the_verdicts_that_changed() -> None:
    before = [True] * 20
    after = [False] * 6 + [True] * 14

    test = mcnemar(before, after)

    assert test.p_value == pytest.approx(2 / 2**6)
    assert test.difference == pytest.approx(-0.3)
    assert mcnemar(before, before).p_value == 1.0
