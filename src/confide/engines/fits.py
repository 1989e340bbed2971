"""Which stored types can be read as which declared kinds: one rule for all engines.

Texts are read as far as they can be, cell by cell. Of other types some can never be read as what is
declared, whatever their values are; then every value would be NULL and no answer would say so.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from confide.declare import Category, Column, Kind
from confide.errors import BadDeclaration

__all__ = ["say_several_texts", "see_fit"]

NUMBERS: Final = (Kind.INT, Kind.FLOAT, Kind.BOOL, Kind.TEXT)
READABLE: Final[Mapping[Kind | None, tuple[Kind, ...]]] = MappingProxyType(
    {
        Kind.INT: NUMBERS,
        Kind.FLOAT: NUMBERS,
        Kind.BOOL: NUMBERS,
        Kind.DATE: (Kind.DATE, Kind.TEXT),
        Kind.TEXT: tuple(Kind),
        None: (Kind.TEXT,),
    }
)
"""As what values of a kind can be read; as anything else they are NULL, whatever the value."""

WRITTEN: Final[Mapping[Kind | None, re.Pattern[str]]] = MappingProxyType(
    {
        Kind.INT: re.compile(r"0|-?[1-9]\d*"),
        Kind.FLOAT: re.compile(r"-?\d+(\.\d+)?(e[+-]?\d+)?|-?inf(inity)?|nan", re.IGNORECASE),
        Kind.BOOL: re.compile(r"true|false"),
        Kind.DATE: re.compile(r"-?\d+-\d\d-\d\d.*|-?infinity"),
    }
)
"""Strings that a value of a kind can have; engines write some numbers and days differently."""


def see_fit(table: str, name: str, declared: Column, said: str, stored: Kind | None) -> None:
    """See that a column can be read as declared.

    ``said`` is its type in the engine's words, and ``stored`` our word for that: days for points in
    time as well, None for what only its text can be read of, such as lists, bytes and identifiers.

    Raises:
        BadDeclaration: every value of it would be read as NULL.
    """
    readable = READABLE[stored]
    if declared.kind not in readable:
        listed = [*(str(kind) for kind in readable if kind is not Kind.TEXT), "category"]
        raise BadDeclaration(
            f"column {name!r} of table {table!r} is stored as {said}, of which no value can be "
            f"read as {declared.kind}; declare {', '.join(listed)} or text, or cast it where it is "
            "stored"
        )
    if isinstance(declared, Category) and not _can_be_listed(declared, stored):
        raise BadDeclaration(
            f"column {name!r} of table {table!r} is stored as {said}, of which no value can be "
            "read as one of those listed; list values as they are stored, or declare "
            f"{_advise(stored)}"
        )


def _can_be_listed(declared: Category, stored: Kind | None) -> bool:
    """Return whether some value of a stored kind can be one of a category's.

    The schema alone decides, never the cells: a refusal would reveal something about these.
    """
    known = [value for value in declared.values if value is not None]
    if declared.kind is Kind.INT:
        return stored is not Kind.BOOL or bool({0, 1}.intersection(known))
    pattern = WRITTEN.get(stored)
    return pattern is None or not known or any(pattern.fullmatch(str(one)) for one in known)


def _advise(stored: Kind | None) -> str:
    return {Kind.BOOL: "bool", Kind.DATE: "date"}.get(stored or Kind.TEXT, "int or float")


def say_several_texts(table: str, unit: str, said: str) -> BadDeclaration:
    """Return what the owner is told of a unit's type that has several texts for one value.

    # Privacy: units are compared as texts, so one of them would become several.
    """
    return BadDeclaration(
        f"unit {unit!r} of table {table!r} is of type {said}, which may write one value in several "
        "ways; name a column of whole numbers or of texts"
    )
