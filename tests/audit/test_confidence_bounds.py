"""Confidence bounds for probabilities from counts: valid, and no wider than necessary."""

import math

import numpy as np
import pytest
from scipy import special

from confide.audit.evidence import (
    _sum_tail,
    _tail_above,
    approximate_bounds,
    lower_bound,
    upper_bound,
)
from confide.errors import BadDeclaration

LEVEL = 0.01
COUNTS = [(n, k) for n in (1, 2, 7, 30) for k in range(n + 1)]


@pytest.mark.parametrize("trials", [1, 5, 40])
@pytest.mark.parametrize("chance", [0.001, 0.02, 0.3, 0.5, 0.77, 0.999])
def test_the_lower_bound_is_rarely_too_high(trials: int, chance: float) -> None:
    """The probability, over all counts, that the bound exceeds the true value is at most LEVEL."""
    law = [
        special.comb(trials, k) * chance**k * (1 - chance) ** (trials - k)
        for k in range(trials + 1)
    ]
    wrong = math.fsum(p for k, p in enumerate(law) if lower_bound(k, trials, LEVEL) > chance)

    assert wrong <= LEVEL


@pytest.mark.parametrize(("trials", "hits"), COUNTS)
def test_bounds_are_those_of_clopper_and_pearson(trials: int, hits: int) -> None:
    """Both bounds lie outside the exact ones, and within 5% of them."""
    low = special.betaincinv(hits, trials - hits + 1, LEVEL) if hits else 0.0
    high = special.betaincinv(hits + 1, trials - hits, 1 - LEVEL) if hits < trials else 1.0

    assert low * (1 - 5e-2) <= lower_bound(hits, trials, LEVEL) <= low * (1 + 1e-9)
    assert 1 - (1 - high) * (1 + 1e-9) <= upper_bound(hits, trials, LEVEL)
    assert upper_bound(hits, trials, LEVEL) <= high * (1 + 5e-2)


@pytest.mark.parametrize(("hits", "chance"), [(1, 1e-9), (17, 0.001), (2_000, 0.45), (4_096, 0.99)])
def test_both_ways_to_add_up_a_tail_agree(hits: int, chance: float) -> None:
    """The sum of terms is at least the enclosed tail, and exceeds it by at most a millionth."""
    enclosed, added = _tail_above(chance, hits, 4_096), _sum_tail(chance, hits, 4_096)

    assert enclosed <= added <= enclosed * (1 + 1e-6)


def test_no_hit_leaves_the_closed_form() -> None:
    """After n misses the upper bound is 1 - level^(1/n)."""
    assert 1 - LEVEL ** (1 / 500) == pytest.approx(upper_bound(0, 500, LEVEL), rel=1e-2)


def test_large_counts_are_bounded_too() -> None:
    """With millions of trials, bounds are within five standard deviations of the fraction."""
    low, high = lower_bound(10**6, 10**7, 1e-6), upper_bound(10**6, 10**7, 1e-6)

    assert 0.1 - 5e-4 < low < 0.1 < high < 0.1 + 5e-4


def test_the_quick_bounds_are_near() -> None:
    """Wilson's bounds, which select events, are within 10% of the exact ones."""
    for hits in (50, 300, 700):
        low, high = approximate_bounds(np.array([hits]), 1_000, LEVEL)

        assert lower_bound(hits, 1_000, LEVEL) == pytest.approx(low[0], rel=0.1)
        assert upper_bound(hits, 1_000, LEVEL) == pytest.approx(high[0], rel=0.1)


@pytest.mark.parametrize(
    ("hits", "trials", "level"), [(3, 2, 0.1), (-1, 2, 0.1), (0, 0, 0.1), (1, 2, 0)]
)
def test_impossible_counts_are_refused(hits: int, trials: int, level: float) -> None:
    """Impossible counts raise an error instead of returning a bound."""
    with pytest.raises(BadDeclaration, match="hits"):
        lower_bound(hits, trials, level)
