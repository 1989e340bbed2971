import math
from fractions import Fraction

import numpy as np
import pytest

from confide.loss import BoundedRangeLoss, GaussianLoss, LaplaceLoss, Loss, PureLoss, RenyiLoss
from confide.loss.pld import Lattice, discretize

TAIL = Fraction(1, 10**15)
LOSSES: list[Loss] = [
    PureLoss(1),
    LaplaceLoss(1, 3),
    LaplaceLoss(2, 10**6),
    BoundedRangeLoss(1),
    GaussianLoss(Fraction(1, 2)),
    RenyiLoss(Fraction(4), Fraction(1, 2)),
]


def hockey_stick(lattice: Lattice, epsilon: float) -> float:
    place = float(lattice.step) * lattice.index
    gain = np.maximum(0, -np.expm1(np.minimum(0, epsilon - place)))
    return float(lattice.mass @ gain) + lattice.infinite


def curve(loss: Loss, epsilon: float) -> float:
    """Return delta at any epsilon, even a negative one."""
    if epsilon >= 0:
        return loss.delta(epsilon)
    return 1 - math.exp(epsilon) + math.exp(epsilon) * loss.delta(-epsilon)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("most", [16, 300])
def test_the_discrete_pair_dominates(loss: Loss, most: int) -> None:
    """At every epsilon, on the grid or not, the lattice has at least the delta of the loss."""
    lattice = discretize(loss, Fraction(1, 97), most, TAIL)
    for epsilon in np.linspace(-3, 3, 601):
        assert curve(loss, float(epsilon)) <= hockey_stick(lattice, float(epsilon)) + 1e-15


@pytest.mark.parametrize("loss", LOSSES[:-1], ids=repr)
def test_a_fine_lattice_is_close(loss: Loss) -> None:
    """With many chords the lattice exceeds the curve slightly, and its masses sum to nearly 1."""
    lattice = discretize(loss, Fraction(1, 1000), 10**4, TAIL)

    assert pytest.approx(1, abs=1e-12) == lattice.mass.sum() + lattice.infinite
    for epsilon in np.linspace(0, 2, 41):
        expected = loss.delta(float(epsilon))

        assert pytest.approx(expected, abs=1e-6) == hockey_stick(lattice, float(epsilon))


def test_a_pure_loss_that_fits_is_two_atoms() -> None:
    """If the step divides epsilon, the lattice is exactly randomized response."""
    lattice = discretize(PureLoss(1), Fraction(1, 8), 100, TAIL)
    heavy = {
        int(i): float(m) for i, m in zip(lattice.index, lattice.mass, strict=True) if m > 1e-12
    }

    assert {-8, 8} == set(heavy)
    assert pytest.approx(math.e / (1 + math.e), rel=1e-14) == heavy[8]
