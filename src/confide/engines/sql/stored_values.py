"""Reads a stored value as a Boolean or a category, equally on every engine.

Exports write 0.0 and 1.0 for flags, and 1.0 for a code that was 1. Both are read for what they
mean.

# Privacy: a reading follows from its own cell, the stored type, and the declaration, so no row
# changes how another one is read.
"""

import re
from typing import Final

from sqlglot import expressions as sql

from confide.declare import Category, Kind
from confide.engines.sql.expressions import (
    Sql,
    call,
    case,
    cast,
    literal,
    number,
    try_cast,
    without_nan,
)

__all__ = ["as_listed", "as_narrow", "as_number", "as_plain", "as_truth", "lists_of"]

WHOLE: Final = re.compile(r"0|-?[1-9][0-9]*")
"""An integer as engines write it."""
ZERO, MINUS_ZERO = "0", "-0"


def as_truth(raw: Sql, stored: Kind | None) -> Sql:
    """Return a Boolean: of text the words that DuckDB knows, else 0 or 1 as a number.

    A stored number is true unless it is 0, and NULL if it is NaN.
    """
    if stored in (Kind.BOOL, Kind.INT):
        return try_cast(raw, "BOOLEAN")
    if stored is Kind.FLOAT:
        return try_cast(without_nan(raw), "BOOLEAN")
    flags = [
        sql.If(this=number(float(flag)), true=sql.Boolean(this=flag)) for flag in (False, True)
    ]
    read = sql.Case(this=try_cast(raw.copy(), "DOUBLE"), ifs=flags)
    return call("COALESCE", try_cast(raw, "BOOLEAN"), read)


def as_number(raw: Sql, declared: Category, stored: Kind | None) -> Sql:
    """Return an integer if the declaration lists it, else NULL: 1.5 is not rounded.

    Why: listed integers are below 2^53, where a double equals one of them only if the number that
         it was read from rounds to that very integer.
    """
    listed = [value for value in declared.values if isinstance(value, int)]
    if stored is Kind.INT:
        value = try_cast(raw, "BIGINT")
        return case(sql.In(this=value, expressions=list(map(number, listed))), value.copy())
    value = try_cast(raw, "DOUBLE")
    inside = sql.In(this=value, expressions=[number(float(one)) for one in listed])
    return case(inside, cast(value.copy(), "BIGINT"))


def as_listed(text: Sql, declared: Category) -> Sql:
    """Return the listed string that a cell spells, else NULL."""
    return cast(as_narrow(text, declared), "VARCHAR")


def as_narrow(text: Sql, declared: Category) -> Sql:
    """Return the place of a string in the list of the declaration, NULL if it has none.

    It is a value of its own type, of one byte for up to 256 strings, and a cast makes it the
    string. A listed integer is also spelled 1.0.
    """
    listed = _listed(declared)
    return _among(as_plain(text, declared), listed) if listed else sql.Null()


def as_plain(text: Sql, declared: Category) -> Sql:
    """Return a string that equals a listed one if and only if the cell spells it.

    Only strings with a point are looked at, since a failed lookup takes a hundred times as long.
    """
    dotted = _dotted(_listed(declared))
    if not dotted:
        return text
    has_point = sql.Like(this=text.copy(), expression=sql.Literal.string("%.%"))
    return case(has_point, call("COALESCE", _without_point(text.copy(), dotted), text), text.copy())


def lists_of(declared: Category) -> list[tuple[str, ...]]:
    """Return the lists of strings that `as_narrow` compares with."""
    listed = _listed(declared)
    return [one for one in (listed, _dotted(listed)) if one]


def _listed(declared: Category) -> tuple[str, ...]:
    return tuple(value for value in declared.values if isinstance(value, str))


def _dotted(listed: tuple[str, ...]) -> tuple[str, ...]:
    """Return the listed integers with a point behind them, as 1.0 and 1.00 are without zeros.

    >>> _dotted(("A", "10", "007", "0", "2", "2.0"))
    ('10.', '0.', '-0.')
    """
    taken = {value.rstrip("0") for value in listed}
    whole = [value for value in listed if WHOLE.fullmatch(value)]
    whole += [MINUS_ZERO] if ZERO in whole and f"{ZERO}." not in taken else []
    return tuple(f"{value}." for value in whole if f"{value}." not in taken)


def _without_point(text: Sql, dotted: tuple[str, ...]) -> Sql:
    """Return the integer that a string such as 1.0 spells, NULL unless it is listed."""
    point, zero, minus_zero = map(sql.Literal.string, (".", ZERO, MINUS_ZERO))
    kept = _among(call("RTRIM", text, zero), dotted)
    whole = call("RTRIM", cast(kept, "VARCHAR"), point)
    has_zero = f"{MINUS_ZERO}." in dotted
    return call("REPLACE", whole, minus_zero, zero.copy()) if has_zero else whole


def _among(text: Sql, listed: tuple[str, ...]) -> Sql:
    kind = sql.DataType(this=sql.DataType.Type.ENUM, expressions=list(map(literal, listed)))
    return sql.TryCast(this=text, to=kind)
