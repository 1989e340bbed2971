"""How far one unit moves totals and scores.

One unit changes the totals of each group it is in. Each total has a side, in which its changes are
measured, and two limits for them: one for what all totals of all groups add up to (pure), one for
the squares of its own changes (Gaussian). From these follows everything else.
"""

from dataclasses import dataclass
from fractions import Fraction

from confide.mechanisms import Neighbours
from confide.plan.contribution import ContributionBounds
from confide.plan.totals import Measure, Total

__all__ = ["ScoreChange", "TotalSensitivity", "score_change", "score_unit", "sensitivity_of"]


@dataclass(frozen=True, slots=True)
class TotalSensitivity:
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


def sensitivity_of(
    totals: tuple[Total, ...],
    contribution: ContributionBounds,
    neighbours: Neighbours,
    answered: int | None = None,
) -> tuple[TotalSensitivity, ...]:
    """Return how far one unit can move each total; ``answered`` groups there are, if known."""
    is_replaced = neighbours is Neighbours.REPLACE
    changed = contribution.groups * (2 if is_replaced else 1)
    changed = min(changed, answered or changed)
    is_doubled = is_replaced and changed > 1
    rows = contribution.rows * (2 if is_doubled else 1)
    only_units = all(total.measure is Measure.UNITS for total in totals)
    # Privacy: a unit in several groups makes the sum that a count of units shares with others.
    is_apart = changed == 1 or contribution.groups == 1 or only_units

    def reach(total: Total) -> TotalSensitivity:
        if total.measure is Measure.UNITS:
            return TotalSensitivity(1, changed if is_apart else rows, changed)
        low, high = _range_of_row(total)
        side = max(1, high - low) if is_replaced and changed == 1 else total.per_row
        is_one_sided = low * high == 0
        return TotalSensitivity(side, rows, rows**2 // (2 if is_doubled and is_one_sided else 1))

    return tuple(map(reach, totals))


def _range_of_row(total: Total) -> tuple[int, int]:
    """Return between which numbers, one at most 0 and one at least 0, a row adds to a total."""
    if total.grid is None:
        return 0, 1
    return min(0, total.grid.low), max(0, total.grid.high)


@dataclass(frozen=True, slots=True)
class ScoreChange:
    """Between which numbers, one at most 0 and one at least 0, a unit moves a score.

    Claim:   every total of a group grows by at least ``low`` and at most ``high`` when a unit is
             added (or replaced), and by what lies between ``-high`` and ``-low`` when one is
             removed.
    Why:     a total is a sum over units of what their own kept rows add. At most ``rows`` of them
             are kept, in whichever groups, and each adds a whole number within its grid; a count
             of units grows by 0 or 1. A replaced unit takes one such number away and adds another.
    Checked: tests/curator/test_selection.py (random databases and neighbours).
    """

    low: Fraction
    high: Fraction

    @property
    def spread(self) -> Fraction:
        """How much farther one score can move than another."""
        return self.high - self.low

    @property
    def largest(self) -> Fraction:
        """How far a single score can move."""
        return max(-self.low, self.high)


def score_change(
    total: Total, contribution: ContributionBounds, neighbours: Neighbours
) -> ScoreChange:
    """Return how far one unit moves this total of any group, in the unit of what is added up."""
    if total.measure is Measure.UNITS:
        low, high = 0, 1
    elif total.grid is None:
        low, high = 0, contribution.rows
    else:
        low = contribution.rows * min(0, total.grid.low)
        high = contribution.rows * max(0, total.grid.high)
    if neighbours is Neighbours.REPLACE:
        low, high = low - high, high - low
    unit = score_unit(total)
    return ScoreChange(low * unit, high * unit)


def score_unit(total: Total) -> Fraction:
    """Return what one whole step of a total means: 1 for a count, the grid's step for a sum."""
    return Fraction(1) if total.grid is None else total.grid.step
