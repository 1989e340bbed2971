"""Joint noise has the stated density, rounded to the grid exactly."""

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from flint import arb, ctx
from numpy.typing import NDArray
from scipy import special

from confide.noise import BoxNoise, ConeNoise, Integers
from confide.noise.joint import _exponentials
from support.entropy import SeededEntropy
from support.laws import ALPHA, binomial_p, chi_square_p
from support.scripted import ScriptedEntropy

Corner = tuple[Fraction, Fraction]
Joint = Callable[[int, int], float]
"""P(|Z_1| <= i, |Z_2| <= j)."""

FINE = 10**6
"""Grid steps per unit, so fine that 200,000 draws cannot reveal the rounding."""


def cones(*corners: tuple[int, int]) -> ConeNoise:
    """Return the noise of a polygon with these corners, listed counterclockwise."""
    exact = [(Fraction(x), Fraction(y)) for x, y in corners]
    edges = list(pairwise([*exact, exact[0]]))
    areas = [int(a[0] * b[1] - a[1] * b[0]) for a, b in edges]
    return ConeNoise(facets=tuple(edges), weights=tuple(areas))


TRIANGLE = ((4, 0), (-2, 3), (-2, -3))


def box_law(width: float, height: float) -> Joint:
    """Return the distribution of R (P_1 width, P_2 height), rounded.

    R is Gamma(3), and P is uniform in a square.

    For x <= y it is E[min(1, x / R) min(1, y / R)], an integral over R < x, x < R < y and R > y.
    """

    def joint(i: int, j: int) -> float:
        x, y = sorted(((i + 0.5) / width, (j + 0.5) / height))
        beyond = special.gammaincc(2, x) - special.gammaincc(2, y)
        return float(special.gammainc(3, x) + x / 2 * beyond + x * y / 2 * math.exp(-y))

    return joint


def diamond_law(reach: float) -> Joint:
    """Return the distribution of two independent Laplace variables of scale ``reach``, rounded."""

    def within(i: int) -> float:
        return -math.expm1(-(i + 0.5) / reach)

    return lambda i, j: within(i) * within(j)


def signed_cells(joint: Joint, reach: int) -> dict[int, float]:
    """Return P(Z = (i, j)) by cell number, for |i|, |j| up to ``reach``."""
    law: dict[int, float] = {}
    for i in range(reach + 1):
        for j in range(reach + 1):
            below = joint(i - 1, j) if i else 0.0
            left = joint(i, j - 1) if j else 0.0
            both = joint(i - 1, j - 1) if i and j else 0.0
            mass = max(joint(i, j) - below - left + both, 0.0)
            signs = [(a, b) for a in {i, -i} for b in {j, -j}]
            law |= {int(number(np.array([cell]))[0]): mass / len(signs) for cell in signs}
    return law


