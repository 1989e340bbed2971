"""`NoiseLaw`: noise for several numbers at once, and sample points for error bars.

A law is facts about random integers: it knows nothing of privacy. `sample` turns points of the
unit cube into noise, and `spread_points` gives points that fill the cube evenly: multiples of
irrational numbers, modulo 1. They show how a law behaves, and give its quantiles far more exactly
than as many random points.
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

__all__ = ["POINTS", "IndependentNoise", "NoiseLaw", "list_primes", "spread_points"]

POINTS: Final = 2**14


class NoiseLaw(Protocol):
    """A law of several integers, each symmetric about zero."""

    @property
    def dimension(self) -> int:
        """How many integers a draw has."""
        ...

    @property
    def uniforms(self) -> int:
        """How many numbers in (0, 1) a point of `sample` takes."""
        ...

    def draw(self, count: int, entropy: Entropy) -> Integers:
        """Return ``count`` independent draws, one a row."""
        ...

    def scale(self, index: int) -> float:
        """Return the scale of one integer: the unit of ``distance`` in `density`."""
        ...

    def deviation(self, index: int) -> float:
        """Return the standard deviation of one integer before it is rounded."""
        ...

    def variance(self) -> Floats:
        """Return the variance of each integer after it is rounded."""
        ...

    def density(self, index: int, distance: Floats) -> Floats:
        """Return how likely one integer is, so many scales away from 0, up to a factor."""
        ...

    def sample(self, points: Floats) -> Floats:
        """Return the draw for each point of the unit cube, one a row."""
        ...


@dataclass(frozen=True, slots=True)
class IndependentNoise:
    """Independent integers, each with a law of its own."""

    laws: tuple[DiscreteLaplace | RoundedGaussian, ...]

    @property
    def dimension(self) -> int:
        """How many integers a draw has."""
        return len(self.laws)

    @property
    def uniforms(self) -> int:
        """How many numbers in (0, 1) a point takes: one for each integer."""
        return len(self.laws)

    def draw(self, count: int, entropy: Entropy) -> Integers:
        """Return ``count`` independent draws, one a row."""
        drawn = [law.draw(count, entropy) for law in self.laws]
        return np.stack(drawn, axis=1) if drawn else np.empty((count, 0), dtype=np.int64)

    def scale(self, index: int) -> float:
        """Return the scale of one integer."""
        return self.laws[index].scale

    def deviation(self, index: int) -> float:
        """Return the standard deviation of one integer before it is rounded."""
        return self.laws[index].deviation

    def variance(self) -> Floats:
        """Return the variance of each integer."""
        return np.array([law.variance for law in self.laws], dtype=np.float64)

    def density(self, index: int, distance: Floats) -> Floats:
        """Return how likely one integer is, so many scales away from 0, up to a factor."""
        return self.laws[index].density(distance)

    def sample(self, points: Floats) -> Floats:
        """Return the draw for each point of the unit cube, one a row."""
        drawn = [_integer_at(law, points[:, index]) for index, law in enumerate(self.laws)]
        return np.stack(drawn, axis=1) if drawn else np.empty((len(points), 0))


def _integer_at(law: DiscreteLaplace | RoundedGaussian, uniform: Floats) -> Floats:
    """Return the integer at each level of a symmetric law's distribution function."""
    folded = 1.0 - np.abs(2.0 * uniform - 1.0)
    magnitude: Floats = np.floor(law.scale * law.magnitude(folded) + law.shift)
    return np.where(uniform < 0.5, -magnitude, magnitude)


@lru_cache(maxsize=8)
def spread_points(dimensions: int) -> Floats:
    """Return evenly spread points of the open unit cube."""
    roots = np.sqrt(np.array(list_primes(dimensions), dtype=np.float64))
    steps = np.arange(1, POINTS + 1, dtype=np.float64)[:, None] * roots
    return np.clip(steps % 1.0, 2.0**-40, 1.0 - 2.0**-40)


def list_primes(number: int) -> list[int]:
    """Return so many primes, the least first: no two of their roots are fractions of each other."""
    return list(islice(filter(_is_prime, count(2)), number))


def _is_prime(number: int) -> bool:
    return all(number % divisor for divisor in range(2, math.isqrt(number) + 1))
