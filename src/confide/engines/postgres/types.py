"""Stored types of PostgreSQL, and casts that never fail.

PostgreSQL's own casts accept strings that DuckDB does not (such as "today"), and fail on strings
that they do not accept. Here a string must match a pattern of `engines.sql.dialect` first, and
`pg_input_is_valid` shows whether a cast will succeed.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

import psycopg
from sqlglot import expressions as sql

from confide.declare import Column, Date, Int, Kind, Timestamp
from confide.engines.postgres.arithmetic import MAX_DOUBLE
from confide.engines.sql import dialect
from confide.engines.sql.builders import (
    Sql,
    call,
    case,
    cast,
    column,
    number,
)
from confide.engines.sql.table_facts import ambiguous_unit_error
from confide.errors import BadDeclaration

__all__ = [
    "TIMES",
    "PostgresColumn",
    "Relation",
    "as_text",
    "bytewise",
    "cast_numeric",
    "convert",
    "convert_unit",
    "double_to_text",
    "find_relation",
    "text_to_boolean",
    "text_to_date",
    "text_to_double",
    "text_to_integer",
    "text_to_timestamp",
]

MAX_INT64: Final = 2**63 - 1
DECIMAL: Final = sql.DataType(this=sql.DType.DECIMAL)
BLANK: Final = f"[{dialect.BLANKS}]*"


def bytewise(text: Sql) -> Sql:
    """Return a string that is compared and ordered by its bytes."""
    return sql.Paren(this=sql.Collate(this=text, expression=sql.to_identifier("C", quoted=True)))


def as_text(value: Sql) -> Sql:
    """Return a value as PostgreSQL converts it to text."""
    return sql.Cast(this=value, to=sql.DataType(this=sql.DType.TEXT))


def text_to_double(text: Sql) -> Sql:
    """Return the double that a string represents: infinite if too large, zero if too small."""
    digits = _plain_digits(text)
    read = _case(
        (_is_valid(digits, "double precision"), cast(digits.copy(), "DOUBLE")),
        (_is_valid(digits, "numeric"), _out_of_range(cast_numeric(digits.copy()))),
        # If NUMERIC cannot hold the number, the exponent's sign separates large from small.
        (_fits(digits, "[eE]-"), number(0.0)),
        (_fits(digits, "^-"), _double_literal("-Infinity")),
        default=_double_literal("Infinity"),
    )
    non_finite = _case(
        (_fits(text, "[aA]"), _double_literal("NaN")),
        (_fits(text, "-"), _double_literal("-Infinity")),
        default=_double_literal("Infinity"),
    )
    return _case((_fits(text, dialect.NUMBER), read), (_fits(text, dialect.NON_FINITE), non_finite))


def _out_of_range(value: Sql) -> Sql:
    """Return the double for a NUMERIC that is too large or too small for a double."""
    above = sql.GT(this=value, expression=number(1))
    below = sql.LT(this=value.copy(), expression=number(-1))
    return _case(
        (above, _double_literal("Infinity")),
        (below, _double_literal("-Infinity")),
        default=number(0.0),
    )


def text_to_integer(text: Sql) -> Sql:
    """Return the integer nearest to the number in a string, halves away from zero."""
    digits, written = _plain_digits(text), _trimmed(text)
    nearest = call("ROUND", cast_numeric(digits))
    low = sql.Paren(this=sql.Neg(this=number(MAX_INT64 + 1)))
    inside = sql.Between(this=nearest, low=low, high=number(MAX_INT64))
    read = case(_is_valid(digits, "numeric"), case(inside, cast(nearest.copy(), "BIGINT")))
    raw = case(_is_valid(written, "bigint"), cast(written.copy(), "BIGINT"))
    return _case((_fits(text, dialect.NUMBER), read), (_fits(text, dialect.HEX_OR_BINARY), raw))


def text_to_boolean(text: Sql) -> Sql:
    """Return the Boolean that a string represents."""
    return _case(
        (_is_among(text, dialect.TRUE), sql.true()), (_is_among(text, dialect.FALSE), sql.false())
    )


def text_to_date(text: Sql) -> Sql:
    """Return the date that a string represents; years before the first become -infinity."""
    dash = sql.Literal.string("-")
    parts = [
        _date_part(text, 1, 7),
        dash,
        _date_part(text, 3, 2),
        dash.copy(),
        _date_part(text, 4, 2),
    ]
    written = call("CONCAT", *parts)
    is_early = _fits(text, f"^{BLANK}(-|0+[^0-9])")
    day = case(_is_valid(written, "date"), cast(written.copy(), "DATE"))
    return _case(
        (_fits(text, dialect.DAY), case(is_early, _date_literal("-infinity"), day)),
        (
            _fits(text, dialect.INFINITE_DATE),
            case(_fits(text, "-"), _date_literal("-infinity"), _date_literal("infinity")),
        ),
        (_fits(text, f"^{BLANK}[eE][pP][oO][cC][hH]{BLANK}$"), _date_literal("1970-01-01")),
    )


def text_to_timestamp(text: Sql) -> Sql:
    """Return the timestamp that a string in the form of ISO 8601 represents, else NULL."""
    return case(_is_valid(text, "timestamp"), cast(text.copy(), "TIMESTAMP"))


def _date_part(text: Sql, group: int, width: int) -> Sql:
    """Return a group of `dialect.DAY` in a string, with leading zeros."""
    pattern, chosen = sql.Literal.string(dialect.DAY), sql.Literal.string(f"\\{group}")
    found = call("REGEXP_REPLACE", text.copy(), pattern, chosen)
    return call("LPAD", found, number(width), sql.Literal.string("0"))


def double_to_text(value: Sql) -> Sql:
    """Return the shortest string of a double as DuckDB writes it, with a point or an exponent.

    PostgreSQL writes numbers from 1e15 on with an exponent, and DuckDB those from 1e16 on.
    """
    written = as_text(value.copy())
    size = call("ABS", value.copy())
    is_between = sql.And(
        this=sql.GTE(this=size, expression=number(1e15)),
        expression=sql.LT(this=size.copy(), expression=number(1e16)),
    )
    decimal = as_text(cast_numeric(written.copy()))
    infinity = sql.EQ(this=value.copy(), expression=_double_literal("Infinity"))
    minus = sql.EQ(this=value.copy(), expression=_double_literal("-Infinity"))
    nan = sql.EQ(this=value.copy(), expression=_double_literal("NaN"))
    return _case(
        (infinity, sql.Literal.string("inf")),
        (minus, sql.Literal.string("-inf")),
        (nan, sql.Literal.string("nan")),
        (is_between, _with_point(decimal)),
        default=_with_point(written),
    )


def _with_point(digits: Sql) -> Sql:
    extended = call("CONCAT", digits.copy(), sql.Literal.string(".0"))
    return case(_fits(digits, "[.e]"), digits, case(_fits(digits, "."), extended))


def cast_numeric(text: Sql) -> Sql:
    """Return a string or a number as a NUMERIC of any length."""
    return sql.Cast(this=text, to=DECIMAL.copy())


def _case(*pairs: tuple[Sql, Sql], default: Sql | None = None) -> Sql:
    return sql.Case(
        ifs=[sql.If(this=condition, true=value) for condition, value in pairs], default=default
    )


def _fits(text: Sql, pattern: str) -> Sql:
    """Return the condition that a string contains a match of a pattern."""
    return sql.RegexpLike(this=text.copy(), expression=sql.Literal.string(pattern))


def _is_valid(text: Sql, kind: str) -> Sql:
    """Return the condition that a string can be cast to a type of PostgreSQL."""
    return call("PG_INPUT_IS_VALID", text.copy(), sql.Literal.string(kind))


def _is_among(text: Sql, words: tuple[str, ...]) -> Sql:
    listed = [sql.Literal.string(word) for word in words]
    return sql.In(this=call("LOWER", bytewise(text.copy())), expressions=listed)


def _trimmed(text: Sql) -> Sql:
    return call("BTRIM", text.copy(), sql.Literal.string(dialect.BLANKS))


def _plain_digits(text: Sql) -> Sql:
    """Return a string that matches `dialect.NUMBER`, without the characters that casts refuse."""
    return call("REPLACE", _trimmed(text), sql.Literal.string("_"), sql.Literal.string(""))


def _double_literal(text: str) -> Sql:
    return cast(sql.Literal.string(text), "DOUBLE")


def _date_literal(text: str) -> Sql:
    return cast(sql.Literal.string(text), "DATE")


INTEGER_TYPES: Final = ("int2", "int4", "int8")
KINDS: Final[Mapping[str, Kind]] = {
    **dict.fromkeys(INTEGER_TYPES, Kind.INT),
    **dict.fromkeys(("float4", "float8", "numeric"), Kind.FLOAT),
    **dict.fromkeys(("text", "varchar", "bpchar", "name", "citext", "uuid", "enum"), Kind.TEXT),
    "bool": Kind.BOOL,
    **dict.fromkeys(("date", "timestamp", "timestamptz"), Kind.DATE),
}
TIMES: Final = ("timestamp", "timestamptz")
MIN_DOUBLE_CAST: Final = 1e-320

RELATION: Final = """
SELECT c.oid, n.nspname, c.relname FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.oid = pg_catalog.to_regclass(%s) AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
"""
COLUMNS: Final = """
SELECT a.attname, a.atttypid, pg_catalog.format_type(a.atttypid, a.atttypmod),
    coalesce(c.collisdeterministic, true)
