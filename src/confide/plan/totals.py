"""Exact integer totals and their grids, from which every answer is computed."""

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Final

from confide.declare import Kind
from confide.declare.columns import finest_step
from confide.errors import UnsupportedQuery
from confide.expressions.functions import Function
from confide.expressions.tree import Call, Expression
from confide.plan.range_analysis import ANY_INT, ANY_LENGTH, ANYTHING, Range, RangeAnalysis
from confide.query.canonical import quote

__all__ = [
    "LARGEST_ADDED",
    "LARGEST_SQUARED",
    "Measure",
    "Total",
    "ValueGrid",
    "bound_of",
    "grid_for",
]

MOST_STEPS: Final = 2**52
"""Doubles hold every whole number up to twice this, so the engine's clamp has exact ends."""


FINEST: Final = Fraction(1, 2**900)
"""Below this the number of steps in 1 is no double."""


class Measure(StrEnum):
    """What is added up over the rows (or units) of a group."""

    ROWS = "rows"
    UNITS = "units"
    VALUE = "value"


@dataclass(frozen=True, slots=True)
class ValueGrid:
    """Turns a value x into the whole number nearest to (x - centre) / step, clamped.

    Claim: every row adds a whole number from ``low`` to ``high``, whatever x is.
    Why:   the clamp is applied inside the engine to each row, and its ends are whole.
    """

    centre: Fraction
    step: Fraction
    low: int
    high: int

    @property
    def largest(self) -> int:
        """The most that one row can add or take away."""
        return max(abs(self.low), abs(self.high))


@dataclass(frozen=True, slots=True)
class Total:
    """A sum over the rows of a group for which ``where`` holds.

    ROWS counts them, or those with a non-NULL ``argument``; UNITS counts the units they are
    about; VALUE adds up the argument on its grid.
    """

    measure: Measure
    argument: Expression | None
    where: Expression | None
    grid: ValueGrid | None = None

    @property
    def per_row(self) -> int:
        """The most that one row can change it by; 1 for a constant, which none can change."""
        return max(1, self.grid.largest) if self.grid is not None else 1


def grid_for(found: Range, kind: Kind | None, step: Fraction | None, *, centred: bool) -> ValueGrid:
    """Return the grid for values of a bounded range.

    ``step`` is the declared one, for a bare column; whole numbers need none. Centring halves what
    one row can add when the range lies on one side of zero. Numbers so large that they would be
    more than 2**52 steps away get a coarser step.
    """
    low, high = Fraction(found.low), Fraction(found.high)
    grain = Fraction(1) if kind is Kind.INT else step or finest_step(low, high)
    if centred and kind is Kind.INT and (low + high) % 2:
        grain = Fraction(1, 2)  # the middle of 0 and 1 is a half
    grain = max(grain, FINEST)
    centre = round((low + high) / 2 / grain) * grain if centred else Fraction(0)
    reach = max(abs(low - centre), abs(high - centre))
    while reach > grain * MOST_STEPS:
        grain *= 2
    return ValueGrid(centre, grain, round((low - centre) / grain), round((high - centre) / grain))


LARGEST_SQUARED: Final = 1e140
LARGEST_ADDED: Final = LARGEST_SQUARED**2
"""A noisy total is at most 2^61 times as large, or as its squares: far from the end of doubles."""
BY_TYPE: Final = {Function.LENGTH: ANY_LENGTH, Function.TO_INT: ANY_INT}


def bound_of(argument: Expression, finder: RangeAnalysis, most: float = LARGEST_ADDED) -> Range:
    """Return where an argument lies, or refuse one that is unbounded, or beyond ``most``."""
    found = finder.find(argument)
    if found.is_empty:
        raise UnsupportedQuery(f"{quote(argument)} is always NULL; leave it out")
    if not found.is_bounded or _is_as_wide_as_its_type(argument, finder):
        raise UnsupportedQuery(
            f"{quote(argument)} has no bounds, so one person could change the answer without "
            "limit; write LEAST(GREATEST(..., low), high) around it, where NULL becomes low"
        )
    if found.largest > most:
        raise UnsupportedQuery(
            f"{quote(argument)} can be larger than {most:.0e}, so the answer or its "
            "interval might be infinite; write LEAST(GREATEST(..., low), high) around it, "
            "where NULL becomes low, or scale it"
        )
    return found


def _is_as_wide_as_its_type(argument: Expression, finder: RangeAnalysis) -> bool:
    """Tell whether nothing but a type bounds a value: that of lengths, or of whole numbers."""
    found = finder.find(argument)
    is_wide = found.high - found.low >= ANY_LENGTH.high
    return is_wide and not _Strict(finder.columns).find(argument).is_bounded


class _Strict(RangeAnalysis):
    """Finds ranges in which what a type can hold is no bound."""

    __slots__ = ()

    def _find(self, expression: Expression) -> Range:
        found = super()._find(expression)
        is_by_type = isinstance(expression, Call) and found == BY_TYPE.get(expression.function)
        return ANYTHING if is_by_type else found
