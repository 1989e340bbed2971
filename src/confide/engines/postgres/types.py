"""Stored types of PostgreSQL, and casts that never fail.

PostgreSQL's own casts take other texts (such as "today"), and fail on those they do not take. Here
a text must fit a pattern before it is cast, and `pg_input_is_valid` says whether the cast will do.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

import psycopg
from sqlglot import expressions as sql

from confide.declare import Column, Date, Int, Kind
from confide.engines.postgres.arithmetic import LARGEST
from confide.engines.sql import dialect
from confide.engines.sql.expressions import Sql, call, case, cast, column, number
from confide.engines.sql.table_facts import ambiguous_unit_error
from confide.errors import BadDeclaration

__all__ = [
    "PostgresColumn",
    "Relation",
    "as_text",
    "bytewise",
    "cast_numeric",
    "double_to_text",
    "find_relation",
    "shape",
    "shape_unit",
    "text_to_day",
    "text_to_double",
    "text_to_truth",
    "text_to_whole",
]

LARGEST_INT: Final = 2**63 - 1
DECIMAL: Final = sql.DataType(this=sql.DType.DECIMAL)
BLANK: Final = f"[{dialect.BLANKS}]*"


def bytewise(text: Sql) -> Sql:
    """Return a text that is compared and ordered by its bytes."""
    return sql.Paren(this=sql.Collate(this=text, expression=sql.to_identifier("C", quoted=True)))


def as_text(value: Sql) -> Sql:
    """Return a value in the words of the engine."""
    return sql.Cast(this=value, to=sql.DataType(this=sql.DType.TEXT))


def text_to_double(text: Sql) -> Sql:
    """Return the double that a text means, infinite or zero where it is out of their range."""
    digits = _digits_of(text)
    read = _case(
        (_is_valid(digits, "double precision"), cast(digits.copy(), "DOUBLE")),
        (_is_valid(digits, "numeric"), _far(cast_numeric(digits.copy()))),
        # Beyond even what NUMERIC holds, the exponent's sign tells large from small.
        (_fits(digits, "[eE]-"), number(0.0)),
        (_fits(digits, "^-"), _double_literal("-Infinity")),
        default=_double_literal("Infinity"),
    )
    unreal = _case(
        (_fits(text, "[aA]"), _double_literal("NaN")),
        (_fits(text, "-"), _double_literal("-Infinity")),
        default=_double_literal("Infinity"),
    )
    return _case((_fits(text, dialect.NUMBER), read), (_fits(text, dialect.NON_FINITE), unreal))


def _far(value: Sql) -> Sql:
    above = sql.GT(this=value, expression=number(1))
    below = sql.LT(this=value.copy(), expression=number(-1))
    return _case(
        (above, _double_literal("Infinity")),
        (below, _double_literal("-Infinity")),
        default=number(0.0),
    )


def text_to_whole(text: Sql) -> Sql:
    """Return the whole number nearest to what a text means, halves away from zero."""
    digits, plain = _digits_of(text), _trimmed(text)
    nearest = call("ROUND", cast_numeric(digits))
    low = sql.Paren(this=sql.Neg(this=number(LARGEST_INT + 1)))
    inside = sql.Between(this=nearest, low=low, high=number(LARGEST_INT))
    read = case(_is_valid(digits, "numeric"), case(inside, cast(nearest.copy(), "BIGINT")))
    raw = case(_is_valid(plain, "bigint"), cast(plain.copy(), "BIGINT"))
    return _case((_fits(text, dialect.NUMBER), read), (_fits(text, dialect.HEX_OR_BINARY), raw))


def text_to_truth(text: Sql) -> Sql:
    """Return the truth value that a text names."""
    return _case(
        (_is_among(text, dialect.TRUE), sql.true()), (_is_among(text, dialect.FALSE), sql.false())
    )


def text_to_day(text: Sql) -> Sql:
    """Return the day that a text names; the years before the first are infinitely far."""
    dash = sql.Literal.string("-")
    parts = [_day_part(text, 1, 7), dash, _day_part(text, 3, 2), dash.copy(), _day_part(text, 4, 2)]
    written = call("CONCAT", *parts)
    is_early = _fits(text, f"^{BLANK}(-|0+[^0-9])")
    day = case(_is_valid(written, "date"), cast(written.copy(), "DATE"))
    return _case(
        (_fits(text, dialect.DAY), case(is_early, _day("-infinity"), day)),
        (
            _fits(text, dialect.INFINITE_DATE),
            case(_fits(text, "-"), _day("-infinity"), _day("infinity")),
        ),
        (_fits(text, f"^{BLANK}[eE][pP][oO][cC][hH]{BLANK}$"), _day("1970-01-01")),
    )


def _day_part(text: Sql, place: int, width: int) -> Sql:
    pattern, chosen = sql.Literal.string(dialect.DAY), sql.Literal.string(f"\\{place}")
    found = call("REGEXP_REPLACE", text.copy(), pattern, chosen)
    return call("LPAD", found, number(width), sql.Literal.string("0"))


def double_to_text(value: Sql) -> Sql:
    """Return a double's shortest text, with a point or an exponent in it.

    PostgreSQL writes numbers from 1e15 on with an exponent, DuckDB those from 1e16 on.
    """
    plain = as_text(value.copy())
    size = call("ABS", value.copy())
    is_between = sql.And(
        this=sql.GTE(this=size, expression=number(1e15)),
        expression=sql.LT(this=size.copy(), expression=number(1e16)),
    )
    spread = as_text(cast_numeric(plain.copy()))
    infinity = sql.EQ(this=value.copy(), expression=_double_literal("Infinity"))
    minus = sql.EQ(this=value.copy(), expression=_double_literal("-Infinity"))
    nan = sql.EQ(this=value.copy(), expression=_double_literal("NaN"))
    return _case(
        (infinity, sql.Literal.string("inf")),
        (minus, sql.Literal.string("-inf")),
        (nan, sql.Literal.string("nan")),
        (is_between, _pointed(spread)),
        default=_pointed(plain),
    )


def _pointed(digits: Sql) -> Sql:
    whole = call("CONCAT", digits.copy(), sql.Literal.string(".0"))
    return case(_fits(digits, "[.e]"), digits, case(_fits(digits, "."), whole))


def cast_numeric(text: Sql) -> Sql:
    """Return a number of any length from a text or a number."""
    return sql.Cast(this=text, to=DECIMAL.copy())


def _case(*pairs: tuple[Sql, Sql], default: Sql | None = None) -> Sql:
    return sql.Case(ifs=[sql.If(this=one, true=value) for one, value in pairs], default=default)


def _fits(text: Sql, pattern: str) -> Sql:
    return sql.RegexpLike(this=text.copy(), expression=sql.Literal.string(pattern))


def _is_valid(text: Sql, kind: str) -> Sql:
    return call("PG_INPUT_IS_VALID", text.copy(), sql.Literal.string(kind))


def _is_among(text: Sql, words: tuple[str, ...]) -> Sql:
    listed = [sql.Literal.string(word) for word in words]
    return sql.In(this=call("LOWER", bytewise(text.copy())), expressions=listed)


def _trimmed(text: Sql) -> Sql:
    return call("BTRIM", text.copy(), sql.Literal.string(dialect.BLANKS))


def _digits_of(text: Sql) -> Sql:
    """Return a text that fits `texts.NUMBER` without what PostgreSQL does not take."""
    return call("REPLACE", _trimmed(text), sql.Literal.string("_"), sql.Literal.string(""))


def _double_literal(text: str) -> Sql:
    return cast(sql.Literal.string(text), "DOUBLE")


def _day(text: str) -> Sql:
    return cast(sql.Literal.string(text), "DATE")


WHOLE: Final = ("int2", "int4", "int8")
KINDS: Final[Mapping[str, Kind]] = {
    **dict.fromkeys(WHOLE, Kind.INT),
    **dict.fromkeys(("float4", "float8", "numeric"), Kind.FLOAT),
    **dict.fromkeys(("text", "varchar", "bpchar", "name", "citext", "uuid", "enum"), Kind.TEXT),
    "bool": Kind.BOOL,
    **dict.fromkeys(("date", "timestamp", "timestamptz"), Kind.DATE),
}
TIMES: Final = ("timestamp", "timestamptz")
NEAR_ZERO: Final = 1e-320

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
    """A column as the source has it.

    ``type`` is its type for people, ``base`` the same without domains, and ``oid`` the number of
    that. ``is_exact`` says that texts are equal only if their bytes are.
    """

    name: str
    oid: int
    type: str
    base: str
    is_exact: bool = True

    @property
    def kind(self) -> Kind | None:
        """Our word for its type; None where we have none."""
        return KINDS.get(self.base)

    @property
    def fitting(self) -> Kind | None:
        """What casts find in it, if anything: the text of an identifier is no number, no day."""
        return None if self.base == "uuid" else self.kind


@dataclass(frozen=True, slots=True)
class Relation:
    """A table or view, by its full name, with its columns."""

    schema: str
    name: str
    columns: tuple[PostgresColumn, ...]

    def table(self) -> sql.Table:
        """Return it as the source of a selection."""
        return sql.table_(self.name, db=self.schema, quoted=True)

    def find(self, table: str, name: str) -> PostgresColumn:
        """Return a column that was declared; upper and lower case matter only if they must."""
        names = {stored.name: stored for stored in self.columns}
        alike = [stored for stored in self.columns if stored.name.lower() == name.lower()]
        if name in names or len(alike) == 1:
            return names[name] if name in names else alike[0]
        near = get_close_matches(name, names, n=3)
        hint = f"; near are {', '.join(near)}" if near else ""
        raise BadDeclaration(f"table {table!r} has no column {name!r} in its source{hint}")


def find_relation(connection: "psycopg.Connection[Any]", table: str, name: str) -> Relation:
    """Return the table or view that an address names, as the role's search path finds it."""
    quoted = ".".join(sql.to_identifier(part, quoted=True).sql("postgres") for part in _split(name))
    found = connection.execute(RELATION, (quoted,)).fetchone()
    if found is None:
        raise BadDeclaration(
            f"source of {table!r} names {name!r}, but this role finds no such table or view; "
            "write table=schema.name, and grant USAGE on the schema and SELECT on the table"
        )
    oid, schema, own = found
    rows = connection.execute(COLUMNS, (oid,)).fetchall()
    found_types = connection.execute(BASE_TYPES, ([row[1] for row in rows],)).fetchall()
    bases = {kind: (base, said) for kind, base, said in found_types}
    stored = (
        PostgresColumn(
            column, bases[kind][0], said, bases[kind][1], exact and bases[kind][1] != "citext"
        )
        for column, kind, said, exact in rows
    )
    return Relation(schema, own, tuple(stored))