FROM pg_catalog.pg_attribute AS a LEFT JOIN pg_catalog.pg_collation AS c ON c.oid = a.attcollation
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
BASE_TYPES: Final = """
WITH RECURSIVE found AS (
    SELECT oid, typname, typtype, typbasetype, oid AS outer_type FROM pg_catalog.pg_type
    WHERE oid = ANY(%s)
    UNION ALL
    SELECT t.oid, t.typname, t.typtype, t.typbasetype, found.outer_type
    FROM pg_catalog.pg_type AS t JOIN found ON t.oid = found.typbasetype AND found.typtype = 'd'
)
SELECT outer_type, oid, CASE WHEN typtype = 'e' THEN 'enum' ELSE typname END FROM found
WHERE typtype <> 'd'
"""


@dataclass(frozen=True, slots=True)
class PostgresColumn:
    """A column as stored.

    ``type`` is the name of its type. If the type is a domain, ``base`` is the type behind it, else
    the type itself; ``oid`` is PostgreSQL's number of that type. ``is_exact`` states that strings
    in the column are equal only if their bytes are.
    """

    name: str
    oid: int
    type: str
    base: str
    is_exact: bool = True

    @property
    def kind(self) -> Kind | None:
        """The kind of its type, or None if it has none."""
        return KINDS.get(self.base)

    @property
    def castable_kind(self) -> Kind | None:
        """The kind for `check_readable`; a UUID has none, since it is never a number or a date."""
        return None if self.base == "uuid" else self.kind


