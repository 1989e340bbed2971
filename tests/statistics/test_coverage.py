"""95% intervals cover the population parameters in 95% of samples and releases.

Each case draws 60 to 1,000 samples, and adds a draw of the plan's noise to the exact sums of each.
A case fails if the number of covering intervals is improbable, at ALPHA, under every rate from
93.5 to 96.5%, or to 100% if most values have almost no rows. The figures of larger runs are in
docs/statistics-accuracy.md.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from confide.declare import Category, Column, Float
from confide.query import TableQuery, col, count
from confide.statistics.families import Family, make_family
from confide.statistics.formula import Numbers, plan_sums
from confide.statistics.likelihood import MultivariateNormal, solve_counts, solve_sums
from confide.statistics.replicas import sample_counts, thin
from support.entropy import SeededEntropy
from support.samples import BUDGETS, add_rows, count_noise_of, curator_of, is_within, noise_of

Floats = NDArray[np.float64]
Rule = Callable[[Floats, Floats], tuple[Floats, Floats]]
SAMPLES: Final = {
    "normal": 1_000,
    "poisson": 1_000,
    "exponential": 1_000,
    "gamma": 400,
    "beta": 200,
}
MANY: Final = 60
"""Samples of a distribution on 200 values; each takes a tenth of a second."""
LOW: Final = 0.935
HIGH: Final = 0.965
LAWS: Final[dict[str, tuple[Any, tuple[float, float], tuple[float, ...]]]] = {
    "normal": (stats.norm(50, 10), (0, 100), (50, 10)),
    "poisson": (stats.poisson(4), (0, 20), (4,)),
    "exponential": (stats.expon(scale=10), (0, 150), (0.1,)),
    "gamma": (stats.gamma(3, scale=5), (0, 100), (3, 5)),
    "beta": (stats.beta(2, 5), (0, 1), (2, 5)),
}


def count_hits(
    name: str, rows: int, accounting: str, entropy: SeededEntropy, *, with_noise: bool = True
) -> NDArray[np.int64]:
    """Return the number of intervals at epsilon = 1 that cover each parameter."""
    law, bounds, truth = LAWS[name]
    family: Family = make_family(name, *bounds)
    curator = curator_of({"x": [1.0]}, {"x": Float(*bounds)}, BUDGETS[accounting])
    terms = family.terms(col("x"))
    noise = noise_of(curator, plan_sums("people", ["x"], terms), 1.0, SAMPLES[name], entropy)
    rng = np.random.default_rng(int(entropy.words(1)[0]))
    points = noise.points if with_noise else np.zeros_like(noise.points)
    hits = np.zeros(len(truth), dtype=np.int64)
    for drawn in noise.draws:
        rows_drawn = {"x": law.rvs(rows, random_state=rng).astype(np.float64)}
        replicas = solve_sums(family, add_rows(terms, rows_drawn) + drawn, points)[1]
        low, high = np.quantile(replicas, [0.025, 0.975], axis=0)
        hits += (low <= truth) & (truth <= high)
    return hits


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("rows", [200, 2_000, 20_000])
@pytest.mark.parametrize("name", LAWS)
def test_intervals_hold_the_parameters(name: str, rows: int, entropy: SeededEntropy) -> None:
    """At pure epsilon = 1, intervals cover each parameter at a rate from 93.5 to 96.5%."""
    hits = count_hits(name, rows, "pure", entropy)

    assert [True] * len(hits) == [is_within(int(hit), SAMPLES[name], LOW, HIGH) for hit in hits]


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("name", ["normal", "gamma"])
def test_intervals_hold_under_gaussian_noise(name: str, entropy: SeededEntropy) -> None:
    """At (1, 1e-6) with 2,000 rows, intervals cover each parameter at a rate from 93.5 to 96.5%."""
    hits = count_hits(name, 2_000, "gaussian", entropy)

    assert [True] * len(hits) == [is_within(int(hit), SAMPLES[name], LOW, HIGH) for hit in hits]


def count_parts(
    parts: Floats, rows: int, epsilon: float, samples: int, entropy: SeededEntropy, *, solve: Rule
) -> NDArray[np.int64]:
    """Return the number of intervals that cover the probability of each of up to 21 values."""
    values = [str(place) for place in range(len(parts))]
    curator = curator_of({"v": ["0"]}, {"v": Category(values)}, BUDGETS["pure"])
    query = TableQuery("people").where(col("v").not_null()).group_by("v").agg(n=count())
    noise = count_noise_of(curator, query, epsilon, samples, entropy)
    rng = np.random.default_rng(int(entropy.words(1)[0]))
    truth = parts[:21]
    hits = np.zeros(len(truth), dtype=np.int64)
    for drawn in noise.draws:
        moved = solve(rng.multinomial(rows, parts) + drawn, noise.points)[1]
        low, high = np.quantile(moved[:, :21], [0.025, 0.975], axis=0)
        hits += (low <= truth) & (truth <= high)
    return hits


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("rows", [200, 2_000, 20_000])
@pytest.mark.parametrize("parts", [(0.7, 0.3), (0.5, 0.3, 0.15, 0.05)])
def test_intervals_hold_the_parts(
    parts: tuple[float, ...], rows: int, entropy: SeededEntropy
) -> None:
    """At epsilon = 1, Bernoulli and categorical intervals cover at a rate from 93.5 to 96.5%."""
    hits = count_parts(np.array(parts), rows, 1.0, 500, entropy, solve=solve_counts)

    assert [True] * len(hits) == [is_within(int(hit), 500, LOW, HIGH) for hit in hits]


def spread_rest(first: float) -> Floats:
    """Return a distribution on 200 values: this probability for the first, the rest uniform."""
    return np.array([first] + [(1.0 - first) / 199.0] * 199)


def cut_counts(counts: Floats, noise: Floats) -> tuple[Floats, Floats]:
    """Return proportions by a wrong rule, which clips counts at zero before it adds them up."""

    def divide(found: Floats) -> Floats:
        kept = np.maximum(found, 0.0)
        return np.asarray(kept / np.maximum(kept.sum(axis=-1, keepdims=True), 1e-9))

    parts, size = divide(counts), max(float(counts.sum()), 1.0)
    return parts, divide(counts + sample_counts(parts, size) + thin(noise))


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize(("first", "epsilon"), [(0.5, 1.0), (0.99, 10.0)])
def test_intervals_hold_many_parts(first: float, epsilon: float, entropy: SeededEntropy) -> None:
    """With 200 values, most with about 1.3 or 0.03 of 500 rows, coverage is at least 93.5%.

    We check 21 values, so a correct rule fails with probability at most 21 ALPHA / 2.
    """
    hits = count_parts(spread_rest(first), 500, epsilon, MANY, entropy, solve=solve_counts)

    assert [True] * len(hits) == [is_within(int(hit), MANY, LOW, 1.0) for hit in hits]


@pytest.mark.slow
@pytest.mark.statistical
def test_parts_of_a_whole_made_larger_by_noise_would_be_noticed(entropy: SeededEntropy) -> None:
    """The same check rejects clipping at zero, for the large value and the nearly empty ones."""
    large = count_parts(spread_rest(0.5), 500, 1.0, MANY, entropy, solve=cut_counts)[0]
    small = count_parts(spread_rest(0.99), 500, 10.0, MANY, entropy, solve=cut_counts)[1:]

    assert not is_within(int(large), MANY, LOW, 1.0)
    assert not any(is_within(int(hit), MANY, LOW, 1.0) for hit in small)


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("rows", [200, 2_000, 20_000])
def test_intervals_hold_means_and_covariances(rows: int, entropy: SeededEntropy) -> None:
    """At epsilon = 1, intervals for two normal columns cover at a rate from 93.5 to 96.5%."""
    columns: dict[str, Column] = {"x": Float(0, 100), "y": Float(0, 40)}
    law = MultivariateNormal((Numbers("x", col("x"), 0, 100), Numbers("y", col("y"), 0, 40)))
    truth = (50.0, 20.0, 100.0, 30.0, 25.0)
    curator = curator_of({"x": [1.0], "y": [1.0]}, columns, BUDGETS["pure"])
    noise = noise_of(curator, plan_sums("people", ["x", "y"], law.terms()), 1.0, 200, entropy)
    rng = np.random.default_rng(int(entropy.words(1)[0]))
    hits = np.zeros(len(truth), dtype=np.int64)
    for drawn in noise.draws:
        x, y = rng.multivariate_normal(truth[:2], [[100.0, 30.0], [30.0, 25.0]], rows).T
        sums = add_rows(law.terms(), {"x": x, "y": y}) + drawn
        low, high = np.quantile(solve_sums(law, sums, noise.points)[1], [0.025, 0.975], axis=0)
        hits += (low <= truth) & (truth <= high)

    assert [True] * len(hits) == [is_within(int(hit), 200, LOW, HIGH) for hit in hits]


@pytest.mark.statistical
def test_intervals_without_noise_would_be_noticed(entropy: SeededEntropy) -> None:
    """The same check rejects intervals that ignore the noise, at 200 rows."""
    hits = count_hits("normal", 200, "pure", entropy, with_noise=False)

    assert not any(is_within(int(hit), SAMPLES["normal"], LOW, HIGH) for hit in hits)
