"""Exact values on their way from the engine to the noise, closed to everything else."""

from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from confide.expressions.tree import Value

__all__ = ["Closed", "Counts", "Groups", "Integers", "Pair", "Sealed", "open_counts", "open_sealed"]

Groups = dict[tuple[Value, ...], tuple[int, ...]]
Integers = NDArray[np.int64]
Pair = tuple[Integers, Integers]
"""Cells that hold rows, in order, and how many rows each holds."""

Counts = dict[tuple[Value, ...], Pair]


class Closed:
    """What shows nothing, compares with nothing, and cannot be copied out or written down."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"

    def __eq__(self, other: object) -> NoReturn:
        raise TypeError("sealed values cannot be compared")

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> NoReturn:
        raise TypeError("sealed values cannot be copied or stored")


class Sealed(Closed):
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
