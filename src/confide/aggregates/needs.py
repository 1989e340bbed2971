"""Needs of an aggregate; the columns released for them.

A need is plain data. The planner turns it into an exact total with a grid and a sensitivity, or
into a quantile, or refuses it. After the noise, the aggregate gets one column for each need.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from confide.expressions.tree import Expression

__all__ = [
    "ChooseQuantiles",
    "CountColumn",
    "CountRows",
    "CountUnits",
    "Ends",
    "Floats",
    "Marks",
    "Need",
    "QuantileColumn",
    "ReleasedColumn",
    "ReleasedColumns",
    "SumColumn",
    "SumProducts",
    "SumValues",
]

Floats = NDArray[np.float64]
Marks = NDArray[np.bool_]
Ends = tuple[Floats, Floats]


@dataclass(frozen=True, slots=True)
class CountRows:
    """The number of rows for which ``where`` holds, or of those where ``argument`` is not NULL."""

    argument: Expression | None
    where: Expression | None


@dataclass(frozen=True, slots=True)
class CountUnits:
    """The number of units that have a row for which ``where`` holds."""

    where: Expression | None


@dataclass(frozen=True, slots=True)
class SumValues:
    """The sum of ``argument``, or of its distance from the center of its range if ``centered``."""

    argument: Expression
    where: Expression | None
    centered: bool = True


@dataclass(frozen=True, slots=True)
class SumProducts:
    """The sum of the products of two arguments, each taken from the center of its range."""

    left: Expression
    right: Expression
    where: Expression | None


@dataclass(frozen=True, slots=True)
class ChooseQuantiles:
    """The quantiles of ``argument`` at each of ``levels``; each level has a column of its own."""

    argument: Expression
    where: Expression | None
    levels: tuple[Fraction, ...]


Need = CountRows | CountUnits | SumValues | SumProducts | ChooseQuantiles


@dataclass(frozen=True, slots=True)
class CountColumn:
    """Released counts, one for each group along the last axis."""

    values: Floats


@dataclass(frozen=True, slots=True)
class SumColumn:
    """Released sums of the whole numbers (x - center) / step, which lie from ``low`` to ``high``.

    Products are summed the same way; their center is that of the range of the products.
    """

    steps: Floats
    center: float
    step: float
    low: int
    high: int

    def mean(self, rows: Floats) -> Floats:
        """Return the mean of the values among so many rows, kept within their range."""
        means = np.clip(self.steps / np.maximum(rows, 1.0), self.low, self.high)
        return self.center + self.step * means

    def is_outside(self, rows: Floats) -> Marks:
        """Return where noise moved the mean of the values out of their range."""
        means = self.steps / np.maximum(rows, 1.0)
        outside: Marks = (means < self.low) | (means > self.high)
        return outside


@dataclass(frozen=True, slots=True)
class QuantileColumn:
    """Chosen quantiles, with the chosen ends of their intervals where an interval is asked for."""

    values: Floats
    ends: Ends | None = None


ReleasedColumn = CountColumn | SumColumn | QuantileColumn


@dataclass(frozen=True, slots=True)
class ReleasedColumns:
    """The columns of one aggregate in the order of its needs: released values, or their noise."""

    columns: tuple[ReleasedColumn, ...]

    def __len__(self) -> int:
        return len(self.columns)

    def count(self, place: int) -> Floats:
        """Return the counts that the need at ``place`` asked for."""
        match self.columns[place]:
            case CountColumn(values=values):
                return values
            case _:
                raise TypeError("this need does not ask for a count")

    def sum(self, place: int) -> SumColumn:
        """Return the sums that the need at ``place`` asked for."""
        match self.columns[place]:
            case SumColumn() as column:
                return column
            case _:
                raise TypeError("this need does not ask for a sum")

    def quantile(self, place: int) -> QuantileColumn:
        """Return the quantiles that the need at ``place`` asked for."""
        match self.columns[place]:
            case QuantileColumn() as column:
                return column
            case _:
                raise TypeError("this need does not ask for a quantile")
