"""A fixed sample of the noise of a plan, from which error bars are read.

It shows how the noise law behaves; it is not the noise of any answer, so it may be the same for
all of them. Evenly spread points (multiples of irrational numbers, modulo 1) give quantiles far
more exactly than as many random ones.
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

__all__ = ["noise_sample", "read_confidence", "sample_levels", "sample_noise"]

Floats = NDArray[np.float64]
MOST_LIKELY: Final = 0.999
"""Beyond it so few points are left that their quantiles fall short of those of the law."""


@refusing
def read_confidence(confidence: Number) -> float:
    """Return how often an interval shall hold, if the points can tell.

    Raises:
        UnsupportedQuery: it is closer to 1 than they reach.
    """
    level = float(probability("confidence", confidence, zero=False))
    if level > MOST_LIKELY:
        raise UnsupportedQuery(
            f"intervals are computed up to a confidence of {MOST_LIKELY}, not {confidence}; ask "
            f"for {MOST_LIKELY} or less"
        )
    return level


def noise_sample(plan: Plan) -> Floats:
    """Return noise of one group in the totals' own units: a row a point, a column a total."""
    return sample_noise(plan.noise)


@lru_cache(maxsize=4)
def sample_noise(noise: TotalNoise) -> Floats:
    """Return evenly spread noise: a row a point, a column a total.

    The array is cached, because each statistic of an answer asks for it, and so it is read-only.
    """
    sizes = np.array([float(step) for step in noise.steps])
    drawn = noise.law.sample(spread_points(noise.law.uniforms))
    scaled: Floats = drawn * sizes
    scaled.flags.writeable = False
    return scaled


def sample_levels(plan: Plan) -> Floats:
    """Return levels in (0, 1) for each quantile, beside the points of `noise_sample`."""
    used = plan.noise.law.uniforms
    return spread_points(used + len(plan.quantiles))[:, used:]
