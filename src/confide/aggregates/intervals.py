"""Intervals shared by aggregates: linear and ratio.

Most aggregates are ratios of totals. An interval for a ratio r = sum / count contains every r for
which sum - r * count is within the range of its noise. At the true ratio it is noise alone, with a
known distribution for each r. So the interval contains the true ratio with the stated confidence,
for any count. Totals that no rows could have are moved to the closest possible ones
(`move_totals`), so that no interval shrinks to a point at the end of the range.
"""

from collections.abc import Callable
from typing import Final

import numpy as np

from confide.aggregates.needs import Ends, Floats, Mask, SumColumn

__all__ = [
    "GRID_SIZE",
    "floor_ends",
    "linear_half_width",
    "linear_interval",
    "mean_interval",
    "mean_problem",
    "move_totals",
    "solve_ratios",
    "widths_of",
]

GRID_SIZE: Final = 65
BISECTIONS: Final = 40
EDGE_FRACTION: Final = 0.1
MIN_UNIT: Final = 1e-300


def linear_half_width(noise: Floats, confidence: float) -> float:
    """Return the half-width of the interval of an aggregate that is linear in its totals.

    ``noise`` is a sample of the aggregate's noise, which does not depend on the data.
    """
    return float(np.quantile(np.abs(noise), confidence, method="higher"))


def linear_interval(estimate: Floats, noise: Floats, confidence: float) -> Ends:
    """Return the interval of an aggregate that is linear in its totals."""
    width = linear_half_width(noise, confidence)
    return estimate - width, estimate + width


def floor_ends(low: Floats, high: Floats) -> Ends:
    """Return a count's interval without the part below zero.

    Claim: it contains every count of at least zero that it contained before, and is not a point
           unless it was one.
    Why:   if noise moves it so far below zero that little or nothing remains, add the counts
           within a small distance of zero, as for means.
    """
    edge = EDGE_FRACTION * (high - low) / 2.0
    return np.maximum(low, 0.0), np.maximum(high, edge)


def mean_interval(
    total: SumColumn, rows: Floats, noise: Floats, noise_of_rows: Floats, confidence: float
) -> Ends:
    """Return the ends of the interval of a mean, in steps of its grid.

    Claim:   it contains the mean with at least the probability ``confidence``, contains the
             estimate, and is not a point unless the noise is 0 with that probability.
    Why:     at the true mean, the sum minus the mean times the count is noise alone. If noise
             moves the totals so far out of range that few or no means remain, add the means
             within a small distance of the closest possible ones; this only raises the coverage.
    Checked: tests/release/test_coverage.py.
    """
    ratios, table = mean_problem(total, noise, noise_of_rows, confidence)
    kept = solve_ratios(total.steps, rows, ratios, table)
    moved = move_totals(total.steps, rows, total.low, total.high)
    edge = solve_ratios(*moved, ratios, table * EDGE_FRACTION)
    return np.minimum(kept[0], edge[0]), np.maximum(kept[1], edge[1])


def mean_problem(
    total: SumColumn, noise: Floats, noise_of_rows: Floats, confidence: float
) -> tuple[Floats, Floats]:
    """Return possible means, in steps, and for each group the width of the noise at each mean."""
    ratios = np.linspace(total.low, total.high, GRID_SIZE)
    widths = widths_of(noise, noise_of_rows, ratios, confidence)
    return ratios, np.broadcast_to(widths, (len(total.steps), GRID_SIZE))


def move_totals(sums: Floats, rows: Floats, least: float, most: Floats | float) -> Ends:
    """Return sums and counts moved to the closest ones possible for ratios from least to most.

    Claim: every ratio r from least to most that was in the interval stays, and the ratio of the
           moved totals is in it for any noise.
    Why:   r * rows is between least * rows and most * rows, so moving the sum between them only
           brings it closer. A count below zero carries no information: at 0 every ratio stays.
    """
    possible_rows = np.maximum(rows, 0.0)
    return np.clip(sums, least * possible_rows, most * possible_rows), possible_rows


def widths_of(sums: Floats, rows: Floats, ratios: Floats, confidence: float) -> Floats:
    """Return for each ratio the width of the noise of sum - ratio * count."""
    # One row per ratio, because quantiles of contiguous values take about half the time.
    gaps = np.abs(sums - ratios[:, None] * rows)
    widths: Floats = np.quantile(gaps, confidence, axis=1, overwrite_input=True)
    return widths


def solve_ratios(sums: Floats, rows: Floats, ratios: Floats, table: Floats) -> Ends:
    """Return the smallest and the greatest ratio that the totals of each group allow.

    ``table`` has the width of the noise of sum - ratio * count, for each group and ratio.
    """
    middle = np.clip(sums / np.maximum(rows, 1.0), ratios[0], ratios[-1])
    groups = np.arange(len(middle))
    unit = max((ratios[-1] - ratios[0]) / (len(ratios) - 1), MIN_UNIT)

    def excess(ratio: Floats) -> Floats:
        place = (ratio - ratios[0]) / unit
        below = np.clip(np.floor(place).astype(np.int64), 0, len(ratios) - 2)
        part = place - below
        width = table[groups, below] * (1.0 - part) + table[groups, below + 1] * part
        above: Floats = np.abs(sums - ratio * rows) - width
        return above

    kept = np.abs(sums[:, None] - ratios * rows[:, None]) <= table
    return _end(ratios, kept, middle, excess, -1), _end(ratios, kept, middle, excess, 1)


def _end(
    ratios: Floats,
    kept: Mask,
    middle: Floats,
    excess: Callable[[Floats], Floats],
    side: int,
) -> Floats:
    """Return the outermost ratio on one side of the middle whose excess is not positive.

    It is between the outermost ratio kept on the grid (or the middle itself) and the next grid
    point outward; bisection finds it.
    """
    outward = ratios if side > 0 else ratios[::-1]
    flags = kept if side > 0 else kept[:, ::-1]
    beyond = side * (outward - middle[:, None]) > 0.0
    steps = np.arange(len(ratios))
    last = np.where(flags & beyond, steps, -1).max(axis=1)
    inside = np.where(last >= 0, outward[last], middle)
    following = np.where(last >= 0, last + 1, np.argmax(beyond, axis=1))
    ended = (following >= len(ratios)) | ((last < 0) & ~beyond.any(axis=1))
    outside = np.where(ended, inside, outward[np.minimum(following, len(ratios) - 1)])
    for _ in range(BISECTIONS):
        halfway = (inside + outside) / 2.0
        fits = excess(halfway) <= 0.0
        inside, outside = np.where(fits, halfway, inside), np.where(fits, outside, halfway)
    return inside
