"""What one row adds to a sum: a whole number within a grid."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from sqlglot import expressions as sql

from confide.declare import Kind
from confide.engines.expressions import Sql, cast, number, try_cast
from confide.engines.fragments import clamped
from confide.plan import Range, ValueGrid

__all__ = [
    "Uncentred",
    "clipped_part",
    "ends_within",
    "exact_sum",
    "stored_part",
    "try_steps",
    "uncentre",
    "whole_part",
]

HALF: Final = Fraction(1, 2)
MOST_PARTS: Final = 2**8
LARGEST_EXACT: Final = 2**53


@dataclass(frozen=True, slots=True)
class Uncentred:
    """A grid that begins at zero, and how sums on it become sums on one with a centre.

    Claim: factor * (sum over rows) - shift * (number of rows) is the sum on the grid with a centre.
    Why:   every row adds factor * part - shift there, and both are whole.
    """

    grid: ValueGrid
    factor: int = 1
    shift: int = 0

    @property
    def is_moved(self) -> bool:
        """Whether sums on the one grid differ from those on the other."""
        return (self.factor, self.shift) != (1, 0)

    def centre(self, total: int, rows: int) -> int:
        """Return the sum on the grid with a centre, of so many rows."""
        return self.factor * total - self.shift * rows


def uncentre(grid: ValueGrid, kind: Kind | None) -> Uncentred:
    """Return the grid on which rows of a column are added up fastest, or the same one.

    Why: whole numbers are added up as they are: (x - centre) / step is factor * x - shift, with
         whole factor and shift. Reals take one step less: what is nearest to x / step is ``shift``
         more than what is nearest to (x - centre) / step, and doubles hold all steps exactly.
    """
    rate, shift = 1 / grid.step, grid.centre / grid.step
    if shift.denominator != 1:
        return Uncentred(grid)
    low, high = grid.low + int(shift), grid.high + int(shift)
    if kind is Kind.INT and rate.denominator == 1 and rate <= MOST_PARTS:
        factor = int(rate)
        whole = ValueGrid(Fraction(0), Fraction(1), low // factor, -(-high // factor))
        return Uncentred(whole, factor, int(shift))
    if kind is Kind.FLOAT and max(abs(low), abs(high)) <= LARGEST_EXACT:
        return Uncentred(ValueGrid(Fraction(0), grid.step, low, high), 1, int(shift))
    return Uncentred(grid)


def whole_part(value: Sql, grid: ValueGrid) -> Sql:
    """Return the value on its grid, as a whole number; NULL stays NULL.

    The cast rounds to the nearest whole number, ties to the even one.
    """
    # Privacy: the clamp has whole ends and only rounding comes after, so each row stays within.
    steps = clamped(_steps(value, grid), float(grid.low), float(grid.high))
    return cast(steps, "BIGINT")


def clipped_part(value: Sql, kind: Kind, grid: ValueGrid, clipped: Range) -> Sql:
    """Return the same for a value that a view clips to a range, without a second clamp if possible.

    Why: whole numbers, of at most 54 bits, are multiplied and subtracted exactly. For doubles, the
         steps rise with the value, also when each operation rounds, so those of the range's ends,
         computed here by the same operations, enclose all others; where they round to whole numbers
         within the grid, so does every value.
    """
    rate, centre = 1 / grid.step, grid.centre / grid.step
    if kind is Kind.INT and rate.denominator == centre.denominator == 1 and rate <= MOST_PARTS:
        scaled = value * number(int(rate)) if rate != 1 else value
        return scaled - number(int(centre)) if centre else scaled
    if ends_within(grid, clipped) is not None:
        return cast(_steps(value, grid), "BIGINT")
    return whole_part(value, grid)


def ends_within(grid: ValueGrid, clipped: Range) -> tuple[int, int] | None:
    """Return the steps of a range's ends, as the engine computes them, if the grid has both."""
    centre, rate = float(grid.centre), float(1 / grid.step)
    low, high = ((float(end) - centre) * rate for end in (clipped.low, clipped.high))
    is_inside = grid.low - HALF < Fraction(low) and Fraction(high) < grid.high + HALF
    return (round(low), round(high)) if is_inside else None


def try_steps(stored: Sql, grid: ValueGrid) -> Sql:
    """Return a double that nobody clipped on its grid, NULL where it has no place in 64 bits."""
    return try_cast(_steps(stored, grid), "BIGINT")


def stored_part(steps: Sql, stored: Sql, clipped: Range, ends: tuple[int, int]) -> Sql:
    """Return what `clipped_part` gives, from a double that nobody clipped and its `try_steps`.

    Claim: a whole number from the first to the second of ``ends``, or NULL for NULL and NaN.
    Why:   what is not one of the ends was compared with them. Steps rise with the value, so they
           lie between the ends for every value in the range; a value below it, also minus infinity,
           counts as the first end, and one above as the second. NaN is above infinity.
    """
    # It is faster to clamp whole numbers than doubles, whose comparisons must mind NaN.
    low, high = (number(end) for end in ends)
    infinity = cast(sql.Literal.string("inf"), "DOUBLE")
    least = number(float(clipped.low))
    inside = sql.Between(this=steps, low=low, high=high)
    return sql.Case(
        ifs=[
            sql.If(this=inside, true=steps.copy()),
            sql.If(this=sql.LT(this=stored, expression=least), true=low.copy()),
            sql.If(this=sql.LTE(this=stored.copy(), expression=infinity), true=high.copy()),
        ]
    )


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