def _split(name: str) -> Iterable[str]:
    return name.split(".", maxsplit=1)


def shape(stored: PostgresColumn, declared: Column | None = None) -> tuple[Sql, Kind]:
    """Return a stored column as a value of one of our kinds, and which; this fails on no row.

    Whole numbers are read as such from numbers of any length where they are declared so, and else
    as doubles. Points in time are days in UTC, if days are declared or nothing is, and else texts.
    A type that we have no word for is read as text.
    """
    value, kind = column(stored.name), stored.kind or Kind.TEXT
    if stored.base == "numeric" and isinstance(declared, Int):
        return _nearest(value, declared), Kind.INT
    if stored.base in TIMES and not isinstance(declared, Date | None):
        return _text(value), Kind.TEXT
    return READERS.get(stored.base, BY_KIND[kind])(value), kind


def shape_unit(stored: PostgresColumn, table: str) -> tuple[Sql, Kind]:
    """Return a column that tells whom a row is about.

    # Privacy: different units stay different, so what is neither whole number nor double is
    # compared as a text, byte by byte; and what the database takes for one unit must not become
    # several.
    """
    if not stored.is_exact:
        raise BadDeclaration(
            f"unit {stored.name!r} of {table!r} takes texts of different letters for equal "
            f'({stored.type}); make a view with lower({stored.name}) COLLATE "C", and name that'
        )
    value = column(stored.name)
    if stored.base in WHOLE:
        return cast(value, "BIGINT"), Kind.INT
    if stored.base in ("float4", "float8"):
        return cast(value, "DOUBLE"), Kind.FLOAT
    if stored.base == "numeric":
        known = sql.Nullif(this=value, expression=_numeric("NaN"))
        return _text(call("TRIM_SCALE", known)), Kind.TEXT
    if stored.kind is None:
        raise ambiguous_unit_error(table, stored.name, stored.type)
    return _text(value), Kind.TEXT


