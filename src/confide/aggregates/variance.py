"""`VAR_SAMP` and `STDDEV`."""

from collections.abc import Collection, Sequence
from typing import ClassVar, Final

import numpy as np

from confide.aggregates.intervals import (
    GRID_SIZE,
    mean_problem,
    move_totals,
    solve_ratios,
    widths_of,
)
from confide.aggregates.needs import (
    CountRows,
    Ends,
    Floats,
    Mask,
    Need,
    ReleasedColumns,
    SumProducts,
    SumValues,
)
from confide.aggregates.registry import AggregateFunction, Pattern, numeric_kind, register
from confide.declare import Kind
from confide.expressions.terms import AggregateTerm, Term, aggregate_term
from confide.expressions.tree import AggregateCall, Expression

__all__ = ["DeviationFunction", "VarianceFunction", "stddev", "variance"]

MEAN_COUNT: Final = 9
THINNED_SIZE: Final = 2**13
MIN_MEAN_CONFIDENCE: Final = 0.8
MEAN_MISS_FACTOR: Final = 4.0
MIN_WIDTH: Final = 1e-300

VALUE, ROWS, SQUARE = 0, 1, 2
"""The indices of the needs: the sum of the values, the row count, and the sum of the squares."""


@register
class VarianceFunction(AggregateFunction):
    """The sample variance of the values, which is never below zero."""

    name: ClassVar[str] = "VAR_SAMP"
    patterns: ClassVar[tuple[Pattern, ...]] = (
        Pattern("VAR_SAMP(x)"),
        Pattern("VARIANCE(x)", is_listed=False),
    )
    summary: ClassVar[str] = "sample variance of the values"
    is_centered: ClassVar[bool] = True

    def result_kind(self, arguments: Sequence[Expression]) -> Kind:
        numeric_kind(arguments)
        return Kind.FLOAT

    def needs(self, call: AggregateCall, siblings: Collection[AggregateCall]) -> tuple[Need, ...]:
        ((argument,), where) = call.arguments, call.where
        return (
            SumValues(argument, where),
            CountRows(argument, where),
            SumProducts(argument, argument, where),
        )

    def estimate(self, call: AggregateCall, columns: ReleasedColumns) -> Floats:
        return estimate_variance(columns)

    def interval(
        self,
        call: AggregateCall,
        columns: ReleasedColumns,
        noise: ReleasedColumns,
        confidence: float,
    ) -> Ends:
        return variance_interval(columns, noise, confidence)

    def explain(self, call: AggregateCall) -> str:
        return "follows from noisy sums of values and squares, and a noisy count"

    def is_clipped(self, call: AggregateCall, columns: ReleasedColumns) -> Mask:
        """Return a mask of the groups with a moment out of its range, or with variance 0."""
        rows = columns.count(ROWS)
        value, square = (columns.sum(index).is_outside(rows) for index in (VALUE, SQUARE))
        return value | square | (estimate_variance(columns) <= 0.0)


@register
class DeviationFunction(VarianceFunction):
    """The sample standard deviation of the values."""

    name: ClassVar[str] = "STDDEV"
    patterns: ClassVar[tuple[Pattern, ...]] = (
        Pattern("STDDEV(x)"),
        Pattern("STDDEV_SAMP(x)", is_listed=False),
    )
    summary: ClassVar[str] = "sample standard deviation of the values"

    def estimate(self, call: AggregateCall, columns: ReleasedColumns) -> Floats:
        return np.sqrt(estimate_variance(columns))

    def interval(
        self,
        call: AggregateCall,
        columns: ReleasedColumns,
        noise: ReleasedColumns,
        confidence: float,
    ) -> Ends:
        low, high = variance_interval(columns, noise, confidence)
        return np.sqrt(low), np.sqrt(high)


def estimate_variance(columns: ReleasedColumns) -> Floats:
    """Return each group's sample variance: n / (n - 1) times (mean square - squared mean).

    Both means are of differences from the center of the range. The noisy count n is at least 2
    here, and the variance at least 0.
    """
    rows, values = columns.count(ROWS), columns.sum(VALUE)
    mean = values.mean(rows) - values.center
    square = columns.sum(SQUARE).mean(rows)
    n = np.maximum(rows, 2.0)
    variance: Floats = np.maximum(square - mean**2, 0.0) * n / (n - 1.0)
    return variance


