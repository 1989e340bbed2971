"""How well two neighbouring databases can be told apart, from their laws or from samples.

Where both output laws are known in full, `hockey_stick` and `largest_ratio` compute what they give
away. Where there are only samples, `audit` bounds it from below: one half of them proposes an
event, the other half measures it. A right mechanism is accused with probability at most ALPHA.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import special

from support.laws import ALPHA

__all__ = ["audit", "convict", "hockey_stick", "largest_ratio"]

Outputs = NDArray[Any]
"""One output a row; a row is a number or a vector."""

Pair = tuple[Any, Any]
"""Counts for the left and for the right database: numbers or arrays."""

Y = TypeVar("Y")

FIRST_TRY: Final = 2**9
TRIES: Final = 14


def hockey_stick(first: Mapping[Y, float], second: Mapping[Y, float], epsilon: float) -> float:
    """Return the sum of what ``first`` has beyond exp(epsilon) times ``second``: exact delta.

    Both laws are complete, or lack only what is too rare to matter.
    """
    factor = math.exp(epsilon)
    return math.fsum(max(0.0, p - factor * second.get(y, 0.0)) for y, p in first.items())


def largest_ratio(first: Mapping[Y, float], second: Mapping[Y, float]) -> float:
    """Return the largest log-ratio of the two laws, in either order: exact epsilon."""
    return max(
        abs(math.log(first[y] / second[y])) if first.get(y) and second.get(y) else math.inf
        for y in {*first, *second}
        if first.get(y) or second.get(y)
    )


def audit(
    left: Outputs, right: Outputs, *, delta: float = 0.0, false_alarms: float = ALPHA
) -> float:
    """Return an epsilon that the two laws surely exceed at ``delta``; 0 if nothing is sure.

    If the laws are (epsilon, delta)-indistinguishable, the answer is above epsilon with
    probability at most ``false_alarms``, whatever event is tried.

    Why: the event is chosen on the first half of the samples, so the counts in the second half
    are binomial. Each of the two orders takes half of ``false_alarms``, each of its two
    Clopper-Pearson bounds a quarter; when both bounds hold, P(S) - delta over Q(S) is at least
    the ratio of the lower to the upper.
    """
    labels = np.unique(np.concatenate([left, right]), axis=0, return_inverse=True)[1].reshape(-1)
    kinds = int(labels.max()) + 1
    tried, measured = zip(
        *(
            [np.bincount(half, minlength=kinds) for half in np.array_split(side, 2)]
            for side in (labels[: len(left)], labels[len(left) :])
        ),
        strict=True,
    )
    ratio = partial(_log_ratio, delta=delta, level=false_alarms / 4)
    forth = _measure(tried, measured, ratio)
    back = _measure(tried[::-1], measured[::-1], ratio)
    return max(0.0, forth, back)


def _measure(tried: Pair, measured: Pair, ratio: Callable[[Pair, Pair], Outputs]) -> float:
    """Choose the event that looks best in one half, and bound its log-ratio in the other."""
    # The 3 keeps rare outcomes, whose ratios are mostly luck, from opening the event.
    order = np.argsort(-(tried[0] + 3) / (tried[1] + 3), kind="stable")
    grown = np.cumsum(tried[0][order]), np.cumsum(tried[1][order])
    last = int(np.argmax(ratio(grown, (tried[0].sum(), tried[1].sum()))))
    event = order[: last + 1]
    hits = measured[0][event].sum(), measured[1][event].sum()
    return float(ratio(hits, (measured[0].sum(), measured[1].sum())))


def _log_ratio(hits: Pair, trials: Pair, *, delta: float, level: float) -> Outputs:
    """Return ln((p - delta) / q) for the Clopper-Pearson bounds p from below and q from above."""
    seen, misses = hits[0], trials[0] - hits[0]
    low = np.where(seen > 0, special.betaincinv(np.maximum(seen, 1), misses + 1, level), 0.0)
    seen, misses = hits[1], trials[1] - hits[1]
    high = special.betaincinv(seen + 1, np.maximum(misses, 1), 1 - level)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.maximum(low - delta, 0.0) / np.where(misses > 0, high, 1.0)))


def convict(
    sample: Callable[[int], tuple[Outputs, Outputs]], *, epsilon: float, delta: float = 0.0
) -> int:
    """Return how many samples of each side prove the claim wrong, doubling them until they do.

    A right claim is convicted with probability at most ALPHA over all tries; 0 means acquitted.
    """
    for attempt in range(TRIES):
        size = FIRST_TRY << attempt
        left, right = sample(size)
        if audit(left, right, delta=delta, false_alarms=ALPHA / TRIES) > epsilon:
            return size
    return 0
