"""Intervals of counts, sums, means, variances and deviations.

Most statistics are ratios of totals. An interval for a ratio r = sum / count keeps every r for
which sum - r * count is as small as its noise allows: at the true ratio it is noise alone, whose
law is known for each r, so the true ratio is kept with the stated confidence, however small the
count is. Totals that no rows could have are moved to the nearest that some could (`_move`), so that
no interval is a mere point at the edge of what is possible.
"""

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from confide.expressions.functions import Aggregation
from confide.plan import Plan, PlannedAggregate
from confide.release.estimates import Floats, estimate, grid_of, variance

__all__ = ["LINEAR", "floor_ends", "half_width", "interval"]

GRID: Final = 65
HALVINGS: Final = 40
MEANS: Final = 9
THINNED: Final = 2**13
LIKELY_MEAN: Final = 0.8
RARER_MEAN: Final = 4.0
MODEST: Final = 0.1
TINY: Final = 1e-300
LINEAR: Final = (Aggregation.COUNT, Aggregation.COUNT_UNITS, Aggregation.SUM)

Ends = tuple[Floats, Floats]


def interval(
    statistic: PlannedAggregate, plan: Plan, totals: Floats, noise: Floats, confidence: float
) -> Ends:
    """Return both ends of an interval for the statistic without noise, for each group."""
    width = half_width(statistic, plan, noise, confidence)
    if width is not None:
        found = estimate(statistic, plan, totals)
        return found - width, found + width
    if statistic.aggregate.function is Aggregation.MEAN:
        centre, step, _, _ = grid_of(statistic.value, plan)
        low, high = _mean_interval(statistic, plan, totals, noise, confidence)
        return centre + step * low, centre + step * high
    low, high = _variance_interval(statistic, plan, totals, noise, confidence)
    if statistic.aggregate.function is Aggregation.STDDEV:
        return np.sqrt(low), np.sqrt(high)
    return low, high


def half_width(
    statistic: PlannedAggregate, plan: Plan, noise: Floats, confidence: float
) -> float | None:
    """Return the half-width of a count's or a sum's interval; None where it depends on the data.

    Why: counts and sums are linear in the totals, so what the noise adds to them is known.
    """
    if statistic.aggregate.function not in LINEAR:
        return None
    added = np.abs(estimate(statistic, plan, noise))
    return float(np.quantile(added, confidence, method="higher"))


def floor_ends(low: Floats, high: Floats) -> Ends:
    """Return a count's interval without the part below zero.

    Claim: it contains every count from zero up that it contained before, and is not a point unless
           it was one.
    Why:   where noise leads below zero so far that nothing or hardly anything is left, the counts
           within a modest distance of zero are added, as for means.
    """
    modest = MODEST * (high - low) / 2.0
    return np.maximum(low, 0.0), np.maximum(high, modest)


def _mean_interval(
    statistic: PlannedAggregate, plan: Plan, totals: Floats, noise: Floats, confidence: float
) -> Ends:
    """Return the ends of a mean, in steps of its grid.

    Claim:   it holds the mean as often as ``confidence`` says or more often, holds the estimate,
             and is no point unless the noise is 0 that often.
    Why:     at the true mean, the sum less the mean times the count is noise alone. If noise leads
             out of the range, so far that hardly any mean or none is kept, the means within a
             modest distance of the nearest possible ones are added; more can only hold more often.
    Checked: tests/release/test_coverage.py.
    """
    _, _, low, high = grid_of(statistic.value, plan)
    sums, rows, ratios, table = _mean_problem(statistic, plan, totals, noise, confidence)
    kept = _solve(sums, rows, ratios, table)
    modest = _solve(*_move(sums, rows, low, high), ratios, table * MODEST)
    return np.minimum(kept[0], modest[0]), np.maximum(kept[1], modest[1])