@dataclass(frozen=True, slots=True)
class Relation:
    """A table or view, by its qualified name, with its columns."""

    schema: str
    name: str
    columns: tuple[PostgresColumn, ...]

    def table(self) -> sql.Table:
        """Return the relation for a FROM clause."""
        return sql.table_(self.name, db=self.schema, quoted=True)

    def find(self, table: str, name: str) -> PostgresColumn:
        """Return the column with a declared name.

        Case is ignored, unless several columns differ only in case. ``table`` is for the message.
        """
        names = {stored.name: stored for stored in self.columns}
        matches = [stored for stored in self.columns if stored.name.lower() == name.lower()]
        if name in names or len(matches) == 1:
            return names[name] if name in names else matches[0]
        similar = get_close_matches(name, names, n=3)
        hint = f"Did you mean {', '.join(similar)}?" if similar else "Declare one that it has."
        raise BadDeclaration(f"The source of table {table!r} has no column {name!r}. {hint}")


def find_relation(connection: "psycopg.Connection[Any]", table: str, name: str) -> Relation:
    """Return the table or view with a name from an address, resolved by the role's search path.

    ``table`` is the declared name, for the message.
    """
    quoted = ".".join(sql.to_identifier(part, quoted=True).sql("postgres") for part in _split(name))
    found = connection.execute(RELATION, (quoted,)).fetchone()
    if found is None:
        raise BadDeclaration(
            f"The source of {table!r} names {name!r}, but this role finds no such table or view. "
            "Write `table=schema.name`, and grant USAGE on the schema and SELECT on the table."
        )
    oid, schema, relation_name = found
    rows = connection.execute(COLUMNS, (oid,)).fetchall()
    found_types = connection.execute(BASE_TYPES, ([row[1] for row in rows],)).fetchall()
    bases = {kind: (base, type_name) for kind, base, type_name in found_types}
    stored = (
        PostgresColumn(
            column, bases[kind][0], type_name, bases[kind][1], exact and bases[kind][1] != "citext"
        )
        for column, kind, type_name, exact in rows
    )
    return Relation(schema, relation_name, tuple(stored))


def _split(name: str) -> Iterable[str]:
    """Return the parts of a qualified name: the schema, if given, and the table."""
    return name.split(".", maxsplit=1)


