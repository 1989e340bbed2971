"""A fixed sample of the noise of a plan, from which intervals and predicted errors are computed.

The sample represents the noise distribution, not the noise of any answer, so all answers of a plan
share it. It is computed at evenly spread points (multiples of irrational numbers, modulo 1), which
give quantiles far more accurately than the same number of random points.
"""

from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from confide.errors import UnsupportedQuery, refusing
from confide.exact import Number, probability
from confide.noise.law import spread_points
from confide.plan import Plan
from confide.plan.calibration import TotalNoise

__all__ = ["MAX_CONFIDENCE", "noise_sample", "read_confidence", "sample_levels", "sample_noise"]

Floats = NDArray[np.float64]
MAX_CONFIDENCE: Final = 0.999
"""Beyond this level, too few points lie outside the interval to estimate its ends."""


@refusing
def read_confidence(confidence: Number) -> float:
    """Return the confidence level of an interval as a float.

    Raises:
        UnsupportedQuery: the level is too close to 1 for the number of points.
    """
    level = float(probability("confidence", confidence, zero=False))
    if level > MAX_CONFIDENCE:
        raise UnsupportedQuery(
            f"`confidence` must be at most {MAX_CONFIDENCE}, because intervals of higher levels "
            f"cannot be computed; got {confidence}."
        )
    return level


def noise_sample(plan: Plan) -> Floats:
    """Return noise of one group in units of 1: one row per point, one column per total."""
    return sample_noise(plan.noise)


@lru_cache(maxsize=4)
def sample_noise(noise: TotalNoise) -> Floats:
    """Return evenly spread noise: one row per point, one column per total.

    The array is cached, because each statistic of an answer needs it, and therefore read-only.
    """
    sizes = np.array([float(step) for step in noise.steps])
    drawn = noise.law.sample(spread_points(noise.law.uniforms))
    scaled: Floats = drawn * sizes
    scaled.flags.writeable = False
    return scaled


def sample_levels(plan: Plan) -> Floats:
    """Return a level in (0, 1) for each quantile: one row per point of `noise_sample`.

    A level is the probability with which the quantile's error is greater than at this point; see
    `spread_ends`.
    """
    used = plan.noise.law.uniforms
    return spread_points(used + len(plan.quantiles))[:, used:]
