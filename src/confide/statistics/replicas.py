"""Replicas of noisy sums, perturbed by sampling error and noise.

A statistic computes its estimate once from the released sums and once from each replica; the
quantiles of the results are its interval. The perturbations are evenly spread points, not random
numbers, so the same release always gives the same interval.
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
"""Enough points for interval widths accurate to 1%; a quarter of them would leave up to 5%."""


@lru_cache(maxsize=16)
def spread_normals(dimensions: int) -> Floats:
    """Return POINTS evenly spread points of the standard normal distribution, one per row.

    Why: multiples of irrational numbers, modulo 1, fill the unit cube evenly. Cube roots of primes
         are independent of the square roots whose multiples are the points of the noise.
    """
    roots = np.cbrt(np.array(list_primes(dimensions), dtype=np.float64))
    steps = np.arange(1, POINTS + 1, dtype=np.float64)[:, None] * roots
    normals: Floats = special.ndtri(np.clip(steps % 1.0, 2.0**-40, 1.0 - 2.0**-40))
    return normals


def move_sums(sums: Floats, noise: Floats, covariance: Floats) -> Floats:
    """Return POINTS replicas of a vector of sums, one per row.

    A replica adds a sampling error with this covariance and a point of the noise. ``noise`` has one
    point per row, at least POINTS of them, and is thinned.
    """
    return sums + spread_normals(len(sums)) @ root_of(covariance).T + thin(noise)


def sample_counts(parts: Floats, size: float) -> Floats:
    """Return POINTS normal approximations of how multinomial counts deviate from their means.

    ``parts`` are the probabilities of the values, and ``size`` is the number of rows. The result
    has one point per row and one value per column.

    Why: let e be independent standard normal numbers, and r the square roots of the probabilities
         p, so that the squares of r add up to 1. Then the numbers r_i (e_i - r_i sum r_j e_j) have
         the covariances p_i - p_i^2 and -p_i p_j, those of one row of a multinomial distribution.
         Counts add up ``size`` independent rows.
    """
    roots = np.sqrt(parts)
    normals = spread_normals(len(parts))
    sampled: Floats = roots * (normals - (normals @ roots)[:, None] * roots) * np.sqrt(size)
    return sampled


def sample_parts(found: Floats, rows: Floats) -> Floats:
    """Return, for each observed proportion, a true proportion that could have led to it.

    ``found`` has one replica per row, at most POINTS of them, and one value per column. ``rows`` is
    the number of rows that each replica observed. Because of noise, an observed proportion can lie
    outside [0, 1]; the results lie within [0, 1].

    Why: for a proportion p, ``found`` is p + g sqrt(p (1 - p) / rows) with a standard normal g. The
         p that solves this for a given g is a root of (found - p)^2 = g^2 p (1 - p) / rows: below
         ``found`` for g > 0, and above it for g < 0. As g is symmetric, we assign the upper root to
         g > 0. The quantiles of the roots over g are then the ends of Wilson's interval. Because
         that interval uses the variance of p, a value with no observed rows can still have a few.
         If noise leaves no real root, we use the midpoint of the two complex roots, clipped to
         [0, 1].
    """
    normals = spread_normals(found.shape[-1])[: len(found)]
    squares = normals**2 / rows
    discriminant = np.maximum(squares**2 + 4.0 * squares * found * (1.0 - found), 0.0)
    numerators = 2.0 * found + squares + np.sign(normals) * np.sqrt(discriminant)
    return np.asarray(np.clip(numerators / (2.0 * (1.0 + squares)), 0.0, 1.0))


def thin(noise: Floats) -> Floats:
    """Return POINTS evenly spaced points of the noise, or all if there are fewer."""
    return noise[:: max(1, len(noise) // POINTS)][:POINTS]


def root_of(covariance: Floats) -> Floats:
    """Return a square root of the covariance, with negative eigenvalues set to zero."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2.0)
    root: Floats = vectors * np.sqrt(np.maximum(values, 0.0))
    return root