def convert(stored: PostgresColumn, declared: Column | None = None) -> tuple[Sql, Kind]:
    """Return SQL that reads a stored column and fails on no row, and the kind of its values.

    A NUMERIC becomes an integer if an integer is declared, else a double. Timestamps stay
    timestamps, in UTC, if they are declared. They become dates in UTC if a date or nothing is
    declared, else strings. Types without a kind are read as text.
    """
    value, kind = column(stored.name), stored.kind or Kind.TEXT
    if stored.base == "numeric" and isinstance(declared, Int):
        return _nearest_integer(value, declared), Kind.INT
    if stored.base in TIMES and isinstance(declared, Timestamp):
        zone = sql.Literal.string("UTC")
        is_local = stored.base == "timestamp"
        return value if is_local else sql.AtTimeZone(this=value, zone=zone), Kind.TIMESTAMP
    if stored.base in TIMES and not isinstance(declared, Date | None):
        return _as_bytewise(value), Kind.TEXT
    return READERS.get(stored.base, BY_KIND[kind])(value), kind


def convert_unit(stored: PostgresColumn, table: str) -> tuple[Sql, Kind]:
    """Return SQL that reads the column of the privacy unit, and the kind of its values.

    # Privacy: different units stay different, so a type that is neither an integer nor a double is
    # compared as a string, byte by byte. Values that the database considers equal must not become
    # several units, so a column with such a collation is refused.
    """
    if not stored.is_exact:
        raise BadDeclaration(
            f"Unit {stored.name!r} of {table!r} treats different strings as equal "
            f'({stored.type}). Create a view with `lower({stored.name}) COLLATE "C"`, and name '
            "that view."
        )
    value = column(stored.name)
    if stored.base in INTEGER_TYPES:
        return cast(value, "BIGINT"), Kind.INT
    if stored.base in ("float4", "float8"):
        return cast(value, "DOUBLE"), Kind.FLOAT
    if stored.base == "numeric":
        known = sql.Nullif(this=value, expression=_numeric("NaN"))
        return _as_bytewise(call("TRIM_SCALE", known)), Kind.TEXT
    if stored.kind is None:
        raise ambiguous_unit_error(table, stored.name, stored.type)
    return _as_bytewise(value), Kind.TEXT


def _nearest_integer(value: Sql, declared: Int) -> Sql:
    """Return the integer nearest to a NUMERIC, clipped to the declared bounds; NULL for NaN."""
    nearest = cast(call("ROUND", value), "BIGINT")
    nan = sql.EQ(this=value.copy(), expression=_numeric("NaN"))
    below = sql.LT(this=value.copy(), expression=number(declared.low))
    above = sql.GT(this=value.copy(), expression=number(declared.high))
    return sql.Case(
        ifs=[
            sql.If(this=nan, true=sql.Null()),
            sql.If(this=below, true=cast(number(declared.low), "BIGINT")),
            sql.If(this=above, true=cast(number(declared.high), "BIGINT")),
        ],
        default=nearest,
    )


def _to_double(value: Sql) -> Sql:
    """Return the double nearest to a NUMERIC: infinite if it is too large, zero below 1e-320.

    PostgreSQL's own cast fails on numbers that are too large or too small for a double.
    """
    cases = [
        (sql.EQ(this=value.copy(), expression=_numeric("NaN")), "NaN"),
        (sql.GT(this=value.copy(), expression=_numeric(repr(MAX_DOUBLE))), "Infinity"),
        (sql.LT(this=value.copy(), expression=_numeric(repr(-MAX_DOUBLE))), "-Infinity"),
        (sql.LT(this=call("ABS", value.copy()), expression=_numeric(repr(MIN_DOUBLE_CAST))), "0"),
    ]
    branches = [
        sql.If(this=condition, true=cast(sql.Literal.string(text), "DOUBLE"))
        for condition, text in cases
    ]
    return sql.Case(ifs=branches, default=cast(value, "DOUBLE"))


def _numeric(text: str) -> Sql:
    return cast_numeric(sql.Literal.string(text))


def _as_bytewise(value: Sql) -> Sql:
    return bytewise(as_text(value))


def _date_in_utc(value: Sql) -> Sql:
    return cast(sql.AtTimeZone(this=value, zone=sql.Literal.string("UTC")), "DATE")


READERS: Final[Mapping[str, Callable[[Sql], Sql]]] = {
    "numeric": _to_double,
    "timestamptz": _date_in_utc,
}
BY_KIND: Final[Mapping[Kind, Callable[[Sql], Sql]]] = {
    Kind.INT: lambda value: cast(value, "BIGINT"),
    Kind.FLOAT: lambda value: cast(value, "DOUBLE"),
    Kind.TEXT: _as_bytewise,
    Kind.BOOL: lambda value: cast(value, "BOOLEAN"),
    Kind.DATE: lambda value: cast(value, "DATE"),
}
