"""Intervals shared by aggregates: linear and ratio.

Most statistics are ratios of totals. An interval for a ratio r = sum / count keeps every r for
which sum - r * count is as small as its noise allows: at the true ratio it is noise alone, whose
law is known for each r, so the true ratio is kept with the stated confidence, however small the
count is. Totals that no rows could have are moved to the nearest that some could (`move_totals`),
so that no interval is a mere point at the edge of what is possible.
"""

from collections.abc import Callable
from typing import Final

import numpy as np

from confide.aggregates.needs import Ends, Floats, Marks, SumColumn

__all__ = [
    "GRID",
    "floor_ends",
    "linear_half_width",
    "linear_interval",
    "mean_interval",
    "mean_problem",
    "move_totals",
    "solve_ratios",
    "widths_of",
]

GRID: Final = 65
HALVINGS: Final = 40
MODEST: Final = 0.1
TINY: Final = 1e-300


def linear_half_width(noise: Floats, confidence: float) -> float:
    """Return the half-width of the interval of an aggregate that is linear in its totals.

    ``noise`` is a sample of what the noise adds to the aggregate, which is known beforehand.
    """
    return float(np.quantile(np.abs(noise), confidence, method="higher"))


def linear_interval(estimate: Floats, noise: Floats, confidence: float) -> Ends:
    """Return the interval of an aggregate that is linear in its totals."""
    width = linear_half_width(noise, confidence)
    return estimate - width, estimate + width


def floor_ends(low: Floats, high: Floats) -> Ends:
    """Return a count's interval without the part below zero.

    Claim: it contains every count from zero up that it contained before, and is not a point unless
           it was one.
    Why:   where noise leads below zero so far that nothing or hardly anything is left, the counts
           within a modest distance of zero are added, as for means.
    """
    modest = MODEST * (high - low) / 2.0
    return np.maximum(low, 0.0), np.maximum(high, modest)


def mean_interval(
    total: SumColumn, rows: Floats, noise: Floats, noise_of_rows: Floats, confidence: float
) -> Ends:
    """Return the ends of a mean, in steps of its grid.

    Claim:   it holds the mean as often as ``confidence`` says or more often, holds the estimate,
             and is no point unless the noise is 0 that often.
    Why:     at the true mean, the sum less the mean times the count is noise alone. If noise leads
             out of the range, so far that hardly any mean or none is kept, the means within a
             modest distance of the nearest possible ones are added; more can only hold more often.
    Checked: tests/release/test_coverage.py.
    """
    ratios, table = mean_problem(total, noise, noise_of_rows, confidence)
    kept = solve_ratios(total.steps, rows, ratios, table)
    moved = move_totals(total.steps, rows, total.low, total.high)
    modest = solve_ratios(*moved, ratios, table * MODEST)
    return np.minimum(kept[0], modest[0]), np.maximum(kept[1], modest[1])


def mean_problem(
    total: SumColumn, noise: Floats, noise_of_rows: Floats, confidence: float
) -> tuple[Floats, Floats]:
    """Return possible means, in steps, and how large the noise gets at each, for each group."""
    ratios = np.linspace(total.low, total.high, GRID)
    widths = widths_of(noise, noise_of_rows, ratios, confidence)
    return ratios, np.broadcast_to(widths, (len(total.steps), GRID))


def move_totals(sums: Floats, rows: Floats, least: float, most: Floats | float) -> Ends:
    """Return sums and counts moved to the nearest that ratios from least to most allow.

    Claim: no ratio r from least to most that was kept is lost, and that of the moved totals is
           kept whatever the noise is.
    Why:   r * rows lies between least * rows and most * rows, so moving the sum between them only
           brings it nearer. A count below zero tells nothing: at 0 every ratio is kept.
    """
    there = np.maximum(rows, 0.0)
    return np.clip(sums, least * there, most * there), there


def widths_of(sums: Floats, rows: Floats, ratios: Floats, confidence: float) -> Floats:
    """Return for each ratio how large the noise of sum - ratio * count gets."""
    # One row per ratio, because quantiles of contiguous values take about half the time.
    gaps = np.abs(sums - ratios[:, None] * rows)
    widths: Floats = np.quantile(gaps, confidence, axis=1, overwrite_input=True)
    return widths


def solve_ratios(sums: Floats, rows: Floats, ratios: Floats, table: Floats) -> Ends:
    """Return for each group the least and the greatest ratio that its totals allow.

    ``table`` holds for each group and ratio how large the noise of sum - ratio * count gets.
    """
    middle = np.clip(sums / np.maximum(rows, 1.0), ratios[0], ratios[-1])
    groups = np.arange(len(middle))
    unit = max((ratios[-1] - ratios[0]) / (len(ratios) - 1), TINY)

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
    kept: Marks,
    middle: Floats,
    excess: Callable[[Floats], Floats],
    side: int,
) -> Floats:
    """Return the outermost ratio on one side of the middle whose excess is not positive.

    It lies between the outermost ratio kept on the grid (or the middle itself) and the next grid
    point outwards, where it is found by halving.
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
    for _ in range(HALVINGS):
        halfway = (inside + outside) / 2.0
        fits = excess(halfway) <= 0.0
        inside, outside = np.where(fits, halfway, inside), np.where(fits, outside, halfway)
    return inside
