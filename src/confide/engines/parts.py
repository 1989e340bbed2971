"""What one row adds to a sum: a whole number within a grid."""

from fractions import Fraction

from sqlglot import expressions as sql

from confide.declare import Kind
from confide.engines.expressions import Sql, call, cast, number
from confide.engines.fragments import clamped
from confide.plan import Range, ValueGrid

__all__ = ["clipped_part", "exact_sum", "whole_part"]

HALF = Fraction(1, 2)


def whole_part(value: Sql, grid: ValueGrid) -> Sql:
    """Return the value on its grid, as a whole number; NULL stays NULL."""
    # Privacy: the clamp has whole ends and only rounding comes after, so each row stays within.
    steps = clamped(_steps(value, grid), float(grid.low), float(grid.high))
    return cast(call("ROUND", steps), "BIGINT")


def clipped_part(value: Sql, kind: Kind, grid: ValueGrid, clipped: Range) -> Sql:
    """Return the same for a value that a view clips to a range, without a second clamp if possible.

    Why: whole numbers are subtracted exactly. For doubles, the steps rise with the value, also when
         each operation rounds, so those of the range's ends, computed here by the same operations,
         enclose all others; where they round to whole numbers within the grid, so does every value.
    """
    if kind is Kind.INT and grid.step == 1 and grid.centre.denominator == 1:
        return value - number(int(grid.centre)) if grid.centre else value
    centre, rate = float(grid.centre), float(1 / grid.step)
    low, high = ((float(end) - centre) * rate for end in (clipped.low, clipped.high))
    if grid.low - HALF < Fraction(low) and Fraction(high) < grid.high + HALF:
        return cast(call("ROUND", _steps(value, grid)), "BIGINT")
    return whole_part(value, grid)


def exact_sum(part: Sql) -> Sql:
    """Return a sum of whole numbers that neither overflows nor depends on the order of rows.

    DuckDB adds up 64-bit numbers in 128 bits.
    """
    return sql.Sum(this=part)


def _steps(value: Sql, grid: ValueGrid) -> Sql:
    distance = cast(value, "DOUBLE")
    if grid.centre:
        distance = sql.Paren(this=distance - number(float(grid.centre)))
    return distance * number(float(1 / grid.step)) if grid.step != 1 else distance
