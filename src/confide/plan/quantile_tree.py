"""Plans for several private quantiles of the same rows, chosen by a tree.

Statistics call `plan_quantile_tree`, and release/quantiles.py later draws the choices.

A tree chooses the middle level first, among all cells. Then it chooses the middle level of the
lower half among the cells below, the middle level of the upper half among the cells above, and so
on. The choices of one round involve disjoint rows, so a round costs as much as one choice. There
are only about log2(n) rounds for n levels.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from confide.loss import BoundedRangeLoss, Loss
from confide.mechanisms import Exponential, Neighbours
from confide.plan.calibration import TotalNoise, fraction_of, loss_for_noise, max_epsilon, noise_for
from confide.plan.sensitivity import TotalSensitivity

__all__ = ["QuantileSplit", "QuantileTree", "plan_quantile_tree"]

COUNT_FRACTION: Final = Fraction(1, 5)
"""The fraction of a round's loss that pays for the two noisy row counts of each split."""


@dataclass(frozen=True, slots=True)
class QuantileSplit:
    """One choice: the level with index ``place``, among the cells between two earlier choices.

    ``below`` and ``above`` are the indices of the levels chosen earlier; None stands for the end of
    the range.
    """

    place: int
    below: int | None
    above: int | None


@dataclass(frozen=True, slots=True)
class QuantileTree:
    """The choices of several quantiles, round by round.

    ``epsilon`` is the epsilon of each choice. ``moved`` is the number of rows that differ if
    one unit changes. ``noise`` is added to the two counts that each split releases.

    Law:     a split draws a cell strictly between the cells of its neighbors, the earlier choices
             ``below`` and ``above``. The probability is proportional to the cell's weight times
             exp(-rate gap). Let n rows lie between the neighbors, L of them below the cell and m in
             it. The split targets a fraction a / b of the n rows, which follows from earlier
             releases. The gap is the distance of a n from [b L, b (L + m)]. Then L and m are
             released with noise. If the target is not between the neighbors, or if no cell is, a
             neighbor's cell is taken. A cell with more than ``slack`` noisy rows shifts the later
             targets next to it; any other cell is assumed to lie exactly at its level.
    Claim:   the chosen cells are in the order of the levels, and all rounds together cost what was
             granted.
    Why:     the splits of one round have disjoint sets of cells, so a row counts in at most one of
             them. One additional row changes a n by a, b L by b for the cells above it, and b m by
             b for its own cell. So all gaps of its split change by at most max(a, b - a) in either
             direction, and L or m by 1. The rate of a split is inversely proportional to its own
             max(a, b - a), so a row changes log-ratios by the same amount in any split, and the
             rows of a unit together cause at most ``moved`` such changes. Replacing a unit removes
             its rows and adds others.
    Source:  [KSS22] for halving, [MT07]; docs/proofs/statistics.md.
    Checked: tests/statistics/test_quantiles.py.
    """

    rounds: tuple[tuple[QuantileSplit, ...], ...]
    epsilon: Fraction
    moved: int
    noise: TotalNoise

    @property
    def slack(self) -> int:
        """The count of rows that noise alone rarely exceeds: three standard deviations."""
        return math.ceil(3.0 * self.noise.law.deviation(0))

    def choose(self, level: Fraction) -> Exponential:
        """Return the mechanism for a split that targets this fraction of its rows."""
        change = max(level.numerator, level.denominator - level.numerator)
        return Exponential(self.moved * change, self.epsilon)


def plan_quantile_tree(
    levels: int, rows: int, neighbours: Neighbours, granted: Loss
) -> QuantileTree:
    """Return the tree that chooses ``levels`` quantiles at the cost ``granted``.

    ``rows`` is the maximum number of rows of a unit.
    """
    rounds = tuple(_list_rounds(levels))
    part = fraction_of(granted, Fraction(1, len(rounds)))
    moved = rows * (1 if neighbours is Neighbours.ADD_REMOVE else 2)
    epsilon = max_epsilon(fraction_of(part, 1 - COUNT_FRACTION), BoundedRangeLoss)
    counts = loss_for_noise(fraction_of(part, COUNT_FRACTION))
    noise = noise_for((TotalSensitivity(1, moved, moved**2),), counts)
    return QuantileTree(rounds, epsilon, moved, noise)


def _list_rounds(levels: int) -> Sequence[tuple[QuantileSplit, ...]]:
    """Return the splits of each round, for levels with the indices 0 to ``levels - 1``."""
    rounds, pending = [], [(0, levels)]
    while pending:
        splits, following = [], []
        for first, last in pending:
            middle = (first + last) // 2
            above = last if last < levels else None
            splits.append(QuantileSplit(middle, first - 1 if first else None, above))
            following += [(a, b) for a, b in ((first, middle), (middle + 1, last)) if a < b]
        rounds.append(tuple(splits))
        pending = following
    return rounds
