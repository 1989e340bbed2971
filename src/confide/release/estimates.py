"""From noisy totals to the statistics that were asked for, and how far off they may be."""

from collections.abc import Callable
from typing import Final, assert_never

import numpy as np
from numpy.typing import NDArray

from confide.plan import Plan, Statistic
from confide.query.functions import Aggregation

__all__ = ["Floats", "bootstrap", "estimate", "half_width", "interval"]

Floats = NDArray[np.float64]
GRID: Final = 65
LINEAR: Final = (Aggregation.COUNT, Aggregation.COUNT_UNITS, Aggregation.SUM)


def estimate(statistic: Statistic, plan: Plan, totals: Floats) -> Floats:
    """Return the statistic from totals; the last axis of ``totals`` is that of the plan's totals.

    Counts and sums are unbiased. A mean stays within its declared range and a variance above
    zero: both are known beforehand.
    """
    rows = totals[..., statistic.rows] if statistic.rows is not None else None
    match statistic.aggregate.function:
        case Aggregation.COUNT | Aggregation.COUNT_UNITS:
            return _known(rows)
        case Aggregation.SUM:
            centre, step, _, _ = _grid(statistic.value, plan)
            value = totals[..., statistic.value] * step
            return value if rows is None else value + centre * rows
        case Aggregation.MEAN:
            return _mean(totals, statistic.value, _known(rows), plan)
        case Aggregation.VARIANCE:
            return _variance(totals, statistic, _known(rows), plan)
        case Aggregation.STDDEV:
            return np.sqrt(_variance(totals, statistic, _known(rows), plan))
        case Aggregation.QUANTILE:
            raise TypeError("a quantile is not computed from totals")
        case _:
            assert_never(statistic.aggregate.function)


def _known(rows: Floats | None) -> Floats:
    if rows is None:
        raise TypeError("this statistic needs a count")
    return rows


def _grid(place: int | None, plan: Plan) -> tuple[float, float, int, int]:
    grid = plan.totals[place].grid if place is not None else None
    if grid is None:
        raise TypeError("this statistic needs a total of values")
    return float(grid.centre), float(grid.step), grid.low, grid.high


def _mean(totals: Floats, place: int | None, rows: Floats, plan: Plan) -> Floats:
    centre, step, low, high = _grid(place, plan)
    return centre + step * np.clip(totals[..., place] / np.maximum(rows, 1.0), low, high)


def _variance(totals: Floats, statistic: Statistic, rows: Floats, plan: Plan) -> Floats:
    """Return n / (n - 1) times the mean square less the squared mean, about the range's centre."""
    centre, _, _, _ = _grid(statistic.value, plan)
    mean = _mean(totals, statistic.value, rows, plan) - centre
    square = _mean(totals, statistic.square, rows, plan)
    many = np.maximum(rows, 2.0)
    return np.maximum(square - mean**2, 0.0) * many / (many - 1.0)


def interval(
    statistic: Statistic, plan: Plan, totals: Floats, noise: Floats, confidence: float
) -> tuple[Floats, Floats]:
    """Return both ends of an interval for the statistic without noise, for each group."""
    width = half_width(statistic, plan, noise, confidence)
    if width is not None:
        centre = estimate(statistic, plan, totals)
        return centre - width, centre + width
    if statistic.aggregate.function is Aggregation.MEAN:
        return _mean_interval(statistic, plan, totals, noise, confidence)
    return bootstrap(lambda t: estimate(statistic, plan, t), totals, noise, confidence)


def half_width(statistic: Statistic, plan: Plan, noise: Floats, confidence: float) -> float | None:
    """Return the half-width of a count's or a sum's interval; None where it depends on the data.

    Why: counts and sums are linear in the totals, so what the noise adds to them is known.
    """
    if statistic.aggregate.function not in LINEAR:
        return None
    added = np.abs(estimate(statistic, plan, noise))
    return float(np.quantile(added, confidence, method="higher"))


def _mean_interval(
    statistic: Statistic, plan: Plan, totals: Floats, noise: Floats, confidence: float
) -> tuple[Floats, Floats]:
    """Return all means m for which sum - m * count is as small as its noise allows.

    Why: at the true mean, sum - m * count is noise alone, whose law is known for each m; so the
         true mean is among those kept with exactly this confidence, however small the count is.
    """
    centre, step, low, high = _grid(statistic.value, plan)
    means = np.linspace(low, high, GRID)
    gaps = noise[:, statistic.value, None] - means * noise[:, statistic.rows, None]
    widths = np.quantile(np.abs(gaps), confidence, axis=0)
    sums, rows = totals[:, statistic.value, None], totals[:, statistic.rows, None]
    return _solve(means, np.abs(sums - means * rows) - widths, centre, step)


def _solve(means: Floats, excess: Floats, centre: float, step: float) -> tuple[Floats, Floats]:
    """Return the least and greatest mean whose excess is not positive, between grid points too.

    Where none is kept, the interval shrinks to the mean of least excess.
    """
    kept = excess <= 0.0
    kept[np.arange(len(kept)), excess.argmin(axis=1)] = True
    first = kept.argmax(axis=1)
    last = kept.shape[1] - 1 - kept[:, ::-1].argmax(axis=1)
    low = _crossing(means, excess, first, -1)
    high = _crossing(means, excess, last, +1)
    return centre + step * low, centre + step * high


def _crossing(means: Floats, excess: Floats, inside: NDArray[np.intp], side: int) -> Floats:
    """Return where the excess turns positive between a kept mean and its neighbour outside."""
    rows = np.arange(len(excess))
    outside = np.clip(inside + side, 0, len(means) - 1)
    here, there = np.minimum(excess[rows, inside], 0.0), excess[rows, outside]
    part = np.where(there > 0.0, -here / np.where(there > here, there - here, 1.0), 0.0)
    return means[inside] + part * (means[outside] - means[inside])


def bootstrap(
    compute: Callable[[Floats], Floats], totals: Floats, noise: Floats, confidence: float
) -> tuple[Floats, Floats]:
    """Return an interval from what the same noise does to the estimate once more."""
    centre = compute(totals)
    moved = np.stack([compute(row + noise) for row in totals]) - centre[:, None]
    ends = np.quantile(moved, [(1 - confidence) / 2, (1 + confidence) / 2], axis=1)
    return centre - ends[1], centre - ends[0]
