"""Shrinkage of noisy histograms, which `density` uses to reduce their noise."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from confide.lazy import lazy_module
from confide.statistics.estimate import Floats

if TYPE_CHECKING:
    from scipy import fft, linalg
else:
    fft = lazy_module("scipy.fft")
    linalg = lazy_module("scipy.linalg")

__all__ = ["find_polynomials", "smooth_counts"]

POWER_WEIGHTS: Final = {4.0: 0.05, 8.0: 1.0, 16.0: 0.05}
"""Prior weight of each power s in `smooth_counts`; the flat prior has weight 1."""
POLYNOMIAL_WEIGHT: Final = 2.0
"""Prior weight of polynomials relative to cosines."""
MIN_LOG_WEIGHT: Final = -30.0
MIN_NOISE_VARIANCE: Final = 1e-12
"""Variances up to this value, a standard deviation of a millionth of a row, count as no noise."""
MAX_POLYNOMIALS: Final = 1_024
"""Maximum number of bins for which polynomials are used; their table would be too large for more.
"""


@dataclass(frozen=True, slots=True)
class Expansion:
    """The coefficients of centered counts in an orthonormal basis without the constant.

    ``numbers`` are the coefficients, by increasing degree. ``back`` maps them to centered counts,
    and ``prior`` is the prior weight of the basis.
    """

    numbers: Floats
    back: Callable[[Floats], Floats]
    prior: float


def smooth_counts(counts: Floats, variance: float) -> Floats:
    """Return counts by bin with less noise, by shrinking coefficients that are mostly noise.

    ``variance`` is the variance of the noise added to each count.

    Law:     the counts minus their mean are sums of cosines, or of orthogonal polynomials, of
             increasing degree k. A prior selects one of these bases, and a normal distribution with
             variance h / (1 + (k / c)^s) for coefficient k of the population. There are many h, c
             and s; s = 8 and polynomials have the largest prior weights. Under one prior, each
             coefficient is multiplied by its fraction of signal variance. The results are averaged
             over all priors, with weights proportional to the prior weight times the likelihood of
             the noisy counts. Noise is normal. Its variance is the sum of two terms: the variance
             of the added noise, and the variance from sampling, which is the mean count, but at
             most as large as the first term.
    Claim:   costs nothing, preserves the sum of the counts, and converges to the counts as the
             noise decreases to zero. For a population drawn from a prior, itself drawn by the prior
             weights, no function of the noisy counts has a smaller expected squared error. This
             holds if noise and sampling are normal with that variance in every coefficient, and the
             sum is taken as exact.
    Why:     it is a function of released numbers. Every basis function but the constant sums to 0.
             Both bases are orthonormal, so they preserve distances, and independent noise of equal
             variance stays so. Laplace noise becomes nearly normal, because each coefficient sums
             over all bins. The posterior mean minimizes the expected squared error. Under one
             prior, it is the signal's fraction of each coefficient; under several, it is the mean
             of theirs, weighted by posterior probability. If a coefficient is far larger than its
             prior variance and the noise suggest, that prior is unlikely compared with a flat one,
             so such a coefficient is hardly shrunk. Cosines are flat at both ends, so a density
             with a slope there needs many of them, but few polynomials.
    Source:  [LS72] for one prior, [LB06] for weights; docs/proofs/statistics.md.
    Checked: tests/statistics/test_smoothing.py.
    """
    if len(counts) == 1 or variance <= MIN_NOISE_VARIANCE:
        return counts
    mean = float(counts.mean())
    level = variance + min(variance, max(mean, 0.0))
    expansions = _expand(counts - mean)
    largest = max(float((one.numbers**2).max()) for one in expansions) / level
    averaged = [_average_priors(one.numbers**2 / level, largest) for one in expansions]
    highest = max(log_likelihood for log_likelihood, _ in averaged)
    weights = [
        one.prior * math.exp(log_likelihood - highest)
        for one, (log_likelihood, _) in zip(expansions, averaged, strict=True)
    ]
    parts = zip(weights, expansions, averaged, strict=True)
    smoothed = sum(weight * one.back(one.numbers * signal) for weight, one, (_, signal) in parts)
    return np.asarray(mean + smoothed / sum(weights))


def _expand(centered: Floats) -> list[Expansion]:
    """Return the expansion in cosines and, for few enough bins, also that in polynomials."""
    cosines = Expansion(fft.dct(centered, norm="ortho")[1:], _add_cosines, 1.0)
    if len(centered) > MAX_POLYNOMIALS:
        return [cosines]
    table = find_polynomials(len(centered))[:, 1:]
    return [cosines, Expansion(table.T @ centered, table.__matmul__, POLYNOMIAL_WEIGHT)]


def _add_cosines(numbers: Floats) -> Floats:
    added: Floats = fft.idct(np.concatenate([[0.0], numbers]), norm="ortho")
    return added


@lru_cache(maxsize=4)
def find_polynomials(count: int) -> Floats:
    """Return the values of orthonormal polynomials at 0, ..., count - 1, one column per degree.

    Why: let w_x = x (count - x). The symmetric map from p to
         w_x (p(x) - p(x - 1)) - w_(x + 1) (p(x + 1) - p(x)) needs no values outside, because w is 0
         at both ends, and it maps x^d to d (d + 1) x^d plus lower powers. So its eigenvectors, by
         increasing eigenvalue, are polynomials of increasing degree, and they are orthogonal
         because the map is symmetric.
    """
    positions = np.arange(1.0, count)
    weights = positions * (count - positions)
    diagonal = np.concatenate([weights, [0.0]]) + np.concatenate([[0.0], weights])
    found: Floats = linalg.eigh_tridiagonal(diagonal, -weights)[1]
    return found


def _average_priors(squares: Floats, largest: float) -> tuple[float, Floats]:
    """Return the log-likelihood over all priors, and the signal fraction of each coefficient.

    The signal fraction is averaged over the posterior weights. ``squares`` are the squared
    coefficients, and ``largest`` is the largest square of any basis, both in multiples of the noise
    variance. The prior variances h in `smooth_counts` are powers of 4, from 1/4 to at least 16, and
    to a few times ``largest``.
    """
    shapes, log_priors = _shapes(len(squares))
    top_power = max(2, math.ceil(math.log(max(largest, 1.0), 4.0)) + 1)
    heights = [4.0**power for power in range(-1, top_power + 1)]
    posterior = np.array(
        [_likelihoods(squares, height * shapes) + log_priors for height in heights]
    )
    highest = float(posterior.max())
    weights = np.where(posterior - highest > MIN_LOG_WEIGHT, np.exp(posterior - highest), 0.0)
    total = float(weights.sum())
    signal = np.zeros(len(squares))
    for height, weight in zip(heights, weights / total, strict=True):
        used = weight > 0.0
        ratios = height * shapes[used]
        signal += weight[used] @ (ratios / (1.0 + ratios))
    return highest + math.log(total), signal


def _likelihoods(squares: Floats, ratios: Floats) -> Floats:
    """Return the log-likelihood of the coefficients under each prior, up to a constant.

    ``ratios`` has one row per prior, with the ratio of prior to noise variance per coefficient.
    """
    total = 1.0 + ratios
    return np.asarray(-0.5 * (np.log(total) + squares / total).sum(axis=-1))


@lru_cache(maxsize=8)
def _shapes(count: int) -> tuple[Floats, Floats]:
    """Return the relative variances of the coefficients, one row per prior, and log prior weights.

    A row is 1 / (1 + (k / c)^s) for one pair of c and s. The last row is the flat prior, with 1s.
    """
    degrees = np.arange(1.0, count + 1.0)
    corners = 2.0 ** np.arange(-1.0, math.log2(count + 1.0) + 0.5, 0.5)
    powers = np.array(list(POWER_WEIGHTS))[:, None, None]
    decreasing = 1.0 / (1.0 + (degrees / corners[:, None]) ** powers)
    priors = np.repeat(list(POWER_WEIGHTS.values()), len(corners))
    shapes = np.concatenate([decreasing.reshape(-1, count), np.ones((1, count))])
    return shapes, np.log(np.append(priors, 1.0))
