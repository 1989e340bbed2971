"""Exact box and cone noise for several numbers at once, rounded to the grid.

The real noise has density proportional to exp(-|z|_K / scale), where |z|_K is the factor by which
the body K must be scaled to reach z. It is a product or a sum of a few exponential and uniform
numbers, whose digits are revealed lazily as in sampler.py. Doubles enclose every coordinate. A
coordinate whose rounding they leave in doubt is decided in ball arithmetic, from more digits of
the same numbers.
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

-ln U is at most 44.4 there, so this is 8 units in the last place. NumPy's logarithm was measured
to use one of them."""


@dataclass(frozen=True, slots=True)
class BoxNoise:
    """Noise whose level sets are boxes with the given half-widths, in grid steps.

    Law:     the real noise has density proportional to exp(-max_i |z_i| / h_i) on R^d; each
             coordinate is then rounded to the nearest integer.
    Why:     multiply a uniform point of the body K by R with distribution Gamma(d + 1). The
             product has density proportional to exp(-|z|_K): given z, the radius ranges over
             [|z|_K, inf); the product of its density r^d e^-r / d! and the density r^-d of a
             uniform point of r K integrates to e^-|z|_K, up to a constant. R is a sum of d + 1
             exponentials, and a box is a product of intervals.
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
        """The number of uniforms per point: one per exponential and one per position in the box."""
        return 2 * len(self.half_widths) + 1

    def scale(self, index: int) -> float:
        """Return the half-width of the box along one integer."""
        return float(self.half_widths[index])

    def deviation(self, index: int) -> float:
        """Return the standard deviation of one integer before rounding."""
        return math.sqrt(self._spread()) * self.scale(index)

    def variance(self) -> Floats:
        """Return the variance of each integer after rounding."""
        spread = self._spread()
        widths = map(float, self.half_widths)
        return np.array([rounded_variance(spread * width**2) for width in widths])

    def _spread(self) -> float:
        """Return the mean square of one coordinate, in half-widths.

        Why: the radius is a Gamma(d + 1) variable, with mean square (d + 1)(d + 2); the position in
             the box is uniform on [-h, h], with mean square h^2 / 3.
        """
        return (self.dimension + 1) * (self.dimension + 2) / 3.0

    def density(self, index: int, distance: Floats) -> Floats:
        """Return the density of one integer at a distance in half-widths, up to a factor.

        Why: one coordinate is a Gamma(d + 1) variable times a uniform one, with density
             e^-x (1 + x + ... + x^(d-1) / (d-1)!) / 2d.
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
        places = 2.0 * points[:, size + 1 :] - 1.0
        drawn: Floats = np.rint(radius * places * _floats(self.half_widths))
        return drawn

    def draw(self, count: int, entropy: Entropy, *, bits: int = PREFIX_BITS) -> Integers:
        """Return ``count`` independent vectors, one per row."""
        size = len(self.half_widths)
        words = entropy.words(count * (2 * size + 1)).reshape(count, 2 * size + 1)
        signs = 1 - 2 * (words[:, size + 1 :] & np.uint64(1)).view(np.int64)
        prefixes = words >> np.uint64(64 - bits)
        parts, doubts = _exponentials(prefixes[:, : size + 1], bits)
        radius = parts.sum(axis=1, keepdims=True)
        doubt = doubts.sum(axis=1, keepdims=True) + SLACK * size * radius
        place = signs * _center(prefixes[:, size + 1 :], bits)
        widths = _floats(self.half_widths)
        value = widths * (radius * place)
        margin = widths * (doubt + radius * (2.0**-bits + SLACK))
        drawn, settled = _rounded(value, margin)
        for row in np.flatnonzero(~settled.all(axis=1)):
            numbers = [Uniform(entropy, int(prefix), bits) for prefix in prefixes[row]]
            for column in np.flatnonzero(~settled[row]):
                width = int(signs[row, column]) * self.half_widths[column]
                involved = [*numbers[: size + 1], numbers[size + 1 + column]]
                drawn[row, column] = _settle(involved, partial(_box_value, width))
        return drawn


def _box_value(width: Fraction, numbers: list[arb]) -> arb:
    *parts, place = numbers
    return -ball(width) * place * sum((part.log() for part in parts), arb(0))


