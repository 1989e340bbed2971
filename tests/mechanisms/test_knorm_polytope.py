"""The triangulated surface of a polytope has the right volume and meets every direction once."""

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.spatial import ConvexHull

from confide.errors import BadDeclaration
from confide.mechanisms.knorm import Point, Surface, triangulate
from support.entropy import SeededEntropy

DIMENSIONS = [1, 2, 3, 4]


def points(corners: Sequence[Sequence[int | str]]) -> list[Point]:
    return [tuple(Fraction(x) for x in corner) for corner in corners]


def cube(size: int) -> list[Point]:
    return points(list(product([-1, 1], repeat=size)))


def cross(size: int) -> list[Point]:
    return points([[int(i == j) for j in range(size)] for i in range(size)])


def prism(size: int) -> list[Point]:
    """Return a cross-polytope times an interval, which has facets of both kinds."""
    return [(*corner, Fraction(end)) for corner in cross(size - 1) for end in (-1, 1)]


def volume(surface: Surface) -> Fraction:
    """Return the total volume of all cones, from independently computed determinants."""
    total = Fraction(0)
    for facet in surface.facets:
        rows = [list(corner) for corner in facet]
        total += abs(determinant(rows))
    return total / math.factorial(len(surface.facets[0]))


def determinant(rows: list[list[Fraction]]) -> Fraction:
    if len(rows) == 1:
        return rows[0][0]
    minors = (
        (-1) ** i * row[0] * determinant([other[1:] for other in rows if other is not row])
        for i, row in enumerate(rows)
        if row[0]
    )
    return sum(minors, Fraction(0))


def random_points(size: int, count: int, entropy: SeededEntropy) -> list[Point]:
    words = entropy.words(size * count).astype(np.int64).reshape(count, size) % 41 - 20
    return points([[int(x) for x in row] for row in words])


@pytest.mark.parametrize("size", DIMENSIONS)
def test_cubes_have_their_volume(size: int) -> None:
    """The cones of a cube have volume 2^d."""
    assert 2**size == volume(triangulate(cube(size)))


@pytest.mark.parametrize("size", DIMENSIONS)
def test_cross_polytopes_have_their_volume(size: int) -> None:
    """The 2^d cones of a cross-polytope, one per orthant, have volume 2^d / d!."""
    surface = triangulate(cross(size))

    assert 2**size == len(surface.facets)
    assert Fraction(2**size, math.factorial(size)) == volume(surface)


@pytest.mark.parametrize("size", [2, 3, 4])
def test_prisms_have_their_volume(size: int) -> None:
    """A cross-polytope times [-1, 1] has twice its volume."""
    assert 2 * Fraction(2 ** (size - 1), math.factorial(size - 1)) == volume(
        triangulate(prism(size))
    )


@pytest.mark.parametrize(("size", "count"), [(2, 3), (2, 12), (3, 5), (3, 9), (4, 6)])
def test_random_hulls_have_their_volume(size: int, count: int, entropy: SeededEntropy) -> None:
    """For random corners the volume is that of Qhull."""
    corners = random_points(size, count, entropy)
    both = np.array([[float(x) for x in corner] for corner in corners])

    assert ConvexHull(np.concatenate([both, -both])).volume == pytest.approx(
        float(volume(triangulate(corners))), rel=1e-9
    )


@pytest.mark.parametrize(
    "corners",
    [
        cube(2), cube(3), cross(3), prism(3), prism(4), cube(4),
        points([[1, 0], [0, 1], ["1/2", "1/2"], ["1/3", "2/3"], [0, 0]]),
        points([[1, 1, 1], [1, 1, -1], [1, -1, 1], [-1, 1, 1], [1, 0, 0], [1, "1/2", 0]]),
    ],
)  # fmt: skip
def test_every_direction_lies_in_one_cone(corners: list[Point], entropy: SeededEntropy) -> None:
    """A random direction is a positive sum of the corners of exactly one simplex, on the surface.

    Corners inside edges, faces, or the body change nothing.
    """
    surface = triangulate(corners)
    size = len(corners[0])
    facets = np.array(
        [[[float(x) for x in corner] for corner in facet] for facet in surface.facets]
    )
    directions = entropy.words(2_000 * size).astype(np.int64).reshape(-1, size) / 2.0**63
    parts = np.einsum("rc,fcj->rfj", directions, np.linalg.inv(facets))
    inside = (parts > 0).all(axis=2)
    both = np.array([[float(x) for x in corner] for corner in corners])
    hull = ConvexHull(np.concatenate([both, -both]))
    norms = (directions @ (-hull.equations[:, :-1] / hull.equations[:, -1:]).T).max(axis=1)

    assert (inside.sum(axis=1) == 1).all()
    assert parts[inside].sum(axis=1) == pytest.approx(norms, rel=1e-9)


def test_weights_are_determinants() -> None:
    """Weights are integers proportional to the volumes of the cones."""
    surface = triangulate(points([["1/2", 0], [0, "1/3"], ["1/4", "1/4"]]))
    exact = [abs(determinant([list(corner) for corner in facet])) for facet in surface.facets]
    factors = {weight / size for weight, size in zip(surface.weights, exact, strict=True)}

    assert 1 == len(factors)
    assert all(type(weight) is int and weight > 0 for weight in surface.weights)


@pytest.mark.parametrize(
    "corners", [[[1, 1]], [[1, 2], [2, 4]], [[0, 0]], [[1, 0, 0], [0, 1, 0], [1, 1, 0]], [[0]]]
)
def test_flat_bodies_are_refused(corners: list[list[int]]) -> None:
    """Corners that do not span all dimensions are refused."""
    with pytest.raises(BadDeclaration, match="`corners` must span all"):
        triangulate(points(corners))
