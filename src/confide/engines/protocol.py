"""`Engine`, and the sealed results that it returns, which nothing can read until noise is added."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, NoReturn, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from confide.declare import Catalog, Kind
from confide.errors import BadDeclaration
from confide.expressions.tree import Value
from confide.lazy import lazy_module
from confide.ledger import Hold
from confide.noise import Entropy
from confide.plan import Measurement, PublicFacts
from confide.plan.selection import BlockReading

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = lazy_module("pandas")

__all__ = [
    "HOUR",
    "MAX_SECONDS",
    "Block",
    "Counts",
    "Engine",
    "EngineFactory",
    "Estimator",
    "ExactResult",
    "Facts",
    "Floats",
    "Groups",
    "Integers",
    "Pair",
    "Sealed",
    "SealedBase",
    "SealedBlocks",
    "TableAltered",
    "read_seconds",
]

T = TypeVar("T")
Groups = dict[tuple[Value, ...], tuple[int, ...]]
"""The exact totals of each group, by its keys."""

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Pair = tuple[Integers, Integers]
"""The cells that have rows, in order, and the number of rows in each."""

Counts = dict[tuple[Value, ...], Pair]
"""One histogram: the cells of each group, by its keys."""


class SealedBase(Generic[T]):
    """A value that cannot be shown, compared, copied, or serialized.

    # Privacy: only `confide.release.unseal` reads the content, and only release/ may import that.
    """

    __slots__ = ("_content",)

    def __init__(self, content: T) -> None:
        self._content = content

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"

    def __eq__(self, other: object) -> NoReturn:
        raise TypeError("Sealed values cannot be compared.")

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> NoReturn:
        raise TypeError("Sealed values cannot be copied or stored.")


class ExactResult(NamedTuple):
    """The exact totals of each group found, and the histograms."""

    groups: Groups
    counts: tuple[Counts, ...]


class Sealed(SealedBase[ExactResult]):
    """The exact result of a measurement."""

    __slots__ = ()

    def __init__(self, groups: Groups, counts: tuple[Counts, ...] = ()) -> None:
        super().__init__(ExactResult(groups, counts))


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """The rows of one block, as columns by name.

    NumPy converts a block to one array, with a column for each name.
    """

    columns: Mapping[str, NDArray[Any]]

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.columns[name]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray[Any]:
        del copy
        arrays = list(self.columns.values())
        whole = arrays[0] if len(arrays) == 1 else np.stack(arrays, axis=1)
        return np.asarray(whole, dtype=dtype)

    def to_pandas(self) -> Any:
        """Return the rows as a pandas DataFrame."""
        return pd.DataFrame(dict(self.columns))

    def take(self, positions: Any) -> "Block":
        """Return the rows at ``positions``."""
        return Block({name: values[positions] for name, values in self.columns.items()})


Estimator = Callable[[Block], Any]
"""The owner's function: it computes one or several numbers from the rows of a block."""


class SealedBlocks(SealedBase[Floats]):
    """The results of all blocks, one row per block; NaN if a block gave no result."""

    __slots__ = ()


class TableAltered(Exception):
    """The columns of the table that the message names have changed since the engine was opened."""


class Facts(PublicFacts, Protocol):
    """Facts about public tables: those that plans depend on, and the kinds of their columns."""

    @property
    def kinds(self) -> Mapping[str, Mapping[str, Kind]]:
        """The columns of each public table that queries can use, with their kinds."""
        ...


class Engine(Protocol):
    """The only code that reads rows; its exact results are sealed.

    An engine is opened for a catalog and a salt. Problems that it finds while it opens are reported
    to the owner as a `BadDeclaration`. Later problems raise a `Fault` without details, and the
    reason goes to the owner's log. With the same salt, every engine returns the same integers for
    the same rows.
    """

    @property
    def facts(self) -> Facts:
        """The facts about public tables, which are not protected."""
        ...

    def run(self, measurement: Measurement, hold: Hold) -> Sealed:
        """Return the exact totals and histograms of the groups found; ``hold`` proves payment."""
        ...

    def run_blocks(
        self,
        reading: BlockReading,
        hold: Hold,
        estimator: Estimator,
        outputs: int,
        entropy: Entropy,
    ) -> SealedBlocks:
        """Return the sealed results of the owner's estimator, one for each block of units.

        ``outputs`` is the number of values that the estimator returns.
        """
        ...

    def close(self) -> None:
        """Release the engine's resources."""
        ...


class EngineFactory(Protocol):
    """Opens an engine; usually its class.

    A factory may also have ``read_columns(source)`` for `confide init`: the columns of a table with
    their kinds, from the table's schema alone.
    """

    def __call__(self, catalog: Catalog, *, salt: str) -> Engine:
        """Return an engine for all tables of a catalog."""
        ...


HOUR: Final = 3_600
MAX_SECONDS: Final = 31_536_000
"""A year, because Python's threads cannot wait for an arbitrarily long time."""
MAX_SHOWN: Final = 40


def read_seconds(setting: str, text: str) -> float:
    """Return the number of seconds that a setting allows.

    Raises:
        BadDeclaration: ``text`` is not an integer number of seconds from 1 to a year.
    """
    seconds = float(text) if text.isascii() and text.isdigit() else 0.0
    if not 1 <= seconds <= MAX_SECONDS:
        raise BadDeclaration(
            f"`{setting}` must be an integer number of seconds from 1 to {MAX_SECONDS}, such as "
            f"{HOUR}; got {text[:MAX_SHOWN]!r}."
        )
    return seconds
