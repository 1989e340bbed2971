"""The Laplace mechanism has the stated distribution and the stated loss, and both are tight."""

import math
from fractions import Fraction

import numpy as np
import pytest

from confide.exact import Number
from confide.loss import LaplaceLoss, PureLoss
from confide.mechanisms import Laplace
from support.auditor import hockey_stick, largest_ratio
from support.entropy import SeededEntropy
from support.laws import ALPHA, chi_square_p
from support.tails import point

REACH = 80
CASES = [(1, Fraction(1, 2)), (1, Fraction(2)), (3, Fraction(1)), (Fraction(5, 2), Fraction(1))]


def law(scale: float, centre: int = 0) -> dict[int, float]:
    """Return the two-sided geometric distribution, computed independently."""
    weight = math.tanh(1 / (2 * scale))
    return {
        z: weight * math.exp(-abs(z - centre) / scale)
        for z in range(centre - REACH, centre + REACH + 1)
    }


def outputs(mechanism: Laplace, x: int) -> dict[int, float]:
    """Return the distribution of a release of ``x``, far beyond where neighboring inputs differ."""
    return {y: point(mechanism.noise, abs(y - x)) for y in range(-REACH, REACH + 1)}


@pytest.mark.statistical
@pytest.mark.parametrize(("sensitivity", "epsilon"), CASES)
def test_releases_follow_the_law(
    sensitivity: Fraction, epsilon: Fraction, entropy: SeededEntropy
) -> None:
    """Noise fits scale s / epsilon and rejects a scale that is 2% too large or too small."""
    draws = Laplace(sensitivity, epsilon).release(np.full(400_000, 7), entropy=entropy)
    scale = float(sensitivity / epsilon)

    assert chi_square_p(draws, law(scale, 7)) > ALPHA
    assert chi_square_p(draws, law(scale * 1.02, 7)) < ALPHA
    assert chi_square_p(draws, law(scale / 1.02, 7)) < ALPHA


@pytest.mark.statistical
def test_single_releases_follow_the_same_law(entropy: SeededEntropy) -> None:
    """Single releases have the distribution of arrays and reject a scale that is 15% off."""
    mechanism = Laplace(1, Fraction(1, 2))
    draws = [mechanism.release(-3, entropy=entropy) for _ in range(20_000)]

    assert chi_square_p(draws, law(2, -3)) > ALPHA
    assert chi_square_p(draws, law(2 * 1.15, -3)) < ALPHA
    assert chi_square_p(draws, law(2 / 1.15, -3)) < ALPHA


@pytest.mark.statistical
def test_real_numbers_get_noise_on_the_grid(entropy: SeededEntropy) -> None:
    """Real numbers are rounded to the grid, with noise for their sensitivity in steps."""
    mechanism = Laplace(sensitivity=0.5, epsilon=1, grid=0.25)
    noisy = [mechanism.release(1.3, entropy=entropy) for _ in range(20_000)]

    assert chi_square_p(np.array(noisy) / 0.25, law(2, 5)) > ALPHA
    assert chi_square_p(np.array(noisy) / 0.25, law(1, 5)) < ALPHA


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(3)])
@pytest.mark.parametrize("sensitivity", [1, 3])
def test_epsilon_holds_and_is_attained(sensitivity: int, epsilon: Fraction) -> None:
    """Neighboring inputs at full distance have log-ratio exactly epsilon; closer ones have less."""
    mechanism = Laplace(sensitivity, epsilon)
    ratios = [
        largest_ratio(outputs(mechanism, 0), outputs(mechanism, move))
        for move in range(1, sensitivity + 1)
    ]

    assert ratios == sorted(ratios)
    assert float(epsilon) == pytest.approx(ratios[-1], rel=1e-12)


@pytest.mark.parametrize("move", [(3, 0), (1, 2), (-1, 1)])
def test_a_vector_pays_by_the_sum_of_its_moves(move: tuple[int, int]) -> None:
    """Changes that add up to the sensitivity cost epsilon, in any distribution over cells."""
    mechanism = Laplace(3, Fraction(3, 2))
    both = sum(
        largest_ratio(outputs(mechanism, 0), outputs(mechanism, step)) for step in move if step
    )

    assert both == pytest.approx(sum(map(abs, move)) / 2, rel=1e-12)
    assert both <= float(mechanism.loss.epsilon) * (1 + 1e-12)


@pytest.mark.parametrize("start", [0.0, 0.25, 0.5, 0.9])
def test_delta_of_one_cell_is_exact(start: float) -> None:
    """With one cell the loss is the hockey-stick divergence itself, not a bound above it."""
    mechanism = Laplace(3, 1, cells=1)
    exact = hockey_stick(outputs(mechanism, 0), outputs(mechanism, 3), start)

    assert LaplaceLoss(epsilon=Fraction(1), steps=3) == mechanism.loss
    assert exact == pytest.approx(mechanism.loss.delta(start), rel=1e-9)


def test_the_loss_is_pure_unless_one_cell_moves() -> None:
    """Only a release with cells=1 has the better curve of one coordinate."""
    assert PureLoss(Fraction(1, 2)) == Laplace(1, 0.5).loss
    assert PureLoss(Fraction(1, 2)) == Laplace(2, 0.5, cells=2).loss
    assert PureLoss(Fraction(1)) == Laplace(Fraction(1, 2), 1, cells=1).loss


@pytest.mark.parametrize(
    ("sensitivity", "grid", "cells", "steps"),
    [(1, 1, None, 1), (1, "1/3", None, 3), (1, "0.3", None, 4), (1, "0.5", 3, 4), ("0.1", 1, 2, 2)],
)
def test_rounding_is_paid_for(
    sensitivity: Number, grid: Number, cells: int | None, steps: int
) -> None:
    """The noise covers the sensitivity in full steps, plus one step per additional cell."""
    mechanism = Laplace(sensitivity, 1, grid=grid, cells=cells)

    assert steps == mechanism.noise.exact_scale


@pytest.mark.parametrize("confidence", ["0.5", "0.9", "0.95", "0.999999"])
@pytest.mark.parametrize("scale", [Fraction(1, 5), Fraction(2), Fraction(1000)])
def test_the_interval_is_the_narrowest(scale: Fraction, confidence: str) -> None:
    """The interval contains the noise with the confidence, and one step less does not."""
    mechanism = Laplace(1, 1 / scale)
    low, high = mechanism.interval(confidence)
    outside = float(mechanism.noise.tail(high + 1))
    narrower = float(mechanism.noise.tail(high)) if high else 1.0

    assert low == -high
    assert outside <= 1 - float(confidence) < narrower
    assert outside == pytest.approx(
        2 * math.exp(-(high + 1) / scale) / (1 + math.exp(-1 / scale)), rel=1e-9
    )


def test_the_interval_is_in_the_unit_of_the_numbers() -> None:
    """With a grid, the interval is in the unit of the numbers."""
    steps = Laplace(4, 1).interval()[1]

    assert steps * 0.25 == Laplace(1, 1, grid=0.25).interval()[1]
