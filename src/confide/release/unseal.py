"""Access to sealed values: one function, which only modules in release/ may import."""

from typing import TypeVar

from confide.engines.protocol import SealedBase

__all__ = ["unseal"]

T = TypeVar("T")


def unseal(sealed: SealedBase[T]) -> T:
    """Return the exact values, to which noise is then added, or among which one is chosen."""
    return sealed._content  # noqa: SLF001  # the only place
