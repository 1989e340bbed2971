"""The worked examples of docs/examples.md, computed by the mechanisms themselves."""

import math
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special

from confide.exact import ball
from confide.loss import ApproximateLoss, compose
from confide.mechanisms import (
    Box,
    Exponential,
    Gaussian,
    KNorm,
    Laplace,
    PermuteAndFlip,
    histogram_sensitivity,
)
from confide.noise import bernoulli
from support.auditor import hockey_stick, largest_ratio
from support.entropy import SeededEntropy
from support.laws import ALPHA, binomial_p

Counts = NDArray[np.int64]


# The most common medical condition.


def count_conditions(people: list[set[int]], conditions: int) -> Counts:
    return np.array([sum(j in has for has in people) for j in range(conditions)])


def test_one_patient_changes_each_count_by_at_most_one() -> None:
    """Adding a patient moves all counts in one direction; replacing one can move them in both."""
    subsets = [set(s) for size in range(4) for s in combinations(range(3), size)]
    people = [{0, 1}, {1}, {1, 2}]
    before = count_conditions(people, 3)
    added = [count_conditions([*people, one], 3) - before for one in subsets]
    replaced = [count_conditions([*people[1:], one], 3) - before for one in subsets]

    assert (0, 1) == (np.min(added), np.max(added))
    assert (-1, 1) == (np.min(replaced), np.max(replaced))


@pytest.mark.statistical
@pytest.mark.parametrize("kind", [Exponential, PermuteAndFlip])
def test_the_chosen_condition_is_nearly_the_most_common(kind: type, entropy: SeededEntropy) -> None:
    """A count below the best by the bound of Theorem 6, with 2 for 4, is chosen in at most 5%."""
    people = [{j for j in range(20) if person % (j + 1) == 0} for person in range(200)]
    scores = count_conditions(people, 20)
    mechanism = kind(sensitivity=1, epsilon=0.1)
    bound = mechanism.regret(20, 0.95)
    chosen = [mechanism.choose(scores, entropy=entropy) for _ in range(2_000)]
    misses = int((scores[chosen] <= scores.max() - bound).sum())

    assert 2 / 0.1 * (math.log(20) + math.log(20)) == pytest.approx(bound)
    assert misses <= 0.05 * 2_000 or binomial_p(misses, 2_000, 0.05) > ALPHA


# The price of a digital good.


def revenue(offers: Counts) -> Counts:
    """Return the revenue in cents at each price from 1 to 99 cents."""
    prices = np.arange(1, 100)
    return np.asarray(prices * (offers[:, None] >= prices).sum(axis=0))


def test_one_buyer_changes_revenue_by_at_most_the_price() -> None:
    """The sensitivity is 99 cents under both adjacencies; only add-remove is monotone."""
    offers = np.array([10, 50, 80])
    added = [revenue(np.append(offers, offer)) - revenue(offers) for offer in range(101)]
    replaced = [
        revenue(np.array([10, 50, offer])) - revenue(np.array([10, 50, start]))
        for offer, start in product(range(0, 101, 5), repeat=2)
    ]

    assert (0, 99) == (np.min(added), np.max(added))
    assert (-99, 99) == (np.min(replaced), np.max(replaced))


@pytest.mark.statistical
def test_the_price_costs_little_revenue(entropy: SeededEntropy) -> None:
    """The price falls short of the best revenue by the bound, $7.51, in at most 5% of runs."""
    scores = revenue(np.arange(5_000) * 37 % 100)
    pricing = PermuteAndFlip(sensitivity=99, epsilon=1, monotone=True)
    bound = pricing.regret(99, 0.95)
    chosen = [pricing.choose(scores, entropy=entropy) for _ in range(1_000)]
    misses = int((scores[chosen] <= scores.max() - bound).sum())

    assert 751 == math.ceil(bound - 0.5)
    assert misses <= 50 or binomial_p(misses, 1_000, 0.05) > ALPHA


# Laplace against Gaussian for k counts.


def largest_error(kind: str, k: int) -> float:
    """Return the exact mean of the largest of k errors, at epsilon = 1 and delta = 1e-6."""
    far = np.arange(60 * k + 400, dtype=float)
    if kind == "laplace":
        beyond = 2 * np.exp(-(far + 1) / k) / (1 + math.exp(-1 / k))
    else:
        sigma = Gaussian(1, 1, 1e-6).sigma
        beyond = special.erfc((far + 0.5) / (sigma * math.sqrt(2 * k)))
    return float((1 - (1 - beyond) ** k).sum())


def test_laplace_and_gaussian_cross_at_eight_counts() -> None:
    """For k counts at (1, 1e-6), the largest Laplace error is below the Gaussian up to k = 7."""
    better = [k for k in range(1, 60) if largest_error("laplace", k) < largest_error("gaussian", k)]

    assert [1, 2, 3, 4, 5, 6, 7] == better


def test_errors_grow_like_k_and_like_its_root() -> None:
    """For 20 times the counts, Laplace errors grow by over 20, Gaussian ones by over sqrt(20)."""
    laplace = largest_error("laplace", 2_000) / largest_error("laplace", 100)
    gaussian = largest_error("gaussian", 2_000) / largest_error("gaussian", 100)

    assert 20 < laplace < 20 * 1.7
    assert math.sqrt(20) < gaussian < math.sqrt(20) * 1.5