def _mean_problem(
    statistic: PlannedAggregate, plan: Plan, totals: Floats, noise: Floats, confidence: float
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return sums, counts, possible means and how large the noise gets at each, to be solved."""
    _, _, low, high = grid_of(statistic.value, plan)
    place, rows = statistic.value, statistic.rows
    ratios = np.linspace(low, high, GRID)
    widths = _widths(noise[:, place], noise[:, rows], ratios, confidence)
    table = np.broadcast_to(widths, (len(totals), GRID))
    return totals[:, place], totals[:, rows], ratios, table


def _variance_interval(
    statistic: PlannedAggregate, plan: Plan, totals: Floats, noise: Floats, confidence: float
) -> Ends:
    """Return the ends of a sample variance.

    Claim:   the released estimate lies within the interval. Were the true mean m known, it would
             hold the sample variance s^2 as often as ``confidence`` says or more often, for any
             number of rows n; with m only near known, it does in every case that was measured.
    Why:     n - 1 times s^2 is the sum of (x - m)^2. So the noisy sum of squares about m, less s^2
             times the noisy count less 1, is e2 - 2 m e1 + (m^2 - s^2) e0 at the truth: noise
             alone, whose law is known for each m and s^2. No factor n / (n - 1) stays behind, of
             which only a noisy n is known. m is not known: the ends are the outermost over the
             ends and the middle of an interval for it. About another mean, squares add up to more
             by n times its squared distance, which is of second order: the middle gives about the
             least low end, the ends about the greatest high one.
    Checked: tests/release/test_coverage.py (ordinary data, and the largest variance there is).
    """
    _, step, low, high = grid_of(statistic.value, plan)
    likely = max(LIKELY_MEAN, 1.0 - RARER_MEAN * (1.0 - confidence))
    sums, rows, places, table = _mean_problem(statistic, plan, totals, noise, likely)
    first, last = _solve(*_move(sums, rows, low, high), places, table)
    moments = _moments(totals, statistic, plan)
    most = _most_variance(max(abs(low), abs(high)) * step, moments[0], noise[:, statistic.rows])
    ratios = np.linspace(0.0, most.max(initial=0.0), GRID)
    means = np.linspace(first.min(initial=high), last.max(initial=low), MEANS) * step
    thinned = _moments(noise[:: max(1, len(noise) // THINNED)], statistic, plan)
    widths = np.stack(
        [_widths(_about(thinned, mean), thinned[0], ratios, confidence) for mean in means]
    )
    found = [
        _solve(
            *_move(_about(moments, mean), moments[0] - 1.0, 0.0, most),
            ratios,
            _rows_at(widths, means, mean),
        )
        for mean in (first * step, (first + last) / 2 * step, last * step)
    ]
    lows, highs = (np.stack(ends) for ends in zip(*found, strict=True))
    own = variance(statistic, plan, totals)
    return (
        np.minimum(lows.min(axis=0), own),
        np.maximum(np.minimum(highs.max(axis=0), most), own),
    )


def _most_variance(half: float, rows: Floats, noise: Floats) -> Floats:
    """Return for each group the largest sample variance that its noisy count leaves possible.

    Why: values within ``half`` of a centre have a mean square of at most half^2 about their mean,
         and n / (n - 1) falls with n; a count is hardly ever farther off than all of the sample.
    """
    fewest = np.maximum(np.ceil(rows - np.abs(noise).max(initial=0.0)), 2.0)
    most: Floats = half**2 * (fewest / (fewest - 1.0))
    return most


def _move(sums: Floats, rows: Floats, least: float, most: Floats | float) -> Ends:
    """Return sums and counts moved to the nearest that ratios from least to most allow.

    Claim: no ratio r from least to most that was kept is lost, and that of the moved totals is
           kept whatever the noise is.
    Why:   r * rows lies between least * rows and most * rows, so moving the sum between them only
           brings it nearer. A count below zero tells nothing: at 0 every ratio is kept.
    """
    there = np.maximum(rows, 0.0)
    return np.clip(sums, least * there, most * there), there


def _moments(
    table: Floats, statistic: PlannedAggregate, plan: Plan
) -> tuple[Floats, Floats, Floats]:
    """Return count, sum and sum of squares about the centre of the range, in plain units."""
    _, step, _, _ = grid_of(statistic.value, plan)
    shift, fine, _, _ = grid_of(statistic.square, plan)
    rows = table[:, statistic.rows]
    return rows, table[:, statistic.value] * step, table[:, statistic.square] * fine + shift * rows


def _about(moments: tuple[Floats, Floats, Floats], mean: Floats | float) -> Floats:
    """Return the sum of squares about another mean."""
    rows, sums, squares = moments
    return squares - 2.0 * mean * sums + mean**2 * rows


def _rows_at(table: Floats, places: Floats, wanted: Floats) -> Floats:
    """Return the rows of a table at wanted places, between those that it has."""
    place = (wanted - places[0]) / max(places[-1] - places[0], TINY) * (len(places) - 1)
    below = np.clip(np.floor(place).astype(np.int64), 0, len(places) - 2)
    part = (place - below)[:, None]
    between: Floats = table[below] * (1.0 - part) + table[below + 1] * part
    return between


def _widths(sums: Floats, rows: Floats, ratios: Floats, confidence: float) -> Floats:
    """Return for each ratio how large the noise of sum - ratio * count gets."""
    # One row per ratio, because quantiles of contiguous values take about half the time.
    gaps = np.abs(sums - ratios[:, None] * rows)
    widths: Floats = np.quantile(gaps, confidence, axis=1, overwrite_input=True)
    return widths


def _solve(sums: Floats, rows: Floats, ratios: Floats, table: Floats) -> Ends:
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
    kept: NDArray[np.bool_],
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
