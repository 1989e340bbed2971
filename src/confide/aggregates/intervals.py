"""Confidence intervals for aggregates that are linear in their totals, and for ratios of totals.

A total is a noisy sum or count for each group. An interval for a ratio sum / count contains every
r for which the noisy sum - r * count is no larger than its noise can explain. At the true ratio,
this difference is noise alone, whose distribution is known for each r. So the interval contains
the true ratio with the stated confidence, for any count. `move_totals` moves totals that no rows
could have to the closest possible ones, so that no interval shrinks to a point at the end of the
range.
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
MIN_SPACING: Final = 1e-300


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
    Why:   raising the low end to zero removes negative counts only. Raising the high end to a
           tenth of the half-width only adds counts; it matters if noise moved the interval so far
           below zero that little or nothing remained.
    """
    edge = EDGE_FRACTION * (high - low) / 2.0
    return np.maximum(low, 0.0), np.maximum(high, edge)


def mean_interval(
    total: SumColumn, rows: Floats, noise: Floats, noise_of_rows: Floats, confidence: float
) -> Ends:
    """Return both ends of the interval of each group's mean, as (mean - center) / step.

    ``total`` and ``rows`` are the noisy sums and counts of the groups; ``noise`` and
    ``noise_of_rows`` are samples of their noise.

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
    """Return a grid of possible means, as (mean - center) / step, and a table of noise widths.

    The table has the half-width of the noise of sum - mean * count for each group and mean.
    """
    ratios = np.linspace(total.low, total.high, GRID_SIZE)
    widths = widths_of(noise, noise_of_rows, ratios, confidence)
    return ratios, np.broadcast_to(widths, (len(total.steps), GRID_SIZE))


def move_totals(sums: Floats, rows: Floats, least: float, most: Floats | float) -> Ends:
    """Return sums and counts moved to the closest possible ones, if ratios are in [least, most].

    Claim: every ratio r from least to most that was in the interval stays in it, and the ratio of
           the moved totals is in the interval for any noise.
    Why:   r * rows is between least * rows and most * rows, so moving the sum between them only
           brings it closer. A count below zero carries no information: at 0 every ratio stays.
    """
    possible_rows = np.maximum(rows, 0.0)
    return np.clip(sums, least * possible_rows, most * possible_rows), possible_rows


def widths_of(sums: Floats, rows: Floats, ratios: Floats, confidence: float) -> Floats:
    """Return for each ratio the half-width of the noise of sum - ratio * count.

    ``sums`` and ``rows`` are samples of the noise of the sum and of the count.
    """
    # One row per ratio, because quantiles of contiguous values take about half the time.
    gaps = np.abs(sums - ratios[:, None] * rows)
    widths: Floats = np.quantile(gaps, confidence, axis=1, overwrite_input=True)
    return widths


def solve_ratios(sums: Floats, rows: Floats, ratios: Floats, table: Floats) -> Ends:
    """Return the smallest and the greatest ratio that the totals of each group allow.

    ``table`` has the half-width of the noise of sum - ratio * count for each group and each of the
    evenly spaced ``ratios``. A ratio is allowed if |sum - ratio * count| is at most this
    half-width, interpolated between the ratios.
    """
    middle = np.clip(sums / np.maximum(rows, 1.0), ratios[0], ratios[-1])
    groups = np.arange(len(middle))
    spacing = max((ratios[-1] - ratios[0]) / (len(ratios) - 1), MIN_SPACING)

    def excess(ratio: Floats) -> Floats:
        position = (ratio - ratios[0]) / spacing
        below = np.clip(np.floor(position).astype(np.int64), 0, len(ratios) - 2)
        weight = position - below
        width = table[groups, below] * (1.0 - weight) + table[groups, below + 1] * weight
        difference: Floats = np.abs(sums - ratio * rows) - width
        return difference

    kept = np.abs(sums[:, None] - ratios * rows[:, None]) <= table
    return _end(ratios, kept, middle, excess, -1), _end(ratios, kept, middle, excess, 1)


def _end(
    ratios: Floats,
    kept: Mask,
    middle: Floats,
    excess: Callable[[Floats], Floats],
    side: int,
) -> Floats:
    """Return each group's outermost ratio whose excess is not positive, on one side of ``middle``.

    ``side`` is 1 for the greatest ratio and -1 for the smallest. ``kept`` is a mask of the ratios
    whose excess is not positive, for each group. The result is between the outermost of these (or
    ``middle``, if none is on this side) and the next ratio outward; bisection finds it.
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
