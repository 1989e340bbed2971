"""Evenly spread replicas of noisy sums: what they could as well have been.

The moves are evenly spread points, not random numbers, so an interval is the same whenever it is
computed from the same release.
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from confide.lazy import lazy_module
from confide.noise.law import list_primes

if TYPE_CHECKING:
    from scipy import special
else:
    special = lazy_module("scipy.special")

__all__ = [
    "POINTS",
    "Floats",
    "move_sums",
    "root_of",
    "sample_counts",
    "sample_parts",
    "spread_normals",
    "thin",
]

Floats = NDArray[np.float64]

POINTS: Final = 2**13
"""So many that the reach of an interval is right to 1 %; a quarter of them leaves up to 5 %."""


@lru_cache(maxsize=16)
def spread_normals(dimensions: int) -> Floats:
    """Return POINTS evenly spread points of the standard normal law.

    Why: multiples of irrational numbers, modulo 1, fill the unit cube evenly. Cube roots of primes
         are independent of the square roots that the points of the noise are multiples of.
    """
    roots = np.cbrt(np.array(list_primes(dimensions), dtype=np.float64))
    steps = np.arange(1, POINTS + 1, dtype=np.float64)[:, None] * roots
    normals: Floats = special.ndtri(np.clip(steps % 1.0, 2.0**-40, 1.0 - 2.0**-40))
    return normals


def move_sums(sums: Floats, noise: Floats, covariance: Floats) -> Floats:
    """Return one vector of sums moved POINTS times, by sampling of this covariance and by noise.

    ``noise`` holds at least POINTS evenly spread points of its law; every so many are taken.
    """
    return sums + spread_normals(len(sums)) @ root_of(covariance).T + thin(noise)


def sample_counts(parts: Floats, size: float) -> Floats:
    """Return by how much counts differ from their means, POINTS times, in parts of a whole.

    Why: with independent normal numbers e and roots r of the parts, whose squares add up to 1, the
         numbers r_i (e_i - r_i sum r_j e_j) have the covariances p_i - p_i^2 and -p_i p_j, those of
         one row of a multinomial law.
    """
    roots = np.sqrt(parts)
    normals = spread_normals(len(parts))
    sampled: Floats = roots * (normals - (normals @ roots)[:, None] * roots) * np.sqrt(size)
    return sampled


def sample_parts(found: Floats, rows: Floats) -> Floats:
    """Return for each part found in so many rows one that could have led to it, within [0, 1].

    ``found`` has POINTS lines, or fewer, and may lie beyond [0, 1] where noise took it there.

    Why: under a part p, ``found`` is p + g sqrt(p (1 - p) / rows) with a standard normal g. The p
         that solves this for a given g is a root of (found - p)^2 = g^2 p (1 - p) / rows, below
         what was found for g > 0 and above for g < 0; as g is symmetric, the root above is
         given to g > 0. Quantiles of roots over g are then the ends of Wilson's interval, in which
         the variance is that of p: a value of which no row was found may still have a few. Where
         noise left no root, the middle between the two, cut to [0, 1], stands in.
    """
    normals = spread_normals(found.shape[-1])[: len(found)]
    spread = normals**2 / rows
    reach = np.sqrt(np.maximum(spread**2 + 4.0 * spread * found * (1.0 - found), 0.0))
    roots = (2.0 * found + spread + np.sign(normals) * reach) / (2.0 * (1.0 + spread))
    return np.asarray(np.clip(roots, 0.0, 1.0))


def thin(noise: Floats) -> Floats:
    """Return every so many points of the noise: POINTS of them, or all if there are fewer."""
    return noise[:: max(1, len(noise) // POINTS)][:POINTS]


def root_of(covariance: Floats) -> Floats:
    """Return a matrix whose square is the covariance, with what is below zero taken as zero."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2.0)
    root: Floats = vectors * np.sqrt(np.maximum(values, 0.0))
    return root
