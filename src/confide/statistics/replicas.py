"""What an estimate could as well have been: the same sums, moved by sampling and by noise.

The moves are evenly spread points, not random numbers, so an interval is the same whenever it is
computed from the same release.
"""

from functools import lru_cache
from typing import Final

import numpy as np
from scipy import special

from confide.statistics.reading import Floats

__all__ = ["POINTS", "move_sums", "root_of", "spread_normals", "thin"]

POINTS: Final = 2**13
"""So many that the reach of an interval is right to 1 %; a quarter of them leaves up to 5 %."""
PRIMES: Final = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71)


@lru_cache(maxsize=16)
def spread_normals(dimensions: int) -> Floats:
    """Return POINTS evenly spread points of the standard normal law.

    Why: multiples of irrational numbers, modulo 1, fill the unit cube evenly. Cube roots of primes
         are independent of the square roots that the points of the noise are multiples of.
    """
    roots = np.cbrt(np.array([_prime(place) for place in range(dimensions)], dtype=np.float64))
    steps = np.arange(1, POINTS + 1, dtype=np.float64)[:, None] * roots
    normals: Floats = special.ndtri(np.clip(steps % 1.0, 2.0**-40, 1.0 - 2.0**-40))
    return normals


def _prime(place: int) -> int:
    if place < len(PRIMES):
        return PRIMES[place]
    found = _prime(place - 1) + 2
    while any(found % divisor == 0 for divisor in range(3, int(found**0.5) + 1, 2)):
        found += 2
    return found


def move_sums(sums: Floats, noise: Floats, covariance: Floats) -> Floats:
    """Return one vector of sums moved POINTS times, by sampling of this covariance and by noise.

    ``noise`` holds at least POINTS evenly spread points of its law; every so many are taken.
    """
    return sums + spread_normals(len(sums)) @ root_of(covariance).T + thin(noise)


def thin(noise: Floats) -> Floats:
    """Return every so many points of the noise: POINTS of them, or all if there are fewer."""
    return noise[:: max(1, len(noise) // POINTS)][:POINTS]


def root_of(covariance: Floats) -> Floats:
    """Return a matrix whose square is the covariance, with what is below zero taken as zero."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2.0)
    root: Floats = vectors * np.sqrt(np.maximum(values, 0.0))
    return root
