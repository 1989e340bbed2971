"""Exact integer totals and their grids.

A total is an integer added up over the rows of a group. Engines compute totals exactly, noise is
added to them, and all aggregates except quantiles are computed from the noisy totals. Summed values
are first rounded to a grid, and each row adds the integer index of its grid value.
"""

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Final

from confide.declare import Kind
from confide.declare.columns import finest_step
from confide.errors import UnsupportedQuery
from confide.expressions.functions import Function
from confide.expressions.tree import Call, Expression
from confide.plan.range_analysis import ANY_INT, ANY_LENGTH, UNBOUNDED, Range, RangeAnalysis
from confide.query.canonical import short_text

__all__ = [
    "MAX_SQUARED_INPUT",
    "MAX_SUMMAND",
    "Measure",
    "Total",
    "ValueGrid",
    "bound_of",
    "grid_for",
]

MAX_STEPS: Final = 2**52
"""Doubles hold every integer up to twice this value, so the engine clamps to exact bounds."""


MIN_STEP: Final = Fraction(1, 2**900)
"""The smallest step. Engines divide by it in doubles, which overflow at 2^1024."""


class Measure(StrEnum):
    """The quantity summed over the rows (or units) of a group."""

    ROWS = "rows"
    UNITS = "units"
    VALUE = "value"


@dataclass(frozen=True, slots=True)
class ValueGrid:
    """Maps a value x to the integer nearest to (x - center) / step, clamped to [low, high].

    Claim: every row adds an integer from ``low`` to ``high``, or 0 if x is NULL.
    Why:   the engine clamps the integer of each row, and the bounds are integers.
    """

    center: Fraction
    step: Fraction
    low: int
    high: int

    @property
    def largest(self) -> int:
        """The most that one row can add or subtract."""
        return max(abs(self.low), abs(self.high))


@dataclass(frozen=True, slots=True)
class Total:
    """A sum over the rows of a group for which ``where`` is true.

    ROWS counts the rows, or those with a non-NULL ``argument``. UNITS counts the units of the
    rows. VALUE sums the argument on its grid.
    """

    measure: Measure
    argument: Expression | None
    where: Expression | None
    grid: ValueGrid | None = None

    @property
    def per_row(self) -> int:
        """The most that one row can change the total, or 1 if no row changes it."""
        return max(1, self.grid.largest) if self.grid is not None else 1


def grid_for(
    found: Range, kind: Kind | None, step: Fraction | None, *, centered: bool
) -> ValueGrid:
    """Return the grid for values of a bounded range.

    ``step`` is the declared step of a column, or None; it is ignored for integers. With
    ``centered``, the grid's center is near the middle of the range instead of 0. If the range has
    one end at 0, this halves the largest value that a row can add, and more than halves it if the
    range is away from 0. (In steps, it may stay the same, because the step may be halved too.) If a
    bound is more than 2^52 steps away from the center, the step is doubled until it is not.
    """
    low, high = Fraction(found.low), Fraction(found.high)
    unit = Fraction(1) if kind is Kind.INT else step or finest_step(low, high)
    if centered and kind is Kind.INT and (low + high) % 2:
        unit = Fraction(1, 2)  # for example, the center of 0 and 1 is 1/2
    unit = max(unit, MIN_STEP)
    center = round((low + high) / 2 / unit) * unit if centered else Fraction(0)
    distance = max(abs(low - center), abs(high - center))
    while distance > unit * MAX_STEPS:
        unit *= 2
    return ValueGrid(center, unit, round((low - center) / unit), round((high - center) / unit))


MAX_SQUARED_INPUT: Final = 1e140
MAX_SUMMAND: Final = MAX_SQUARED_INPUT**2
"""The largest summand, also for squares. Noisy totals, up to 2^61 times as large, stay finite."""
TYPE_RANGES: Final = {
    **dict.fromkeys((Function.LENGTH, Function.STRPOS), ANY_LENGTH),
    Function.TO_INT: ANY_INT,
}


def bound_of(argument: Expression, analysis: RangeAnalysis, limit: float = MAX_SUMMAND) -> Range:
    """Return the range of an argument; refuse it if NULL, unbounded, or larger than ``limit``."""
    found = analysis.find(argument)
    if found.is_empty:
        raise UnsupportedQuery(f"`{short_text(argument)}` is always NULL. Remove it.")
    if not found.is_bounded or _is_as_wide_as_its_type(argument, analysis):
        raise UnsupportedQuery(
            f"`{short_text(argument)}` is unbounded, so one unit could change the answer by any "
            "amount. Clamp it with `LEAST(GREATEST(..., low), high)`, which turns NULL into `low`."
        )
    if found.largest > limit:
        raise UnsupportedQuery(
            f"`{short_text(argument)}` can exceed {limit:.0e}, so the answer or its interval "
            "could be infinite. Scale it, or clamp it with `LEAST(GREATEST(..., low), high)`, "
            "which turns NULL into `low`."
        )
    return found


def _is_as_wide_as_its_type(argument: Expression, analysis: RangeAnalysis) -> bool:
    """Return whether a value is bounded only because it is a string length or an integer."""
    found = analysis.find(argument)
    is_wide = found.high - found.low >= ANY_LENGTH.high
    return is_wide and not _StrictRangeAnalysis(analysis.columns).find(argument).is_bounded


class _StrictRangeAnalysis(RangeAnalysis):
    """Range analysis in which the limits of a type do not count as bounds."""

    __slots__ = ()

    def _find(self, expression: Expression) -> Range:
        found = super()._find(expression)
        is_type_range = isinstance(expression, Call) and found == TYPE_RANGES.get(
            expression.function
        )
        return UNBOUNDED if is_type_range else found