@pytest.mark.statistical
@pytest.mark.parametrize("k", [3, 30])
def test_drawn_errors_agree(k: int, entropy: SeededEntropy) -> None:
    """Mean largest errors of 20,000 sampled vectors are within 6.5 standard errors of the exact."""
    zeros = np.zeros((20_000, k), dtype=np.int64)
    spread = Gaussian(1, rho=1 / (2 * Fraction(Gaussian(1, 1, 1e-6).sigma) ** 2 * k))
    for kind, mechanism in (("laplace", Laplace(k, 1)), ("gaussian", spread)):
        errors = np.abs(mechanism.release(zeros, entropy=entropy)).max(axis=1)
        margin = 6.5 * errors.std() / math.sqrt(len(errors))

        assert largest_error(kind, k) == pytest.approx(errors.mean(), abs=margin)


def test_joint_noise_moves_the_crossing() -> None:
    """Noise shaped like the l-infinity ball beats both for 50 counts, with 95% confidence."""
    sigma = Gaussian(1, 1, 1e-6).sigma
    [(_, box), *_] = KNorm(Box([1] * 50), 1).interval()
    gaussian = Gaussian(1, rho=1 / (2 * Fraction(sigma) ** 2 * 50)).interval()[1]

    assert box < gaussian < Laplace(50, 1).interval()[1]


# Name and shame.


def name_and_shame_law(rows: tuple[int, ...], delta: float) -> dict[tuple[int | None, ...], float]:
    """Return the distribution of publishing each row with probability delta."""
    law: dict[tuple[int | None, ...], float] = {}
    for shown in product([True, False], repeat=len(rows)):
        output = tuple(row if coin else None for row, coin in zip(rows, shown, strict=True))
        law[output] = math.prod(delta if coin else 1 - delta for coin in shown)
    return law


@pytest.mark.parametrize("delta", [0.01, 0.25])
def test_name_and_shame_is_zero_delta_private(delta: float) -> None:
    """Its exact divergence is delta at epsilon 0 and at every other epsilon, as its loss states."""
    one, other = name_and_shame_law((0, 0, 0), delta), name_and_shame_law((0, 1, 0), delta)
    loss = ApproximateLoss(inner=compose([]), failure=Fraction(str(delta)))

    for epsilon in (0.0, 1.0, 10.0):
        assert delta == pytest.approx(hockey_stick(one, other, epsilon))
        assert delta == pytest.approx(loss.delta(epsilon))
    assert math.inf == largest_ratio(one, other)


@pytest.mark.statistical
def test_name_and_shame_exposes_n_delta_rows(entropy: SeededEntropy) -> None:
    """With delta = 20 / n, about 20 of n = 100,000 rows are published; with 1 / n^2, almost none.

    In 20 releases together, a delta of 1 / n would publish 20 rows, and 60 of them less than once
    in 10^9; this one publishes 400, and fewer than 280 less than once in 10^9.
    """
    count = 20 * 100_000
    shown = int(bernoulli(lambda: ball(Fraction(20, 100_000)), count, entropy).sum())

    assert binomial_p(shown, count, 20 / 100_000) > ALPHA
    assert binomial_p(shown, count, 1 / 100_000) < ALPHA
    assert 1 - (1 - 1e-10) ** 100_000 < 2e-5


# Sampling a few rows.


@pytest.mark.parametrize(("n", "s"), [(6, 1), (6, 2), (8, 3)])
def test_sampling_rows_is_zero_delta_private_only(n: int, s: int) -> None:
    """Publishing s of n tags has an infinite log-ratio and a divergence of s / n at any epsilon."""

    def law(tags: tuple[int, ...]) -> dict[tuple[int, ...], float]:
        found: dict[tuple[int, ...], float] = {}
        for chosen in combinations(range(n), s):
            output = tuple(sorted(tags[i] for i in chosen))
            found[output] = found.get(output, 0.0) + 1 / math.comb(n, s)
        return found

    mine, nobody = law((1, *[0] * (n - 1))), law((0,) * n)
    others = [hockey_stick(law((1, *t)), law((0, *t)), 0) for t in product([0, 1], repeat=n - 1)]

    assert math.inf == largest_ratio(mine, nobody)
    for epsilon in (0.0, 5.0):
        assert s / n == pytest.approx(hockey_stick(mine, nobody, epsilon))
    assert max(others) == pytest.approx(s / n)


# A histogram under both adjacencies.


@pytest.mark.parametrize(("relation", "other"), [("add-remove", (3, 5)), ("replace", (3, 6))])
def test_a_histogram_needs_the_noise_of_its_adjacency(
    relation: str, other: tuple[int, int]
) -> None:
    """With noise for its own adjacency the log-ratio is epsilon; the slides' Lap(1) gives twice."""

    def ratio(sensitivity: Fraction) -> float:
        scale = float(Laplace(sensitivity, 1).noise.exact_scale)
        return max(
            abs(sum(abs(y - b) - abs(y - a) for y, a, b in zip(out, (4, 5), other, strict=True)))
            / scale
            for out in product(range(10), repeat=2)
        )

    l1 = histogram_sensitivity(relation).l1
    assert 1 == ratio(l1)
    assert l1 == ratio(Fraction(1))
