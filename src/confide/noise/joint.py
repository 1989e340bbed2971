"""Exact noise for several integers at once, for the K-norm mechanism.

The noise before rounding has a density proportional to exp(-|z|_K), where |z|_K is the factor by
which a convex body K must be scaled to reach z. Each coordinate is then rounded to an integer. The
noise is computed from a few uniform numbers, some of which are turned into exponential ones. Their
digits are revealed lazily, as in sampler.py. Doubles enclose every coordinate. If they leave its
rounding in doubt, ball arithmetic decides it from more digits of the same numbers.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Final

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from confide.exact import ball
from confide.noise.entropy import Entropy
from confide.noise.sampler import MAX_NOISE, Floats, Integers, check_scale, rounded_variance
from confide.noise.uniform import Uniform, categorical

__all__ = ["BoxNoise", "ConeNoise"]

PREFIX_BITS: Final = 63
HALF: Final = arb(0.5)
DOUBLE_LIMIT: Final = 2.0**60
SLACK: Final = 2.0**-44
"""The allowed error of -ln U in doubles for U >= 2**-64, and the allowed relative error elsewhere.

For these U, -ln U is at most 44.4, so the allowance is 8 units in the last place. The measured
error of NumPy's logarithm is one unit."""


@dataclass(frozen=True, slots=True)
class BoxNoise:
    """Noise whose density is constant on the surface of each scaled copy of a box.

    ``half_widths`` are the half-widths of the box, in grid steps.

    Law:     before rounding, the noise has density proportional to exp(-max_i |z_i| / h_i) on R^d,
             with h = ``half_widths``; each coordinate is then rounded to the nearest integer.
    Why:     let K be the box, so that |z|_K = max_i |z_i| / h_i. Multiply a uniform point of K by a
             radius R with distribution Gamma(d + 1). The product has density proportional to
             exp(-|z|_K): it can be z for any radius r >= |z|_K. R has density r^d e^-r / d!, and a
             uniform point of r K has a density proportional to r^-d. Their product, integrated
             over these r, is e^-|z|_K up to a constant. R is a sum of d + 1 exponentials, and K is
             a product of intervals.
    Source:  [HT10].
    Checked: tests/noise/test_joint.py.
    """

    half_widths: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        for width in self.half_widths:
            check_scale("half_widths", width)

    @property
    def dimension(self) -> int:
        """The number of integers in a draw."""
        return len(self.half_widths)

    @property
    def uniforms(self) -> int:
        """The number of uniforms in a point of `sample`.

        One is needed for each of the d + 1 exponentials, and one for each of the d coordinates of
        the uniform point in the box.
        """
        return 2 * len(self.half_widths) + 1

    def scale(self, index: int) -> float:
        """Return the half-width of the box along one integer."""
        return float(self.half_widths[index])

    def deviation(self, index: int) -> float:
        """Return the standard deviation of one integer before rounding."""
        return math.sqrt(self._mean_square()) * self.scale(index)

    def variance(self) -> Floats:
        """Return the approximate variance of each integer after rounding."""
        mean_square = self._mean_square()
        widths = map(float, self.half_widths)
        return np.array([rounded_variance(mean_square * width**2) for width in widths])

    def _mean_square(self) -> float:
        """Return the mean square of each coordinate before rounding, in units of its half-width.

        Why: the radius is a Gamma(d + 1) variable, with mean square (d + 1)(d + 2); the position in
             the box is uniform on [-h, h], with mean square h^2 / 3.
        """
        return (self.dimension + 1) * (self.dimension + 2) / 3.0

    def density(self, index: int, distance: Floats) -> Floats:
        """Return the density of one integer at a distance in half-widths, up to a factor.

        Why: one coordinate is a Gamma(d + 1) variable times a uniform one on [-1, 1]. At distance
             x, the density of the product is e^-x (1 + x + ... + x^(d-1) / (d-1)!) / 2d.
        """
        del index  # in half-widths, all coordinates have the same distribution
        x = np.abs(distance)
        term, total = np.ones_like(x), np.zeros_like(x)
        for order in range(self.dimension):
            total += term
            term = term * x / (order + 1)
        return np.exp(-x) * total

    def sample(self, points: Floats) -> Floats:
        """Return the draw for each point of the unit cube, one per row."""
        size = self.dimension
        radius = -np.log(points[:, : size + 1]).sum(axis=1, keepdims=True)
        position = 2.0 * points[:, size + 1 :] - 1.0
        drawn: Floats = np.rint(radius * position * _floats(self.half_widths))
        return drawn

    def draw(self, count: int, entropy: Entropy, *, bits: int = PREFIX_BITS) -> Integers:
        """Return ``count`` independent vectors, one per row."""
        size = len(self.half_widths)
        words = entropy.words(count * (2 * size + 1)).reshape(count, 2 * size + 1)
        signs = 1 - 2 * (words[:, size + 1 :] & np.uint64(1)).view(np.int64)
        prefixes = words >> np.uint64(64 - bits)
        exponentials, errors = _exponentials(prefixes[:, : size + 1], bits)
        radius = exponentials.sum(axis=1, keepdims=True)
        error = errors.sum(axis=1, keepdims=True) + SLACK * size * radius
        position = signs * _center(prefixes[:, size + 1 :], bits)
        widths = _floats(self.half_widths)
        value = widths * (radius * position)
        margin = widths * (error + radius * (2.0**-bits + SLACK))
        drawn, settled = _rounded(value, margin)
        for row in np.flatnonzero(~settled.all(axis=1)):
            numbers = [Uniform(entropy, int(prefix), bits) for prefix in prefixes[row]]
            for column in np.flatnonzero(~settled[row]):
                width = int(signs[row, column]) * self.half_widths[column]
                involved = [*numbers[: size + 1], numbers[size + 1 + column]]
                drawn[row, column] = _settle(involved, partial(_box_value, width))
        return drawn


