"""Training and holdout rows, the values of queries on them, and means with bounded errors."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from confide.errors import BadDeclaration, ConfideError

__all__ = [
    "MAX_ROWS",
    "MEAN_ERROR",
    "STEPS_PER_SENSITIVITY",
    "Booleans",
    "Floats",
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
Booleans = NDArray[np.bool_]
Array = NDArray[Any]

BLOCK_ROWS: Final = 2**16
LINE_ROWS: Final = 2**14
"""The length of the lines into which a long column is divided for fast sums."""
LARGE_BLOCK_ROWS: Final = 2**20
LINE_VALUES: Final = 2**10
"""The length of the lines into which several rows of a narrow matrix are joined for fast sums."""
BLOCK_VALUES: Final = 2**17
"""Values of a matrix that are read at once, few enough to fit in the CPU cache."""

MAX_BLOCKS: Final = 2**15
MAX_ROWS: Final = 2**30
MEAN_ERROR: Final = Fraction(1, 2**36)
"""The maximum numerical error of a mean computed in this module."""

STEPS_PER_SENSITIVITY: Final = 1_000
"""Grid steps per sensitivity of a mean; noise is added on this grid."""

BITS_OF_ONE: Final = {8: np.float64(1).view(np.uint64), 4: np.float32(1).view(np.uint32)}
UNSIGNED_TYPES: Final[dict[int, Any]] = {8: np.uint64, 4: np.uint32}


def sensitivity(rows: int) -> Fraction:
    """Return the most that replacing one of ``rows`` rows can change a mean computed here.

    Claim:   |mean(S) - mean(S')| <= 1 / rows + 2 MEAN_ERROR for neighboring S and S', as computed.
    Why:     true means of values in [0, 1] change by at most 1 / rows. Sums are taken in blocks, so
             that no value passes through more than 2^16 + 2^15 + 4 roundings of 2^-53 each,
             regardless of the order of addition within a block. The relative error is thus below
             2^-36, and a mean is at most 1. (A long column is added in lines of 2^14 values, at
             most 2^6 lines per block, which takes fewer roundings.)
    Source:  docs/proofs/holdout.md.
    Checked: tests/holdout/test_values.py.
    """
    return Fraction(1, rows) + 2 * MEAN_ERROR


def read_column(name: str, values: object, rows: int) -> Array:
    """Return a query's values as an array of ``rows`` numbers, without checking their range."""
    array = _as_numbers(name, values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1 or len(array) != rows:
        raise BadDeclaration(
            f"{name} must be {rows:,} values, one for each row; got {_shape(array)}."
        )
    return array


def read_matrix(name: str, values: object, rows: int) -> Array:
    """Return the values of many queries, one query per column."""
    array = _as_numbers(name, values)
    if array.ndim != 2 or len(array) != rows or not array.shape[1]:
        raise BadDeclaration(
            f"{name} must be a matrix of {rows:,} rows with one query per column; got "
            f"{_shape(array)}."
        )
    return array


def mean_of(name: str, array: Array) -> float:
    """Return the mean of values, or raise BadDeclaration if one is outside [0, 1].

    Claim: the mean is within MEAN_ERROR of the true one.
    Why:   see `sensitivity`; the block sums are added without rounding.
    """
    if array.dtype.kind == "b":
        return float(np.count_nonzero(array)) / len(array)
    in_lines, sums = _can_sum_in_lines(array), []
    for block in _blocks(array, LARGE_BLOCK_ROWS if in_lines else BLOCK_ROWS):
        sums.append(_sum_in_lines(block) if in_lines else _sum(block))
        if not _all_in_range(block):
            raise _range_error(name)
    return min(math.fsum(sums) / len(array), 1.0)


def guess_of(name: str, array: Array) -> float:
    """Return the mean of values on training rows, to be used as a guess.

    Any number in [0, 1] is a valid guess. So for long arrays only the mean is checked, which avoids
    reading all values again.
    """
    if array.dtype.kind == "b" or len(array) <= BLOCK_ROWS:
        return mean_of(name, array)
    mean = (_sum_in_lines(array) if _can_sum_in_lines(array) else _sum(array)) / len(array)
    if not 0 <= mean <= 1:
        raise _range_error(name)
    return mean


def guesses_of(name: str, matrix: Array) -> Floats:
    """Return the mean of each column on training rows, as guesses.

    In a matrix of floats, only the means are checked, as in `guess_of`.
    """
    if matrix.dtype.kind != "f":
        return means_of(name, matrix)
    means: Floats = _sum_columns(matrix) / len(matrix)
    if not ((means >= 0) & (means <= 1)).all():
        raise _range_error(name)
    return means


def means_of(name: str, matrix: Array) -> Floats:
    """Return the mean of each column, with the claim of `mean_of`."""
    rows = len(matrix)
    if matrix.dtype.kind == "b":
        return np.asarray(np.count_nonzero(matrix, axis=0) / rows)
    if matrix.dtype.kind != "f" or matrix.dtype.itemsize != 8:
        return np.array([mean_of(name, matrix[:, i]) for i in range(matrix.shape[1])])
    # With at most BLOCK_ROWS rows per block and at most MAX_BLOCKS blocks, errors are below
    # MEAN_ERROR; see `sensitivity`.
    height = min(BLOCK_ROWS, max(BLOCK_VALUES // matrix.shape[1], -(-rows // MAX_BLOCKS), 1))
    total = np.zeros(matrix.shape[1])
    for block in _blocks(matrix, height):
        total += _sum_columns(block)
        if not _all_in_range(block):
            raise _range_error(name)
    return np.minimum(total / rows, 1.0)


def check_range(name: str, array: Array) -> None:
    """Raise BadDeclaration if a value is outside [0, 1]."""
    if array.dtype.kind != "b" and not all(map(_all_in_range, _blocks(array, BLOCK_ROWS))):
        raise _range_error(name)


def check_guess(name: str, guess: object) -> float:
    """Return a guess as a float, or raise BadDeclaration if it is not in [0, 1]."""
    kinds = int | float | np.integer | np.floating | Fraction
    if isinstance(guess, bool) or not isinstance(guess, kinds):
        raise BadDeclaration(f"`{name}` must be a number in [0, 1]; got {type(guess).__name__}.")
    if not 0 <= guess <= 1:
        raise BadDeclaration(f"`{name}` must be a number in [0, 1]; got {guess!r}.")
    return float(guess)


def _blocks(array: Array, height: int) -> Iterator[Array]:
    for start in range(0, len(array), height):
        yield array[start : start + height]


def _can_sum_in_lines(array: Array) -> bool:
    """Return whether a column can be summed in lines: contiguous doubles, and enough of them."""
    return array.dtype == np.float64 and array.flags.c_contiguous and len(array) >= LINE_ROWS


# Sums avoid matrix products. BLAS splits a product over all cores and waits for the slowest, so a
# single busy process can make it take 50 times as long.
#
# Values are summed before they are checked, so a sum may overflow. The check reports bad values,
# and NumPy's warning would only duplicate its error.
@np.errstate(all="ignore")
def _sum_in_lines(array: Array) -> float:
    """Return the sum of a long column: first sum each line of LINE_ROWS values, then the lines."""
    end = len(array) // LINE_ROWS * LINE_ROWS
    lines = np.einsum("ij->i", array[:end].reshape(-1, LINE_ROWS))
    return float(np.add.reduce(lines) + np.add.reduce(array[end:]))


@np.errstate(all="ignore")
def _sum(array: Array) -> float:
    return float(np.add.reduce(array, dtype=np.float64))


@np.errstate(all="ignore")
def _sum_columns(matrix: Array) -> Floats:
    """Return the sum of each column.

    Several rows of a narrow matrix form one line, because NumPy adds long lines faster.
    """
    width = matrix.shape[1]
    rows_per_line = LINE_VALUES // width if matrix.flags.c_contiguous else 1
    if rows_per_line <= 1 or len(matrix) < rows_per_line:
        return _sum_columns_directly(matrix)
    end = len(matrix) // rows_per_line * rows_per_line
    lines = _sum_columns_directly(matrix[:end].reshape(-1, rows_per_line * width))
    return _sum_columns_directly(lines.reshape(rows_per_line, width)) + _sum_columns_directly(
        matrix[end:]
    )


def _sum_columns_directly(matrix: Array) -> Floats:
    return np.asarray(np.add.reduce(matrix, axis=0, dtype=np.float64))


def _all_in_range(block: Array) -> bool:
    """Return whether all values lie in [0, 1].

    Why: the bits of nonnegative floats, read as integers, have the same order as the floats. The
         bits of NaN, of infinities and of negative numbers are larger than those of 1. So one
         maximum decides. Only -0 is valid and fails this check; the second check accepts -0.
    """
    width = block.dtype.itemsize
    is_float = block.dtype.kind == "f" and width in UNSIGNED_TYPES
    # Privacy: in another byte order the bits would be misread, and a value of 2 would be accepted.
    is_plain = is_float and block.dtype.isnative and block.flags.c_contiguous
    if is_plain and block.view(UNSIGNED_TYPES[width]).max() <= BITS_OF_ONE[width]:
        return True
    return bool(block.min() >= 0 and block.max() <= 1)


def _range_error(name: str) -> BadDeclaration:
    return BadDeclaration(
        f"{name} must be in [0, 1]. Scale values from a known range with (x - low) / (high - low), "
        "and clip the result to [0, 1]; got NaN or values outside."
    )


def _as_numbers(name: str, values: object) -> Array:
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, OverflowError):
        raise BadDeclaration(f"{name} must be numbers; got {type(values).__name__}.") from None
    if array.ndim == 0:
        raise BadDeclaration(f"{name} must be a number for each row; got {describe(values)}.")
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise BadDeclaration(f"{name} must be an array of real numbers; got {_shape(array)}.")
    if not 1 <= len(array) <= MAX_ROWS:
        raise BadDeclaration(f"{name} must have 1 to 2**30 rows; got {len(array)}.")
    return array


def describe(thing: object) -> str:
    """Return a description of an argument that should have been an array with one value per row."""
    if hasattr(thing, "predict"):
        return f"a {type(thing).__name__}, instead of its predictions, `model.predict(X)`"
    return f"a single {type(thing).__name__}"


def _shape(array: Array) -> str:
    return f"{array.dtype} of shape {array.shape}"


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The training rows or the holdout's rows, their number, and their labels, if any.

    ``block`` is what a query function gets: all rows, or the pair (X, y). ``features`` are the rows
    without labels. All of them are None if only the number of rows is known. ``columns`` are the
    names of the columns; for an array, a description of their number.
    """

    name: str
    size: int
    block: Any = None
    features: Any = None
    labels: Any = None
    columns: tuple[str, ...] | None = None

    def call(self, phi: Callable[..., Any]) -> Any:
        """Return the result of a function of all rows, or of X and y."""
        self.check_callable()
        try:
            return phi(*self.block) if isinstance(self.block, tuple) else phi(self.block)
        except ConfideError:
            raise
        except Exception as error:  # noqa: BLE001 - any failure of phi is the same to us
            given = "X and y" if isinstance(self.block, tuple) else "all rows at once"
            raise BadDeclaration(
                f"`phi` raised {type(error).__name__} on the rows of `{self.name}`. It is called "
                f"with {given}, and must return a value in [0, 1] for every row."
            ) from (error if self.name == "train" else None)

    def check_callable(self) -> None:
        """Raise BadDeclaration if there are no rows on which to call a function."""
        if self.block is None:
            raise BadDeclaration(
                "This holdout was opened with numbers of rows only. Ask with values, or open it "
                "with rows."
            )

    def check_columns(self, other: "Rows") -> None:
        """Raise BadDeclaration if the columns of another set differ."""
        if self.columns != other.columns:
            mine, theirs = set(self.columns or ()), set(other.columns or ())
            raise BadDeclaration(
                f"`{self.name}` and `{other.name}` must have the same columns in the same order. "
                f"Only one of them has {sorted(mine ^ theirs)}."
            )


def read_rows(name: str, given: Any, labels: str | None) -> Rows:
    """Return rows from a DataFrame, a pair (X, y), an array, or a number of rows.

    ``labels`` is the column of a DataFrame that has the labels, if any.
    """
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
            f"`{name}` must be a DataFrame, a pair (X, y) in parentheses, an array, or a number of "
            f"rows; got {type(given).__name__}."
        )
    width = (f"{array.shape[1]} columns",) if array.ndim > 1 else None
    return Rows(name, _size(name, len(array)), array, array, columns=width)


def _read_pair(name: str, given: tuple[Any, ...]) -> Rows:
    if len(given) != 2:
        raise BadDeclaration(f"`{name}` must be a pair (X, y); got {len(given)} items.")
    features, labels = given
    size = _length(name, features)
    array = np.asarray(labels)
    if array.shape != (size,):
        is_column = array.shape == (size, 1)
        advice = " Pass the column itself: `y.ravel()`, or `frame['name']`." if is_column else ""
        raise BadDeclaration(
            f"`{name}` must be a pair (X, y) with one label for each of {size:,} rows; got labels "
            f"of shape {array.shape}.{advice}"
        )
    columns = getattr(features, "columns", None)
    names = tuple(map(str, columns)) if columns is not None else None
    if names is None and np.ndim(features) > 1:
        names = (f"{np.shape(features)[1]} columns",)
    return Rows(name, size, (features, labels), features, array, names)


def _read_frame(name: str, frame: Any, columns: tuple[str, ...], labels: str | None) -> Rows:
    size = _length(name, frame)
    if labels is None:
        return Rows(name, size, frame, frame, columns=columns)
    if labels not in columns:
        raise BadDeclaration(f"`labels` must be a column of `{name}`; got {labels!r}.")
    rest = [column for column in columns if column != labels]
    return Rows(name, size, frame, frame[rest], np.asarray(frame[labels]), columns)


def _length(name: str, rows: Any) -> int:
    shape = getattr(rows, "shape", None)
    try:
        return _size(name, int(shape[0]) if shape else len(rows))
    except TypeError:
        raise BadDeclaration(f"`{name}` must have rows; got {type(rows).__name__}.") from None


def _size(name: str, size: int) -> int:
    if not 1 <= size <= MAX_ROWS:
        raise BadDeclaration(f"`{name}` must have 1 to 2**30 rows; got {size}.")
    return size
