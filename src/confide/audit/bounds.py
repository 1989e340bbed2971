"""How likely an event surely is, from counts; and what two laws give away known in full."""

import math
from collections.abc import Mapping
from functools import cache
from statistics import NormalDist
from typing import Any, Final, TypeVar

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from confide.audit.views import Floats
from confide.errors import BadDeclaration
from confide.exact import float_above

__all__ = ["chance_above", "chance_below", "hockey_stick", "largest_ratio", "near_bounds"]

STEPS: Final = 30
NEAR: Final = 0.01
"""How near to the level a tail must come, in normal deviations."""

BITS: Final = 64
MOST_ADDED: Final = 4_096
SLACK: Final = 2.0**-22
SMALLEST: Final = 1e-300
MOST: Final = 1 - 1e-9
NORMAL: Final = NormalDist()

Y = TypeVar("Y")


def chance_below(hits: int, trials: int, level: float) -> float:
    """Return a probability that the true one falls short of only with probability ``level``.

    Law:     ``hits`` of ``trials`` independent trials, each successful with the same probability.
    Claim:   whatever that probability is, the number returned exceeds it with probability at most
             ``level``.
    Why:     at the number p returned, so many hits or more have probability at most ``level``; this
             grows with p, so p is above the true probability only if the hits are among the most
             extreme, whose total probability is at most ``level``. The tail is enclosed by a ball,
             and p is moved only while the whole ball stays within the level.
    Source:  [CP34].
    Checked: tests/audit/test_bounds.py (false alarms counted exactly; the known closed forms).
    """
    _check(hits, trials, level)
    if not hits:
        return 0.0
    outside = math.log((hits + 0.5) / (trials - hits + 0.5))
    inside, over, width = outside, 1.0, 4 / math.sqrt(trials)
    while (short := _gap(inside, hits, trials, level)) > 0:
        outside, over, inside, width = inside, short, inside - width, 2 * width
    for _ in range(STEPS):
        if short > -NEAR:
            break
        part = (-NEAR / 2 - short) / (over - short)
        guess = inside + max(0.01, min(part, 0.99)) * (outside - inside)
        gap = _gap(guess, hits, trials, level)
        if gap <= 0:
            inside, short = guess, gap
        else:
            outside, over = guess, gap
    return _chance(inside)


def _chance(odds: float) -> float:
    """Return the probability whose logarithm of the odds this is."""
    return 1 / (1 + math.exp(-odds))


def chance_above(hits: int, trials: int, level: float) -> float:
    """Return a probability that the true one passes only with probability ``level``: the mirror."""
    return math.nextafter(1.0 - chance_below(trials - hits, trials, level), 2.0)


def _check(hits: int, trials: int, level: float) -> None:
    if not (0 <= hits <= trials and trials and 0 < level <= 0.5):
        raise BadDeclaration(
            f"hits must be from 0 to trials and level up to 0.5, got {hits}, {trials}, {level}"
        )


def _gap(odds: float, hits: int, trials: int, level: float) -> float:
    """Return by how many normal deviations so many hits or more are likelier than ``level``.

    It is at most 0 only where their probability surely is at most ``level``.
    """
    add_up = _add_tail if trials <= MOST_ADDED else _enclose_tail
    tail = add_up(_chance(odds), hits, trials)
    if tail <= level:
        return min(0.0, NORMAL.inv_cdf(max(tail, SMALLEST)) - NORMAL.inv_cdf(level))
    return max(SMALLEST, NORMAL.inv_cdf(min(tail, MOST)) - NORMAL.inv_cdf(level))


def _enclose_tail(chance: float, hits: int, trials: int) -> float:
    """Return the probability of so many hits or more, rounded up."""
    with ctx.workprec(BITS):
        return float_above(arb(chance).beta_lower(hits, trials - hits + 1, regularized=True))


def _add_tail(chance: float, hits: int, trials: int) -> float:
    """Return the same as a sum of up to 4,096 terms, raised by far more than rounding can take.

    Why: the logarithm of a factorial here is a sum of up to 4,096 rounded numbers, never above
         2^15, so it is off by less than 4,096 * 2^-38 = 2^-26. A term has three of them and two
         products whose rounding is smaller still; SLACK is 2^-22.
    """
    places = np.arange(hits, trials + 1)
    logs = _log_factorials()
    terms = logs[trials] - logs[places] - logs[trials - places]
    terms += places * math.log(chance) + (trials - places) * math.log1p(-chance)
    return float(np.exp(terms).sum()) * (1 + SLACK)


@cache
def _log_factorials() -> Floats:
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, MOST_ADDED + 1)))])


def near_bounds(hits: NDArray[Any], trials: int, level: float) -> tuple[Floats, Floats]:
    """Return Wilson's bounds from below and above for many events at once, to choose among them.

    Why: they solve |share - p| = z sqrt(p (1 - p) / trials), which is quick and nearly right. What
         is chosen by them is measured by the exact bounds above.
    """
    share = np.asarray(hits, dtype=np.float64) / trials
    z_squared = NORMAL.inv_cdf(1 - level) ** 2 / trials
    middle = share + z_squared / 2
    spread = np.sqrt(z_squared * (share * (1 - share) + z_squared / 4))
    return (middle - spread) / (1 + z_squared), (middle + spread) / (1 + z_squared)


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
