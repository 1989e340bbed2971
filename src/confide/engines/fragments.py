"""Small pieces of engine SQL that every statement is made of.

Selections are put together without copying, which takes most of the time otherwise: a piece stands
in one place only, or is copied where it is used again.
"""

from collections.abc import Collection, Iterable
from typing import Final

from sqlglot import expressions as sql

from confide.engines.expressions import Sql, cast, number

__all__ = [
    "UNIT",
    "between",
    "clamped",
    "column",
    "is_known",
    "label",
    "narrow",
    "nested",
    "one_zero",
    "select",
    "table",
    "unit_column",
    "without_nan",
]

UNIT: Final = "the unit"  # no declared name has a space


def select(columns: Iterable[Sql], source: Sql) -> sql.Select:
    """Return the selection of columns from a table or a nested selection."""
    return sql.Select(expressions=list(columns), from_=sql.From(this=source))


def nested(rows: sql.Query, name: str) -> sql.Subquery:
    """Return a selection as the source of another one, under a name."""
    alias = sql.TableAlias(this=_quoted(name))
    return sql.Subquery(this=rows, alias=alias)


def narrow(rows: sql.Select, names: Collection[str]) -> sql.Select:
    """Return a selection without the columns that nobody asks for, nor those that it nests.

    Only columns in ``names`` stay, or as many as have one of these names. The tree is used up.
    """
    kept = [part for part in rows.expressions if part.is_star or part.alias_or_name in names]
    rows.set("expressions", kept or [number(1)])
    below = rows.args["from_"]
    if isinstance(below.this, sql.Subquery) and isinstance(below.this.this, sql.Select):
        others = [part for part in rows.iter_expressions() if part is not below]
        asked = {found.name for part in others for found in part.find_all(sql.Column)}
        narrow(below.this.this, {*asked, *names} if any(part.is_star for part in kept) else asked)
    return rows


def column(name: str, alias: str | None = None) -> sql.Column:
    """Return a column by its name, of the named table or the only one."""
    return sql.Column(this=_quoted(name), table=None if alias is None else _quoted(alias))


def _quoted(name: str) -> sql.Identifier:
    return sql.Identifier(this=name, quoted=True)


def unit_column(alias: str | None = None) -> sql.Column:
    """Return the column that tells whom a row is about."""
    return column(UNIT, alias)


def label(value: Sql, name: str) -> Sql:
    """Return a value under a name."""
    return sql.Alias(this=value, alias=_quoted(name))


def table(name: str, alias: str | None = None) -> sql.Table:
    """Return a table or view by its name, under an alias."""
    return sql.table_(name, alias=alias, quoted=True)


def is_known(value: Sql) -> Sql:
    """Return the condition that a value is not NULL."""
    return sql.Not(this=sql.Paren(this=sql.Is(this=value, expression=sql.Null())))


def without_nan(value: Sql) -> Sql:
    """Return a double with NULL for NaN."""
    return sql.Nullif(this=value, expression=cast(sql.Literal.string("nan"), "DOUBLE"))


def one_zero(value: Sql) -> Sql:
    """Return a double with one zero: both are equal, and must look alike."""
    zero = number(0.0)
    is_zero = sql.If(this=sql.EQ(this=value, expression=zero), true=zero.copy())
    return sql.Case(ifs=[is_zero], default=value.copy())


def clamped(value: Sql, low: float, high: float) -> Sql:
    """Return a number within [low, high]; NULL stays NULL."""
    return between(value, number(low), number(high))


def between(value: Sql, low: Sql, high: Sql) -> Sql:
    """Return the value within [low, high]; NULL stays NULL.

    LEAST and GREATEST skip NULL, so they would turn it into a bound.
    """
    below = sql.If(this=sql.LT(this=value.copy(), expression=low.copy()), true=low)
    above = sql.If(this=sql.GT(this=value.copy(), expression=high.copy()), true=high)
    return sql.Case(ifs=[below, above], default=value.copy())
