"""Histogram cells, counted before a quantile is chosen.

Cells follow from the declaration and the number of groups alone. Few enough different values get a
cell each. All others share cells that are fine both beside the whole range and beside the value
itself: the place of a value grows with it half along a straight line, half along a curve that is
logarithmic on both sides of zero.
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

MOST_VALUES: Final = 2**20
MOST_COUNTED: Final = 2**26
WANTED: Final = 2**22
FINEST: Final = 2**18
COARSEST: Final = 2**12
ALIKE: Final = 2**10
DEPTH: Final = 2.0**30
"""How far below the largest number of a range cells still shrink with the value."""

TINY: Final = 1e-290
HALVINGS: Final = 120
SLACK: Final = 2.0**-16
"""By which part of a cell an engine may place a value differently from us."""

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class GridCells:
    """One cell for each value of a grid that starts at its centre.

    Up to 1,024 values weigh the same. Of more, each weighs 1 and a share of as much again that
    falls with its distance from zero, since wide ranges are mostly declared for rare values.
    """

    grid: ValueGrid
    range: Range
    is_whole: bool

    @property
    def count(self) -> int:
        """The number of cells."""
        return self.grid.high + 1

    @property
    def bounds(self) -> tuple[float, float]:
        """The ends of the range."""
        return float(self.range.low), float(self.range.high)

    def start(self, cells: Integers) -> Integers:
        """Return what all cells before each of these weigh together."""
        return cells if self.count <= ALIKE else self._starts()[cells]

    def find(self, places: Integers) -> Integers:
        """Return the cells that hold the places at which so much weight lies before them."""
        if self.count <= ALIKE:
            return places
        return np.searchsorted(self._starts(), places, side="right") - 1

    def _starts(self) -> Integers:
        return _weigh(round(self.grid.centre / self.grid.step), self.count)

    def middle(self, cells: Integers) -> Floats:
        """Return the value of each cell."""
        return np.clip(float(self.grid.centre) + cells * float(self.grid.step), *self.bounds)

    def ends(self, cells: Integers) -> tuple[Floats, Floats]:
        """Return both ends of each cell: its value, up to what was rounded to the grid."""
        half = 0.0 if self.is_whole else float(self.grid.step) / 2
        values = float(self.grid.centre) + cells * float(self.grid.step)
        return np.clip(values - half, *self.bounds), np.clip(values + half, *self.bounds)


@lru_cache(maxsize=8)
def _weigh(first: int, count: int) -> Integers:
    """Return the weight before each cell, and at the end that of all; ``first`` is its number."""
    near = 1.0 / (np.abs(np.arange(first, first + count, dtype=np.float64)) + 1.0)
    weights = 1 + np.rint(near * (count / near.sum())).astype(np.int64)
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(weights)])


@dataclass(frozen=True, slots=True)
class AsinhCells:
    """Cells of a range of real numbers, or of too many whole ones: all weigh the same.

    The place of x is line * (x - low) + bend * (asinh(rate * x) - asinh(rate * low)).

    Why: both terms grow with x, so cells are in order; the first alone makes all cells as wide as
         range / line, the second alone cells of about |x| / bend, and together each is narrower.
         What privacy needs is only that a row's cell is a function of that row.
    """

    low: float
    high: float
    count: int
    line: float
    bend: float
    rate: float
    is_whole: bool

    @property
    def bounds(self) -> tuple[float, float]:
        """The ends of the range."""
        return self.low, self.high

    @property
    def offset(self) -> float:
        """What the curve has at the lower end."""
        return math.asinh(self.rate * self.low)

    def start(self, cells: Integers) -> Integers:
        """Return what all cells before each of these weigh together."""
        return cells

    def find(self, places: Integers) -> Integers:
        """Return the cells that hold the places at which so much weight lies before them."""
        return places

    def middle(self, cells: Integers) -> Floats:
        """Return a value of each cell, a whole one where values are whole."""
        values = self._invert(cells.astype(np.float64) + 0.5)
        return np.clip(np.rint(values), self.low, self.high) if self.is_whole else values

    def ends(self, cells: Integers) -> tuple[Floats, Floats]:
        """Return values that enclose each cell."""
        places = cells.astype(np.float64)
        return self._invert(places - SLACK), self._invert(places + (1.0 + SLACK))

    def _invert(self, places: Floats) -> Floats:
        """Return the value at each place, by halving; outside all places an end of the range."""
        low, high = np.full(places.shape, self.low), np.full(places.shape, self.high)
        for _ in range(HALVINGS):
            middle = low / 2 + high / 2
            curve = np.arcsinh(self.rate * middle) - self.offset
            with np.errstate(over="ignore"):  # the widest range of doubles is an infinity
                is_below = self.line * (middle - self.low) + self.bend * curve < places
            low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
        low = np.where(places >= self.count, self.high, low)
        return np.where(places <= 0.0, self.low, low / 2 + np.maximum(low, high) / 2)


Cells = GridCells | AsinhCells


def cells_for(
    found: Range, step: Fraction | None, groups: int | None, *, is_whole: bool
) -> Cells | None:
    """Return cells for a bounded range, or None where so many groups would need too many.

    ``step`` is that of whole or declared steps, if any; ``groups`` are those to be answered, None
    if nobody knows how many.
    """
    low, high = Fraction(found.low), Fraction(found.high)
    several = groups or WANTED // COARSEST
    for grain in [*([] if step is None else [step]), *[Fraction(1)] * (high - low <= TINY)]:
        first, last = round(low / grain), round(high / grain)
        if last - first < min(MOST_VALUES, MOST_COUNTED // several):
            return GridCells(ValueGrid(first * grain, grain, 0, last - first), found, is_whole)
    count = max(COARSEST, min(FINEST, 2 ** math.floor(math.log2(WANTED / several))))
    if count * several > MOST_COUNTED:
        return None
    return _bend(float(low), float(high), count, is_whole=is_whole)


def _bend(low: float, high: float, count: int, *, is_whole: bool) -> AsinhCells:
    """Return cells half of which are spread along the line and half along the curve.

    Where the curve is nearly a line itself (within a factor e), or numbers are too small for it,
    all are spread along the line.
    """
    largest = max(abs(low), abs(high))
    rate = DEPTH / largest if largest > TINY else 0.0
    rise = math.asinh(rate * high) - math.asinh(rate * low)
    is_bent = rise > 1.0
    along = count / 2 if is_bent else count
    line = float(Fraction(along) / (Fraction(high) - Fraction(low)))
    return AsinhCells(low, high, count, line, along / rise if is_bent else 0.0, rate, is_whole)
