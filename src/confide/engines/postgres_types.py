"""The types of PostgreSQL, and how a column of each is read as one of ours."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

import psycopg
from sqlglot import expressions as sql

from confide.declare import Column, Date, Int, Kind
from confide.engines.expressions import Sql, call, cast, number
from confide.engines.fits import say_several_texts
from confide.engines.fragments import column
from confide.engines.guards import LARGEST
from confide.engines.postgres_texts import as_text, bytewise, cast_numeric
from confide.errors import BadDeclaration

__all__ = ["Relation", "Stored", "find_relation", "shape", "shape_unit"]

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
class Stored:
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
    columns: tuple[Stored, ...]

    def table(self) -> sql.Table:
        """Return it as the source of a selection."""
        return sql.table_(self.name, db=self.schema, quoted=True)

    def find(self, table: str, name: str) -> Stored:
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
        Stored(column, bases[kind][0], said, bases[kind][1], exact and bases[kind][1] != "citext")
        for column, kind, said, exact in rows
    )
    return Relation(schema, own, tuple(stored))


def _split(name: str) -> Iterable[str]:
    return name.split(".", maxsplit=1)


def shape(stored: Stored, declared: Column | None = None) -> tuple[Sql, Kind]:
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


def shape_unit(stored: Stored, table: str) -> tuple[Sql, Kind]:
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
        raise say_several_texts(table, stored.name, stored.type)
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


def _double(value: Sql) -> Sql:
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
    "numeric": _double,
    "timestamptz": _day_in_utc,
}
BY_KIND: Final[Mapping[Kind, Callable[[Sql], Sql]]] = {
    Kind.INT: lambda value: cast(value, "BIGINT"),
    Kind.FLOAT: lambda value: cast(value, "DOUBLE"),
    Kind.TEXT: _text,
    Kind.BOOL: lambda value: cast(value, "BOOLEAN"),
    Kind.DATE: lambda value: cast(value, "DATE"),
}
