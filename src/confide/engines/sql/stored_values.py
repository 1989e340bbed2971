"""Reads stored values as Booleans, categories, or timestamps, in the same way on every engine.

Some exports write 0.0 and 1.0 for flags, and 1.0 for the code 1. Both are read as intended.

# Privacy: how a cell is read follows from the cell, the stored type, and the declaration alone, so
# no row changes how another row is read.
"""

import re
from typing import Final

from sqlglot import expressions as sql

from confide.declare import Category, Kind
from confide.engines.sql.builders import (
    Sql,
    call,
    case,
    cast,
    literal,
    number,
    try_cast,
    without_nan,
)

__all__ = [
    "as_boolean",
    "as_comparable",
    "as_enum",
    "as_iso_timestamp",
    "as_listed",
    "as_listed_integer",
    "enum_lists",
]

INTEGER: Final = re.compile(r"0|-?[1-9][0-9]*")
"""An integer as engines write it."""
ISO_TIMESTAMP: Final = (
    "^([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])-[0-9]{2}-[0-9]{2}"
    "([ T]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{1,6})?)?)?$"
)
"""A date and perhaps a time of day, in the form of ISO 8601 and without a time zone."""
ZERO, MINUS_ZERO = "0", "-0"


def as_boolean(raw: Sql, stored: Kind | None) -> Sql:
    """Return a stored value as a Boolean, or NULL.

    A stored number is true unless it is 0, and NULL if it is NaN. A string is read as DuckDB casts
    it to a Boolean, or else as the number 0 or 1, such as 1.0.
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


def as_iso_timestamp(text: Sql) -> Sql:
    """Return a string if it is a timestamp in the form of ISO 8601, else NULL.

    Each engine can cast other forms too, some of which depend on a time zone.
    """
    is_iso = sql.RegexpLike(this=text, expression=sql.Literal.string(ISO_TIMESTAMP))
    return case(is_iso, text.copy())


def as_listed_integer(raw: Sql, declared: Category, stored: Kind | None) -> Sql:
    """Return an integer if the declaration lists it, else NULL: 1.5 is not rounded.

    Why: listed integers are below 2^53, where a double equals one of them only if the number that
         it was read from rounds to that very integer.
    """
    listed = [value for value in declared.values if isinstance(value, int)]
    if stored is Kind.INT:
        value = try_cast(raw, "BIGINT")
        return case(sql.In(this=value, expressions=list(map(number, listed))), value.copy())
    value = try_cast(raw, "DOUBLE")
    inside = sql.In(this=value, expressions=[number(float(value)) for value in listed])
    return case(inside, cast(value.copy(), "BIGINT"))


def as_listed(text: Sql, declared: Category) -> Sql:
    """Return the declared string that a cell represents (see `as_enum`), else NULL."""
    return cast(as_enum(text, declared), "VARCHAR")


def as_enum(text: Sql, declared: Category) -> Sql:
    """Return a declared string as an ENUM value, NULL for other strings.

    An ENUM value takes one byte if the list has up to 256 strings; a cast returns the string. A
    cell such as 1.0 also represents the declared string 1, unless 1.0 is declared too.
    """
    listed = _listed(declared)
    return _try_enum(as_comparable(text, declared), listed) if listed else sql.Null()


def as_comparable(text: Sql, declared: Category) -> Sql:
    """Return a string that equals a declared string if and only if the cell represents it.

    Only cells with a decimal point are looked up, since a failed lookup takes a hundred times as
    long.
    """
    dotted = _with_point(_listed(declared))
    if not dotted:
        return text
    has_point = sql.Like(this=text.copy(), expression=sql.Literal.string("%.%"))
    return case(has_point, call("COALESCE", _without_point(text.copy(), dotted), text), text.copy())


def enum_lists(declared: Category) -> list[tuple[str, ...]]:
    """Return the lists of strings of the ENUM types that `as_enum` uses."""
    listed = _listed(declared)
    return [strings for strings in (listed, _with_point(listed)) if strings]


def _listed(declared: Category) -> tuple[str, ...]:
    return tuple(value for value in declared.values if isinstance(value, str))


def _with_point(listed: tuple[str, ...]) -> tuple[str, ...]:
    """Return the declared integers with a decimal point, as 1.0 and 1.00 are without final zeros.

    Integers that are also declared with decimals are left out. 0 is returned as -0 too.

    >>> _with_point(("A", "10", "007", "0", "2", "2.0"))
    ('10.', '0.', '-0.')
    """
    used = {value.rstrip("0") for value in listed}
    integers = [value for value in listed if INTEGER.fullmatch(value)]
    integers += [MINUS_ZERO] if ZERO in integers and f"{ZERO}." not in used else []
    return tuple(f"{value}." for value in integers if f"{value}." not in used)


def _without_point(text: Sql, dotted: tuple[str, ...]) -> Sql:
    """Return the integer that a string such as 1.0 represents, NULL unless it is declared."""
    point, zero, minus_zero = map(sql.Literal.string, (".", ZERO, MINUS_ZERO))
    kept = _try_enum(call("RTRIM", text, zero), dotted)
    integers = call("RTRIM", cast(kept, "VARCHAR"), point)
    has_zero = f"{MINUS_ZERO}." in dotted
    return call("REPLACE", integers, minus_zero, zero.copy()) if has_zero else integers


def _try_enum(text: Sql, listed: tuple[str, ...]) -> Sql:
    """Return a string as a value of the ENUM type with the listed strings, else NULL."""
    kind = sql.DataType(this=sql.DataType.Type.ENUM, expressions=list(map(literal, listed)))
    return sql.TryCast(this=text, to=kind)
