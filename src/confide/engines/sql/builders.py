"""Small builders of SQL trees.

Trees are assembled without copying, which would otherwise take most of the time. So a node may
have only one parent and must be copied to be used again.
"""

from collections.abc import Collection, Iterable
from datetime import date, datetime
from typing import Final

from sqlglot import expressions as sql

from confide.declare import Kind
from confide.declare.columns import to_milliseconds

__all__ = [
    "TYPES",
    "UNIT",
    "Sql",
    "as_double",
    "call",
    "case",
    "cast",
    "clamp_to",
    "clamped",
    "column",
    "date_to_timestamp",
    "finite",
    "is_known",
    "label",
    "literal",
    "nested",
    "normalize_zero",
    "number",
    "prune_columns",
    "select",
    "table",
    "timestamp_literal",
    "try_cast",
    "typed",
    "unit_column",
    "valid_date",
    "without_nan",
]

TYPES: Final = {
    Kind.INT: "BIGINT",
    Kind.FLOAT: "DOUBLE",
    Kind.TEXT: "VARCHAR",
    Kind.BOOL: "BOOLEAN",
    Kind.DATE: "DATE",
    Kind.TIMESTAMP: "TIMESTAMP",
}
SQL_TYPES: Final = {
    "BIGINT": sql.DataType.Type.BIGINT,
    "BOOLEAN": sql.DataType.Type.BOOLEAN,
    "DATE": sql.DataType.Type.DATE,
    "DOUBLE": sql.DataType.Type.DOUBLE,
    "TIMESTAMP": sql.DataType.Type.TIMESTAMP,
    "INTEGER": sql.DataType.Type.INT,
    "UTINYINT": sql.DataType.Type.UTINYINT,
    "VARCHAR": sql.DataType.Type.VARCHAR,
}
KIND_TYPES: Final = {kind: sql.DataType(this=SQL_TYPES[name]) for kind, name in TYPES.items()}

Sql = sql.Expr


def cast(value: Sql, type_name: str) -> Sql:
    """Return a plain CAST; the caller must ensure that it cannot fail on any value."""
    return sql.Cast(this=value, to=sql.DataType(this=SQL_TYPES[type_name]))


def try_cast(value: Sql, type_name: str) -> Sql:
    """Return a cast that gives NULL if it cannot be done."""
    return sql.TryCast(this=value, to=sql.DataType(this=SQL_TYPES[type_name]))


def number(value: float) -> Sql:
    """Return a number as a literal of the engine."""
    if value < 0:
        return sql.Paren(this=sql.Neg(this=number(-value)))
    if isinstance(value, float):
        return cast(sql.Literal.number(repr(value)), "DOUBLE")
    return sql.Literal.number(str(value))


def typed(value: Sql, kind: Kind | None) -> Sql:
    """Annotate a value with its type, for engines whose casts depend on it."""
    if kind is not None:
        value.type = KIND_TYPES[kind]
    return value


def call(name: str, *arguments: Sql) -> Sql:
    """Return a call to an engine function, with its name unquoted."""
    return sql.Anonymous(this=name, expressions=list(arguments))


def case(condition: Sql, value: Sql, otherwise: Sql | None = None) -> Sql:
    """Return a one-branch CASE; without ``otherwise``, it is NULL unless the condition is true."""
    return sql.Case(ifs=[sql.If(this=condition, true=value)], default=otherwise)


def valid_date(value: Sql) -> Sql:
    """Return a date of the years 1 to 9999, or NULL for other dates and infinite ones.

    Engines also support dates outside this range, and infinite dates. Dates outside the range are
    clamped to the day just before or just after it, and those two days become NULL. GREATEST skips
    NULL, so NULL becomes the day before too, and then NULL again.
    """
    day = number(1)
    before, after = literal(date.min) - day, literal(date.max) + day
    moved = call("LEAST", call("GREATEST", value, cast(before, "DATE")), cast(after, "DATE"))
    inside = sql.Nullif(this=moved, expression=cast(before.copy(), "DATE"))
    return sql.Nullif(this=inside, expression=cast(after.copy(), "DATE"))


