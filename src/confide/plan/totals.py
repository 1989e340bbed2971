"""Exact whole numbers, one a group, from which every answer is computed after the noise."""

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Final

from confide.declare import Kind
from confide.declare.columns import finest_step
from confide.expressions.tree import Expression
from confide.plan.ranges import Range

__all__ = ["Measure", "Total", "ValueGrid", "grid_for"]

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