def _box_value(width: Fraction, numbers: list[arb]) -> arb:
    """Return one coordinate: its signed half-width times the radius times the position.

    The radius is the sum of -ln U over all ``numbers`` except the last, which is the position.
    """
    *uniforms, position = numbers
    return -ball(width) * position * sum((uniform.log() for uniform in uniforms), arb(0))


@dataclass(frozen=True, slots=True)
class ConeNoise:
    """Noise whose density is constant on the surface of each scaled copy of a polytope K.

    ``facets`` are the simplices of a triangulation of K's surface, each with its d vertices. They
    must surround the origin and meet only along their boundaries. ``weights`` has for each facet
    an integer proportional to |det(v_1..v_d)| of its vertices v_1..v_d.

    Law:     before rounding, the noise has density proportional to exp(-|z|_K) on R^d; K is the
             union of the simplices that the origin spans with each facet. Each coordinate is then
             rounded to the nearest integer.
    Why:     choose a facet with probability proportional to its weight, and let z be the sum of
             E_j v_j with independent standard exponentials E_j. In the cone of that facet, |z|_K
             is the sum of the E_j. So the density of z there is the facet's probability times
             e^-|z|_K / |det(v_1..v_d)|: the same constant times e^-|z|_K in every cone.
    Source:  [HT10] for the distribution; the sampler is the argument above.
    Checked: tests/noise/test_joint.py.
    """

    facets: tuple[tuple[tuple[Fraction, ...], ...], ...]
    weights: tuple[int, ...]

    def __post_init__(self) -> None:
        for facet in self.facets:
            for vertex in facet:
                for coordinate in vertex:
                    check_scale("facets", abs(coordinate))

    def draw(self, count: int, entropy: Entropy, *, bits: int = PREFIX_BITS) -> Integers:
        """Return ``count`` independent vectors, one per row."""
        size = len(self.facets[0])
        chosen = categorical(self.weights, count, entropy)
        prefixes = entropy.words(count * size).reshape(count, size) >> np.uint64(64 - bits)
        exponentials, errors = _exponentials(prefixes, bits)
        vertices = np.array([[_floats(v) for v in facet] for facet in self.facets])[chosen]
        value = np.einsum("rj,rjc->rc", exponentials, vertices)
        errors += size * SLACK * exponentials
        margin = np.einsum("rj,rjc->rc", errors, np.abs(vertices))
        drawn, settled = _rounded(value, margin)
        for row in np.flatnonzero(~settled.all(axis=1)):
            numbers = [Uniform(entropy, int(prefix), bits) for prefix in prefixes[row]]
            facet = self.facets[chosen[row]]
            for column in np.flatnonzero(~settled[row]):
                steps = [vertex[column] for vertex in facet]
                drawn[row, column] = _settle(numbers, partial(_cone_value, steps))
        return drawn


def _cone_value(steps: list[Fraction], numbers: list[arb]) -> arb:
    """Return one coordinate: the sum of -ln U times ``steps``, the coordinates of the vertices."""
    terms = (ball(step) * number.log() for step, number in zip(steps, numbers, strict=True))
    return -sum(terms, arb(0))


def _floats(values: tuple[Fraction, ...]) -> Floats:
    return np.array([float(value) for value in values], dtype=np.float64)


def _center(prefixes: NDArray[np.uint64], bits: int) -> Floats:
    """Return the center of the cell of all uniform numbers that start with these ``bits`` bits."""
    return (prefixes.astype(np.float64) + 0.5) * 2.0**-bits


def _exponentials(prefixes: NDArray[np.uint64], bits: int) -> tuple[Floats, Floats]:
    """Return -ln U at the center of each cell, with a bound on its error over the cell.

    Why: for a prefix v >= 1 the logarithm varies by at most 1 / (2v) <= 1 / (v + 1/2) over half a
    cell; for v = 0 it is unbounded.
    """
    center = _center(prefixes, bits)
    variation = np.where(prefixes > 0, 2.0**-bits / center, np.inf)
    return -np.log(center), variation + SLACK


def _rounded(value: Floats, margin: Floats) -> tuple[Integers, NDArray[np.bool_]]:
    """Return the nearest integers, and a mask of those that are certain.

    An integer is certain if every number within ``margin`` of ``value`` rounds to it, and
    ``value`` is within 2^60 of 0. Others are returned as 0.
    """
    low, high = np.floor(value - margin + 0.5), np.floor(value + margin + 0.5)
    settled = (low == high) & (np.abs(value) < DOUBLE_LIMIT)
    return np.where(settled, low, 0.0).astype(np.int64), settled


def _settle(numbers: list[Uniform], value: Callable[[list[arb]], arb]) -> int:
    """Return the integer to which the value rounds, clipped to [-2^62, 2^62].

    Digits of all numbers are revealed until the ball that ``value`` returns rounds to one integer.
    """
    while True:
        for number in numbers:
            number.reveal()
        with ctx.workprec(2 * numbers[0].bits + 64):
            nearest = (value([number.ball() for number in numbers]) + HALF).floor().unique_fmpz()
        if nearest is not None:
            return max(-MAX_NOISE, min(int(nearest), MAX_NOISE))
