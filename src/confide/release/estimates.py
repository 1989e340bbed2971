"""Estimates and intervals of the aggregates of a plan, given their released columns."""

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
"""Function that returns the chosen interval ends of a quantile, given its index."""


def estimate(statistic: PlannedAggregate, plan: Plan, totals: Floats) -> Floats:
    """Return the statistic; the last axis of ``totals`` has the plan's totals, then its quantiles.

    Counts and sums are unbiased. A mean is clipped to its declared range and a variance to
    positive values, both of which are known in advance.
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
    """Return both ends of an interval for the noise-free statistic, for each group."""
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
    """Return a mask of means moved out of their range, and of variances not above zero."""
    call = statistic.aggregate
    return function_of(call).is_clipped(call, _columns(statistic, plan, totals))


def _columns(
    statistic: PlannedAggregate, plan: Plan, table: Floats, chosen: ChosenEnds | None = None
) -> ReleasedColumns:
    parts = statistic.parts
    return ReleasedColumns(tuple(_column(need, at, plan, table, chosen) for need, at in parts))


def _column(
    need: Need, place: int, plan: Plan, table: Floats, chosen: ChosenEnds | None
) -> ReleasedColumn:
    if isinstance(need, ChooseQuantiles):
        ends = None if chosen is None else chosen(place)
        return QuantileColumn(table[..., len(plan.totals) + place], ends)
    grid = plan.totals[place].grid
    if grid is None:
        return CountColumn(table[..., place])
    return SumColumn(table[..., place], float(grid.center), float(grid.step), grid.low, grid.high)
