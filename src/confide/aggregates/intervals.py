"""Confidence intervals for aggregates that are linear in their totals, and for ratios of totals.

A total is a noisy sum or count for each group. An interval for a ratio sum / count contains every
r for which the noisy sum - r * count is no larger than its noise can explain. At the true ratio,
this difference is noise alone, and the distribution of that noise is known for each r. So the
interval contains the true ratio with the stated confidence, for any count. Noise can produce totals
that no set of rows has. `move_totals` moves these to possible ones, so that no interval shrinks to
a point at the end of the range.
"""

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
    """Return both ends of the interval of each group's mean m, given as (m - center) / step.

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
    """Return a grid of possible means m, given as (m - center) / step, and a table of half-widths.

    The table has the half-width of the noise of sum - m * count for each group and each m.
    """
    ratios = np.linspace(total.low, total.high, GRID_SIZE)
    widths = widths_of(noise, noise_of_rows, ratios, confidence)
    return ratios, np.broadcast_to(widths, (len(total.steps), GRID_SIZE))


def move_totals(sums: Floats, rows: Floats, least: float, most: Floats | float) -> Ends:
    """Return sums and counts moved to possible ones, if all ratios are in [least, most].

    Claim: every ratio r from least to most that was in the interval stays in it, and the ratio of
           the moved totals is in the interval for any noise.
    Why:   r * rows is between least * rows and most * rows, so moving the sum between these two
           brings it closer to r * rows. A count below zero and its sum become 0, and then every
           ratio is in the interval.
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

    If they allow none, both are the noisy ratio, clipped to the range of ``ratios``.

    ``table`` has the half-width of the noise of sum - ratio * count for each group and each of the
    evenly spaced ``ratios``. A ratio is allowed if |sum - ratio * count| is at most this
    half-width, interpolated between the ratios.
    """
    kept = np.abs(sums[:, None] - ratios * rows[:, None]) <= table
    low = _end(sums, rows, ratios[::-1], table[:, ::-1], kept=kept[:, ::-1], side=-1)
    return low, _end(sums, rows, ratios, table, kept=kept, side=1)


def _end(
    sums: Floats, rows: Floats, ratios: Floats, table: Floats, *, kept: Mask, side: int
) -> Floats:
    """Return each group's outermost allowed ratio, on one side of the noisy ratio.

    ``side`` is 1 for the greatest ratio, and -1 for the smallest if ``ratios`` are descending.
    ``kept`` is a mask of the ratios that are allowed, for each group.

    Why: the result is between the outermost allowed grid ratio on this side (or the noisy ratio, if
         there is none) and the next grid ratio outward. There the half-width is linear. So
         sum - ratio * count and its negation exceed the half-width by linear functions of the
         ratio. A ratio is allowed if neither of the two is positive.
    """
    last, (least, most) = len(ratios) - 1, sorted((ratios[0], ratios[-1]))
    middle = np.clip(sums / np.maximum(rows, 1.0), least, most)
    next_place = np.searchsorted(side * ratios, side * middle, side="right")
    top = last - np.argmax(kept[:, ::-1], axis=1)
    is_kept = kept.any(axis=1) & (top >= next_place)
    inside = np.where(is_kept, ratios[top], middle)
    above = np.minimum(np.where(is_kept, top + 1, next_place), last)
    outside, below, groups = ratios[above], above - 1, np.arange(len(middle))
    weight = (inside - ratios[below]) / (side * max((most - least) / last, MIN_SPACING))
    width = table[groups, below] * (1.0 - weight) + table[groups, above] * weight
    gaps = sums - inside * rows, sums - outside * rows
    first, end = np.zeros(len(middle)), np.ones(len(middle))
    for sign in (-1.0, 1.0):
        start, stop = sign * gaps[0] - width, sign * gaps[1] - table[groups, above]
        is_crossed = (start > 0.0) != (stop > 0.0)
        zero = np.divide(start, start - stop, out=np.zeros_like(start), where=is_crossed)
        first = np.where(start > 0.0, np.maximum(first, np.where(is_crossed, zero, 2.0)), first)
        end = np.where(stop > 0.0, np.minimum(end, zero), end)
    return np.clip(inside + np.where(first <= end, end, 0.0) * (outside - inside), least, most)