def date_to_timestamp(value: Sql) -> Sql:
    """Return a date as a timestamp; dates outside the years 1 to 9999 are clamped to them.

    # Privacy: without this, one date that is too late for a timestamp would make queries fail.
    """
    return cast(clamp_to(value, literal(date.min), literal(date.max)), "TIMESTAMP")


def finite(value: Sql) -> Sql:
    """Return a double, or NULL if it is infinite or NaN."""
    return case(call("ISFINITE", value), value.copy())


def literal(value: object) -> Sql:
    """Return a value from the query as a literal; a timestamp becomes milliseconds since 1970."""
    match value:
        case None:
            return sql.Null()
        case bool():
            return sql.Boolean(this=value)
        case int() | float():
            return number(value)
        case datetime():
            return cast(number(to_milliseconds(value)), "BIGINT")
        case date():
            day = sql.Literal.string(value.isoformat())
            return cast(day, "DATE")
        case _:
            return sql.Literal.string(str(value))


def as_double(part: Sql) -> Sql:
    """Return a number as a double, without a cast if its type is known to be double."""
    known = part.to if isinstance(part, sql.Cast) else part.type
    is_double = known is not None and known.this is SQL_TYPES["DOUBLE"]
    return part if is_double else cast(part, "DOUBLE")


UNIT: Final = "the unit"  # no declared name begins with "the "


def select(columns: Iterable[Sql], source: Sql) -> sql.Select:
    """Return a SELECT of columns from a table or subquery."""
    return sql.Select(expressions=list(columns), from_=sql.From(this=source))


def nested(rows: sql.Query, name: str) -> sql.Subquery:
    """Return a SELECT as a named subquery."""
    alias = sql.TableAlias(this=_quoted(name))
    return sql.Subquery(this=rows, alias=alias)


def prune_columns(rows: sql.Select, names: Collection[str]) -> sql.Select:
    """Return a SELECT without its unused columns, and without those of its subqueries.

    Every column whose name is in ``names`` stays, and so does ``*``; if none is left, the query
    selects 1. The tree is modified.
    """
    kept = [part for part in rows.expressions if part.is_star or part.alias_or_name in names]
    rows.set("expressions", kept or [number(1)])
    below = rows.args["from_"]
    if isinstance(below.this, sql.Subquery) and isinstance(below.this.this, sql.Select):
        others = [part for part in rows.iter_expressions() if part is not below]
        used = {found.name for part in others for found in part.find_all(sql.Column)}
        prune_columns(
            below.this.this, {*used, *names} if any(part.is_star for part in kept) else used
        )
    return rows


def column(name: str, alias: str | None = None) -> sql.Column:
    """Return a column by its name, qualified by ``alias`` if given."""
    return sql.Column(this=_quoted(name), table=None if alias is None else _quoted(alias))


def _quoted(name: str) -> sql.Identifier:
    return sql.Identifier(this=name, quoted=True)


def unit_column(alias: str | None = None) -> sql.Column:
    """Return the column that holds the privacy unit."""
    return column(UNIT, alias)


def timestamp_literal(value: datetime) -> Sql:
    """Return a timestamp as a literal that can be compared with stored timestamps."""
    return cast(sql.Literal.string(value.isoformat(" ")), "TIMESTAMP")


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


def normalize_zero(value: Sql) -> Sql:
    """Return a double with -0.0 as 0.0, because the two are equal but print differently."""
    zero = number(0.0)
    is_zero = sql.If(this=sql.EQ(this=value, expression=zero), true=zero.copy())
    return sql.Case(ifs=[is_zero], default=value.copy())


def clamped(value: Sql, low: float, high: float) -> Sql:
    """Return a number clamped to [low, high]; NULL stays NULL."""
    return clamp_to(value, number(low), number(high))


def clamp_to(value: Sql, low: Sql, high: Sql) -> Sql:
    """Return a value clamped to [low, high]; NULL stays NULL.

    LEAST and GREATEST skip NULL, so they would turn it into a bound.
    """
    below = sql.If(this=sql.LT(this=value.copy(), expression=low.copy()), true=low)
    above = sql.If(this=sql.GT(this=value.copy(), expression=high.copy()), true=high)
    return sql.Case(ifs=[below, above], default=value.copy())
