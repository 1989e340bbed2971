"""Readings of one stored value as a category: the same on every engine.

An integer may be stored as 1.0, and 1.5 is not rounded.

# Privacy: a reading follows from its own cell, the stored type, and the declaration, so no row
# changes how another one is read.
"""

from sqlglot import expressions as sql

from confide.declare import Category, Kind
from confide.engines.expressions import Sql, case, cast, literal, number, try_cast

__all__ = ["as_listed", "as_narrow", "as_number"]


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
    string.
    """
    listed = _listed(declared)
    return _among(text, listed) if listed else sql.Null()


def _listed(declared: Category) -> tuple[str, ...]:
    return tuple(value for value in declared.values if isinstance(value, str))


def _among(text: Sql, listed: tuple[str, ...]) -> Sql:
    kind = sql.DataType(this=sql.DataType.Type.ENUM, expressions=list(map(literal, listed)))
    return sql.TryCast(this=text, to=kind)
