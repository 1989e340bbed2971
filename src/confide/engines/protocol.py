"""`Engine` and `Sealed`: what an engine is, and what it returns, closed until noise is added."""

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
    "LONGEST",
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
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Pair = tuple[Integers, Integers]
"""Cells that hold rows, in order, and how many rows each holds."""

Counts = dict[tuple[Value, ...], Pair]


class SealedBase(Generic[T]):
    """What shows nothing, compares with nothing, and cannot be copied out or written down.

    # Privacy: only `confide.release.unseal` reads the content, and only release/ may import that.
    """

    __slots__ = ("_content",)

    def __init__(self, content: T) -> None:
        self._content = content

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"

    def __eq__(self, other: object) -> NoReturn:
        raise TypeError("sealed values cannot be compared")

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> NoReturn:
        raise TypeError("sealed values cannot be copied or stored")


class ExactResult(NamedTuple):
    """Exact totals of each group that the engine found, and rows by cell for each histogram."""

    groups: Groups
    counts: tuple[Counts, ...]


class Sealed(SealedBase[ExactResult]):
    """The exact result of a measurement."""

    __slots__ = ()

    def __init__(self, groups: Groups, counts: tuple[Counts, ...] = ()) -> None:
        super().__init__(ExactResult(groups, counts))


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """The rows of one block: columns by name, or as one array with a column for each."""

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
        """Return the rows as a pandas frame."""
        return pd.DataFrame(dict(self.columns))

    def take(self, places: Any) -> "Block":
        """Return some of the rows."""
        return Block({name: values[places] for name, values in self.columns.items()})


Estimator = Callable[[Block], Any]
"""A function of the owner's: from the rows of a block to one number, or to several."""


class SealedBlocks(SealedBase[Floats]):
    """The results of all blocks, one row a block; NaN where there is none."""

    __slots__ = ()


class TableAltered(Exception):
    """A table, which is named, has other columns than when the engine was opened."""


class Facts(PublicFacts, Protocol):
    """What an engine knows of public tables: facts for plans, and the types of their columns."""

    @property
    def kinds(self) -> Mapping[str, Mapping[str, Kind]]:
        """The columns of each public table that questions can use, with their types."""
        ...


class Engine(Protocol):
    """Reads rows, which nothing else does, and gives exact numbers that are sealed.

    An engine is opened on a catalog and a salt. While it opens, what it finds wrong is the owner's
    to hear, as a `BadDeclaration`; afterwards whatever goes wrong is a `Fault` that says nothing,
    and the owner's log has the reason. One salt gives the same integers on every engine.
    """

    @property
    def facts(self) -> Facts:
        """What is known of public tables, which are about no one."""
        ...

    def run(self, measurement: Measurement, hold: Hold) -> Sealed:
        """Return the exact totals of each group found; ``hold`` shows that they are paid for."""
        ...

    def run_blocks(
        self,
        reading: BlockReading,
        hold: Hold,
        estimator: Estimator,
        outputs: int,
        entropy: Entropy,
    ) -> SealedBlocks:
        """Return what an estimator of the owner's gives for each block of units, sealed."""
        ...

    def close(self) -> None:
        """Give back what the engine holds open."""
        ...


class EngineFactory(Protocol):
    """Opens an engine: usually its class.

    A factory may have ``read_columns(source)`` too: the columns of a table and their kinds, from
    its types alone, for `confide init`.
    """

    def __call__(self, catalog: Catalog, *, salt: str) -> Engine:
        """Return the engine of all tables of a catalog."""
        ...


HOUR: Final = 3_600
LONGEST: Final = 31_536_000
"""Seconds of a year; threads cannot wait for any number of them."""
SHOWN: Final = 40


def read_seconds(setting: str, said: str) -> float:
    """Return how many seconds a setting allows.

    Raises:
        BadDeclaration: it says something else than a whole number of seconds, of at most a year.
    """
    seconds = float(said) if said.isascii() and said.isdigit() else 0.0
    if not 1 <= seconds <= LONGEST:
        raise BadDeclaration(
            f"{setting} must be a whole number of seconds from 1 to {LONGEST}, such as {HOUR}, got "
            f"{said[:SHOWN]!r}"
        )
    return seconds
