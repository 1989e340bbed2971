"""Which noise the totals of an answer get, and on which grid, for a given loss.

One unit changes the totals of each group it is in. Each total has a side, in which its changes are
measured, and two limits for them: one for what all totals of all groups add up to (pure), one for
the squares of its own changes (Gaussian). From these follows everything else.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from confide.loss import GaussianLoss, PureLoss
from confide.mechanisms import Neighbours
from confide.noise import BoxNoise, DiscreteLaplace, RoundedGaussian
from confide.plan.contribution import Contribution
from confide.plan.totals import Measure, Total

__all__ = ["Reach", "TotalNoise", "noise_for", "reach_of"]

FINENESS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Reach:
    """How far one unit can move a total of an answer, beside the others.

    Claim:   there are whole numbers z_gi such that a unit moves total i of group g by at most z_gi
             times its ``side``; the sum over groups of the largest z_gi / boxes_i is at most 1, and
             for each total the sum over groups of z_gi^2 is at most ``squares``.
    Why:     a unit with a_g rows in group g adds at most a_g sides to every total there, and at
             most 1 to a count of units; the a_g add up to at most r, the unit's rows, so their
             squares to at most r^2. A count of units moves in at most as many groups as change.
             Where only one group can change, the largest z_gi / boxes_i is at most 1 if no z_gi
             passes boxes_i: then a count of units has 1 and others r. Where all are counts of
             units, the groups that change are their sum. Else all have r, and a_g / r add up to 1.
             A unit replaced takes a_g rows away and brings b_g. Over several groups that is a
             removal and an addition: each has its own sum, so boxes double (a count of units
             again moves by at most 1 in each group that changes). Squares (a + b)^2 are at most
             2 a^2 + 2 b^2, in all fourfold; where rows add nothing below zero, or nothing above,
             what is taken and what is brought work against each other: z is the larger of a and b,
             and its square at most a^2 + b^2. In a single group what r rows took or brought lies
             between r low and r high, with 0 in between: a change is at most r (high - low).
    Source:  docs/mechanisms.md (the table of both neighbours, for one row a unit).
    Checked: tests/plan/test_noise.py (all small units), tests/plan/test_sensitivity.py (random
             databases and neighbours).
    """

    side: int
    boxes: int
    squares: int


def reach_of(
    totals: tuple[Total, ...],
    contribution: Contribution,
    neighbours: Neighbours,
    answered: int | None = None,
) -> tuple[Reach, ...]:
    """Return how far one unit can move each total; ``answered`` groups there are, if known."""
    is_replaced = neighbours is Neighbours.REPLACE
    changed = contribution.groups * (2 if is_replaced else 1)
    changed = min(changed, answered or changed)
    is_doubled = is_replaced and changed > 1
    rows = contribution.rows * (2 if is_doubled else 1)
    only_units = all(total.measure is Measure.UNITS for total in totals)
    # Privacy: a unit in several groups makes the sum that a count of units shares with others.
    is_apart = changed == 1 or contribution.groups == 1 or only_units

    def reach(total: Total) -> Reach:
        if total.measure is Measure.UNITS:
            return Reach(1, changed if is_apart else rows, changed)
        low, high = _range_of_row(total)
        side = max(1, high - low) if is_replaced and changed == 1 else total.per_row
        is_one_sided = low * high == 0
        return Reach(side, rows, rows**2 // (2 if is_doubled and is_one_sided else 1))

    return tuple(map(reach, totals))


def _range_of_row(total: Total) -> tuple[int, int]:
    """Return between which numbers, one at most 0 and one at least 0, a row adds to a total."""
    if total.grid is None:
        return 0, 1
    return min(0, total.grid.low), max(0, total.grid.high)


@dataclass(frozen=True, slots=True)
class TotalNoise:
    """The noise for one group's totals: a law on whole noise steps, and the steps themselves.

    ``steps[i]`` is the size of a noise step of total i, in its own whole units; it divides the side
    of its reach, so rounding to it leaves the reach as it was.
    """

    steps: tuple[Fraction, ...]
    law: DiscreteLaplace | BoxNoise | tuple[RoundedGaussian, ...]


def noise_for(reaches: Sequence[Reach], loss: PureLoss | GaussianLoss) -> TotalNoise:
    """Return the noise that costs ``loss``.

    Claim:   the release of all groups costs ``loss``, whichever groups and rows a unit has.
    Why:     rounding to steps is monotone and commutes with whole steps, so rounded totals keep to
             the z_gi of `Reach`. Pure: independent K-norm noise in each group, for the box that
             reaches boxes_i sides out, changes by a factor of at most exp(epsilon * sum over
             groups of the largest z_gi / boxes_i); for one total that is Laplace noise. Gaussian:
             d totals, each with sigma^2 = side^2 * d * squares / mu^2, make a squared distance of
             at most d * (mu^2 / d).
    """
    if not reaches:
        return TotalNoise((), ())
    match loss:
        case PureLoss(epsilon=epsilon):
            deviations = [reach.boxes / epsilon for reach in reaches]
            cuts = [_cuts(reach.side, one) for reach, one in zip(reaches, deviations, strict=True)]
            scales = tuple(cut * one for cut, one in zip(cuts, deviations, strict=True))
            law = DiscreteLaplace(scales[0]) if len(scales) == 1 else BoxNoise(scales)
            return TotalNoise(_steps(reaches, cuts), law)
        case GaussianLoss(mu_squared=mu_squared):
            variances = [len(reaches) * reach.squares / mu_squared for reach in reaches]
            cuts = [
                _cuts(reach.side, Fraction(math.sqrt(one)))
                for reach, one in zip(reaches, variances, strict=True)
            ]
            laws = (RoundedGaussian(cut**2 * one) for cut, one in zip(cuts, variances, strict=True))
            return TotalNoise(_steps(reaches, cuts), tuple(laws))


def _steps(reaches: Sequence[Reach], cuts: Sequence[int]) -> tuple[Fraction, ...]:
    return tuple(Fraction(reach.side, cut) for reach, cut in zip(reaches, cuts, strict=True))


def _cuts(side: int, deviation: Fraction) -> int:
    """Return into how many noise steps to cut a side.

    About FINENESS steps make one standard deviation; a step is never below one whole unit.
    """
    return max(1, min(side, round(FINENESS / deviation)))
