"""Views through which every statement reads: declared types, clipped values."""

from collections.abc import Mapping
from typing import assert_never

from sqlglot import expressions as sql

from confide.declare import Bool, Category, Column, Date, Float, Int, Kind, Table, Text
from confide.engines.expressions import TYPES, Sql, call, case, cast, finite, literal, try_cast
from confide.engines.fragments import (
    UNIT,
    between,
    clamped,
    column,
    is_known,
    label,
    table,
    without_nan,
)

__all__ = ["view_of_private", "view_of_public"]


def view_of_private(declared: Table, raw: str, unit: Sql | None) -> sql.Select:
    """Return the declared columns of a table, clipped to their bounds, with the unit in front.

    A row without a unit is about no one whom we could protect, so it is left out.
    """
    columns = [label(_clipped(kind, column(name)), name) for name, kind in declared.columns.items()]
    if unit is None:
        return sql.select(*columns).from_(table(raw))
    shown = sql.select(label(unit, UNIT), *columns).from_(table(raw))
    return shown.where(is_known(unit.copy()))


def view_of_public(kinds: Mapping[str, Kind], raw: str) -> sql.Select:
    """Return the columns of a public table in the types that questions know."""
    columns = []
    for name, kind in kinds.items():
        value = try_cast(column(name), TYPES[kind])
        columns.append(label(finite(value) if kind is Kind.FLOAT else value, name))
    return sql.select(*columns).from_(table(raw))


def _clipped(declared: Column, raw: Sql) -> Sql:
    match declared:
        case Int(low=low, high=high):
            near = clamped(without_nan(try_cast(raw, "DOUBLE")), float(low), float(high))
            whole = call("COALESCE", try_cast(raw.copy(), "BIGINT"), cast(near, "BIGINT"))
            return clamped(whole, low, high)
        case Float(low=least, high=most):
            return clamped(without_nan(try_cast(raw, "DOUBLE")), float(least), float(most))
        case Category(values=values):
            text = try_cast(raw, "VARCHAR")
            listed = [literal(value) for value in values if value is not None]
            return case(sql.In(this=text, expressions=listed), text.copy())
        case Date(low=first, high=last):
            return between(try_cast(raw, "DATE"), literal(first), literal(last))
        case Bool():
            return try_cast(raw, "BOOLEAN")
        case Text():
            return try_cast(raw, "VARCHAR")
        case _:
            assert_never(declared)
