"""Randomized response has the stated distribution, its exact claim, and an unbiased estimate."""

import math
from fractions import Fraction

import numpy as np
import pytest

from confide.loss import PureLoss
from confide.mechanisms import RandomizedResponse
from support.auditor import hockey_stick, largest_ratio
from support.entropy import SeededEntropy
from support.laws import ALPHA, chi_square_p


def law(epsilon: float, categories: int, truth: int) -> dict[int, float]:
    total = math.exp(epsilon) + categories - 1
    return {y: (math.exp(epsilon) if y == truth else 1) / total for y in range(categories)}


@pytest.mark.statistical
@pytest.mark.parametrize(("epsilon", "categories"), [(1, 2), (0.25, 3), (2, 10)])
def test_reports_follow_the_law(epsilon: float, categories: int, entropy: SeededEntropy) -> None:
    """Reports of any true category fit the distribution and reject an epsilon off by 0.1."""
    mechanism = RandomizedResponse(epsilon, categories)
    for truth in {0, 1, categories - 1}:
        reports = mechanism.release(np.full(200_000, truth), entropy=entropy)

        assert chi_square_p(reports, law(epsilon, categories, truth)) > ALPHA
        assert chi_square_p(reports, law(epsilon + 0.1, categories, truth)) < ALPHA
        assert chi_square_p(reports, law(epsilon - 0.1, categories, truth)) < ALPHA


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("categories", [2, 3, 7])
def test_epsilon_holds_and_is_attained(epsilon: float, categories: int) -> None:
    """Any two true categories have log-ratio exactly epsilon."""
    chance = float(RandomizedResponse(epsilon, categories).chance_of_truth())

    def reports(truth: int) -> dict[int, float]:
        other = (1 - chance) / (categories - 1)
        return {y: chance if y == truth else other for y in range(categories)}

    assert epsilon == pytest.approx(largest_ratio(reports(0), reports(1)), rel=1e-9)
    assert chance == pytest.approx(law(epsilon, categories, 0)[0], rel=1e-12)


def test_two_categories_are_the_worst_pair() -> None:
    """With two categories the delta of the loss is the exact divergence."""
    exact = hockey_stick(law(1, 2, 0), law(1, 2, 1), 0.5)

    assert exact == pytest.approx(RandomizedResponse(1, 2).loss.delta(0.5), rel=1e-9)
    assert PureLoss(Fraction(1)) == RandomizedResponse(1, 2).loss


@pytest.mark.statistical
def test_the_estimate_finds_the_shares(entropy: SeededEntropy) -> None:
    """Estimated shares are within 6.5 standard errors of the truth (false alarms below 1e-9)."""
    mechanism = RandomizedResponse(1, 3)
    truth = np.repeat([0, 1, 2], [100_000, 60_000, 40_000])
    reports = mechanism.release(truth, entropy=entropy)
    assert isinstance(reports, np.ndarray)
    shares, errors = mechanism.estimate(reports)

    assert np.sum(shares) == pytest.approx(1)
    assert (np.abs(np.array(shares) - [0.5, 0.3, 0.2]) < 6.5 * np.array(errors)).all()
    assert max(errors) < 0.01


def test_form_is_kept(entropy: SeededEntropy) -> None:
    """A number, a list, or an array is returned in the same form."""
    mechanism = RandomizedResponse(50, 4)

    assert 3 == mechanism.release(3, entropy=entropy)
    assert [0, 3] == mechanism.release([0, 3], entropy=entropy)
    assert (2, 2) == np.shape(mechanism.release(np.ones((2, 2), dtype=np.int64), entropy=entropy))
