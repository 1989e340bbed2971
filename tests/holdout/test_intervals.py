"""Intervals for one fixed query miss no more often than they claim."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from confide.holdout.intervals import Bracket, hoeffding_width, lower_end, upper_end
from confide.holdout.values import MEAN_ERROR

CHANCES = [0.001, 0.03, 0.2, 0.5, 0.77, 0.95, 0.999]


def chance_above(n: int, p: float, is_binary: bool, nats: float) -> float:
    """Return the exact probability that the upper end for a binomial mean is below p."""
    ends = [upper_end(k / n, n, nats, is_binary=is_binary) for k in range(n + 1)]
    missed = [k for k in range(n + 1) if ends[k] < p]
    return math.fsum(special.comb(n, k) * p**k * (1 - p) ** (n - k) for k in missed)


@pytest.mark.parametrize("n", [1, 2, 7, 40])
@pytest.mark.parametrize("p", CHANCES)
@pytest.mark.parametrize("is_binary", [False, True])
def test_an_end_misses_no_more_often_than_claimed(n: int, p: float, is_binary: bool) -> None:
    """P(upper end < true mean) <= exp(-nats), computed exactly, at ordinary and at tiny levels."""
    for nats in (0.5, 2.0, 6.0, 20.0):
        assert chance_above(n, p, is_binary, nats) <= math.exp(-nats) * (1 + 1e-9)


@given(st.integers(1, 10**6), st.floats(0, 1), st.floats(0.01, 600))
def test_chernoff_is_never_wider_than_hoeffding(n: int, mean: float, nats: float) -> None:
    """Both ends lie within Hoeffding's interval, up to rounding, and contain the mean."""
    width = hoeffding_width(n, nats)

    assert upper_end(mean, n, nats) <= mean + width + 1e-9
    assert lower_end(mean, n, nats) >= mean - width - 1e-9
    assert lower_end(mean, n, nats) <= mean <= upper_end(mean, n, nats) + 1e-15


@pytest.mark.parametrize(
    ("n", "k", "level"),
    [(50, 49, 0.025), (1000, 950, 1e-8), (10_000, 5_000, 1e-12), (100, 0, 0.01)],
)
def test_binary_values_have_the_interval_of_clopper_and_pearson(
    n: int, k: int, level: float
) -> None:
    """Both ends agree with the beta quantiles, and never lie inside them."""
    high = special.betaincinv(k + 1, n - k, 1 - level) if level > 1e-10 else None
    low = special.betaincinv(k, n - k + 1, level) if k else 0.0
    ends = Bracket(k / n, k / n, n, -math.log(level), is_binary=True).interval()

    assert low - 1e-6 <= ends[0] <= low + 1e-15
    if high is not None:
        assert high - 1e-12 <= ends[1] <= high + 1e-6


def test_accuracy_needs_seven_times_fewer_rows_than_hoeffding_says() -> None:
    """At level 1e-8 and mean 0.95, Hoeffding needs 4.5 times as many rows for the same width."""
    nats = math.log(1e8)
    width = 0.95 - lower_end(0.95, 4_000, nats, is_binary=True)
    rows = nats / (2 * width**2)

    assert rows >= 4.5 * 4_000
    wide = upper_end(0.95, 4_000, nats, is_binary=True) - 0.95
    assert nats / (2 * wide**2) >= 7 * 4_000


def test_a_bracket_contains_the_intervals_of_all_its_means() -> None:
    """The interval of an outcome contains those of all means that the outcome allows."""
    outer = Bracket(0.3, 0.4, 500, 5.0).interval()
    for mean in np.linspace(0.3, 0.4, 11):
        inner = Bracket(mean, mean, 500, 5.0).interval()

        assert outer[0] <= inner[0] <= inner[1] <= outer[1]
    assert (0.0, 1.0) == Bracket(-0.2, 1.3, 500, 5.0).interval()


def test_a_width_covers_the_error_of_a_computed_mean() -> None:
    """Even without a sampling error, the half-width exceeds the error of the arithmetic."""
    assert float(MEAN_ERROR) < hoeffding_width(10**9, 0.0) < 1e-10
