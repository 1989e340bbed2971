"""A noisy histogram with less noise: waves that stand out of it are kept, the others shrunk."""

import math
from functools import lru_cache
from typing import Final

import numpy as np
from scipy import fft

from confide.statistics.reading import Floats

__all__ = ["smooth_counts"]

SMOOTHNESS: Final = (2.0, 4.0, 8.0)
UNLIKELY: Final = -30.0
LEAST: Final = 1e-12
"""Noise of a millionth of a row is no noise."""


def smooth_counts(counts: Floats, variance: float) -> Floats:
    """Return counts by bin of which waves that are mostly noise are made smaller.

    Law:     the cosine transform of the counts, with every number but the first multiplied by the
             mean, over priors, of what is signal in it. A prior takes wave k of the population for
             normal with variance h / (1 + (k / c)^s); there are many h, c and s, and each counts
             as much as it makes the noisy counts likely. Noise is normal with the noise's variance
             and that of sampling, the mean count, but with no more of the second than of the first.
    Claim:   costs nothing, keeps the sum of all counts, and leaves them as they are as noise goes
             to nothing. On average over populations drawn by a prior chosen at random, no function
             of the noisy counts is nearer to the population's, if noise and sampling are normal
             with that variance in every wave.
    Why:     a function of released numbers. The first number of the transform is the sum. The
             transform is orthogonal, so it keeps distances, and independent noise of one variance
             stays so; Laplace noise comes near to normal noise, as each number adds up all bins.
             The mean given what is known is the nearest on average; under one prior it is the
             signal's part of each wave, and under several the mean of theirs, weighted by how
             likely each is given the counts. A prior under which a wave stands far above both its
             variance and the noise is unlikely beside a flat one, so no such wave is shrunk much.
    Source:  [LS72] for one prior, [LB06] for weights; docs/proofs/statistics.md.
    Checked: tests/statistics/test_smoothing.py.
    """
    if len(counts) == 1 or variance <= LEAST:
        return counts
    waves = fft.dct(counts, norm="ortho")
    sampling = min(variance, max(float(counts.mean()), 0.0))
    waves[1:] *= _signal(waves[1:] ** 2 / (variance + sampling))
    smoothed: Floats = fft.idct(waves, norm="ortho")
    return smoothed


def _signal(squares: Floats) -> Floats:
    """Return how much of each wave is signal, from squares in multiples of their noise."""
    shapes = _shapes(len(squares))
    most = max(2, math.ceil(math.log(max(float(squares.max()), 1.0), 4.0)) + 1)
    heights = [4.0**power for power in range(-1, most + 1)]
    likely = np.array([_likelihoods(squares, height * shapes) for height in heights])
    likely -= likely.max()
    weights = np.where(likely > UNLIKELY, np.exp(likely), 0.0)
    signal = np.zeros(len(squares))
    for height, weight in zip(heights, weights / weights.sum(), strict=True):
        used = weight > 0.0
        ratios = height * shapes[used]
        signal += weight[used] @ (ratios / (1.0 + ratios))
    return signal


def _likelihoods(squares: Floats, ratios: Floats) -> Floats:
    """Return the logarithm of how likely the waves are under each prior, up to a constant."""
    total = 1.0 + ratios
    return np.asarray(-0.5 * (np.log(total) + squares / total).sum(axis=-1))


@lru_cache(maxsize=8)
def _shapes(count: int) -> Floats:
    """Return how variances of so many waves fall off, a row for each prior; the last is flat."""
    places = np.arange(1.0, count + 1.0)
    corners = 2.0 ** np.arange(-1.0, math.log2(count + 1.0) + 0.5, 0.5)
    powers = np.array(SMOOTHNESS)[:, None, None]
    falling = 1.0 / (1.0 + (places / corners[:, None]) ** powers)
    return np.concatenate([falling.reshape(-1, count), np.ones((1, count))])
