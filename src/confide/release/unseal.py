"""Opens sealed values: one function, for the modules of release alone."""

from typing import TypeVar

from confide.engines.protocol import SealedBase

__all__ = ["unseal"]

T = TypeVar("T")


def unseal(sealed: SealedBase[T]) -> T:
    """Return the exact values, for noise to be added or a choice to be made among them."""
    return sealed._content  # noqa: SLF001  # the one place