@dataclass(frozen=True, slots=True)
class ConeNoise:
    """Noise whose level sets are scaled copies of a polytope, given by its triangulated surface.

    Law:     the real noise has density proportional to exp(-|z|_K) on R^d, where K is the union
             of the simplices spanned by the origin and each tuple of ``facets``. The facets must
             surround the origin and meet only along their boundaries. Each coordinate is then
             rounded.
    Why:     choose a facet with vertices v_1..v_d with probability proportional to
             |det(v_1..v_d)|, and sum E_j v_j with independent standard exponentials E_j. In the
             cone of that facet, |z|_K is the sum of the E_j, so the density of z is e^-|z|_K /
             |det| times the probability of the facet: the same constant in every cone.
    Source:  [HT10] for the distribution; the sampler is the argument above.
    Checked: tests/noise/test_joint.py.
    """

    facets: tuple[tuple[tuple[Fraction, ...], ...], ...]
    weights: tuple[int, ...]

    def __post_init__(self) -> None:
        for facet in self.facets:
            for corner in facet:
                for place in corner:
                    check_scale("facets", abs(place))

    def draw(self, count: int, entropy: Entropy, *, bits: int = PREFIX_BITS) -> Integers:
        """Return ``count`` independent vectors, one per row."""
        size = len(self.facets[0])
        chosen = categorical(self.weights, count, entropy)
        prefixes = entropy.words(count * size).reshape(count, size) >> np.uint64(64 - bits)
        parts, doubts = _exponentials(prefixes, bits)
        corners = np.array([[_floats(corner) for corner in facet] for facet in self.facets])[chosen]
        value = np.einsum("rj,rjc->rc", parts, corners)
        margin = np.einsum("rj,rjc->rc", doubts + size * SLACK * parts, np.abs(corners))
        drawn, settled = _rounded(value, margin)
        for row in np.flatnonzero(~settled.all(axis=1)):
            numbers = [Uniform(entropy, int(prefix), bits) for prefix in prefixes[row]]
            facet = self.facets[chosen[row]]
            for column in np.flatnonzero(~settled[row]):
                steps = [corner[column] for corner in facet]
                drawn[row, column] = _settle(numbers, partial(_cone_value, steps))
        return drawn


def _cone_value(steps: list[Fraction], numbers: list[arb]) -> arb:
    terms = (ball(step) * number.log() for step, number in zip(steps, numbers, strict=True))
    return -sum(terms, arb(0))


def _floats(values: tuple[Fraction, ...]) -> Floats:
    return np.array([float(value) for value in values], dtype=np.float64)


def _center(prefixes: NDArray[np.uint64], bits: int) -> Floats:
    return (prefixes.astype(np.float64) + 0.5) * 2.0**-bits


def _exponentials(prefixes: NDArray[np.uint64], bits: int) -> tuple[Floats, Floats]:
    """Return -ln U at the center of each cell, with a bound on its error over the cell.

    Why: for a prefix v >= 1 the logarithm varies by at most 1 / (2v) <= 1 / (v + 1/2) over half a
    cell; for v = 0 it is unbounded.
    """
    center = _center(prefixes, bits)
    spread = np.where(prefixes > 0, 2.0**-bits / center, np.inf)
    return -np.log(center), spread + SLACK


def _rounded(value: Floats, margin: Floats) -> tuple[Integers, NDArray[np.bool_]]:
    """Return the nearest integers, and a mask of those that the margins leave without doubt."""
    low, high = np.floor(value - margin + 0.5), np.floor(value + margin + 0.5)
    settled = (low == high) & (np.abs(value) < DOUBLE_LIMIT)
    return np.where(settled, low, 0.0).astype(np.int64), settled


def _settle(numbers: list[Uniform], value: Callable[[list[arb]], arb]) -> int:
    """Reveal digits of all numbers until their value rounds to a single integer."""
    while True:
        for number in numbers:
            number.reveal()
        with ctx.workprec(2 * numbers[0].bits + 64):
            nearest = (value([number.ball() for number in numbers]) + HALF).floor().unique_fmpz()
        if nearest is not None:
            return max(-MAX_NOISE, min(int(nearest), MAX_NOISE))