def number(draws: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a distinct number for each pair of small integers."""
    return draws[:, 0] * 1000 + draws[:, 1]


BOX = BoxNoise((Fraction(3), Fraction(1, 2)))
SQUARE = cones((3, -3), (3, 3), (-3, 3), (-3, -3))
DIAMOND = cones((3, 0), (0, 3), (-3, 0), (0, -3))


@pytest.mark.statistical
@pytest.mark.parametrize("bits", [8, 63])
@pytest.mark.parametrize(
    ("noise", "law", "wrong"),
    [
        (BOX, box_law(3, 0.5), [box_law(3.45, 0.575), box_law(2.6, 0.435), box_law(0.5, 3)]),
        (SQUARE, box_law(3, 3), [box_law(3.45, 3.45), box_law(2.6, 2.6), diamond_law(3)]),
        (DIAMOND, diamond_law(3), [diamond_law(3.45), diamond_law(2.6), box_law(3, 3)]),
    ],
    ids=["box", "square of cones", "diamond of cones"],
)
def test_pairs_follow_the_law(
    noise: BoxNoise | ConeNoise, law: Joint, wrong: list[Joint], bits: int, entropy: SeededEntropy
) -> None:
    """Pairs fit the exact distribution at any number of bits, and reject 15% or another body."""
    found = number(noise.draw(200_000 if bits == 63 else 10_000, entropy, bits=bits))

    assert chi_square_p(found, signed_cells(law, 30)) > ALPHA
    for other in wrong:
        assert chi_square_p(found, signed_cells(other, 30)) < ALPHA


def fiftieths(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the index of each value among 50 equal parts of [0, 1]."""
    return np.clip((values * 50).astype(np.int64), 0, 49)


EVEN = [1 / 50] * 50


@pytest.mark.statistical
@pytest.mark.parametrize("size", [1, 2, 5])
def test_the_box_norm_is_gamma(size: int, entropy: SeededEntropy) -> None:
    """max |z_i| / h_i is Gamma(d); Gamma(d + 1) or a scale 5% off is rejected."""
    widths = tuple(Fraction(FINE * (1 + index)) for index in range(size))
    drawn = BoxNoise(widths).draw(200_000, entropy)
    norm = (np.abs(drawn) / np.array([float(width) for width in widths])).max(axis=1)

    assert chi_square_p(fiftieths(special.gammainc(size, norm)), EVEN) > ALPHA
    assert chi_square_p(fiftieths(special.gammainc(size + 1, norm)), EVEN) < ALPHA
    assert chi_square_p(fiftieths(special.gammainc(size, norm * 1.05)), EVEN) < ALPHA
    assert chi_square_p(fiftieths(special.gammainc(size, norm / 1.05)), EVEN) < ALPHA


@pytest.mark.statistical
def test_the_box_has_no_favorite_direction(entropy: SeededEntropy) -> None:
    """Each face of a cube is equally likely, and the other coordinates are uniform on it."""
    drawn = BoxNoise((Fraction(FINE),) * 3).draw(200_000, entropy)
    norm = np.abs(drawn).max(axis=1)
    axis = np.abs(drawn).argmax(axis=1)
    rows = np.arange(len(drawn))
    face = 2 * axis + (drawn[rows, axis] > 0)
    others = [drawn[rows, (axis + turn) % 3] / norm for turn in (1, 2)]
    near = norm <= np.median(norm)

    assert chi_square_p(face, [1 / 6] * 6) > ALPHA
    assert chi_square_p(face[near], [1 / 6] * 6) > ALPHA
    for place in others:
        assert chi_square_p(fiftieths((place + 1) / 2), EVEN) > ALPHA
        assert chi_square_p(fiftieths((place[near] + 1) / 2), EVEN) > ALPHA
        assert chi_square_p(fiftieths(((place + 1) / 2) ** 1.05), EVEN) < ALPHA


@pytest.mark.statistical
@pytest.mark.parametrize("size", [1, 3])
def test_one_coordinate_of_a_box(size: int, entropy: SeededEntropy) -> None:
    """P(|z_1| > x h_1) = Q(d + 1, x) - x Q(d, x) / d, at x = (k + 1/2) / h; 5% off is rejected."""
    width = 3.0

    def law(scale: float) -> list[float]:
        x = (np.arange(60) + 0.5) / scale
        past = special.gammaincc(size + 1, x) - x / size * special.gammaincc(size, x)
        return [1 - past[0], *(past[:-1] - past[1:]).tolist()]

    widths = (Fraction(3), *(Fraction(7),) * (size - 1))
    drawn = BoxNoise(widths).draw(200_000, entropy)
    found = np.abs(drawn[:, 0])

    assert chi_square_p(found, law(width)) > ALPHA
    assert chi_square_p(found, law(width * 1.05)) < ALPHA
    assert chi_square_p(found, law(width / 1.05)) < ALPHA
    assert binomial_p(*count_positive(drawn[:, 0]), 0.5) > ALPHA


def count_positive(values: Integers) -> tuple[int, int]:
    return int((values > 0).sum()), int((values != 0).sum())


def split_by_cone(drawn: Integers) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the triangle's cone that contains each draw, and the coefficients there."""
    corners = np.array([*TRIANGLE, TRIANGLE[0]], dtype=float) * FINE
    parts = [np.linalg.solve(corners[i : i + 2].T, drawn.T.astype(float)).T for i in range(3)]
    inside = np.array([part.min(axis=1) for part in parts]).argmax(axis=0)
    return inside, np.array(parts)[inside, np.arange(len(drawn))]


@pytest.mark.statistical
def test_cones_of_a_triangle(entropy: SeededEntropy) -> None:
    """Cones are chosen by area; inside, |z|_K is Gamma(2) and the position on the edge uniform."""
    drawn = cones(*((x * FINE, y * FINE) for x, y in TRIANGLE)).draw(200_000, entropy)
    cone, parts = split_by_cone(drawn)
    norm, place = parts.sum(axis=1), parts[:, 0] / parts.sum(axis=1)
    areas = [12 / 36, 12 / 36, 12 / 36]

    assert chi_square_p(cone, areas) > ALPHA
    assert chi_square_p(cone, [0.35, 0.325, 0.325]) < ALPHA
    assert chi_square_p(fiftieths(special.gammainc(2, norm)), EVEN) > ALPHA
    assert chi_square_p(fiftieths(special.gammainc(3, norm)), EVEN) < ALPHA
    assert chi_square_p(fiftieths(special.gammainc(2, norm * 1.05)), EVEN) < ALPHA
    assert chi_square_p(fiftieths(special.gammainc(2, norm / 1.05)), EVEN) < ALPHA
    for which in range(3):
        assert chi_square_p(fiftieths(place[cone == which]), EVEN) > ALPHA
        assert chi_square_p(fiftieths(place[cone == which] ** 1.1), EVEN) < ALPHA


def box_ball(words: list[int], width: Fraction, size: int, column: int) -> arb:
    """Return a ball around one coordinate of a box, from the 63 digits in each word of its row."""
    radius = -sum((cell(word).log() for word in words[: size + 1]), arb(0))
    place = words[size + 1 + column]
    sign = -1 if place & 1 else 1
    return sign * arb(width.numerator) / width.denominator * radius * cell(place)


def cell(word: int) -> arb:
    """Return a ball of all numbers whose first 63 digits are those of the word."""
    return arb((word | 1, -64), (1, -64))


@pytest.mark.parametrize("width", [Fraction(1, 3), Fraction(1000), Fraction(10**13)])
def test_box_draws_round_the_exact_number(width: Fraction, entropy: SeededEntropy) -> None:
    """Each coordinate is the nearest integer to the number that the words of its row define."""
    size, rows = 2, 500
    words = entropy.words(rows * (2 * size + 1)).tolist()
    drawn = BoxNoise((width,) * size).draw(rows, ScriptedEntropy(words, entropy))
    with ctx.workprec(200):
        for row in range(rows):
            mine = words[row * (2 * size + 1) : (row + 1) * (2 * size + 1)]
            for column in range(size):
                exact = (box_ball(mine, width, size, column) + arb(0.5)).floor()
                assert exact.contains(arb(int(drawn[row, column])))


@pytest.mark.parametrize("scale", [1, 1000, 10**13])
def test_cone_draws_round_the_exact_number(scale: int, entropy: SeededEntropy) -> None:
    """Each coordinate is the nearest integer to the number that the words of its row define."""
    rows = 500
    body = cones(*((x * scale, y * scale) for x, y in TRIANGLE))
    words = entropy.words(3 * rows).tolist()
    drawn = body.draw(rows, ScriptedEntropy(words, entropy))
    with ctx.workprec(200):
        for row in range(rows):
            facet = body.facets[words[row] * 3 >> 64]
            pair = words[rows + 2 * row : rows + 2 * row + 2]
            for column in range(2):
                steps = [int(corner[column]) for corner in facet]
                terms = (-step * cell(word).log() for step, word in zip(steps, pair, strict=True))
                exact = (sum(terms, arb(0)) + arb(0.5)).floor()
                assert exact.contains(arb(int(drawn[row, column])))


def test_margins_hold_the_exponentials(entropy: SeededEntropy) -> None:
    """Over the whole cell of any prefix except 0, -ln U is within the margin of its double."""
    near = [2**power + step for power in range(2, 63) for step in (-1, 0, 1)]
    far = (2**63 - 1 - prefix for prefix in near)
    prefixes = [1, *near, *far, *(word >> 1 for word in entropy.words(2_000).tolist())]
    values, doubts = _exponentials(np.array(prefixes, dtype=np.uint64), 63)
    with ctx.workprec(200):
        for prefix, value, doubt in zip(prefixes, values.tolist(), doubts.tolist(), strict=True):
            for end in (prefix, prefix + 1):
                assert abs(-arb((end, -63)).log() - arb(value)) <= arb(doubt)


@pytest.mark.parametrize("noise", [BOX, SQUARE], ids=["box", "cones"])
def test_words_of_zero_are_refined(noise: BoxNoise | ConeNoise, entropy: SeededEntropy) -> None:
    """If the logarithm is unbounded, later digits decide, and the draw is finite."""
    drawn = noise.draw(1, ScriptedEntropy([0] * 5, entropy))

    assert (1, 2) == drawn.shape
    assert (np.abs(drawn) < 10_000).all()


@pytest.mark.parametrize("noise", [BOX, SQUARE], ids=["box", "cones"])
@pytest.mark.parametrize("count", [0, 1, 4097])
def test_sizes(noise: BoxNoise | ConeNoise, count: int, entropy: SeededEntropy) -> None:
    """A draw has the requested number of rows, of 64-bit integers."""
    drawn = noise.draw(count, entropy)

    assert (count, 2) == drawn.shape
    assert np.int64 == drawn.dtype
