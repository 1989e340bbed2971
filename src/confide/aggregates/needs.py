"""Needs of an aggregate (counts, sums, or quantiles), and the columns that supply them.

A need is plain data. The planner turns it into an exact total with a grid and a sensitivity, or
into a quantile, or refuses it. After the noise is added, the aggregate gets one column per need,
or one per level for quantiles.
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
    "Mask",
    "Need",
    "QuantileColumn",
    "ReleasedColumn",
    "ReleasedColumns",
    "SumColumn",
    "SumProducts",
    "SumValues",
]

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Ends = tuple[Floats, Floats]
"""The lower and the upper end of an interval for each group."""


@dataclass(frozen=True, slots=True)
class CountRows:
    """The number of rows for which ``where`` is true and ``argument`` is not NULL, if given."""

    argument: Expression | None
    where: Expression | None


@dataclass(frozen=True, slots=True)
class CountUnits:
    """The number of units that have a row for which ``where``, if given, is true."""

    where: Expression | None


@dataclass(frozen=True, slots=True)
class SumValues:
    """The sum of ``argument`` over the rows for which ``where``, if given, is true.

    If ``centered``, the center of the argument's range is subtracted from each value. NULL adds 0.
    """

    argument: Expression
    where: Expression | None
    centered: bool = True


@dataclass(frozen=True, slots=True)
class SumProducts:
    """The sum of the products of two arguments, each minus the center of its range."""

    left: Expression
    right: Expression
    where: Expression | None


@dataclass(frozen=True, slots=True)
class ChooseQuantiles:
    """The quantiles of ``argument`` at each of ``levels``, one column per level."""

    argument: Expression
    where: Expression | None
    levels: tuple[Fraction, ...]


Need = CountRows | CountUnits | SumValues | SumProducts | ChooseQuantiles


@dataclass(frozen=True, slots=True)
class CountColumn:
    """Released counts, one per group along the last axis."""

    values: Floats


@dataclass(frozen=True, slots=True)
class SumColumn:
    """Released sums, in multiples of the grid step.

    ``steps`` has the noisy sum of each group. A value x adds the integer nearest to
    (x - center) / step, from ``low`` to ``high``; a NULL adds 0. For products, x is the product,
    and ``center`` is the center of its range.
    """

    steps: Floats
    center: float
    step: float
    low: int
    high: int

    def mean(self, rows: Floats) -> Floats:
        """Return the mean of x in each group, clipped to its range; ``rows`` are noisy counts."""
        means = np.clip(self.steps / np.maximum(rows, 1.0), self.low, self.high)
        return self.center + self.step * means

    def is_outside(self, rows: Floats) -> Mask:
        """Return a mask of the groups where noise moved the mean out of the range."""
        means = self.steps / np.maximum(rows, 1.0)
        outside: Mask = (means < self.low) | (means > self.high)
        return outside


@dataclass(frozen=True, slots=True)
class QuantileColumn:
    """Privately chosen quantiles, and the ends of their intervals if intervals were requested."""

    values: Floats
    ends: Ends | None = None


ReleasedColumn = CountColumn | SumColumn | QuantileColumn


@dataclass(frozen=True, slots=True)
class ReleasedColumns:
    """The columns of one aggregate, in the order of its needs.

    They hold released values or, when intervals are computed, samples of the noise alone.
    """

    columns: tuple[ReleasedColumn, ...]

    def __len__(self) -> int:
        return len(self.columns)

    def count(self, index: int) -> Floats:
        """Return the counts in the column at ``index``."""
        match self.columns[index]:
            case CountColumn(values=values):
                return values
            case _:
                raise TypeError("This need is not a count.")

    def sum(self, index: int) -> SumColumn:
        """Return the sums in the column at ``index``."""
        match self.columns[index]:
            case SumColumn() as column:
                return column
            case _:
                raise TypeError("This need is not a sum.")

    def quantile(self, index: int) -> QuantileColumn:
        """Return the quantiles in the column at ``index``."""
        match self.columns[index]:
            case QuantileColumn() as column:
                return column
            case _:
                raise TypeError("This need is not a quantile.")