def _nearest(value: Sql, declared: Int) -> Sql:
    """Return the nearest whole number within the declared bounds, NULL for NaN."""
    whole = cast(call("ROUND", value), "BIGINT")
    nan = sql.EQ(this=value.copy(), expression=_numeric("NaN"))
    below = sql.LT(this=value.copy(), expression=number(declared.low))
    above = sql.GT(this=value.copy(), expression=number(declared.high))
    return sql.Case(
        ifs=[
            sql.If(this=nan, true=sql.Null()),
            sql.If(this=below, true=cast(number(declared.low), "BIGINT")),
            sql.If(this=above, true=cast(number(declared.high), "BIGINT")),
        ],
        default=whole,
    )


def _to_double(value: Sql) -> Sql:
    """Return the nearest double: infinite where a number is too large, zero where it is too small.

    PostgreSQL's own cast fails on both.
    """
    ends = [
        (sql.EQ(this=value.copy(), expression=_numeric("NaN")), "NaN"),
        (sql.GT(this=value.copy(), expression=_numeric(repr(LARGEST))), "Infinity"),
        (sql.LT(this=value.copy(), expression=_numeric(repr(-LARGEST))), "-Infinity"),
        (sql.LT(this=call("ABS", value.copy()), expression=_numeric(repr(NEAR_ZERO))), "0"),
    ]
    branches = [
        sql.If(this=one, true=cast(sql.Literal.string(text), "DOUBLE")) for one, text in ends
    ]
    return sql.Case(ifs=branches, default=cast(value, "DOUBLE"))


def _numeric(text: str) -> Sql:
    return cast_numeric(sql.Literal.string(text))


def _text(value: Sql) -> Sql:
    return bytewise(as_text(value))


def _day_in_utc(value: Sql) -> Sql:
    return cast(sql.AtTimeZone(this=value, zone=sql.Literal.string("UTC")), "DATE")


READERS: Final[Mapping[str, Callable[[Sql], Sql]]] = {
    "numeric": _to_double,
    "timestamptz": _day_in_utc,
}
BY_KIND: Final[Mapping[Kind, Callable[[Sql], Sql]]] = {
    Kind.INT: lambda value: cast(value, "BIGINT"),
    Kind.FLOAT: lambda value: cast(value, "DOUBLE"),
    Kind.TEXT: _text,
    Kind.BOOL: lambda value: cast(value, "BOOLEAN"),
    Kind.DATE: lambda value: cast(value, "DATE"),
}
