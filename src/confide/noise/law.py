"""Distributions of several noisy integers at once, and sample points for confidence intervals.

A `NoiseLaw` describes random integers and knows nothing about privacy. Its `sample` maps points of
the unit cube to noise. `spread_points` returns points that fill the cube evenly: multiples of
irrational numbers, modulo 1. Quantiles of the noise are far more accurate when estimated from
these points than from the same number of random ones.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import count, islice
from typing import Final, Protocol

import numpy as np

from confide.noise.entropy import Entropy
from confide.noise.gaussian import RoundedGaussian
from confide.noise.laplace import DiscreteLaplace
from confide.noise.sampler import Floats, Integers

__all__ = ["POINT_COUNT", "IndependentNoise", "NoiseLaw", "list_primes", "spread_points"]

POINT_COUNT: Final = 2**14


class NoiseLaw(Protocol):
    """The distribution of several integers, each symmetric about zero."""

    @property
    def dimension(self) -> int:
        """The number of integers in a draw."""
        ...

    @property
    def uniforms(self) -> int:
        """The number of uniforms in (0, 1) that a point of `sample` needs."""
        ...

    def draw(self, count: int, entropy: Entropy) -> Integers:
        """Return ``count`` independent draws, one per row."""
        ...

    def scale(self, index: int) -> float:
        """Return the scale of one integer, which is the unit of ``distance`` in `density`."""
        ...

    def deviation(self, index: int) -> float:
        """Return the standard deviation of one integer before rounding."""
        ...

    def variance(self) -> Floats:
        """Return the approximate variance of each integer after rounding."""
        ...

    def density(self, index: int, distance: Floats) -> Floats:
        """Return the density of one integer at a distance in scales, up to a factor."""
        ...

    def sample(self, points: Floats) -> Floats:
        """Return the draw for each point of the unit cube, one per row."""
        ...


@dataclass(frozen=True, slots=True)
class IndependentNoise:
    """Independent integers, each with its own distribution."""

    laws: tuple[DiscreteLaplace | RoundedGaussian, ...]

    @property
    def dimension(self) -> int:
        """The number of integers in a draw."""
        return len(self.laws)

    @property
    def uniforms(self) -> int:
        """The number of uniforms in (0, 1) per point: one per integer."""
        return len(self.laws)

    def draw(self, count: int, entropy: Entropy) -> Integers:
        """Return ``count`` independent draws, one per row."""
        drawn = [law.draw(count, entropy) for law in self.laws]
        return np.stack(drawn, axis=1) if drawn else np.empty((count, 0), dtype=np.int64)

    def scale(self, index: int) -> float:
        """Return the scale of one integer."""
        return self.laws[index].scale

    def deviation(self, index: int) -> float:
        """Return the standard deviation of one integer before rounding."""
        return self.laws[index].deviation

    def variance(self) -> Floats:
        """Return the variance of each integer."""
        return np.array([law.variance for law in self.laws], dtype=np.float64)

    def density(self, index: int, distance: Floats) -> Floats:
        """Return the density of one integer at a distance in scales, up to a factor."""
        return self.laws[index].density(distance)

    def sample(self, points: Floats) -> Floats:
        """Return the draw for each point of the unit cube, one per row."""
        drawn = [_integer_at(law, points[:, index]) for index, law in enumerate(self.laws)]
        return np.stack(drawn, axis=1) if drawn else np.empty((len(points), 0))


def _integer_at(law: DiscreteLaplace | RoundedGaussian, uniform: Floats) -> Floats:
    """Return the integer for each uniform number: its half gives the sign, and inversion |Z|."""
    folded = 1.0 - np.abs(2.0 * uniform - 1.0)
    magnitude: Floats = np.floor(law.scale * law.magnitude(folded) + law.shift)
    return np.where(uniform < 0.5, -magnitude, magnitude)


@lru_cache(maxsize=8)
def spread_points(dimensions: int) -> Floats:
    """Return ``POINT_COUNT`` evenly spread points in the open unit cube, one per row."""
    roots = np.sqrt(np.array(list_primes(dimensions), dtype=np.float64))
    steps = np.arange(1, POINT_COUNT + 1, dtype=np.float64)[:, None] * roots
    return np.clip(steps % 1.0, 2.0**-40, 1.0 - 2.0**-40)


def list_primes(number: int) -> list[int]:
    """Return the first ``number`` primes; the ratio of two of their square roots is irrational."""
    return list(islice(filter(_is_prime, count(2)), number))


def _is_prime(number: int) -> bool:
    return all(number % divisor for divisor in range(2, math.isqrt(number) + 1))
