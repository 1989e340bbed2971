"""Histogram cells in which rows are counted before a quantile is chosen.

A cell is an interval of values, identified by its index. Each cell has an integer weight, by which
the choice multiplies its probability. *Positions* count the total weight of all cells in order: the
cell with index i covers the positions from ``start(i)`` to just before ``start(i + 1)``.

Cells depend only on the declaration and the number of groups. If there are few distinct values,
each gets its own cell. Otherwise cells are narrow compared both with the entire range and with
the value itself: the index of a value's cell comes from the sum of a linear term and a term that
is logarithmic on both sides of zero. Each term gets half of the cells.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from confide.plan.range_analysis import Range
from confide.plan.totals import ValueGrid

__all__ = ["AsinhCells", "Cells", "GridCells", "cells_for"]

MAX_VALUES: Final = 2**20
MAX_TOTAL_CELLS: Final = 2**26
TARGET_TOTAL_CELLS: Final = 2**22
MAX_CELLS: Final = 2**18
MIN_CELLS: Final = 2**12
MAX_EQUAL_CELLS: Final = 2**10
CURVE_DEPTH: Final = 2.0**30
"""The ratio of a range's largest magnitude to the one below which cells stop getting narrower."""

MIN_MAGNITUDE: Final = 1e-290
BISECTION_STEPS: Final = 120
POSITION_TOLERANCE: Final = 2.0**-16
"""The largest fraction of a cell by which an engine's position of a value may differ from ours."""

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class GridCells:
    """One cell per value of a grid, from its lowest value (stored here as its ``center``).

    Grids of up to 1,024 values have equal weights. On longer grids, each value has weight 1 plus a
    bonus that decreases with its distance from zero; the bonuses add up to about the number of
    cells. Most values are expected near zero, because wide ranges are usually declared to cover
    rare values.
    """

    grid: ValueGrid
    range: Range
    is_integer: bool

    @property
    def count(self) -> int:
        """The number of cells."""
        return self.grid.high + 1

    @property
    def bounds(self) -> tuple[float, float]:
        """The ends of the range."""
        return float(self.range.low), float(self.range.high)

    def start(self, cells: Integers) -> Integers:
        """Return the total weight of all cells before each given cell."""
        return cells if self.count <= MAX_EQUAL_CELLS else self._starts()[cells]

    def find(self, positions: Integers) -> Integers:
        """Return the cells that contain the given cumulative weights."""
        if self.count <= MAX_EQUAL_CELLS:
            return positions
        return np.searchsorted(self._starts(), positions, side="right") - 1

    def _starts(self) -> Integers:
        return _weigh(round(self.grid.center / self.grid.step), self.count)

    def middle(self, cells: Integers) -> Floats:
        """Return the value of each cell."""
        return np.clip(float(self.grid.center) + cells * float(self.grid.step), *self.bounds)

    def ends(self, cells: Integers) -> tuple[Floats, Floats]:
        """Return both ends of each cell: its value, minus and plus half a step for a float."""
        half = 0.0 if self.is_integer else float(self.grid.step) / 2
        values = float(self.grid.center) + cells * float(self.grid.step)
        return np.clip(values - half, *self.bounds), np.clip(values + half, *self.bounds)


@lru_cache(maxsize=8)
def _weigh(first: int, count: int) -> Integers:
    """Return the total weight before each of ``count`` cells, and then that of all cells.

    ``first`` is the lowest value of the grid, in grid steps.
    """
    near = 1.0 / (np.abs(np.arange(first, first + count, dtype=np.float64)) + 1.0)
    weights = 1 + np.rint(near * (count / near.sum())).astype(np.int64)
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(weights)])


