"""K-norm noise has the stated distribution and exact intervals, and satisfies its claim."""

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import ctx
from numpy.typing import NDArray
from scipy import special

from confide.exact import Number
from confide.loss import PureLoss
from confide.mechanisms import Box, KNorm, Polytope
from confide.mechanisms.knorm import Body
from support.entropy import SeededEntropy
from support.laws import ALPHA, binomial_p, chi_square_p

CUBE = Polytope([[1, 1, 1], [1, 1, -1], [1, -1, 1], [1, -1, -1]])
OCTAHEDRON = Polytope([[1, 0, 0], [0, 1, 0], [0, 0, 1]])
HEXAGON = Polytope([[2, 1], [1, 2], [1, -1]])
MESH = 16
REACH = 25


def norm(body: Body, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return |z|_K of each row, from the hyperplanes of the facets."""
    if isinstance(body, Box):
        return np.asarray(np.abs(values / [float(h) for h in body.half_widths]).max(axis=-1))
    assert isinstance(body, Polytope)
    facets = np.array(
        [[[float(x) for x in corner] for corner in facet] for facet in body.surface.facets]
    )
    normals = np.linalg.solve(facets, np.ones((len(facets), body.size, 1)))[..., 0]
    return np.asarray((values @ normals.T).max(axis=-1))


def tail(body: Body, index: int, reach: Fraction) -> float:
    """Return a coordinate's tail at epsilon 1, with extra bits against cancellation."""
    with ctx.workprec(400):
        enclosed = body.tail(index, reach)
        assert enclosed.rel_accuracy_bits() > 60
        return float(enclosed)


def rounded_law(body: Body, epsilon: float, reach: int) -> dict[int, float]:
    """Return the distribution of two rounded coordinates (coded as one number), by integration."""
    marks = np.arange(-reach - 0.5, reach + 0.5, 1 / MESH) + 0.5 / MESH
    places = np.stack(np.meshgrid(marks, marks, indexing="ij"), axis=-1)
    density = np.exp(-epsilon * norm(body, places))
    size = 2 * reach + 1
    masses = density.reshape(size, MESH, size, MESH).sum(axis=(1, 3))
    return dict(enumerate((masses / masses.sum()).reshape(-1).tolist()))


def code(noisy: NDArray[np.int64], reach: int) -> NDArray[np.int64]:
    inside = (np.abs(noisy) <= reach).all(axis=1)
    return (noisy[inside, 0] + reach) * (2 * reach + 1) + noisy[inside, 1] + reach


@pytest.mark.statistical
@pytest.mark.parametrize("body", [Box([1, 2]), HEXAGON], ids=["box", "hexagon"])
def test_rounded_noise_follows_the_law(body: Body, entropy: SeededEntropy) -> None:
    """Two coordinates together fit the density and reject an epsilon that is 5% off."""
    noisy = KNorm(body, 1).release(np.zeros((200_000, 2), dtype=np.int64), entropy=entropy)

    assert chi_square_p(code(noisy, REACH), rounded_law(body, 1, REACH)) > ALPHA
    assert chi_square_p(code(noisy, REACH), rounded_law(body, 1.05, REACH)) < ALPHA
    assert chi_square_p(code(noisy, REACH), rounded_law(body, 0.95, REACH)) < ALPHA


@pytest.mark.statistical
@pytest.mark.parametrize(
    "body",
    [Box([1000] * 4), Box([1000, 5000]), Polytope([[1000, 0, 0], [0, 2000, 0], [500, 500, 3000]])],
    ids=["cube", "box", "polytope"],
)
def test_the_norm_has_a_gamma_law(body: Body, entropy: SeededEntropy) -> None:
    """|z|_K is Gamma(d) in 40 cells; Gamma(d + 1) is rejected, and a scale 3% off too."""
    rows = np.zeros((100_000, body.size), dtype=np.int64)
    sizes = norm(body, KNorm(body, 1).release(rows, entropy=entropy).astype(float))

    def cells(shape: float, scale: float) -> NDArray[np.int64]:
        return np.asarray(40 * special.gammainc(shape, sizes / scale), dtype=np.int64)

    assert chi_square_p(cells(body.size, 1), [1 / 40] * 40) > ALPHA
    assert chi_square_p(cells(body.size, 1.03), [1 / 40] * 40) < ALPHA
    assert chi_square_p(cells(body.size + 1, 1), [1 / 40] * 40) < ALPHA


@pytest.mark.parametrize("body", [Box([2, 1]), HEXAGON], ids=["box", "hexagon"])
def test_epsilon_holds_and_is_attained(body: Body) -> None:
    """A change by a corner of the body costs exactly epsilon; twice that change costs more."""
    law = rounded_law(body, 1.0, 12)
    moves = [(2, 1), (2, -1)] if isinstance(body, Box) else [(2, 1), (1, 2), (1, -1)]

    def worst(move: tuple[int, int], factor: int) -> float:
        return max(
            abs(math.log(law[(i + 12) * 25 + j + 12] / law[(k + 12) * 25 + m + 12]))
            for i in range(-6, 7)
            for j in range(-6, 7)
            for k, m in [(i - factor * move[0], j - factor * move[1])]
        )

    for move in moves:
        assert worst(move, 1) == pytest.approx(1, rel=1e-3)
        assert worst(move, 2) == pytest.approx(2, rel=1e-3)
    assert worst((1, 0), 1) < 1.001


@pytest.mark.parametrize("reach", [Fraction(1, 2), Fraction(3), Fraction(20)])
def test_tails_agree_with_closed_forms(reach: Fraction) -> None:
    """A cube given by corners has the tail of the box; a cross-polytope, that of Laplace noise."""
    box, laplace = tail(Box([1, 1, 1]), 0, reach), math.exp(-reach)
    for index in range(3):
        assert box == pytest.approx(tail(CUBE, index, reach), rel=1e-9)
        assert laplace == pytest.approx(tail(OCTAHEDRON, index, reach), rel=1e-9)
    t = float(reach)
    assert box == pytest.approx(math.exp(-t) * (1 + 2 * t / 3 + t * t / 6), rel=1e-9)


def test_one_statistic_is_laplace() -> None:
    """In one dimension both bodies have the tail exp(-t) of the continuous Laplace distribution."""
    for body in (Box([3]), Polytope([[3]])):
        assert math.exp(-2) == pytest.approx(tail(body, 0, Fraction(6)), rel=1e-9)


@pytest.mark.statistical
@pytest.mark.parametrize("confidence", [0.5, 0.95])
@pytest.mark.parametrize(
    ("body", "epsilon"),
    [(Box([1, 7]), "1/2"), (HEXAGON, "1/3"), (Polytope([[5, 1, 0], [0, 4, 1], [1, 0, 9]]), 1)],
    ids=["box", "hexagon", "skew"],
)
def test_intervals_are_the_narrowest(
    body: Body, epsilon: Number, confidence: float, entropy: SeededEntropy
) -> None:
    """Noise leaves an interval with at most the stated probability; one step less is too narrow.

    Both are exact in the tail; 200,000 draws agree with the exact probability of leaving.
    """
    mechanism = KNorm(body, epsilon)
    noisy = mechanism.release(np.zeros((200_000, body.size), dtype=np.int64), entropy=entropy)
    for index, (low, high) in enumerate(mechanism.interval(confidence)):
        chance, narrower = (
            tail(body, index, (high + shift) * mechanism.epsilon)
            for shift in (Fraction(1, 2), Fraction(-1, 2))
        )
        outside = int((np.abs(noisy[:, index]) > high).sum())

        assert low == -high
        assert chance <= 1 - confidence < narrower
        assert binomial_p(outside, len(noisy), chance) > ALPHA
        assert binomial_p(outside, len(noisy), chance * 1.15) < ALPHA


def test_the_loss_is_epsilon() -> None:
    """One release costs epsilon, for every body."""
    assert PureLoss(Fraction(1, 3)) == KNorm(HEXAGON, "1/3").loss


def test_joint_noise_beats_separate_noise() -> None:
    """Ten counts that all change by 1 have shorter intervals than Laplace noise at epsilon / 10."""
    [(_, joint), *_] = KNorm(Box([1] * 10), 1).interval(0.95)

    assert joint < 10 * math.log(20) * 0.7


def test_rows_keep_their_shape() -> None:
    """A vector gives a vector, and rows give rows."""
    mechanism = KNorm(Box([1, 1]), 1)

    assert (2,) == mechanism.release([1, 2]).shape
    assert (3, 2) == mechanism.release(np.ones((3, 2), dtype=np.int64)).shape
