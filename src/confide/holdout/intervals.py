"""Confidence intervals for the mean of one fixed query.

The level of an interval is given in *nats*: ln(1 / a) for an interval that misses with probability
at most a on each side. So a can be smaller than the smallest float.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from confide.holdout.values import MEAN_ERROR

__all__ = [
    "COMPARISON_SLACK",
    "Bracket",
    "bernoulli_divergence",
    "hoeffding_width",
    "lower_end",
    "upper_end",
]

BISECTION_STEPS: Final = 60
SLACK: Final = 1e-12
ROUNDING_ERROR: Final = 2 * float(MEAN_ERROR)
"""The error of a computed mean, plus the same amount for the arithmetic of bounds."""

COMPARISON_SLACK: Final = 1e-12
"""The tolerance of comparisons between bounds; ROUNDING_ERROR covers it too."""
MAX_EXACT_ROWS: Final = 10**7
MAX_TAIL_TERMS: Final = 200
LOG_GAMMA_SLACK: Final = 1e-6


def hoeffding_width(rows: int, nats: float) -> float:
    """Return the half-width of an interval for a mean of independent values in [0, 1].

    Law:     P(mean - truth >= w) <= exp(-2 rows w^2), and the same for truth - mean.
    Claim:   each side misses with probability at most exp(-nats), even though `mean_of` computes
             the mean with an error.
    Why:     2 rows w^2 = nats, and ROUNDING_ERROR is added, which is larger than that error.
    Source:  [Hoe63] Theorem 2.
    Checked: tests/holdout/test_intervals.py.
    """
    return math.sqrt(max(nats, 0.0) / (2 * rows)) * (1 + SLACK) + ROUNDING_ERROR


def bernoulli_divergence(q: float, p: float) -> float:
    """Return the Kullback-Leibler divergence of Bernoulli(q) from Bernoulli(p)."""
    if not 0 < p < 1:
        return 0.0 if p == q else math.inf
    first = q * math.log(q / p) if q > 0 else 0.0
    second = (1 - q) * math.log((1 - q) / (1 - p)) if q < 1 else 0.0
    return first + second


def upper_end(mean: float, rows: int, nats: float, *, is_binary: bool = False) -> float:
    """Return an upper limit that the true mean exceeds with probability at most exp(-nats).

    Law:     P(mean <= q) <= exp(-rows kl(q, p)) for q <= p, with kl the Bernoulli divergence. For
             values 0 and 1, P(mean <= q) is exactly the binomial probability.
    Claim:   the result is the largest p, rounded up, for which this bound on the probability of a
             mean of at most ``mean`` is at least exp(-nats).
    Why:     p is excluded only if a mean of at most the observed one has probability below
             exp(-nats) under p. So if the true p is excluded, an event of probability at most
             exp(-nats) has happened. The interval is never wider than Hoeffding's, because
             kl(q, p) >= 2 (q - p)^2. For values 0 and 1, the interval of Clopper and Pearson is
             used if it is shorter; its probabilities are the binomial ones.
    Source:  [Hoe63] Theorem 1, [CP34].
    Checked: tests/holdout/test_intervals.py.

    >>> round(upper_end(0.95, 1000, 18.4), 3) < round(0.95 + hoeffding_width(1000, 18.4), 3)
    True
    """
    if mean >= 1:
        return 1.0
    if nats <= 0:
        return max(mean, 0.0)
    chernoff = _largest_number(
        lambda p: rows * bernoulli_divergence(mean, p) <= nats, max(mean, 0.0)
    )
    if not is_binary or rows > MAX_EXACT_ROWS:
        return chernoff
    successes = math.ceil(mean * rows - 1e-6) if mean > 0 else 0
    return min(chernoff, _clopper_pearson(successes, rows, nats, chernoff))


def lower_end(mean: float, rows: int, nats: float, *, is_binary: bool = False) -> float:
    """Return a lower limit: the true mean is below it with probability at most exp(-nats)."""
    return 1 - upper_end(1 - mean, rows, nats, is_binary=is_binary)


@dataclass(frozen=True, slots=True)
class Bracket:
    """Bounds, from an outcome, for the exact mean over the rows; and the interval's level.

    Claim: [lower_end(low), upper_end(high)] contains the true mean whenever the interval around the
           exact mean over the rows does.
    Why:   the exact mean over the rows lies in [low, high], and both ends increase with it. The
           interval is a function of the outcome alone, so it reveals no more about the rows than
           the outcome does.
    """

    low: float
    high: float
    rows: int
    nats: float
    is_binary: bool = False

    def interval(self) -> tuple[float, float]:
        """Return both ends, clipped to [0, 1]."""
        low, high = max(self.low, 0.0), min(self.high, 1.0)
        ends = (
            lower_end(low, self.rows, self.nats, is_binary=self.is_binary),
            upper_end(high, self.rows, self.nats, is_binary=self.is_binary),
        )
        return max(ends[0], 0.0), min(ends[1], 1.0)


def _largest_number(holds: Callable[[float], bool], start: float) -> float:
    """Return about the largest number in [start, 1] that satisfies ``holds``, rounded up."""
    low, high = start, 1.0
    for _ in range(BISECTION_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return min(1.0, high + SLACK)


def _clopper_pearson(successes: int, rows: int, nats: float, limit: float) -> float:
    """Return the upper end of the Clopper-Pearson interval, by bisection below ``limit``."""
    low, high = successes / rows, limit
    for _ in range(BISECTION_STEPS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        is_excluded = _log_tail(successes, rows, middle) < -nats
        low, high = (low, middle) if is_excluded else (middle, high)
    return high


def _log_tail(successes: int, rows: int, p: float) -> float:
    """Return an upper bound of ln P(Binomial(rows, p) <= successes), for p above the mean.

    Why: P(X = k - 1) / P(X = k) decreases as k decreases, so after some terms the rest is at most
         a geometric sum. LOG_GAMMA_SLACK exceeds the error of the three log-gammas for up to
         MAX_EXACT_ROWS rows.
    """
    k, odds = successes, (1 - p) / p
    term, total, ratio = 1.0, 1.0, k * odds / (rows - k + 1)
    for _ in range(MAX_TAIL_TERMS):
        term *= ratio
        total += term
        k -= 1
        ratio = max(k, 0) * odds / (rows - k + 1)
        if term < 1e-9 * total:
            break
    rest = term * ratio / (1 - ratio) if ratio < 1 else math.inf
    first = math.lgamma(rows + 1) - math.lgamma(successes + 1) - math.lgamma(rows - successes + 1)
    first += successes * math.log(p) + (rows - successes) * math.log1p(-p)
    return first + math.log(total + rest) + LOG_GAMMA_SLACK
