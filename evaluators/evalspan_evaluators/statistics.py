"""Statistics: what repeated runs and paired comparisons say, with the standard library only."""

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from statistics import mean as _mean
from statistics import stdev as _stdev
from typing import Literal

__all__ = [
    "Flakiness",
    "Interval",
    "PairedTest",
    "bootstrap_interval",
    "flakiness",
    "mcnemar",
    "mean",
    "paired_permutation",
    "pass_at_k",
    "pass_hat_k",
    "percentile",
    "standard_deviation",
    "wilson_interval",
]

Stability = Literal["stable", "low", "moderate", "high", "flaky"]

#: Up to this many differing pairs every assignment of signs is tried.
_EXACT_PAIRS = 14


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval, both ends included."""

    low: float
    high: float
    confidence: float = 0.95


@dataclass(frozen=True, slots=True)
class Flakiness:
    """How much repeated runs differ: 0 (always the same) to 1, and a word for it.

    `stable` below 0.1, `low` below 0.25, `moderate` below 0.5, `high` below 0.75, else `flaky`.
    """

    value: float
    label: Stability


@dataclass(frozen=True, slots=True)
class PairedTest:
    """A two-sided test of two results on the same cases.

    Attributes:
        name: `permutation` or `mcnemar`.
        pairs: Cases compared.
        difference: Mean of after - before.
        p_value: Chance of a difference at least this large if there were none.
    """

    name: str
    pairs: int
    difference: float
    p_value: float


def mean(values: Iterable[float]) -> float | None:
    """Arithmetic mean; None without a value."""
    found = list(values)
    return _mean(found) if found else None


def standard_deviation(values: Sequence[float]) -> float | None:
    """Standard deviation of a sample (n - 1); None with fewer than two values."""
    return _stdev(values) if len(values) >= 2 else None


def percentile(values: Sequence[float], share: float) -> float | None:
    """The value below which this share (0 to 1) of the values lies, interpolated linearly; None without a value."""
    if not 0 <= share <= 1:
        raise ValueError(f"share is {share!r}: a number between 0 and 1")
    if not values:
        return None
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = math.ceil(place)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def wilson_interval(passes: int, runs: int, *, confidence: float = 0.95) -> Interval:
    """Interval of a share, right for few runs and for shares near 0 and 1 (Wilson 1927).

    Raises:
        ValueError: There are no runs, or more passes than runs.
    """
    _check_counts(passes, runs)
    z = _z(confidence)
    share = passes / runs
    spread = z * z / runs
    centre = (share + spread / 2) / (1 + spread)
    half = z * math.sqrt(share * (1 - share) / runs + spread / (4 * runs)) / (1 + spread)
    # The ends are 0 and 1 exactly where every run agrees; rounding must not move them.
    low = 0.0 if passes == 0 else max(0.0, centre - half)
    high = 1.0 if passes == runs else min(1.0, centre + half)
    return Interval(low, high, confidence)


def bootstrap_interval(
    values: Sequence[float], *, confidence: float = 0.95, samples: int = 2000, seed: int = 0
) -> Interval | None:
    """Percentile interval of the mean from resampling (Efron 1979); None without a value.

    Args:
        values: The sample.
        confidence: Share of resampled means inside.
        samples: How often to resample.
        seed: Same seed, same interval.
    """
    _z(confidence)
    if not values:
        return None
    generator = random.Random(seed)  # noqa: S311  resampling, no secret
    size = len(values)
    means = [sum(generator.choices(values, k=size)) / size for _ in range(samples)]
    tail = (1 - confidence) / 2
    low, high = percentile(means, tail), percentile(means, 1 - tail)
    if low is None or high is None:
        return None
    return Interval(low, high, confidence)


def pass_at_k(passes: int, runs: int, k: int) -> float:
    """Chance that at least one of k runs passes, unbiased from n runs: 1 - C(n-c, k) / C(n, k) (Chen et al. 2021).

    Raises:
        ValueError: k is less than 1 or more than the runs, or there are more passes than runs.
    """
    _check_k(passes, runs, k)
    return 1.0 - math.comb(runs - passes, k) / math.comb(runs, k)


def pass_hat_k(passes: int, runs: int, k: int) -> float:
    """Chance that all of k runs pass (pass^k), unbiased from n runs: C(c, k) / C(n, k) (Yao et al. 2024).

    Raises:
        ValueError: Like `pass_at_k`.
    """
    _check_k(passes, runs, k)
    return math.comb(passes, k) / math.comb(runs, k)


def flakiness(passed: Sequence[bool], scores: Sequence[float], tool_patterns: int = 1) -> Flakiness:
    """How flaky repeated runs of one case are, by the formula EvalView uses.

    0.4 x (1 - 2 |p - 0.5|, 0 when all agree) + 0.3 x min(CV / 50, 1) + 0.2 x min(range / 50, 1)
    + 0.1 x (tool patterns - 1) / (n - 1), with p the share that passed and CV in percent.

    Args:
        passed: One verdict per run.
        scores: Overall scores, 0 to 100.
        tool_patterns: How many different tool sequences the runs show.
    """
    runs = len(passed)
    if runs < 2:
        return Flakiness(0.0, "stable")
    share = sum(passed) / runs
    wavering = 0.0 if share in (0.0, 1.0) else 1 - 2 * abs(share - 0.5)
    middle = mean(scores) or 0.0
    deviation = standard_deviation(scores) or 0.0
    variation = 100 * deviation / middle if middle else 0.0
    reach = max(scores) - min(scores) if scores else 0.0
    value = 0.4 * wavering + 0.3 * min(variation / 50, 1) + 0.2 * min(reach / 50, 1)
    value += 0.1 * (max(tool_patterns, 1) - 1) / (runs - 1)
    value = min(max(value, 0.0), 1.0)
    return Flakiness(value, _stability(value))


def _stability(value: float) -> Stability:
    bounds: tuple[tuple[float, Stability], ...] = ((0.1, "stable"), (0.25, "low"), (0.5, "moderate"), (0.75, "high"))
    for bound, label in bounds:
        if value < bound:
            return label
    return "flaky"


def paired_permutation(
    before: Sequence[float], after: Sequence[float], *, samples: int = 10_000, seed: int = 0
) -> PairedTest:
    """Whether scores on the same cases differ: signs of the differences are permuted (Fisher 1935).

    Every assignment of signs is tried for few pairs, else `samples` random ones.

    Raises:
        ValueError: The two have different lengths.
    """
    _check_pairs(before, after)
    differences = [a - b for b, a in zip(before, after, strict=True)]
    pairs = len(differences)
    if not pairs:
        return PairedTest("permutation", 0, 0.0, 1.0)
    telling = [d for d in differences if d]
    observed = abs(math.fsum(telling))
    slack = observed - 1e-12 * (1 + observed)
    if len(telling) <= _EXACT_PAIRS:
        sums = _signed_sums(telling)
        extreme = sum(abs(total) >= slack for total in sums)
        p_value = extreme / len(sums)
    else:
        generator = random.Random(seed)  # noqa: S311  permutation, no secret
        extreme = 0
        for _ in range(samples):
            signs = generator.getrandbits(len(telling))
            total = math.fsum(d if signs >> i & 1 else -d for i, d in enumerate(telling))
            extreme += abs(total) >= slack
        p_value = (extreme + 1) / (samples + 1)
    return PairedTest("permutation", pairs, math.fsum(differences) / pairs, p_value)


def _signed_sums(values: Sequence[float]) -> list[float]:
    sums = [0.0]
    for value in values:
        sums = [total + sign * value for total in sums for sign in (1, -1)]
    return sums


def mcnemar(before: Sequence[bool], after: Sequence[bool]) -> PairedTest:
    """Whether verdicts on the same cases differ: exact binomial test of those that changed (McNemar 1947).

    Raises:
        ValueError: The two have different lengths.
    """
    _check_pairs(before, after)
    gained = sum(a and not b for b, a in zip(before, after, strict=True))
    lost = sum(b and not a for b, a in zip(before, after, strict=True))
    changed = gained + lost
    tail = sum(math.comb(changed, i) for i in range(min(gained, lost) + 1))
    p_value = min(1.0, 2 * tail / 2**changed)
    pairs = len(before)
    return PairedTest("mcnemar", pairs, (gained - lost) / pairs if pairs else 0.0, p_value)


def _z(confidence: float) -> float:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence!r}: a number between 0 and 1, such as 0.95")
    return NormalDist().inv_cdf(0.5 + confidence / 2)


def _check_counts(passes: int, runs: int) -> None:
    if runs < 1 or not 0 <= passes <= runs:
        raise ValueError(f"{passes!r} passes of {runs!r} runs: there must be runs, and no more passes than runs")


def _check_k(passes: int, runs: int, k: int) -> None:
    _check_counts(passes, runs)
    if not 1 <= k <= runs:
        raise ValueError(f"k is {k!r}: from 1 to the {runs} runs there are")


def _check_pairs(before: Sequence[object], after: Sequence[object]) -> None:
    if len(before) != len(after):
        raise ValueError(f"{len(before)} results before and {len(after)} after: pairs need the same cases")
