"""Exact values on their way from the engine to the noise, closed to everything else."""

from typing import NoReturn

from confide.query.tree import Value

__all__ = ["Groups", "Sealed", "open_sealed"]

Groups = dict[tuple[Value, ...], tuple[int, ...]]


class Sealed:
    """Exact totals of each group that the engine found.

    # Privacy: shows nothing, compares with nothing, cannot be copied out or written down. Only
    # `open_sealed` reads it, and only release/ calls that.
    """

    __slots__ = ("_groups",)

    def __init__(self, groups: Groups) -> None:
        self._groups = groups

    def __repr__(self) -> str:
        return "Sealed(...)"

    def __eq__(self, other: object) -> NoReturn:
        raise TypeError("sealed values cannot be compared")

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> NoReturn:
        raise TypeError("sealed values cannot be copied or stored")


def open_sealed(sealed: Sealed) -> Groups:
    """Return the exact totals, for the noise to be added."""
    return sealed._groups  # noqa: SLF001  # the one place
