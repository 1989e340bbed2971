"""Means and variances within bounds that are declared, given or found."""

import numpy as np
import pytest

from confide.declare import Budget, Float
from support.entropy import SeededEntropy
from support.samples import curator_of, is_within


@pytest.mark.statistical
def test_bounds_found_privately_beat_loose_ones(entropy: SeededEntropy) -> None:
    """Within 0 to a million, found bounds make the error of a mean a hundredth of what it was."""
    rng = np.random.default_rng(int(entropy.words(1)[0]))
    x = rng.normal(50.0, 10.0, 5_000)
    curator = curator_of({"x": x}, {"x": Float(0, 10**6)}, Budget(100))
    loose = curator.mean("people", "x", epsilon=1)
    found = curator.mean("people", "x", bounds="private", epsilon=1)

    assert 100 * found.standard_error < loose.standard_error
    assert 50 == pytest.approx(found.value, abs=2)


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("what", ["mean", "variance"])
def test_intervals_hold_whatever_the_law(what: str, entropy: SeededEntropy) -> None:
    """For uniform rows, 40 samples at epsilon 1, intervals hold at a rate of 90 to 99 %."""
    rng = np.random.default_rng(int(entropy.words(1)[0]))
    truth = 50.0 if what == "mean" else 100.0**2 / 12
    hits = 0
    for _ in range(40):
        curator = curator_of({"x": rng.uniform(0, 100, 1_000)}, {"x": Float(0, 100)}, Budget(1))
        low, high = getattr(curator, what)("people", "x", epsilon=1).interval()
        hits += low <= truth <= high

    assert is_within(hits, 40, 0.90, 0.99)


def test_covariances_have_names(entropy: SeededEntropy) -> None:
    """A covariance is asked for by the names of its columns."""
    rng = np.random.default_rng(int(entropy.words(1)[0]))
    a = rng.uniform(0, 1, 2_000)
    columns = {"a": Float(0, 1), "b": Float(0, 2)}
    curator = curator_of({"a": a, "b": a + rng.uniform(0, 1, 2_000)}, columns, Budget(10**9))
    found = curator.covariance("people", ["a", "b"], epsilon=10**7).value

    assert ["cov(a, a)", "cov(a, b)", "cov(b, b)"] == list(found)
    assert 1 / 12 == pytest.approx(found["cov(a, b)"], rel=0.1)
