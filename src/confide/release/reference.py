"""A fixed sample of the noise, evenly spread, from which error bars are read.

It shows how the noise law behaves; it is not the noise of any answer, so it may be the same for
all of them. Evenly spread points (multiples of irrational numbers, modulo 1) give quantiles far
more exactly than as many random ones.
"""

import math
from functools import lru_cache
from itertools import count, islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from confide.errors import UnsupportedQuery, refusing
from confide.exact import Number, probability
from confide.noise import BoxNoise, DiscreteLaplace, Entropy, Integers, RoundedGaussian
from confide.plan import Plan
from confide.plan.calibration import TotalNoise

__all__ = ["list_primes", "noise_sample", "read_confidence", "sample_levels", "sample_noise"]

Floats = NDArray[np.float64]
POINTS: Final = 2**14
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
    law = noise.law
    if not len(sizes):
        return np.empty((POINTS, 0))
    match law:
        case DiscreteLaplace():
            drawn = _signed(law, _points(1)[:, 0])[:, None]
        case BoxNoise(half_widths=widths):
            spread = _points(2 * len(widths) + 1)
            radius = -np.log(spread[:, : len(widths) + 1]).sum(axis=1, keepdims=True)
            places = 2.0 * spread[:, len(widths) + 1 :] - 1.0
            drawn = np.rint(radius * places * np.array([float(width) for width in widths]))
        case laws:
            spread = _points(len(laws))
            drawn = np.stack([_signed(one, spread[:, i]) for i, one in enumerate(laws)], axis=1)
    scaled: Floats = drawn * sizes
    scaled.flags.writeable = False
    return scaled


def sample_levels(plan: Plan) -> Floats:
    """Return levels in (0, 1) for each quantile, beside the points of `noise_sample`."""
    law = plan.noise.law
    used = 2 * len(plan.totals) + 1 if isinstance(law, BoxNoise) else len(plan.totals)
    return _points(used + len(plan.quantiles))[:, used:]


def _signed(law: DiscreteLaplace | RoundedGaussian, uniform: Floats) -> Floats:
    """Return the integer at each level of a symmetric law's distribution function."""
    folded = 1.0 - np.abs(2.0 * uniform - 1.0)
    magnitude: Floats = np.floor(law.scale * law.magnitude(folded) + law.shift)
    return np.where(uniform < 0.5, -magnitude, magnitude)


@lru_cache(maxsize=8)
def _points(dimensions: int) -> Floats:
    """Return evenly spread points of the open unit cube."""
    roots = np.sqrt(np.array(list_primes(dimensions), dtype=np.float64))
    steps = np.arange(1, POINTS + 1, dtype=np.float64)[:, None] * roots
    return np.clip(steps % 1.0, 2.0**-40, 1.0 - 2.0**-40)


def list_primes(number: int) -> list[int]:
    """Return so many primes, the least first: no two of their roots are fractions of each other."""
    return list(islice(filter(_is_prime, count(2)), number))


def _is_prime(number: int) -> bool:
    return all(number % divisor for divisor in range(2, math.isqrt(number) + 1))


def draw_noise(noise: TotalNoise, count: int, entropy: Entropy) -> Integers:
    """Return independent noise for ``count`` groups, one row each."""
    if not noise.steps:
        return np.empty((count, 0), dtype=np.int64)
    match noise.law:
        case DiscreteLaplace() as law:
            return law.draw(count, entropy).reshape(count, 1)
        case BoxNoise() as law:
            return law.draw(count, entropy)
        case laws:
            return np.stack([law.draw(count, entropy) for law in laws], axis=1)