def variance_interval(columns: ReleasedColumns, noise: ReleasedColumns, confidence: float) -> Ends:
    """Return both ends of the interval of each group's sample variance.

    Claim:   the interval contains the released estimate. If the true mean m were known, it would
             contain the sample variance s^2 with at least the probability ``confidence``, for any
             number of rows n. With an interval for m instead, it did so in every measured case.
    Why:     (n - 1) s^2 is the sum of (x - m)^2. Let e0, e1, and e2 be the noise of the count, of
             the sum, and of the sum of squares. For the true m and s^2, the noisy sum of squares
             about m, minus s^2 times (noisy count - 1), is e2 - 2 m e1 + (m^2 - s^2) e0. This is
             noise alone, with a known distribution for each m and s^2. The factor n / (n - 1), for
             which only a noisy n is known, is not needed. As m is unknown, solve at the ends and
             in the middle of an interval for m, and take the lowest low end and the highest high
             end. About another mean, the sum of squares is larger by n times the squared distance,
             which is of second order. So the middle gives about the smallest low end, and the ends
             about the greatest high end.
    Checked: tests/release/test_coverage.py (ordinary data, and the largest possible variance).
    """
    total = columns.sum(VALUE)
    step, low, high = total.step, total.low, total.high
    mean_confidence = max(MIN_MEAN_CONFIDENCE, 1.0 - MEAN_MISS_FACTOR * (1.0 - confidence))
    rows, noise_of_rows = columns.count(ROWS), noise.count(ROWS)
    grid, table = mean_problem(total, noise.sum(VALUE).steps, noise_of_rows, mean_confidence)
    first, last = solve_ratios(*move_totals(total.steps, rows, low, high), grid, table)
    moments = _moments(columns)
    most = _max_variance(max(abs(low), abs(high)) * step, moments[0], noise_of_rows)
    ratios = np.linspace(0.0, most.max(initial=0.0), GRID_SIZE)
    means = np.linspace(first.min(initial=high), last.max(initial=low), MEAN_COUNT) * step
    thinned = _moments(noise, every=max(1, len(noise_of_rows) // THINNED_SIZE))
    widths = np.stack(
        [widths_of(_about(thinned, mean), thinned[0], ratios, confidence) for mean in means]
    )
    found = [
        solve_ratios(
            *move_totals(_about(moments, mean), moments[0] - 1.0, 0.0, most),
            ratios,
            _interpolate_rows(widths, means, mean),
        )
        for mean in (first * step, (first + last) / 2 * step, last * step)
    ]
    lows, highs = (np.stack(ends) for ends in zip(*found, strict=True))
    estimate = estimate_variance(columns)
    return (
        np.minimum(lows.min(axis=0), estimate),
        np.maximum(np.minimum(highs.max(axis=0), most), estimate),
    )


def _max_variance(half_range: float, rows: Floats, noise: Floats) -> Floats:
    """Return for each group the largest sample variance that its noisy count allows.

    Why: values within ``half_range`` of a center have a mean square of at most half_range^2 about
         their mean, and n / (n - 1) decreases in n. The size of a count's noise rarely exceeds
         the largest in the sample ``noise``.
    """
    min_rows = np.maximum(np.ceil(rows - np.abs(noise).max(initial=0.0)), 2.0)
    most: Floats = half_range**2 * (min_rows / (min_rows - 1.0))
    return most


Moments = tuple[Floats, Floats, Floats]
"""The count, the sum, and the sum of squares of the values' differences from their range's center.

Sums are in the units of the values, not in grid steps."""


def _moments(columns: ReleasedColumns, every: int = 1) -> Moments:
    """Return the moments of every group, or of each ``every``-th element of a noise sample."""
    values, squares = columns.sum(VALUE), columns.sum(SQUARE)
    rows = columns.count(ROWS)[::every]
    sums = values.steps[::every] * values.step
    return rows, sums, squares.steps[::every] * squares.step + squares.center * rows


def _about(moments: Moments, mean: Floats | float) -> Floats:
    """Return the sum of squares about ``mean``, which is given as a difference from the center."""
    rows, sums, squares = moments
    return squares - 2.0 * mean * sums + mean**2 * rows


def _interpolate_rows(table: Floats, means: Floats, wanted: Floats) -> Floats:
    """Return the row of the table at each wanted mean, interpolated linearly.

    Row i of the table belongs to ``means[i]``; the means are evenly spaced.
    """
    position = (wanted - means[0]) / max(means[-1] - means[0], MIN_WIDTH) * (len(means) - 1)
    below = np.clip(np.floor(position).astype(np.int64), 0, len(means) - 2)
    weight = (position - below)[:, None]
    between: Floats = table[below] * (1.0 - weight) + table[below + 1] * weight
    return between


def variance(what: Term | str) -> AggregateTerm:
    """Return the sample variance of a column or term."""
    return aggregate_term(VarianceFunction.name, what)


def stddev(what: Term | str) -> AggregateTerm:
    """Return the sample standard deviation of a column or term."""
    return aggregate_term(DeviationFunction.name, what)