@dataclass(frozen=True, slots=True)
class AsinhCells:
    """Cells of equal weight for a range with too many values for one cell each.

    The position of x is line * (x - low) + bend * (asinh(rate * x) - asinh(rate * low)), and the
    index of its cell is the integer part of that.

    Why: both terms increase with x, so cells are in order. The first term alone makes every
         cell 1 / line wide; the second alone makes cells about |x| / bend wide, except near zero;
         together, each cell is narrower than either. Privacy requires only that a row's cell is a
         function of that row.
    """

    low: float
    high: float
    count: int
    line: float
    bend: float
    rate: float
    is_integer: bool

    @property
    def bounds(self) -> tuple[float, float]:
        """The ends of the range."""
        return self.low, self.high

    @property
    def offset(self) -> float:
        """The value of the asinh term at the lower end."""
        return math.asinh(self.rate * self.low)

    def start(self, cells: Integers) -> Integers:
        """Return the total weight of all cells before each given cell."""
        return cells

    def find(self, positions: Integers) -> Integers:
        """Return the cells that contain the given cumulative weights."""
        return positions

    def middle(self, cells: Integers) -> Floats:
        """Return a value in each cell, rounded to an integer if the argument is an integer."""
        values = self._invert(cells.astype(np.float64) + 0.5)
        return np.clip(np.rint(values), self.low, self.high) if self.is_integer else values

    def ends(self, cells: Integers) -> tuple[Floats, Floats]:
        """Return two values that enclose each cell, with a tolerance for rounding in engines."""
        positions = cells.astype(np.float64)
        return self._invert(positions - POSITION_TOLERANCE), self._invert(
            positions + (1.0 + POSITION_TOLERANCE)
        )

    def _invert(self, positions: Floats) -> Floats:
        """Return the value at each position by bisection; positions out of range give an end."""
        low, high = np.full(positions.shape, self.low), np.full(positions.shape, self.high)
        for _ in range(BISECTION_STEPS):
            middle = low / 2 + high / 2
            curve = np.arcsinh(self.rate * middle) - self.offset
            with np.errstate(over="ignore"):  # the widest ranges may overflow to infinity
                is_below = self.line * (middle - self.low) + self.bend * curve < positions
            low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
        low = np.where(positions >= self.count, self.high, low)
        return np.where(positions <= 0.0, self.low, low / 2 + np.maximum(low, high) / 2)


Cells = GridCells | AsinhCells


def cells_for(
    value_range: Range, step: Fraction | None, groups: int | None, *, is_integer: bool
) -> Cells | None:
    """Return cells for a bounded range, or None if there are too many groups for them.

    ``step`` is 1 for integers, the declared step of a float column, or None. ``groups`` is the
    number of groups in the answer, or None if it is unknown.
    """
    low, high = Fraction(value_range.low), Fraction(value_range.high)
    group_count = groups or TARGET_TOTAL_CELLS // MIN_CELLS
    for grain in [
        *([] if step is None else [step]),
        *[Fraction(1)] * (high - low <= MIN_MAGNITUDE),
    ]:
        first, last = round(low / grain), round(high / grain)
        if last - first < min(MAX_VALUES, MAX_TOTAL_CELLS // group_count):
            return GridCells(
                ValueGrid(first * grain, grain, 0, last - first), value_range, is_integer
            )
    count = max(
        MIN_CELLS, min(MAX_CELLS, 2 ** math.floor(math.log2(TARGET_TOTAL_CELLS / group_count)))
    )
    if count * group_count > MAX_TOTAL_CELLS:
        return None
    return _asinh_cells(float(low), float(high), count, is_integer=is_integer)


def _asinh_cells(low: float, high: float, count: int, *, is_integer: bool) -> AsinhCells:
    """Return cells of which half follow the linear term, and half the asinh term.

    All cells follow the linear term if the asinh term rises by at most 1 over the range, or if the
    numbers are too small to compute it.
    """
    largest = max(abs(low), abs(high))
    rate = CURVE_DEPTH / largest if largest > MIN_MAGNITUDE else 0.0
    rise = math.asinh(rate * high) - math.asinh(rate * low)
    is_bent = rise > 1.0
    cells_per_term = count / 2 if is_bent else count
    line = float(Fraction(cells_per_term) / (Fraction(high) - Fraction(low)))
    return AsinhCells(
        low, high, count, line, cells_per_term / rise if is_bent else 0.0, rate, is_integer
    )
