"""Estimates of aggregates from noisy totals."""

from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from confide.expressions.functions import Aggregation
from confide.plan import Plan, PlannedAggregate

__all__ = ["Floats", "Marks", "estimate", "grid_of", "is_clipped", "variance"]

Floats = NDArray[np.float64]
Marks = NDArray[np.bool_]


def estimate(statistic: PlannedAggregate, plan: Plan, totals: Floats) -> Floats:
    """Return the statistic; the last axis of ``totals`` has the plan's totals, then its quantiles.

    Counts and sums are unbiased. A mean stays within its declared range and a variance above
    zero: both are known beforehand.
    """
    rows = totals[..., statistic.rows] if statistic.rows is not None else None
    match statistic.aggregate.function:
        case Aggregation.COUNT | Aggregation.COUNT_UNITS:
            return _known(rows)
        case Aggregation.SUM:
            centre, step, _, _ = grid_of(statistic.value, plan)
            value = totals[..., statistic.value] * step
            return value if rows is None else value + centre * rows
        case Aggregation.MEAN:
            return _mean(totals, statistic.value, _known(rows), plan)
        case Aggregation.VARIANCE:
            return variance(statistic, plan, totals)
        case Aggregation.STDDEV:
            return np.sqrt(variance(statistic, plan, totals))
        case Aggregation.QUANTILE:
            return totals[..., len(plan.totals) + _place(statistic)]
        case _:
            assert_never(statistic.aggregate.function)


def _place(statistic: PlannedAggregate) -> int:
    if statistic.quantile is None:
        raise TypeError("this statistic needs a quantile")
    return statistic.quantile


def _known(rows: Floats | None) -> Floats:
    if rows is None:
        raise TypeError("this statistic needs a count")
    return rows


def grid_of(place: int | None, plan: Plan) -> tuple[float, float, int, int]:
    """Return centre, step and ends of the grid of a total of values."""
    grid = plan.totals[place].grid if place is not None else None
    if grid is None:
        raise TypeError("this statistic needs a total of values")
    return float(grid.centre), float(grid.step), grid.low, grid.high


def _mean(totals: Floats, place: int | None, rows: Floats, plan: Plan) -> Floats:
    centre, step, low, high = grid_of(place, plan)
    return centre + step * np.clip(totals[..., place] / np.maximum(rows, 1.0), low, high)


def is_clipped(statistic: PlannedAggregate, plan: Plan, totals: Floats) -> Marks:
    """Return where noise led out of a mean's range, or to a variance that is not above zero."""
    nowhere: Marks = np.zeros(totals.shape[:-1], np.bool_)
    match statistic.aggregate.function:
        case Aggregation.MEAN:
            return _is_outside(statistic.value, statistic, plan, totals)
        case Aggregation.VARIANCE | Aggregation.STDDEV:
            places = (statistic.value, statistic.square)
            value, square = (_is_outside(place, statistic, plan, totals) for place in places)
            return value | square | (variance(statistic, plan, totals) <= 0.0)
        case _:
            return nowhere


def _is_outside(
    place: int | None, statistic: PlannedAggregate, plan: Plan, totals: Floats
) -> Marks:
    """Return where the mean of a total of values lies outside the range of these values."""
    _, _, low, high = grid_of(place, plan)
    rows = _known(totals[..., statistic.rows] if statistic.rows is not None else None)
    mean = totals[..., place] / np.maximum(rows, 1.0)
    outside: Marks = (mean < low) | (mean > high)
    return outside


def variance(statistic: PlannedAggregate, plan: Plan, totals: Floats) -> Floats:
    """Return n / (n - 1) times the mean square less the squared mean, about the range's centre."""
    rows = _known(totals[..., statistic.rows] if statistic.rows is not None else None)
    centre, _, _, _ = grid_of(statistic.value, plan)
    mean = _mean(totals, statistic.value, rows, plan) - centre
    square = _mean(totals, statistic.square, rows, plan)
    many = np.maximum(rows, 2.0)
    return np.maximum(square - mean**2, 0.0) * many / (many - 1.0)
