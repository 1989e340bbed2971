"""Smoothed histograms: free, of the same sum, and no farther from the counts without noise."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from confide.noise import DiscreteLaplace, RoundedGaussian
from confide.statistics.smoothing import smooth_counts
from support.entropy import SeededEntropy

Floats = NDArray[np.float64]
LAWS: dict[str, Floats] = {
    "smooth": np.asarray(stats.norm(32, 10).pdf(np.arange(64) + 0.5)) * 10_000,
    "jumps": np.where(np.arange(64) % 16 < 8, 300.0, 20.0),
    "ragged": np.random.default_rng(1).integers(0, 400, 64).astype(np.float64),
    "few bins": np.array([100.0, 0.0, 40.0, 5.0, 60.0]),
}
SIZE = 30
RELEASES = 400
NOISES = (DiscreteLaplace(Fraction(SIZE)), RoundedGaussian(Fraction(2 * SIZE**2)))


@pytest.mark.statistical
@pytest.mark.parametrize("noise", NOISES, ids=str)
@pytest.mark.parametrize("name", LAWS)
def test_smoothed_counts_are_no_farther_from_the_truth(
    name: str, noise: DiscreteLaplace | RoundedGaussian, entropy: SeededEntropy
) -> None:
    """Over 400 releases the mean squared distance is not above that of the noisy counts.

    Six standard errors of the mean difference are allowed; smooth counts come twice as near.
    """
    truth = LAWS[name]
    gains = []
    for _ in range(RELEASES):
        noisy: Floats = truth + noise.draw(len(truth), entropy).astype(np.float64)
        smoothed = smooth_counts(noisy, 2.0 * SIZE**2)
        gains.append([np.sum((noisy - truth) ** 2), np.sum((smoothed - truth) ** 2)])
    before, after = np.array(gains).T
    spread = float((before - after).std()) / math.sqrt(RELEASES)

    assert after.mean() <= before.mean() + 6 * spread
    assert after.mean() <= before.mean() / 2 or name != "smooth"


@given(st.lists(st.integers(-100, 10_000), min_size=1, max_size=70), st.floats(0, 1e6))
def test_smoothing_keeps_the_sum(counts: list[int], variance: float) -> None:
    """Whatever the counts and the noise, they add up to what they did."""
    noisy = np.array(counts, dtype=np.float64)

    assert noisy.sum() == pytest.approx(smooth_counts(noisy, variance).sum(), abs=1e-6)


def test_without_noise_nothing_changes() -> None:
    """With a variance of zero the counts are the same to 1e-9 of them."""
    for counts in LAWS.values():
        assert counts == pytest.approx(smooth_counts(counts, 0.0), rel=1e-9, abs=1e-9)
