"""Exact values on their way from the engine to the noise, closed to everything else."""

from typing import Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from confide.errors import BadDeclaration
from confide.expressions.tree import Value

__all__ = [
    "HOUR",
    "LONGEST",
    "Counts",
    "Groups",
    "Integers",
    "Pair",
    "Sealed",
    "SealedBase",
    "open_counts",
    "open_sealed",
    "read_seconds",
]

Groups = dict[tuple[Value, ...], tuple[int, ...]]
Integers = NDArray[np.int64]
Pair = tuple[Integers, Integers]
"""Cells that hold rows, in order, and how many rows each holds."""

Counts = dict[tuple[Value, ...], Pair]


class SealedBase:
    """What shows nothing, compares with nothing, and cannot be copied out or written down."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"

    def __eq__(self, other: object) -> NoReturn:
        raise TypeError("sealed values cannot be compared")

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> NoReturn:
        raise TypeError("sealed values cannot be copied or stored")


class Sealed(SealedBase):
    """Exact totals of each group that the engine found, and rows by cell for each histogram.

    # Privacy: only `open_sealed` and `open_counts` read it, and only release/ calls them.
    """

    __slots__ = ("_counts", "_groups")

    def __init__(self, groups: Groups, counts: tuple[Counts, ...] = ()) -> None:
        self._groups, self._counts = groups, counts


def open_sealed(sealed: Sealed) -> Groups:
    """Return the exact totals, for the noise to be added."""
    return sealed._groups  # noqa: SLF001  # the one place


def open_counts(sealed: Sealed) -> tuple[Counts, ...]:
    """Return the rows by cell of each histogram, for a choice to be made among cells."""
    return sealed._counts  # noqa: SLF001  # the other place


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
