"""K-norm mechanism: noise for several statistics together, shaped like a box or a polytope."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations
from math import comb, lcm
from typing import Final, Protocol, runtime_checkable

import numpy as np
from flint import arb, fmpq, fmpq_mat

from confide.errors import BadDeclaration
from confide.exact import Number, ball, first_integer, fraction, is_above, positive, probability
from confide.loss import PureLoss
from confide.mechanisms.grid import MAX_VALUE, Values, read_integers
from confide.noise import SYSTEM, BoxNoise, ConeNoise, Entropy, Integers
from confide.noise.sampler import check_scale

__all__ = ["Body", "Box", "Facet", "KNorm", "Point", "Polytope", "Surface", "triangulate"]

Point = tuple[Fraction, ...]
Facet = tuple[Point, ...]
"""The d vertices of a simplex in d dimensions."""


@dataclass(frozen=True, slots=True)
class Surface:
    """Simplices that tile the surface of a polytope around the origin.

    The weight of each is proportional to the volume of the simplex that it spans with the origin.
    """

    facets: tuple[Facet, ...]
    weights: tuple[int, ...]


def triangulate(corners: Sequence[Point]) -> Surface:
    """Return the surface of the convex hull of ``corners`` and their negatives.

    Claim:   the cones from the origin over the simplices tile space, and each simplex is part of
             the surface. The weight of a simplex is |det| of its corners, times a common factor.
    Why:     every facet lies in a hyperplane a.x = 1 that has all corners on one side and is
             spanned by d corners, in d dimensions. We try all choices of d corners. To divide a
             facet into simplices, we first divide those of its own facets that do not contain its
             first corner. We then join that corner to all resulting simplices. This pulling
             triangulation tiles any polytope.
    Source:  [GO04] for the pulling triangulation.
    Checked: tests/mechanisms/test_knorm_polytope.py (volumes, every direction in one cone).
    """
    size = len(corners[0])
    points = list(dict.fromkeys([*corners, *(tuple(-x for x in corner) for corner in corners)]))
    faces = set(_faces(points, size))
    if not faces:
        raise BadDeclaration(f"`corners` must span all {size} dimensions; got a flatter body.")
    simplices = [
        tuple(points[index] for index in simplex)
        for face in sorted(faces, key=sorted)
        for simplex in _pull_triangulation(face, faces, size)
    ]
    sizes = [abs(_matrix(simplex).det()) for simplex in simplices]
    common = lcm(*(int(volume.q) for volume in sizes))
    weights = tuple(int(volume.p) * common // int(volume.q) for volume in sizes)
    return Surface(tuple(simplices), weights)


def _faces(points: list[Point], size: int) -> Iterator[frozenset[int]]:
    """Yield the indices of the points on each facet; some facets repeat."""
    every = _matrix(points)
    for chosen in combinations(range(len(points)), size):
        matrix = _matrix([points[index] for index in chosen])
        if matrix.det() == 0:
            continue
        normal = matrix.solve(fmpq_mat(size, 1, [1] * size))
        heights = (every * normal).entries()
        if all(height <= 1 for height in heights):
            yield frozenset(index for index, height in enumerate(heights) if height == 1)


def _matrix(rows: Sequence[Point]) -> fmpq_mat:
    entries = [fmpq(x.numerator, x.denominator) for row in rows for x in row]
    return fmpq_mat(len(rows), len(rows[0]), entries)


def _borders(face: frozenset[int], faces: set[frozenset[int]]) -> set[frozenset[int]]:
    """Return the facets of ``face``: its maximal intersections with other facets in ``faces``.

    ``faces`` are the facets of the polytope. Every face is given by the indices of its points.
    """
    shared = {face & other for other in faces if not face <= other} - {frozenset()}
    return {border for border in shared if not any(border < other for other in shared)}


def _pull_triangulation(
    face: frozenset[int], faces: set[frozenset[int]], count: int
) -> Iterator[tuple[int, ...]]:
    """Yield simplices of ``count`` points that tile ``face``."""
    if len(face) == count:
        yield tuple(sorted(face))
        return
    apex = min(face)
    for border in _borders(face, faces):
        if apex not in border:
            for simplex in _pull_triangulation(border, faces, count - 1):
                yield (apex, *simplex)


MAX_VERTEX_CHOICES: Final = 200_000
MEAN_SEPARATION: Final = Fraction(1, 10**12)


@runtime_checkable
class Body(Protocol):
    """A symmetric convex body K that contains every change of the statistics by one unit."""

    @property
    def size(self) -> int:
        """The number of statistics."""
        ...

    def noise(self, epsilon: Fraction) -> BoxNoise | ConeNoise:
        """Return noise with density proportional to exp(-epsilon |z|_K) before rounding.

        |z|_K is the factor by which the body must be scaled to reach z.
        """
        ...

    def tail(self, index: int, reach: Fraction) -> arb:
        """Return a ball around P(|z_index| >= reach), or around a slightly larger number.

        z is the noise at epsilon 1, before rounding.
        """
        ...


@dataclass(frozen=True, slots=True, init=False)
class Box:
    """The box of all vectors with |z_i| <= half_width_i.

    A box with equal half-widths suits counts if one unit changes each of them by at most 1. Adding
    or removing a row whose value is within h of a center changes (count, sum of value minus center)
    by (1, v) or (-1, -v) with |v| <= h. The hull of these vectors is the box with half-widths 1 and
    h.

    Claim:   for the noise z at epsilon 1 in d dimensions, P(|z_i| >= t h_i) equals
             Q(d + 1, t) - t Q(d, t) / d, where h_i is the half-width and Q the regularized upper
             gamma function.
    Why:     |z_i| = h_i R u, where R has distribution Gamma(d + 1) and u is uniform on [0, 1].
             P(R u >= t) is the mean of 1 - t / R on R >= t, and 0 elsewhere. In the mean of t / R,
             r^d / r = r^(d-1) lowers the order of the gamma function by one.
    Checked: tests/mechanisms/test_knorm.py.
    """

    half_widths: tuple[Fraction, ...]

    def __init__(self, half_widths: Sequence[Number]) -> None:
        if isinstance(half_widths, str) or not isinstance(half_widths, Sequence) or not half_widths:
            raise BadDeclaration(
                "`half_widths` must be a list of at least one number greater than 0; got "
                f"{half_widths!r}."
            )
        widths = tuple(positive("half_widths", width) for width in half_widths)
        object.__setattr__(self, "half_widths", widths)

    @property
    def size(self) -> int:
        """The number of statistics."""
        return len(self.half_widths)

    def noise(self, epsilon: Fraction) -> BoxNoise:
        """Return noise whose density is constant on the surface of each scaled copy of this box."""
        check_scale("half_widths / epsilon", max(self.half_widths) / epsilon)
        return BoxNoise(tuple(width / epsilon for width in self.half_widths))

    def tail(self, index: int, reach: Fraction) -> arb:
        """Return a ball around P(|z_index| >= reach) at epsilon 1."""
        far, size = ball(reach / self.half_widths[index]), self.size
        return far.gamma_upper(size + 1, 1) - far * far.gamma_upper(size, 1) / size


@dataclass(frozen=True, slots=True, init=False)
class Polytope:
    """The convex hull of the given corners and their negatives.

    Claim:   the number that ``tail`` encloses is at least P(|z_i| >= t) at epsilon 1, and exceeds
             it by less than one part in 10^9 for tails above 10^-30.
    Why:     in the cone of a facet, z_i = X - Y, where X and Y are sums of independent exponential
             variables. The means of those in X are a_j, the positive i-th coordinates of the
             facet's vertices. The means of those in Y are b_k, the absolute values of the negative
             ones. If all a_j differ, P(X > t) is the sum over j of w_j exp(-t / a_j), with w_j the
             product over k != j of a_j / (a_j - a_k). P(X - Y > t) is this sum with each term
             multiplied by the mean of exp(-Y / a_j), which is the product over k of
             1 / (1 + b_k / a_j). Raising an a_j only raises the tail. So the a_j are multiplied by
             increasing factors just above 1, which makes all of them different.
    Source:  [HT10] for the distribution.
    Checked: tests/mechanisms/test_knorm.py.
    """

    corners: tuple[tuple[Fraction, ...], ...]
    surface: Surface = field(repr=False, compare=False)

    def __init__(self, corners: Sequence[Sequence[Number]]) -> None:
        points = _read_corners(corners)
        if comb(2 * len(points), len(points[0])) > MAX_VERTEX_CHOICES:
            raise BadDeclaration(
                "`corners` must be so few that they and their negatives have at most "
                f"{MAX_VERTEX_CHOICES:,} subsets of size {len(points[0])}; got {len(points)}."
            )
        object.__setattr__(self, "corners", points)
        object.__setattr__(self, "surface", triangulate(points))

    @property
    def size(self) -> int:
        """The number of statistics."""
        return len(self.corners[0])

    def noise(self, epsilon: Fraction) -> ConeNoise:
        """Return noise whose density is constant on the surface of scaled copies of this body."""
        check_scale(
            "corners / epsilon", max(abs(x) for point in self.corners for x in point) / epsilon
        )
        facets = tuple(
            tuple(tuple(x / epsilon for x in corner) for corner in facet)
            for facet in self.surface.facets
        )
        return ConeNoise(facets, self.surface.weights)

    def tail(self, index: int, reach: Fraction) -> arb:
        """Return a ball around P(|z_index| >= reach) at epsilon 1, or a slightly larger number."""
        total = arb(0)
        for facet, weight in zip(self.surface.facets, self.surface.weights, strict=True):
            a = [corner[index] for corner in facet if corner[index] > 0]
            b = [-corner[index] for corner in facet if corner[index] < 0]
            total += weight * (_difference_tail(a, b, reach) + _difference_tail(b, a, reach))
        return total / sum(self.surface.weights)


def _read_corners(corners: Sequence[Sequence[Number]]) -> tuple[Point, ...]:
    try:
        rows = [list(corner) for corner in corners]
    except TypeError:
        rows = []
    if not rows or not rows[0] or len({len(row) for row in rows}) != 1:
        raise BadDeclaration(
            f"`corners` must be a list of vectors of one common length; got {corners!r}."
        )
    return tuple(tuple(fraction("corners", x, "finite numbers") for x in row) for row in rows)


def _difference_tail(a: list[Fraction], b: list[Fraction], reach: Fraction) -> arb:
    """Return a ball around P(X - Y > reach), or around a slightly larger number.

    X and Y are sums of independent exponentials with the means ``a`` and ``b``.
    """
    means = [ball(mean * (1 + MEAN_SEPARATION * index)) for index, mean in enumerate(sorted(a))]
    total = arb(0)
    for mean in means:
        term = (-ball(reach) / mean).exp()
        for other in means:
            term *= 1 if other is mean else mean / (mean - other)
        for mean_of_y in b:
            term /= 1 + ball(mean_of_y) / mean
        total += term
    return total


@dataclass(frozen=True, slots=True, init=False)
class KNorm:
    """A mechanism that adds noise, shaped like a convex body, to a vector of integers.

    ``body`` must contain every vector by which one unit can change the released vector. Several
    vectors, one per row, can be released at once if each unit changes at most one row.

    Law:     x + round(z), where z has density proportional to exp(-epsilon |z|_K) on R^d, and
             |z|_K is the factor by which the body K must be scaled to reach z.
    Claim:   epsilon-DP.
    Why:     let y = x + z. Changing x by a vector of the body changes |y - x|_K by at most 1, by
             the triangle inequality, so the densities of y differ by a factor of at most
             exp(epsilon). For integers x, x + round(z) = round(x + z), which is post-processing of
             y. So is saturating.
    Source:  [HT10]; sampled exactly, see noise/joint.py.
    Checked: tests/mechanisms/test_knorm.py (law), tests/audit/test_claims.py (claim).

    >>> mechanism = KNorm(Box([1, 500]), epsilon=1)
    >>> mechanism.loss
    PureLoss(epsilon=Fraction(1, 1))
    >>> mechanism.release([10_000, 250_000]).shape
    (2,)
    """

    body: Body
    epsilon: Fraction
    noise: BoxNoise | ConeNoise = field(repr=False, compare=False)

    def __init__(self, body: Body, epsilon: Number = 1) -> None:
        exact = positive("epsilon", epsilon)
        if not isinstance(body, Body):
            raise BadDeclaration(f"`body` must be a `Box` or a `Polytope`; got {body!r}.")
        object.__setattr__(self, "body", body)
        object.__setattr__(self, "epsilon", exact)
        object.__setattr__(self, "noise", body.noise(exact))

    @property
    def loss(self) -> PureLoss:
        """The privacy loss of one release."""
        return PureLoss(epsilon=self.epsilon)

    def release(self, x: Values, *, entropy: Entropy = SYSTEM) -> Integers:
        """Return the vector, or each row, plus joint noise."""
        values = read_integers("x", x)
        if values.ndim not in (1, 2) or values.shape[-1] != self.body.size:
            raise BadDeclaration(
                f"`x` must be a vector of {self.body.size} numbers, or rows of that length; "
                f"got an array of shape {values.shape}."
            )
        rows = values.reshape(-1, self.body.size)
        noisy: Integers = np.clip(rows + self.noise.draw(len(rows), entropy), -MAX_VALUE, MAX_VALUE)
        return noisy.reshape(values.shape)

    def interval(self, confidence: Number = 0.95) -> list[tuple[int, int]]:
        """Return, for each coordinate, a symmetric range that contains its noise.

        Each range has this confidence on its own.
        """
        miss = 1 - probability("confidence", confidence, zero=False)
        widths = [self._half_width(index, miss) for index in range(self.body.size)]
        return [(-width, width) for width in widths]

    def _half_width(self, index: int, miss: Fraction) -> int:
        def is_too_narrow(width: int) -> bool:
            reach = (width + Fraction(1, 2)) * self.epsilon
            return is_above(lambda: self.body.tail(index, reach), miss)

        return first_integer(lambda width: not is_too_narrow(width), start=0)
