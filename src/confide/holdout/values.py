"""Rows and query values in [0, 1], with exact means."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from confide.errors import BadDeclaration, ConfideError

__all__ = [
    "ERROR",
    "FINENESS",
    "MOST_ROWS",
    "Floats",
    "Marks",
    "Rows",
    "check_guess",
    "check_range",
    "describe",
    "guess_of",
    "guesses_of",
    "mean_of",
    "means_of",
    "read_column",
    "read_matrix",
    "read_rows",
    "sensitivity",
]

Floats = NDArray[np.float64]
Marks = NDArray[np.bool_]
Array = NDArray[Any]

BLOCK: Final = 2**16
LINE: Final = 2**14
LARGE: Final = 2**20
WIDTH: Final = 2**10
CELLS: Final = 2**17
"""Values of a matrix that are read at once: few enough for the cache."""

MOST_BLOCKS: Final = 2**15
MOST_ROWS: Final = 2**30
ERROR: Final = Fraction(1, 2**36)
"""How far a mean from here may lie from the true one."""

FINENESS: Final = 1_000
"""Steps of the grid, on which noise is added, in the most that one row can move a mean."""

ONE: Final = {8: np.float64(1).view(np.uint64), 4: np.float32(1).view(np.uint32)}
BITS: Final[dict[int, Any]] = {8: np.uint64, 4: np.uint32}


def sensitivity(rows: int) -> Fraction:
    """Return how far replacing one of ``rows`` rows can move a mean from here.

    Claim:   |mean(S) - mean(S')| <= 1 / rows + 2 ERROR for neighbours S and S', as computed.
    Why:     true means of values in [0, 1] move by at most 1 / rows. Sums are taken in blocks, so
             that no value passes through more than 2^16 + 2^15 + 4 roundings of 2^-53 each, in
             whatever order a block is added; that makes less than 2^-36 of a mean, at most 1. (A
             long column is added in lines of 2^14, at most 2^6 lines to a block: fewer still.)
    Source:  docs/proofs/holdout.md.
    Checked: tests/holdout/test_values.py.
    """
    return Fraction(1, rows) + 2 * ERROR


def read_column(name: str, values: object, rows: int) -> Array:
    """Return a query's values as an array of ``rows`` numbers, not yet checked for their range."""
    array = _as_numbers(name, values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1 or len(array) != rows:
        raise BadDeclaration(
            f"{name} must be {rows:,} values, one for each row, got {_shape(array)}"
        )
    return array


def read_matrix(name: str, values: object, rows: int) -> Array:
    """Return the values of many queries, one a column."""
    array = _as_numbers(name, values)
    if array.ndim != 2 or len(array) != rows or not array.shape[1]:
        raise BadDeclaration(
            f"{name} must be a matrix of {rows:,} rows with a query in each column, got "
            f"{_shape(array)}"
        )
    return array


def mean_of(name: str, array: Array) -> float:
    """Return the mean of values in [0, 1], or refuse them.

    Claim: the mean is within ERROR of the true one.
    Why:   see `sensitivity`; the sums of blocks are added without rounding.
    """
    if array.dtype.kind == "b":
        return float(np.count_nonzero(array)) / len(array)
    is_quick, sums = _is_quick(array), []
    for block in _blocks(array, LARGE if is_quick else BLOCK):
        sums.append(_add_lines(block) if is_quick else _add(block))
        if not _is_inside(block):
            raise _outside(name)
    return min(math.fsum(sums) / len(array), 1.0)


def guess_of(name: str, array: Array) -> float:
    """Return the mean of values on training rows, which is a guess and no more.

    A guess may be anything; so in long arrays only the mean is looked at, which saves a pass.
    """
    if array.dtype.kind == "b" or len(array) <= BLOCK:
        return mean_of(name, array)
    mean = (_add_lines(array) if _is_quick(array) else _add(array)) / len(array)
    if not 0 <= mean <= 1:
        raise _outside(name)
    return mean


def guesses_of(name: str, matrix: Array) -> Floats:
    """Return the mean of each column on training rows: guesses, of which the mean is looked at."""
    if matrix.dtype.kind != "f":
        return means_of(name, matrix)
    means: Floats = _add_rows(matrix) / len(matrix)
    if not ((means >= 0) & (means <= 1)).all():
        raise _outside(name)
    return means


def means_of(name: str, matrix: Array) -> Floats:
    """Return the mean of each column; the same claim as `mean_of`."""
    rows = len(matrix)
    if matrix.dtype.kind == "b":
        return np.asarray(np.count_nonzero(matrix, axis=0) / rows)
    if matrix.dtype.kind != "f" or matrix.dtype.itemsize != 8:
        return np.array([mean_of(name, matrix[:, i]) for i in range(matrix.shape[1])])
    # Few enough rows for the error of a block, and few enough blocks for the error of their sum.
    height = min(BLOCK, max(CELLS // matrix.shape[1], -(-rows // MOST_BLOCKS), 1))
    total = np.zeros(matrix.shape[1])
    for block in _blocks(matrix, height):
        total += _add_rows(block)
        if not _is_inside(block):
            raise _outside(name)
    return np.minimum(total / rows, 1.0)


def check_range(name: str, array: Array) -> None:
    """Refuse values outside [0, 1]."""
    if array.dtype.kind != "b" and not all(map(_is_inside, _blocks(array, BLOCK))):
        raise _outside(name)


def check_guess(name: str, guess: object) -> float:
    """Return a guess in [0, 1]."""
    kinds = int | float | np.integer | np.floating | Fraction
    if isinstance(guess, bool) or not isinstance(guess, kinds):
        raise BadDeclaration(f"{name} must be a number in [0, 1], got {type(guess).__name__}")
    if not 0 <= guess <= 1:
        raise BadDeclaration(f"{name} must be a number in [0, 1], got {guess!r}")
    return float(guess)


def _blocks(array: Array, height: int) -> Iterator[Array]:
    for start in range(0, len(array), height):
        yield array[start : start + height]


def _is_quick(array: Array) -> bool:
    """Return whether a column is contiguous and long enough to be added in lines."""
    return array.dtype == np.float64 and array.flags.c_contiguous and len(array) >= LINE


# Sums avoid matrix products. BLAS splits these over all cores and waits for the last one, so a
# single busy process can make them take 50 times as long.
#
# Sums come before checks, so they may meet infinities; a warning would say so in other words.
@np.errstate(all="ignore")
def _add_lines(array: Array) -> float:
    """Return the sum of a long column, added in lines."""
    end = len(array) // LINE * LINE
    lines = np.einsum("ij->i", array[:end].reshape(-1, LINE))
    return float(np.add.reduce(lines) + np.add.reduce(array[end:]))


@np.errstate(all="ignore")
def _add(array: Array) -> float:
    return float(np.add.reduce(array, dtype=np.float64))


@np.errstate(all="ignore")
def _add_rows(matrix: Array) -> Floats:
    """Return the sum of each column.

    Several rows of a narrow matrix make one line, because NumPy adds long lines faster.
    """
    width = matrix.shape[1]
    rows_per_line = WIDTH // width if matrix.flags.c_contiguous else 1
    if rows_per_line <= 1 or len(matrix) < rows_per_line:
        return _add_columns(matrix)
    end = len(matrix) // rows_per_line * rows_per_line
    lines = _add_columns(matrix[:end].reshape(-1, rows_per_line * width))
    return _add_columns(lines.reshape(rows_per_line, width)) + _add_columns(matrix[end:])


def _add_columns(matrix: Array) -> Floats:
    return np.asarray(np.add.reduce(matrix, axis=0, dtype=np.float64))


def _is_inside(block: Array) -> bool:
    """Tell whether all values lie in [0, 1].

    Why: read as whole numbers, the bits of floats keep the order of what is at least 0; NaN,
         infinities and whatever carries a minus sign come after those of 1. So one maximum
         decides, unless there is a -0, which the second look lets pass.
    """
    width = block.dtype.itemsize
    is_float = block.dtype.kind == "f" and width in BITS
    # Privacy: the bits of a float in foreign byte order would be read wrongly, and let 2 pass.
    is_plain = is_float and block.dtype.isnative and block.flags.c_contiguous
    if is_plain and block.view(BITS[width]).max() <= ONE[width]:
        return True
    return bool(block.min() >= 0 and block.max() <= 1)


def _outside(name: str) -> BadDeclaration:
    return BadDeclaration(
        f"{name} must be values in [0, 1], got NaN or values outside; scale them, for example "
        "(x - low) / (high - low) for a range known beforehand, clipped to [0, 1]"
    )


def _as_numbers(name: str, values: object) -> Array:
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, OverflowError):
        raise BadDeclaration(f"{name} must be numbers, got {type(values).__name__}") from None
    if array.ndim == 0:
        raise BadDeclaration(f"{name} must be a number for each row, got {describe(values)}")
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise BadDeclaration(f"{name} must be an array of real numbers, got {_shape(array)}")
    if not 1 <= len(array) <= MOST_ROWS:
        raise BadDeclaration(f"{name} must have 1 to 2**30 rows, got {len(array)}")
    return array


def describe(thing: object) -> str:
    """Return what one thing is that stands where there should be one for each row."""
    if hasattr(thing, "predict"):
        return f"a {type(thing).__name__}; give what it predicts: model.predict(X)"
    return f"a single {type(thing).__name__}"


def _shape(array: Array) -> str:
    return f"{array.dtype} of shape {array.shape}"


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows, their number, and their labels where they have any."""

    name: str
    size: int
    block: Any = None
    features: Any = None
    labels: Any = None
    columns: tuple[str, ...] | None = None

    def call(self, phi: Callable[..., Any]) -> Any:
        """Return what a function says of the block of rows, or of X and y."""
        self.check_callable()
        try:
            return phi(*self.block) if isinstance(self.block, tuple) else phi(self.block)
        except ConfideError:
            raise
        except Exception as error:  # noqa: BLE001 - any failure of phi is the same to us
            given = "X and y" if isinstance(self.block, tuple) else "all rows at once"
            raise BadDeclaration(
                f"phi raised {type(error).__name__} on {self.name}; it is called with {given}, and "
                "must give every row a value in [0, 1]"
            ) from (error if self.name == "train" else None)

    def check_callable(self) -> None:
        """Refuse functions where there are no rows to call them on."""
        if self.block is None:
            raise BadDeclaration(
                "this holdout was opened with numbers of rows; ask with values, or give it rows"
            )

    def check_columns(self, other: "Rows") -> None:
        """Refuse sets whose columns differ."""
        if self.columns != other.columns:
            mine, theirs = set(self.columns or ()), set(other.columns or ())
            raise BadDeclaration(
                f"{self.name} and {other.name} must have the same columns in the same order; "
                f"only one has {sorted(mine ^ theirs)}"
            )


def read_rows(name: str, given: Any, labels: str | None) -> Rows:
    """Return the rows that a caller gave: a frame, a pair (X, y), an array, or their number."""
    if isinstance(given, int | np.integer) and not isinstance(given, bool):
        return Rows(name, _size(name, int(given)))
    if isinstance(given, tuple):
        return _read_pair(name, given)
    columns = getattr(given, "columns", None)
    if columns is not None:
        return _read_frame(name, given, tuple(map(str, columns)), labels)
    try:
        array = np.asarray(given)
    except ValueError:
        array = np.array(None)
    if array.ndim == 0 or array.dtype.kind == "O":
        raise BadDeclaration(
            f"{name} must be a frame, a pair (X, y) in parentheses, an array or a number of rows, "
            f"got {type(given).__name__}"
        )
    width = (f"{array.shape[1]} columns",) if array.ndim > 1 else None
    return Rows(name, _size(name, len(array)), array, array, columns=width)


def _read_pair(name: str, given: tuple[Any, ...]) -> Rows:
    if len(given) != 2:
        raise BadDeclaration(f"{name} must be a pair (X, y), got {len(given)} things")
    features, labels = given
    size = _length(name, features)
    marks = np.asarray(labels)
    if marks.shape != (size,):
        column = "; take the column itself: y.ravel(), or frame['name']"
        raise BadDeclaration(
            f"{name} must be a pair (X, y) with one label for each of {size:,} rows, got labels of "
            f"shape {marks.shape}" + (column if marks.shape == (size, 1) else "")
        )
    columns = getattr(features, "columns", None)
    names = tuple(map(str, columns)) if columns is not None else None
    if names is None and np.ndim(features) > 1:
        names = (f"{np.shape(features)[1]} columns",)
    return Rows(name, size, (features, labels), features, marks, names)


def _read_frame(name: str, frame: Any, columns: tuple[str, ...], labels: str | None) -> Rows:
    size = _length(name, frame)
    if labels is None:
        return Rows(name, size, frame, frame, columns=columns)
    if labels not in columns:
        raise BadDeclaration(f"labels must be a column of {name}, got {labels!r}")
    rest = [column for column in columns if column != labels]
    return Rows(name, size, frame, frame[rest], np.asarray(frame[labels]), columns)


def _length(name: str, rows: Any) -> int:
    shape = getattr(rows, "shape", None)
    try:
        return _size(name, int(shape[0]) if shape else len(rows))
    except TypeError:
        raise BadDeclaration(f"{name} must have rows, got {type(rows).__name__}") from None


def _size(name: str, size: int) -> int:
    if not 1 <= size <= MOST_ROWS:
        raise BadDeclaration(f"{name} must have 1 to 2**30 rows, got {size}")
    return size
