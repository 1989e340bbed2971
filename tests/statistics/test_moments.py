"""Means and variances with bounds that are declared, given, or found privately."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from confide.declare import Budget, Float
from confide.query import col
from confide.statistics.families import Scaled
from confide.statistics.formula import plan_sums
from confide.statistics.moments import MeanEstimator, VarianceEstimator
from support.entropy import SeededEntropy
from support.samples import BUDGETS, add_rows, curator_of, is_within, noise_of


@pytest.mark.statistical
def test_bounds_found_privately_beat_loose_ones(entropy: SeededEntropy) -> None:
    """For bounds of 0 and a million, private bounds divide the error of a mean by 100."""
    rng = np.random.default_rng(int(entropy.words(1)[0]))
    x = rng.normal(50.0, 10.0, 5_000)
    curator = curator_of({"x": x}, {"x": Float(0, 10**6)}, Budget(100))
    loose = curator.mean("people", "x", epsilon=1)
    found = curator.mean("people", "x", bounds="private", epsilon=1)

    assert 100 * found.standard_error < loose.standard_error
    assert 50 == pytest.approx(found.value, abs=2)


@pytest.mark.statistical
@pytest.mark.parametrize("law", ["uniform", "exponential"])
@pytest.mark.parametrize("what", [MeanEstimator, VarianceEstimator])
def test_intervals_hold_whatever_the_law(
    what: type[MeanEstimator] | type[VarianceEstimator], law: str, entropy: SeededEntropy
) -> None:
    """For 2,000 non-normal rows at epsilon 1, intervals cover at a rate of 93 to 97%.

    Fewer than 336 of 400 samples are improbable, at ALPHA, under every such rate.
    """
    moment = what(Scaled(0.0, 100.0))
    terms = moment.terms(col("x"))
    curator = curator_of({"x": [1.0]}, {"x": Float(0, 100)}, BUDGETS["pure"])
    noise = noise_of(curator, plan_sums("people", ["x"], terms), 1.0, 400, entropy)
    rng = np.random.default_rng(int(entropy.words(1)[0]))
    laws: dict[str, Callable[..., Any]] = {
        "uniform": partial(rng.uniform, 0, 100),
        "exponential": partial(rng.exponential, 10),
    }
    truth = {"uniform": (50.0, 100.0**2 / 12), "exponential": (10.0, 100.0)}[law]
    hits = 0
    for drawn in noise.draws:
        sums = add_rows(terms, {"x": laws[law](2_000)}) + drawn
        low, high = np.quantile(moment.estimate(sums, noise.points)[1][:, 0], [0.025, 0.975])
        hits += bool(low <= truth[what is VarianceEstimator] <= high)

    assert is_within(hits, 400, 0.93, 0.97)


@pytest.mark.statistical
def test_few_rows_get_wide_intervals(entropy: SeededEntropy) -> None:
    """With five rows at epsilon 0.1, 90% of intervals cover, and 80% span nearly the range.

    The noise has a standard deviation of 26 rows. If it is high in the sum and low in the count,
    the estimated mean is at an end of the range.
    """
    moment = MeanEstimator(Scaled(0.0, 100.0))
    terms = moment.terms(col("x"))
    curator = curator_of({"x": [1.0]}, {"x": Float(0, 100)}, BUDGETS["pure"])
    noise = noise_of(curator, plan_sums("people", ["x"], terms), 0.1, 400, entropy)
    sums = add_rows(terms, {"x": np.array([5.0, 10.0, 15.0, 20.0, 25.0])})
    moved = np.stack(
        [moment.estimate(sums + drawn, noise.points)[1][:, 0] for drawn in noise.draws]
    )
    low, high = np.quantile(moved, [0.025, 0.975], axis=1)

    assert is_within(int(((low <= 15) & (15 <= high)).sum()), 400, 0.9, 1.0)
    assert is_within(int((high - low > 80).sum()), 400, 0.8, 1.0)
    assert ((low >= 0) & (high <= 100)).all()


def test_covariances_have_names(entropy: SeededEntropy) -> None:
    """Covariances are named after their columns."""
    rng = np.random.default_rng(int(entropy.words(1)[0]))
    a = rng.uniform(0, 1, 2_000)
    columns = {"a": Float(0, 1), "b": Float(0, 2)}
    curator = curator_of({"a": a, "b": a + rng.uniform(0, 1, 2_000)}, columns, Budget(10**9))
    found = curator.covariance("people", ["a", "b"], epsilon=10**7).value

    assert ["cov(a, a)", "cov(a, b)", "cov(b, b)"] == list(found)
    assert 1 / 12 == pytest.approx(found["cov(a, b)"], rel=0.1)
