"""What one row adds to a sum: a whole number within a grid."""

from sqlglot import expressions as sql

from confide.engines.expressions import Sql, call, cast, number
from confide.engines.fragments import clamped
from confide.plan import ValueGrid

__all__ = ["exact_sum", "whole_part"]


def whole_part(value: Sql, grid: ValueGrid) -> Sql:
    """Return the value on its grid, as a whole number; NULL stays NULL."""
    distance = cast(value, "DOUBLE") - number(float(grid.centre))
    steps = sql.Paren(this=distance) * number(float(1 / grid.step))
    # Privacy: the clamp has whole ends and only rounding comes after, so each row stays within.
    return cast(call("ROUND", clamped(steps, float(grid.low), float(grid.high))), "BIGINT")


def exact_sum(part: Sql) -> Sql:
    """Return a sum of whole numbers that neither overflows nor depends on the order of rows."""
    return sql.Sum(this=cast(part, "DECIMAL(38, 0)"))
