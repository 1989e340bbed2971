"""Sensitivity of totals and scores to one unit.

One unit changes the totals of each group that contains it. The *side* of a total is the largest
change by one row (added, removed, or, in a single group, replaced). Changes are measured in sides
and have two limits. For a pure loss, one limit covers all totals in all groups together. For a
Gaussian loss, each total has a limit on the sum of its squared changes over all groups. `noise_for`
calibrates noise to these limits.
"""

from dataclasses import dataclass
from fractions import Fraction

from confide.mechanisms import Neighbours
from confide.plan.contribution import ContributionBounds
from confide.plan.totals import Measure, Total

__all__ = ["ScoreChange", "TotalSensitivity", "score_change", "score_unit", "sensitivity_of"]


@dataclass(frozen=True, slots=True)
class TotalSensitivity:
    """The most that one unit can change a total of an answer, jointly with the other totals.

    ``boxes`` is the limit for a pure loss, in sides, and ``squares`` the limit for a Gaussian loss,
    in squared sides. K-norm noise is drawn in a box whose half-width is ``boxes`` in the direction
    of this total.

    Claim:   there are integers z_gi such that a unit changes total i of group g by at most z_gi
             times the ``side`` of total i. The sum over groups of the largest z_gi / boxes_i is at
             most 1. For each total, the sum over groups of z_gi^2 is at most ``squares``.
    Why:     a unit with a_g rows in group g adds at most a_g sides to every total there, and at
             most 1 to a count of units. The a_g add up to at most r, the limit on the unit's rows,
             so their squares add up to at most r^2. A count of units changes by at most 1 in each
             group that changes. If only one group can change, the largest z_gi / boxes_i is at most
             1 as long as no z_gi exceeds boxes_i. So boxes is 1 for a count of units and r for
             other totals. If all totals are counts of units, boxes is the number of groups that
             change. Otherwise boxes is r for all totals, and the a_g / r add up to at most 1.
             Replacing a unit removes a_g rows and adds b_g. Over several groups, this is a removal
             and an addition, each with its own sum, so boxes double. A count of units still changes
             by at most 1 in each group that changes. For other totals, z is at most a + b, and
             (a + b)^2 is at most 2 a^2 + 2 b^2: in all, four times as much. If no row adds a
             negative value, or none a positive one, removal and addition partly cancel. Then z is
             at most the larger of a and b, and its square is at most a^2 + b^2. In a single group,
             the sum of up to r values is between r low and r high, with 0 in between. So replacing
             a unit changes it by at most r (high - low).
    Source:  docs/mechanisms.md (the table for both neighboring relations, with one row per unit).
    Checked: tests/plan/test_total_sensitivity.py (all small units), tests/plan/test_sensitivity.py
             (random neighboring databases).
    """

    side: int
    boxes: int
    squares: int


def sensitivity_of(
    totals: tuple[Total, ...],
    contribution: ContributionBounds,
    neighbours: Neighbours,
    group_count: int | None = None,
) -> tuple[TotalSensitivity, ...]:
    """Return the sensitivity of each total; ``group_count`` is the number of groups, if known."""
    is_replaced = neighbours is Neighbours.REPLACE
    changed = contribution.groups * (2 if is_replaced else 1)
    changed = min(changed, group_count or changed)
    is_doubled = is_replaced and changed > 1
    rows = contribution.rows * (2 if is_doubled else 1)
    only_units = all(total.measure is Measure.UNITS for total in totals)
    # Privacy: if a unit can be in several groups, counts of units and other totals share one limit
    # on the sum over groups, so counts of units need as large a box as the others.
    is_apart = changed == 1 or contribution.groups == 1 or only_units

    def sensitivity(total: Total) -> TotalSensitivity:
        if total.measure is Measure.UNITS:
            return TotalSensitivity(1, changed if is_apart else rows, changed)
        low, high = _range_of_row(total)
        side = max(1, high - low) if is_replaced and changed == 1 else total.per_row
        is_one_sided = low * high == 0
        return TotalSensitivity(side, rows, rows**2 // (2 if is_doubled and is_one_sided else 1))

    return tuple(map(sensitivity, totals))


def _range_of_row(total: Total) -> tuple[int, int]:
    """Return the smallest and largest value that a row can add to a total, both including 0."""
    if total.grid is None:
        return 0, 1
    return min(0, total.grid.low), max(0, total.grid.high)


@dataclass(frozen=True, slots=True)
class ScoreChange:
    """The interval, which contains 0, of the changes that one unit can make to a score.

    A score is the total of a group: see plan/selection.py.

    Claim:   adding (or replacing) a unit changes every score by a value from ``low`` to ``high``,
             and removing one by a value from ``-high`` to ``-low``.
    Why:     a total is a sum over units of what their own kept rows add. At most ``rows`` rows of a
             unit are kept, over all groups. Each adds 0 or an integer within the grid of the total;
             a count of units grows by 0 or 1. Replacing a unit removes one such number and adds
             another.
    Checked: tests/curator/test_selection.py (random neighboring databases).
    """

    low: Fraction
    high: Fraction

    @property
    def spread(self) -> Fraction:
        """The most by which one score can change relative to another with the same limits."""
        return self.high - self.low

    @property
    def largest(self) -> Fraction:
        """The most by which a single score can change."""
        return max(-self.low, self.high)


def score_change(
    total: Total, contribution: ContributionBounds, neighbours: Neighbours
) -> ScoreChange:
    """Return the limits on the change of a total by one unit, in units of the summed values."""
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
    """Return the value of one step of a total: 1 for a count, the grid's step for a sum."""
    return Fraction(1) if total.grid is None else total.grid.step
