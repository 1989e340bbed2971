"""Intervals for the mean of one fixed query.

A level is given in *nats*: ln(1 / a) for an interval that misses with probability at most a on
each side, so that levels below the smallest float are no trouble.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from confide.holdout.values import ERROR

__all__ = [
    "SPARE",
    "Bracket",
    "bernoulli_divergence",
    "hoeffding_width",
    "lower_end",
    "upper_end",
]

HALVINGS: Final = 60
SLACK: Final = 1e-12
ROUNDING: Final = 2 * float(ERROR)
"""What a computed mean may be off by, and as much again for the arithmetic of bounds."""

SPARE: Final = 1e-12
"""How far comparisons of bounds may be off: less than the second half of ROUNDING."""
EXACT_ROWS: Final = 10**7
TERMS: Final = 200
LOOSENESS: Final = 1e-6


def hoeffding_width(rows: int, nats: float) -> float:
    """Return the half-width of an interval for a mean of independent values in [0, 1].

    Law:     P(mean - truth >= w) <= exp(-2 rows w^2), and the same below.
    Claim:   each side misses with probability at most exp(-nats), also where the mean is not the
             true one but as `mean_of` computes it.
    Why:     2 rows w^2 = nats, and ROUNDING is added, more than that mean may be off.
    Source:  [Hoe63] Theorem 2.
    Checked: tests/holdout/test_intervals.py.
    """
    return math.sqrt(max(nats, 0.0) / (2 * rows)) * (1 + SLACK) + ROUNDING


def bernoulli_divergence(q: float, p: float) -> float:
    """Return the Kullback-Leibler divergence of a coin of chance q from one of chance p."""
    if not 0 < p < 1:
        return 0.0 if p == q else math.inf
    first = q * math.log(q / p) if q > 0 else 0.0
    second = (1 - q) * math.log((1 - q) / (1 - p)) if q < 1 else 0.0
    return first + second


def upper_end(mean: float, rows: int, nats: float, *, is_binary: bool = False) -> float:
    """Return a number that the true mean passes with probability at most exp(-nats).

    Law:     P(mean <= q) <= exp(-rows kl(q, p)) for q <= p, with kl the divergence of coins; for
             values 0 and 1, P(mean <= q) is that of a binomial count, exactly.
    Claim:   the largest p that does not make ``mean``, or less, rarer than exp(-nats); rounded up.
    Why:     if the true mean p lies above it, an event of probability at most exp(-nats) has
             happened: p is excluded only where the chance of a mean at most the one seen is below.
             Never wider than Hoeffding's, for kl(q, p) >= 2 (q - p)^2. The binomial interval is
             that of Clopper and Pearson, taken when it is the shorter of the two.
    Source:  [Hoe63] Theorem 1, [CP34].
    Checked: tests/holdout/test_intervals.py.

    >>> round(upper_end(0.95, 1000, 18.4), 3) < round(0.95 + hoeffding_width(1000, 18.4), 3)
    True
    """
    if mean >= 1:
        return 1.0
    if nats <= 0:
        return max(mean, 0.0)
    chernoff = _largest(lambda p: rows * bernoulli_divergence(mean, p) <= nats, max(mean, 0.0))
    if not is_binary or rows > EXACT_ROWS:
        return chernoff
    successes = math.ceil(mean * rows - 1e-6) if mean > 0 else 0
    return min(chernoff, _clopper_pearson(successes, rows, nats, chernoff))


def lower_end(mean: float, rows: int, nats: float, *, is_binary: bool = False) -> float:
    """Return a number below which the true mean lies with probability at most exp(-nats)."""
    return 1 - upper_end(1 - mean, rows, nats, is_binary=is_binary)


@dataclass(frozen=True, slots=True)
class Bracket:
    """What an outcome says of the mean over the rows, and at which level that may be used.

    Claim: [lower_end(low), upper_end(high)] holds the true mean whenever the interval of the true
           sample mean does, as that lies in [low, high].
    Why:   both ends grow with the mean seen; so the interval printed is a function of the outcome
           alone and tells no more of the rows than the outcome did.
    """

    low: float
    high: float
    rows: int
    nats: float
    is_binary: bool = False

    def interval(self) -> tuple[float, float]:
        """Return both ends, within [0, 1]."""
        low, high = max(self.low, 0.0), min(self.high, 1.0)
        ends = (
            lower_end(low, self.rows, self.nats, is_binary=self.is_binary),
            upper_end(high, self.rows, self.nats, is_binary=self.is_binary),
        )
        return max(ends[0], 0.0), min(ends[1], 1.0)


def _largest(holds: Callable[[float], bool], start: float) -> float:
    """Return about the largest number in [start, 1] for which ``holds``, rounded up."""
    low, high = start, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return min(1.0, high + SLACK)


def _clopper_pearson(successes: int, rows: int, nats: float, most: float) -> float:
    """Return an upper bound of the binomial interval, by halving below ``most``."""
    low, high = successes / rows, most
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        is_excluded = _log_tail(successes, rows, middle) < -nats
        low, high = (low, middle) if is_excluded else (middle, high)
    return high


def _log_tail(successes: int, rows: int, chance: float) -> float:
    """Return at least ln P(Binomial(rows, chance) <= successes), for a chance above the mean.

    Why: P(X = k - 1) / P(X = k) falls as k does; after some terms the rest is at most a geometric
         sum. LOOSENESS is above the error of the three log-gammas for up to EXACT_ROWS rows.
    """
    k, odds = successes, (1 - chance) / chance
    term, total, ratio = 1.0, 1.0, k * odds / (rows - k + 1)
    for _ in range(TERMS):
        term *= ratio
        total += term
        k -= 1
        ratio = max(k, 0) * odds / (rows - k + 1)
        if term < 1e-9 * total:
            break
    rest = term * ratio / (1 - ratio) if ratio < 1 else math.inf
    first = math.lgamma(rows + 1) - math.lgamma(successes + 1) - math.lgamma(rows - successes + 1)
    first += successes * math.log(chance) + (rows - successes) * math.log1p(-chance)
    return first + math.log(total + rest) + LOOSENESS
