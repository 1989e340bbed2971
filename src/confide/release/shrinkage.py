"""Empirical-Bayes shrinkage of small counts; free."""

import math
from typing import Final

import numpy as np

from confide.plan.calibration import TotalNoise
from confide.release.estimates import Floats

__all__ = ["shrink_counts"]

ROUNDS: Final = 50
REACH: Final = 12
LARGE: Final = 60
FINENESS: Final = 8
TINY: Final = 1e-300


def shrink_counts(noisy: Floats, noise: TotalNoise, place: int) -> Floats:
    """Return for each noisy count of a column its mean, given what all of them show.

    ``place`` is that of the count among the totals which share the noise.

    Law:     the counts without noise are taken for draws from one unknown law on the numbers from
             0 up, which is estimated by the likeliest, found by expectation and maximisation in 50
             rounds; then each count becomes its mean given its own noisy value. Counts above 60
             scales of the noise are left alone.
    Claim:   costs nothing, and no count is below zero. Where many counts are small it is nearer
             to the truth on average than the noisy counts and than these cut off at zero, and it
             is biased: sums of likely counts are not those of the released ones.
    Why:     a function of released numbers and of the noise law alone is post-processing. The mean
             given what is known has the least squared error on average over the law of the counts;
             that law is learnt from all groups together, so its error falls with their number.
    Source:  [Rob56] for empirical Bayes, [DR14] Proposition 2.1 for post-processing.
    Checked: tests/release/test_likely.py.
    """
    scale = noise.law.scale(place)  # in rows: a noise step of a count is one row
    means: Floats = np.maximum(noisy, 0.0)
    is_low = noisy <= LARGE * scale
    if not is_low.any():
        return means
    seen, places, times = np.unique(noisy[is_low], return_inverse=True, return_counts=True)
    step = max(1.0, math.floor(scale / FINENESS))
    true = np.arange(0.0, (LARGE + REACH) * scale + step, step)
    chances = noise.law.density(place, (seen[:, None] - true) / scale) + TINY
    law = np.full(len(true), 1.0 / len(true))
    for _ in range(ROUNDS):
        law = times @ _normalise(chances * law) / times.sum()
    means[is_low] = (_normalise(chances * law) @ true)[places]
    return means


def _normalise(table: Floats) -> Floats:
    rows: Floats = table / table.sum(axis=1, keepdims=True)
    return rows
