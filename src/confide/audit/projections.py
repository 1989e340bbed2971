"""Maps outputs to numbers that events are built on.

A view may learn from one half of the samples how to look; whatever it learns, it is then a fixed
function of an output, and so is every event built on it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["Floats", "OutputBins", "Outputs", "Projection", "as_table", "fit_views", "lowest_bits"]

Outputs = NDArray[Any]
"""One output a row; a row is a number or a vector of numbers."""

Floats = NDArray[np.float64]

MOST_COLUMNS: Final = 24
MOST_ROWS: Final = 4_096
MOST_BINS: Final = 128
FEWEST_BINS: Final = 4
IN_ONE_BIN: Final = 20
"""Fewer outputs than this in a piece tell luck rather than loss."""

FAR: Final = 1e100
MISSING: Final = -0.75e100
EXPONENTS: Final = 1_100


@dataclass(frozen=True, slots=True)
class Projection:
    """A name for people, and the number that is read off each output."""

    name: str
    read: Callable[[Floats], Floats]


@dataclass(frozen=True, slots=True)
class OutputBins:
    """Cuts a line into pieces: one for each of a few values, or of about equal counts."""

    edges: Floats

    @classmethod
    def of(cls, values: Floats) -> "OutputBins":
        """Return pieces that suit these values."""
        distinct = np.unique(values)
        most = max(FEWEST_BINS, min(MOST_BINS, len(values) // IN_ONE_BIN))
        if len(distinct) > most:
            levels = np.linspace(0, 1, most + 1)[1:-1]
            distinct = np.unique(np.quantile(values, levels, method="lower"))
        return cls(distinct)

    def place(self, values: Floats) -> NDArray[np.int64]:
        """Return the piece of each value: below, at or between the edges."""
        right = np.searchsorted(self.edges, values, side="right")
        return np.asarray(right + np.searchsorted(self.edges, values, side="left"), dtype=np.int64)

    @property
    def count(self) -> int:
        """The number of pieces."""
        return 2 * len(self.edges) + 1


def as_table(outputs: Outputs) -> Floats:
    """Return outputs as a table of finite doubles; NaN and infinities become far numbers."""
    table = np.asarray(outputs, dtype=np.float64)
    table = table.reshape(len(table), -1)
    return np.clip(np.nan_to_num(table, nan=MISSING), -FAR, FAR)


def fit_views(left: Floats, right: Floats) -> Iterator[Projection]:
    """Yield ways to look at outputs, learnt from samples of both sides."""
    columns = min(left.shape[1], MOST_COLUMNS)
    for place in range(columns):
        yield Projection(f"number {place + 1}", partial(_take, place))
    if left.shape[1] > 1:
        yield from _fit_rows(left, right)
        yield from _fit_nearness(left, right)
        yield _fit_leaning(left, right)
        for place in range(columns - 1):
            name = f"number {place + 2} less number {place + 1}"
            yield Projection(name, partial(_subtract, place))
    if (left != np.rint(left)).any() or (right != np.rint(right)).any():
        for place in range(columns):
            name = f"lowest bit of number {place + 1}"
            yield Projection(name, partial(_take_bits, place))


def _take(place: int, table: Floats) -> Floats:
    return np.asarray(table[:, place])


def _subtract(place: int, table: Floats) -> Floats:
    return np.asarray(table[:, place + 1] - table[:, place])


def _take_bits(place: int, table: Floats) -> Floats:
    return lowest_bits(table[:, place])


def _fit_rows(left: Floats, right: Floats) -> Iterator[Projection]:
    """Yield the output as a whole, where few enough different ones occur."""
    kinds = np.unique(np.concatenate([left, right]), axis=0)
    if len(kinds) > min(MOST_ROWS, len(left) / 4):
        return
    known = {row.tobytes(): float(place) for place, row in enumerate(kinds)}

    def read(table: Floats) -> Floats:
        return np.array([known.get(row.tobytes(), -1.0) for row in np.ascontiguousarray(table)])

    yield Projection("the whole output", read)


def _fit_nearness(left: Floats, right: Floats) -> Iterator[Projection]:
    """Yield how much nearer an output lies to the middle of one side than to that of the other.

    Distances are those of the noise laws: sums of absolute differences for Laplace noise, of
    squares for Gaussian noise, the greatest difference for noise in a box.
    """
    here, there = np.median(left, axis=0), np.median(right, axis=0)
    spread = np.median(np.abs(left - here), axis=0)
    # A column that hardly varies gets the scale of the step between the sides.
    scale = np.where(spread > 0, spread, np.maximum(np.abs(there - here), 1.0))

    def between(measure: Callable[[Floats], Floats]) -> Callable[[Floats], Floats]:
        return lambda table: np.clip(
            measure((table - here) / scale) - measure((table - there) / scale), -1e9, 1e9
        )

    yield Projection("nearness by sums", between(lambda z: np.abs(z).sum(axis=1)))
    yield Projection("nearness by squares", between(lambda z: np.square(z).sum(axis=1)))
    yield Projection("nearness by the greatest", between(lambda z: np.abs(z).max(axis=1)))


def _fit_leaning(left: Floats, right: Floats) -> Projection:
    """Return the sum of all numbers, each weighted by how far the means of the sides lie apart.

    Coarse outputs, whose middles are the same on both sides, still lean to one of them.
    """
    gap, spread = right.mean(axis=0) - left.mean(axis=0), left.var(axis=0) + right.var(axis=0)
    weights = np.divide(gap, spread, out=np.zeros_like(gap), where=spread > 0)
    return Projection("leaning", lambda table: np.clip(table @ weights, -1e9, 1e9))


def lowest_bits(values: Floats) -> Floats:
    """Return the exponent of the lowest set bit of each number: doubles hide things there."""
    mantissa, exponent = np.frexp(values)
    whole = np.abs(mantissa * 2.0**53).astype(np.int64)
    lowest = np.log2(np.maximum(whole & -whole, 1).astype(np.float64))
    return np.where(values == 0, float(EXPONENTS), exponent - 53.0 + lowest)
