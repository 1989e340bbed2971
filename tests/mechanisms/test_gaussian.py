"""The Gaussian mechanism has the stated distribution, the exact delta, and minimal noise."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import special

from confide.exact import Number
from confide.loss import GaussianLoss
from confide.mechanisms import Gaussian
from support.auditor import hockey_stick
from support.entropy import SeededEntropy
from support.laws import ALPHA, chi_square_p
from support.tails import point


def law(sigma: float, centre: int = 0) -> dict[int, float]:
    """Return the rounded normal distribution, computed independently."""
    reach = math.ceil(9 * sigma) + 1
    ends = special.ndtr((np.arange(-reach, reach + 2) - 0.5) / sigma)
    return {
        z + centre: float(p) for z, p in zip(range(-reach, reach + 1), np.diff(ends), strict=True)
    }


def textbook_delta(mu: float, epsilon: float) -> float:
    """Return Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu) in doubles."""
    first, second = special.ndtr([mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu])
    return float(first - math.exp(epsilon) * second)


@pytest.mark.statistical
@pytest.mark.parametrize(("sensitivity", "mu"), [(1, 2), (1, "1/3"), (5, 1), (2, 3)])
def test_releases_follow_the_law(sensitivity: int, mu: int | str, entropy: SeededEntropy) -> None:
    """Noise fits sigma = s / mu and rejects a sigma that is 2% too large or too small."""
    mechanism = Gaussian(sensitivity, mu=mu)
    draws = mechanism.release(np.full(400_000, 7), entropy=entropy)
    sigma = sensitivity / float(Fraction(mu))

    assert sigma == pytest.approx(mechanism.sigma, rel=1e-12)
    assert chi_square_p(draws, law(sigma, 7)) > ALPHA
    assert chi_square_p(draws, law(sigma * 1.02, 7)) < ALPHA
    assert chi_square_p(draws, law(sigma / 1.02, 7)) < ALPHA


@pytest.mark.statistical
def test_single_releases_follow_the_same_law(entropy: SeededEntropy) -> None:
    """Single releases have the distribution of arrays and reject a sigma that is 15% off."""
    mechanism = Gaussian(3, mu=1)
    draws = [mechanism.release(-3, entropy=entropy) for _ in range(20_000)]

    assert chi_square_p(draws, law(3, -3)) > ALPHA
    assert chi_square_p(draws, law(3 * 1.15, -3)) < ALPHA
    assert chi_square_p(draws, law(3 / 1.15, -3)) < ALPHA


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 20.0])
@pytest.mark.parametrize("delta", [0.1, 1e-6, 1e-12])
def test_calibration_spends_all_of_delta(epsilon: float, delta: float) -> None:
    """The noise satisfies (epsilon, delta), and sigma times 1 - 1e-6 does not."""
    mechanism = Gaussian(1, epsilon, delta)
    mu = 1 / mechanism.sigma

    assert textbook_delta(mu, epsilon) == pytest.approx(delta, rel=1e-6)
    assert textbook_delta(mu * (1 + 1e-6), epsilon) > delta
    assert mechanism.loss.delta(epsilon) <= delta * (1 + 1e-12)


def test_the_known_deviation() -> None:
    """At (1, 1e-6) sigma is 4.2247 times the sensitivity, well below the textbook's."""
    assert 4.2247 == pytest.approx(Gaussian(1, 1, 1e-6).sigma, abs=1e-4)
    assert math.sqrt(2 * math.log(1.25e6)) > 1.25 * Gaussian(1, 1, 1e-6).sigma


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("sensitivity", [2, 30])
def test_delta_holds_and_is_nearly_attained(sensitivity: int, epsilon: float) -> None:
    """The exact delta of neighboring inputs is below the loss and, on a fine grid, close to it.

    Noise for half the sensitivity has a much larger delta.
    """
    mechanism = Gaussian(sensitivity, mu=1)
    reach = range(-12 * sensitivity, 12 * sensitivity)

    def outputs(x: int) -> dict[int, float]:
        return {y: point(mechanism.noise, abs(y - x)) for y in reach}

    exact = hockey_stick(outputs(0), outputs(sensitivity), epsilon)
    doubled = hockey_stick(outputs(0), outputs(2 * sensitivity), epsilon)
    claimed = mechanism.loss.delta(epsilon)

    assert exact <= claimed * (1 + 1e-9)
    assert exact >= claimed * (0.995 if sensitivity == 30 else 0.8)
    assert doubled > 1.5 * claimed


def test_three_parameterizations_agree() -> None:
    """mu, rho = mu^2 / 2, and (epsilon, delta) give the same loss."""
    assert GaussianLoss(Fraction(1, 4)) == Gaussian(1, mu=0.5).loss == Gaussian(1, rho=0.125).loss
    assert 1 == pytest.approx(Gaussian(7, 1, 1e-6).loss.epsilon_at(1e-6), rel=1e-9)


@pytest.mark.parametrize(
    ("sensitivity", "grid", "cells", "steps"),
    [(1, 1, None, 1), (1, "0.3", None, 4), (1, "0.3", 1, 4), (2, "0.5", 4, 6), (1, 1, 9, 4)],
)
def test_rounding_is_paid_for(
    sensitivity: int, grid: Number, cells: int | None, steps: int
) -> None:
    """The noise covers full steps for one cell, and the square root of the cells for more."""
    mechanism = Gaussian(sensitivity, mu=1, grid=grid, cells=cells)

    assert steps**2 == pytest.approx(float(mechanism.noise.sigma_squared), rel=1e-12)
    assert steps**2 <= mechanism.noise.sigma_squared


@pytest.mark.parametrize("confidence", ["0.5", "0.95", "0.999999"])
@pytest.mark.parametrize("sigma", ["0.1", "3", "1000"])
def test_the_interval_is_the_narrowest(sigma: str, confidence: str) -> None:
    """The interval contains the noise with the confidence, and one step less does not."""
    low, high = Gaussian(1, mu=1 / Fraction(sigma)).interval(confidence)
    outside = float(special.erfc((high + 0.5) / float(sigma) / math.sqrt(2)))
    narrower = float(special.erfc((high - 0.5) / float(sigma) / math.sqrt(2))) if high else 1.0

    assert low == -high
    assert outside <= 1 - float(confidence) < narrower
