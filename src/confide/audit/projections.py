"""Projections: functions from outputs to numbers, which define the events of an audit.

An event is that the projection of an output lies in one of several bins. A projection may be fitted
on one half of the samples. After that it is a fixed function, so the other half can measure events.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Floats",
    "OutputBins",
    "Outputs",
    "Projection",
    "as_table",
    "fit_projections",
    "lowest_bits",
]

Outputs = NDArray[Any]
"""Outputs, one per row; each is a number or a vector of numbers."""

Floats = NDArray[np.float64]

MAX_COLUMNS: Final = 24
MAX_DISTINCT_ROWS: Final = 4_096
MAX_BINS: Final = 128
MIN_BINS: Final = 4
MIN_BIN_COUNT: Final = 20
"""The minimum number of outputs per edge of the bins, unless `MIN_BINS` allows more edges.

With fewer outputs, counts would be mostly chance.
"""

MAX_MAGNITUDE: Final = 1e100
NAN_VALUE: Final = -0.75e100
"""The number that stands for NaN; other outputs are unlikely to equal it."""
ZERO_EXPONENT: Final = 1_100
"""The exponent that `lowest_bits` returns for 0, above that of any double."""


@dataclass(frozen=True, slots=True)
class Projection:
    """A function from outputs to numbers, with a name for the report."""

    name: str
    read: Callable[[Floats], Floats]


@dataclass(frozen=True, slots=True)
class OutputBins:
    """A partition of the real line by ``edges``: each edge is a bin, and so is each interval.

    The edges are all distinct values if there are few, otherwise quantiles of the values.
    """

    edges: Floats

    @classmethod
    def of(cls, values: Floats) -> "OutputBins":
        """Return bins for these values."""
        distinct = np.unique(values)
        limit = max(MIN_BINS, min(MAX_BINS, len(values) // MIN_BIN_COUNT))
        if len(distinct) > limit:
            levels = np.linspace(0, 1, limit + 1)[1:-1]
            distinct = np.unique(np.quantile(values, levels, method="lower"))
        return cls(distinct)

    def assign(self, values: Floats) -> NDArray[np.int64]:
        """Return the index of each value's bin: odd at an edge, even between or beyond edges."""
        right = np.searchsorted(self.edges, values, side="right")
        return np.asarray(right + np.searchsorted(self.edges, values, side="left"), dtype=np.int64)

    @property
    def count(self) -> int:
        """The number of bins: each edge, and each interval between or beyond edges."""
        return 2 * len(self.edges) + 1


def as_table(outputs: Outputs) -> Floats:
    """Return outputs as a table of finite doubles, one output per row.

    Numbers and infinities are clipped to +-1e100, and NaN becomes a fixed number.
    """
    table = np.asarray(outputs, dtype=np.float64)
    table = table.reshape(len(table), -1)
    return np.clip(np.nan_to_num(table, nan=NAN_VALUE), -MAX_MAGNITUDE, MAX_MAGNITUDE)


def fit_projections(left: Floats, right: Floats) -> Iterator[Projection]:
    """Yield projections of outputs, some of them fitted on these samples of the two sides."""
    columns = min(left.shape[1], MAX_COLUMNS)
    for column in range(columns):
        yield Projection(f"number {column + 1}", partial(_take, column))
    if left.shape[1] > 1:
        yield from _fit_whole_outputs(left, right)
        yield from _fit_distances(left, right)
        yield _fit_direction(left, right)
        for column in range(columns - 1):
            name = f"number {column + 2} minus number {column + 1}"
            yield Projection(name, partial(_subtract, column))
    if (left != np.rint(left)).any() or (right != np.rint(right)).any():
        for column in range(columns):
            name = f"lowest bit of number {column + 1}"
            yield Projection(name, partial(_take_bits, column))


def _take(column: int, table: Floats) -> Floats:
    return np.asarray(table[:, column])


def _subtract(column: int, table: Floats) -> Floats:
    return np.asarray(table[:, column + 1] - table[:, column])


def _take_bits(column: int, table: Floats) -> Floats:
    return lowest_bits(table[:, column])


def _fit_whole_outputs(left: Floats, right: Floats) -> Iterator[Projection]:
    """If few distinct outputs occur, yield a projection that numbers them.

    Its value is -1 for all other outputs.
    """
    distinct = np.unique(np.concatenate([left, right]), axis=0)
    if len(distinct) > min(MAX_DISTINCT_ROWS, len(left) / 4):
        return
    known = {row.tobytes(): float(index) for index, row in enumerate(distinct)}

    def read(table: Floats) -> Floats:
        return np.array([known.get(row.tobytes(), -1.0) for row in np.ascontiguousarray(table)])

    yield Projection("complete output", read)


def _fit_distances(left: Floats, right: Floats) -> Iterator[Projection]:
    """Yield differences between an output's distances to the medians of the two sides.

    There is one distance for each kind of noise: the sum of absolute differences for Laplace noise,
    the sum of squares for Gaussian noise, and the maximum for noise in a box.
    """
    center, other_center = np.median(left, axis=0), np.median(right, axis=0)
    deviation = np.median(np.abs(left - center), axis=0)
    # If more than half of a column's values on the left equal their median, the column is scaled by
    # the difference of the medians, or by 1 if that difference is smaller.
    scale = np.where(deviation > 0, deviation, np.maximum(np.abs(other_center - center), 1.0))

    def compare(distance: Callable[[Floats], Floats]) -> Callable[[Floats], Floats]:
        return lambda table: np.clip(
            distance((table - center) / scale) - distance((table - other_center) / scale), -1e9, 1e9
        )

    yield Projection("difference of L1 distances", compare(lambda z: np.abs(z).sum(axis=1)))
    yield Projection(
        "difference of squared L2 distances", compare(lambda z: np.square(z).sum(axis=1))
    )
    yield Projection("difference of maximum distances", compare(lambda z: np.abs(z).max(axis=1)))


def _fit_direction(left: Floats, right: Floats) -> Projection:
    """Return the weighted sum of an output's numbers that best separates the means of the sides.

    The weights are (difference of means) / (sum of variances). The sum also separates coarse
    outputs whose medians are the same on both sides.
    """
    difference = right.mean(axis=0) - left.mean(axis=0)
    variance = left.var(axis=0) + right.var(axis=0)
    weights = np.divide(difference, variance, out=np.zeros_like(difference), where=variance > 0)
    return Projection("weighted sum", lambda table: np.clip(table @ weights, -1e9, 1e9))


def lowest_bits(values: Floats) -> Floats:
    """Return the exponent of the lowest set bit of each number, or `ZERO_EXPONENT` for 0.

    Noise that is added in floating point can reveal the exact value through these bits.
    """
    mantissa, exponent = np.frexp(values)
    integers = np.abs(mantissa * 2.0**53).astype(np.int64)
    lowest = np.log2(np.maximum(integers & -integers, 1).astype(np.float64))
    return np.where(values == 0, float(ZERO_EXPONENT), exponent - 53.0 + lowest)
