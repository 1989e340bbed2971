"""How long a statement may take: what an owner may set, for every engine that has no such limit."""

from typing import Final

from confide.errors import BadDeclaration

__all__ = ["HOUR", "LONGEST", "read_seconds"]

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
