"""Shrinks noisy histograms."""

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

SMOOTHNESS: Final = {4.0: 0.05, 8.0: 1.0, 16.0: 0.05}
"""How likely each power is before the counts are seen; a flat prior is as likely as one of 1."""
POLYNOMIALS: Final = 2.0
"""How many times as likely as cosines polynomials are before the counts are seen."""
UNLIKELY: Final = -30.0
LEAST: Final = 1e-12
"""Noise of a millionth of a row is no noise."""
MOST_POLYNOMIALS: Final = 1_024
"""With more bins their table would be large; then there are cosines alone."""


@dataclass(frozen=True, slots=True)
class Waves:
    """The counts in an orthonormal basis, without the constant, and the way back.

    ``chance`` is how likely the basis is, beside the other, before the counts are seen.
    """

    numbers: Floats
    back: Callable[[Floats], Floats]
    chance: float


def smooth_counts(counts: Floats, variance: float) -> Floats:
    """Return counts by bin of which waves that are mostly noise are made smaller.

    Law:     the counts about their mean as sums of cosines, or of orthogonal polynomials, of rising
             degree k. A prior takes one of these two, and wave k of the population for normal with
             variance h / (1 + (k / c)^s); there are many h, c and s, with s = 8 and polynomials the
             likeliest. Under a prior each wave is multiplied by what is signal in it; the results
             of all priors are averaged, each counting as much as it makes the noisy counts likely,
             times how likely it is itself. Noise is normal with the noise's variance and that of
             sampling, the mean count, but with no more of the second than of the first.
    Claim:   costs nothing, keeps the sum of all counts, and leaves them as they are as noise goes
             to nothing. On average over populations drawn by a prior that is drawn by these
             chances, no function of the noisy counts is nearer to the population's, if noise and
             sampling are normal with that variance in every wave and the sum is taken as it is.
    Why:     a function of released numbers. Every wave but the constant adds up to 0. Both
             bases are orthonormal, so they keep distances, and independent noise of one variance
             stays so; Laplace noise comes near to normal noise, as each wave adds up all bins.
             The mean given what is known is the nearest on average; under one prior it is the
             signal's part of each wave, and under several the mean of theirs, weighted by how
             likely each is given the counts. A prior under which a wave stands far above both its
             variance and the noise is unlikely beside a flat one, so no such wave is shrunk much.
             Cosines are level at both ends, and a density with a slope there takes many of them,
             but few polynomials.
    Source:  [LS72] for one prior, [LB06] for weights; docs/proofs/statistics.md.
    Checked: tests/statistics/test_smoothing.py.
    """
    if len(counts) == 1 or variance <= LEAST:
        return counts
    mean = float(counts.mean())
    level = variance + min(variance, max(mean, 0.0))
    views = _analyse(counts - mean)
    largest = max(float((view.numbers**2).max()) for view in views) / level
    weighed = [_weigh(view.numbers**2 / level, largest) for view in views]
    highest = max(likely for likely, _ in weighed)
    weights = [
        view.chance * math.exp(likely - highest)
        for view, (likely, _) in zip(views, weighed, strict=True)
    ]
    parts = zip(weights, views, weighed, strict=True)
    moved = sum(weight * view.back(view.numbers * signal) for weight, view, (_, signal) in parts)
    return np.asarray(mean + moved / sum(weights))


def _analyse(centred: Floats) -> list[Waves]:
    """Return numbers that add up to 0 as cosines and, unless there are too many, polynomials."""
    cosines = Waves(fft.dct(centred, norm="ortho")[1:], _add_cosines, 1.0)
    if len(centred) > MOST_POLYNOMIALS:
        return [cosines]
    table = find_polynomials(len(centred))[:, 1:]
    return [cosines, Waves(table.T @ centred, table.__matmul__, POLYNOMIALS)]


def _add_cosines(numbers: Floats) -> Floats:
    added: Floats = fft.idct(np.concatenate([[0.0], numbers]), norm="ortho")
    return added


@lru_cache(maxsize=4)
def find_polynomials(count: int) -> Floats:
    """Return values at 0, ..., count - 1 of orthonormal polynomials, a column for each degree.

    Why: with w_x = x (count - x), the symmetric map that takes p to
         w_x (p(x) - p(x - 1)) - w_(x + 1) (p(x + 1) - p(x)) needs no values outside, as w is 0 at
         both ends, and takes x^d to d (d + 1) x^d and lower powers. So its eigenvectors, by rising
         eigenvalue, are polynomials of rising degree, and orthogonal since it is symmetric.
    """
    places = np.arange(1.0, count)
    weights = places * (count - places)
    diagonal = np.concatenate([weights, [0.0]]) + np.concatenate([[0.0], weights])
    found: Floats = linalg.eigh_tridiagonal(diagonal, -weights)[1]
    return found


def _weigh(squares: Floats, largest: float) -> tuple[float, Floats]:
    """Return how likely waves are over all priors, as a logarithm, and how much of each is signal.

    ``squares`` and ``largest`` are in multiples of the noise.
    """
    shapes, chances = _shapes(len(squares))
    most = max(2, math.ceil(math.log(max(largest, 1.0), 4.0)) + 1)
    heights = [4.0**power for power in range(-1, most + 1)]
    likely = np.array([_likelihoods(squares, height * shapes) + chances for height in heights])
    highest = float(likely.max())
    weights = np.where(likely - highest > UNLIKELY, np.exp(likely - highest), 0.0)
    total = float(weights.sum())
    signal = np.zeros(len(squares))
    for height, weight in zip(heights, weights / total, strict=True):
        used = weight > 0.0
        ratios = height * shapes[used]
        signal += weight[used] @ (ratios / (1.0 + ratios))
    return highest + math.log(total), signal


def _likelihoods(squares: Floats, ratios: Floats) -> Floats:
    """Return the logarithm of how likely the waves are under each prior, up to a constant."""
    total = 1.0 + ratios
    return np.asarray(-0.5 * (np.log(total) + squares / total).sum(axis=-1))


@lru_cache(maxsize=8)
def _shapes(count: int) -> tuple[Floats, Floats]:
    """Return how variances of so many waves fall off, a row for each prior; the last is flat.

    Beside them, the logarithm of how likely each prior is.
    """
    places = np.arange(1.0, count + 1.0)
    corners = 2.0 ** np.arange(-1.0, math.log2(count + 1.0) + 0.5, 0.5)
    powers = np.array(list(SMOOTHNESS))[:, None, None]
    falling = 1.0 / (1.0 + (places / corners[:, None]) ** powers)
    chances = np.repeat(list(SMOOTHNESS.values()), len(corners))
    shapes = np.concatenate([falling.reshape(-1, count), np.ones((1, count))])
    return shapes, np.log(np.append(chances, 1.0))
