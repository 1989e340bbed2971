"""The rows of a training or holdout set, in whatever form they come."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from confide.errors import BadDeclaration, ConfideError
from confide.holdout.values import MOST_ROWS

__all__ = ["Rows", "read_rows"]


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
