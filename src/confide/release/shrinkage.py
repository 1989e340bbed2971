"""Empirical-Bayes shrinkage of small counts, which costs nothing; see `Answer.likely_rows`."""

import math
from typing import Final

import numpy as np

from confide.plan.calibration import TotalNoise
from confide.release.estimates import Floats

__all__ = ["shrink_counts"]

ROUNDS: Final = 50
GRID_MARGIN_SCALES: Final = 12
MAX_SHRUNK_SCALES: Final = 60
GRID_STEPS_PER_SCALE: Final = 8
"""The number of steps of the grid of possible counts per scale of the noise.

Counts above MAX_SHRUNK_SCALES scales are not shrunk, and the grid ends GRID_MARGIN_SCALES above.
"""
MIN_DENSITY: Final = 1e-300


def shrink_counts(noisy: Floats, noise: TotalNoise, place: int) -> Floats:
    """Return the mean of each noise-free count of a column, given all noisy counts.

    ``place`` is the index of the count among the totals that share the noise.

    Law:     noisy counts above 60 scales of the noise are unchanged. For the others, the noise-free
             counts are modeled as draws from one unknown distribution on a grid of nonnegative
             numbers. It is estimated by maximum likelihood, with 50 rounds of expectation
             maximization. Then each count becomes its mean given its own noisy value.
    Claim:   costs nothing, and no count is below zero. If many counts are small, the result is more
             accurate on average than the noisy counts, even if these are clipped at zero. It is
             biased: sums of the results differ from sums of the released counts.
    Why:     a function of released numbers and of the noise distribution alone is post-processing.
             The conditional mean has the least expected squared error over the distribution of the
             counts. That distribution is estimated from all groups together, so its error
             decreases with their number.
    Source:  [Rob56] for empirical Bayes, [DR14] Proposition 2.1 for post-processing.
    Checked: tests/release/test_shrinkage.py.
    """
    scale = noise.law.scale(place)  # in rows: a noise step of a count is one row
    means: Floats = np.maximum(noisy, 0.0)
    is_low = noisy <= MAX_SHRUNK_SCALES * scale
    if not is_low.any():
        return means
    seen, indices, multiplicities = np.unique(
        noisy[is_low], return_inverse=True, return_counts=True
    )
    step = max(1.0, math.floor(scale / GRID_STEPS_PER_SCALE))
    counts = np.arange(0.0, (MAX_SHRUNK_SCALES + GRID_MARGIN_SCALES) * scale + step, step)
    likelihoods = noise.law.density(place, (seen[:, None] - counts) / scale) + MIN_DENSITY
    distribution = np.full(len(counts), 1.0 / len(counts))
    for _ in range(ROUNDS):
        distribution = (
            multiplicities @ _normalize(likelihoods * distribution) / multiplicities.sum()
        )
    means[is_low] = (_normalize(likelihoods * distribution) @ counts)[indices]
    return means


def _normalize(table: Floats) -> Floats:
    rows: Floats = table / table.sum(axis=1, keepdims=True)
    return rows
