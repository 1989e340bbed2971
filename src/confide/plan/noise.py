"""Which noise the totals of an answer get, and on which grid, for a given loss.

One unit changes the totals of each group it is in. Measured in what one row can change (a box with
one side for each total), its changes over all groups add up to at most ``reach``; in Euclidean
length they stay within ``reach_squared`` boxes. From these two numbers follows everything else.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from confide.loss import GaussianLoss, PureLoss
from confide.mechanisms import Neighbours
from confide.noise import BoxNoise, DiscreteLaplace, RoundedGaussian
from confide.plan.sources import Contribution
from confide.plan.totals import Measure, Total

__all__ = ["Reach", "TotalNoise", "noise_for", "reach_of"]

FINENESS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Reach:
    """How far one unit can move the totals of an answer.

    Claim:   let z_g be the change in group g, each total divided by what one row can change it by.
             Then the sum over groups of max |z_g| is at most ``boxes``, and the sum of squares of
             max |z_g| at most ``squares``.
    Why:     a unit with c_g rows in group g moves every total there by at most c_g times what one
             row can, and a count of units by at most 1 <= c_g; the c_g add up to at most the
             unit's rows, and the sum of their squares is greatest with all rows in one group.
             When only units are counted, a unit moves each of its groups by 1. Replacing a unit
             is a removal and an addition: the sums double, the squares (a + b)^2 at most fourfold.
    Checked: tests/plan/test_sensitivity.py (random databases and neighbours).
    """

    boxes: int
    squares: int


def reach_of(
    totals: tuple[Total, ...],
    contribution: Contribution,
    neighbours: Neighbours,
    answered: int | None = None,
) -> Reach:
    """Return how far one unit can move these totals; ``answered`` groups there are, if known."""
    only_units = all(total.measure is Measure.UNITS for total in totals)
    groups = min(contribution.groups, answered or contribution.groups)
    boxes = groups if only_units else contribution.rows
    squares = groups if only_units else contribution.rows**2
    if neighbours is Neighbours.REPLACE:
        return Reach(2 * boxes, 4 * squares)
    return Reach(boxes, squares)


@dataclass(frozen=True, slots=True)
class TotalNoise:
    """The noise for one group's totals: a law on whole noise steps, and the steps themselves.

    ``steps[i]`` is the size of a noise step of total i, in its own whole units; it divides what
    one row can change the total by, so rounding to it leaves the reach as it was.
    """

    steps: tuple[Fraction, ...]
    law: DiscreteLaplace | BoxNoise | tuple[RoundedGaussian, ...]


def noise_for(totals: tuple[Total, ...], reach: Reach, loss: PureLoss | GaussianLoss) -> TotalNoise:
    """Return the noise that costs ``loss``.

    Claim:   the release of all groups costs ``loss``, whichever groups and rows a unit has.
    Why:     pure: independent K-norm noise exp(-epsilon |z_g|_K / boxes) in each group changes by
             a factor of at most exp(epsilon * sum |z_g|_K / boxes); for one total that is Laplace
             noise. Gaussian: d totals, each with sigma = side * sqrt(d * squares) / mu, make a
             squared distance of at most d * squares * mu^2 / (d * squares).
    """
    if not totals:
        return TotalNoise((), ())
    sides = [total.per_row for total in totals]
    match loss:
        case PureLoss(epsilon=epsilon):
            deviation = reach.boxes / epsilon
            cuts = [_cuts(side, deviation) for side in sides]
            steps = tuple(Fraction(side, cut) for side, cut in zip(sides, cuts, strict=True))
            if len(totals) == 1:
                return TotalNoise(steps, DiscreteLaplace(cuts[0] * deviation))
            return TotalNoise(steps, BoxNoise(tuple(cut * deviation for cut in cuts)))
        case GaussianLoss(mu_squared=mu_squared):
            square = len(totals) * reach.squares / mu_squared
            cuts = [_cuts(side, Fraction(math.sqrt(square))) for side in sides]
            steps = tuple(Fraction(side, cut) for side, cut in zip(sides, cuts, strict=True))
            return TotalNoise(steps, tuple(RoundedGaussian(cut**2 * square) for cut in cuts))


def _cuts(side: int, deviation: Fraction) -> int:
    """Return into how many noise steps to cut one row's change.

    About FINENESS steps make one standard deviation; a step is never below one whole unit.
    """
    return max(1, min(side, round(FINENESS / deviation)))
