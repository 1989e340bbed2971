"""Estimates and intervals of the aggregates of a plan, given the released totals and quantiles.

In a table of released values, the last axis has one column per total of the plan, and then one per
quantile. A noise sample has the columns of the totals alone. Only `aggregates` knows how to compute
an aggregate from its columns.
"""

from collections.abc import Callable

from confide.aggregates import function_of
from confide.aggregates.intervals import linear_half_width
from confide.aggregates.needs import (
    ChooseQuantiles,
    CountColumn,
    Ends,
    Floats,
    Mask,
    Need,
    QuantileColumn,
    ReleasedColumn,
    ReleasedColumns,
    SumColumn,
)
from confide.plan import Plan, PlannedAggregate

__all__ = ["Floats", "Mask", "estimate", "half_width", "interval", "is_clipped"]

ChosenEnds = Callable[[int], Ends]
"""Returns the released ends of a quantile's interval in each group, given the quantile's index."""


def estimate(statistic: PlannedAggregate, plan: Plan, totals: Floats) -> Floats:
    """Return the estimates of an aggregate, one per row of ``totals``.

    Counts and sums are unbiased. A mean is clipped to its declared range, and a variance to
    nonnegative values; these limits do not depend on the data.
    """
    call = statistic.aggregate
    return function_of(call).estimate(call, _columns(statistic, plan, totals))


def interval(
    statistic: PlannedAggregate,
    plan: Plan,
    totals: Floats,
    noise: Floats,
    confidence: float,
    *,
    chosen: ChosenEnds | None = None,
) -> Ends:
    """Return both ends of an interval for the noise-free statistic, for each group.

    ``totals`` are the released values, and ``noise`` is a sample of their noise. For quantiles,
    ``chosen`` returns the released ends instead.
    """
    call = statistic.aggregate
    columns = _columns(statistic, plan, totals, chosen)
    sample = ReleasedColumns(()) if statistic.quantiles else _columns(statistic, plan, noise)
    return function_of(call).interval(call, columns, sample, confidence)


def half_width(
    statistic: PlannedAggregate, plan: Plan, noise: Floats, confidence: float
) -> float | None:
    """Return the half-width of a count's or a sum's interval, or None if it depends on the data.

    Why: counts and sums are linear in the totals, so the distribution of their noise is known.
    """
    if not function_of(statistic.aggregate).is_linear:
        return None
    return linear_half_width(estimate(statistic, plan, noise), confidence)


def is_clipped(statistic: PlannedAggregate, plan: Plan, totals: Floats) -> Mask:
    """Return a mask of the groups in which noise moved a value of the estimate out of its range."""
    call = statistic.aggregate
    return function_of(call).is_clipped(call, _columns(statistic, plan, totals))


def _columns(
    statistic: PlannedAggregate, plan: Plan, table: Floats, chosen: ChosenEnds | None = None
) -> ReleasedColumns:
    """Return the columns of a table that the needs of a statistic refer to."""
    return ReleasedColumns(
        tuple(_column(need, index, plan, table, chosen) for need, index in statistic.parts)
    )


def _column(
    need: Need, index: int, plan: Plan, table: Floats, chosen: ChosenEnds | None
) -> ReleasedColumn:
    if isinstance(need, ChooseQuantiles):
        ends = None if chosen is None else chosen(index)
        return QuantileColumn(table[..., len(plan.totals) + index], ends)
    grid = plan.totals[index].grid
    if grid is None:
        return CountColumn(table[..., index])
    return SumColumn(table[..., index], float(grid.center), float(grid.step), grid.low, grid.high)
