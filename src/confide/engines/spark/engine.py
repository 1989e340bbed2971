"""Spark: opens sources and runs statements on its own cluster.

Statements run in confide's own session, with its own settings and temporary views; the owner's
session is unchanged. Spark aggregates on the cluster, so only one row per group comes back.
"""

import contextlib
import weakref
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import partial
from secrets import token_hex
from typing import Any, Final

from sqlglot import expressions as sql

from confide.declare import Catalog, Column, Int, Kind, PublicTable, Table
from confide.engines.protocol import TableAltered
from confide.engines.spark.dialect import SPARK, spark_cast
from confide.engines.spark.session import (
    SHORT_SECONDS,
    TIMEOUT,
    SparkSource,
    TimedSession,
    is_cheap_to_read,
    is_connected,
    limit_retries,
    name_failure,
    open_session,
    parse_source,
)
from confide.engines.sql.builders import Sql, call, column, label, table
from confide.engines.sql.contribution_bounding import broadcast_large_units
from confide.engines.sql.engine import Columns, Rows, SqlEngine, engine_fault, name_columns
from confide.engines.sql.sources import raw_name, write_views
from confide.engines.sql.table_facts import (
    TableFacts,
    check_readable,
    count_units,
    list_unique,
    not_unique_error,
)
from confide.errors import BadDeclaration, ConfideError
from confide.plan import Measurement, private_tables

__all__ = ["Spark"]

# Settings that could change the meaning of a statement are fixed, whatever the cluster's are.
SETTINGS: Final = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.caseSensitive": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.session.timeZone": "UTC",
    # Privacy: otherwise, '${env:NAME}' in a query would be replaced by a variable of the driver.
    "spark.sql.variable.substitute": "false",
}
KINDS: Final = {
    **dict.fromkeys(("byte", "short", "integer", "long"), Kind.INT),
    **dict.fromkeys(("float", "double", "decimal"), Kind.FLOAT),
    **dict.fromkeys(("string", "varchar", "char"), Kind.TEXT),
    "boolean": Kind.BOOL,
    "date": Kind.DATE,
}
CHANGED: Final = "A public table was changed. Open the declaration again."
NOT_UNIQUE: Final = (
    "A unit that is declared unique now has several rows. Open the declaration again."
)
BINARY: Final = "UTF8_BINARY"
LOST_CONNECTION: Final = ("Connection", "BrokenPipe", "Network", "INVALID_HANDLE", "Grpc")
"""Strings that occur in the names of errors if Spark is no longer reachable."""
TIMES: Final = ("timestamp", "timestamp_ntz")
TYPES: Final = {
    Kind.INT: "BIGINT",
    Kind.FLOAT: "DOUBLE",
    Kind.TEXT: "STRING",
    Kind.BOOL: "BOOLEAN",
    Kind.DATE: "DATE",
    Kind.TIMESTAMP: "TIMESTAMP",
}
ADVICE: Final = (
    ("TableAltered", "A table was altered since it was opened. Open the declaration again."),
    ("TimeoutError", f"The statement took longer than {TIMEOUT} allows, or Spark hangs."),
    ("FAILED_READ_FILE", "A file is missing, unreadable, truncated, or has other types."),
    *((word, "Spark cannot be reached, or its session has ended.") for word in LOST_CONNECTION),
    ("NOT_FOUND", "A declared table or column is missing."),
    ("OutOfMemory", "Spark has no memory left."),
)
"""Advice to the owner, by the first string that occurs in the name of a failure."""
Raw = dict[str, tuple[Kind, Sql]]
"""The columns of a raw table: the kind of each, and the SQL that reads it as that kind."""


class Spark(SqlEngine):
    """Reads the declared sources through typed, clipped views of its own session.

    # Privacy: with `spark.sql.ansi.enabled` off, no value makes a statement fail. Spark's error
    # messages go to the owner's log only.
    """

    # Privacy: the driver raises many kinds of errors, and none of them may reach an analyst.
    failures = (Exception,)
    facts: TableFacts

    def __init__(self, catalog: Catalog, *, salt: str) -> None:
        self._salt = salt
        self._tables: dict[str, Any] = {}
        self._cheap_tables: set[str] = set()
        sources = {table.name: parse_source(table) for table in catalog.tables}
        self._timed = _new_session(sources)
        self._spark = self._timed.session
        self._shared: list[str] = []
        self._is_connected = is_connected(self._spark)
        if not self._is_connected:
            # Over the network, this could wait for a server that is gone; use `close` there.
            weakref.finalize(self, _drop_views, self._spark, self._shared).atexit = False
        with _closed_on_error(self._spark):
            self._open_all(catalog, sources)

    def _open_all(self, catalog: Catalog, sources: Mapping[str, SparkSource]) -> None:
        """Make all tables readable under their names, and check their declarations."""
        kinds = {table.name: self._open(table, sources[table.name]) for table in catalog.tables}
        public = {name: kinds[name] for name in catalog.public}
        self.facts = TableFacts(self._fetch, public)
        views, self._unit_kind = write_views(catalog, kinds)
        for name, view in views.items():
            with _reported(name):
                self._create(name, self._write(view))
        unique = list_unique(catalog)
        self._changeable_unique = [declared for declared in unique if sources[declared.name].name]
        for declared in unique:
            self._check_unique(declared)

    def _fetch(self, statement: sql.Select) -> Rows:
        """Return the rows of a statement, or raise a fault without details."""
        return self._read(self._write(statement), self._rows)

    def close(self) -> None:
        """Drop the views; the owner's session stays open."""
        _drop_views(self._spark, self._shared)
        if self._is_connected:
            with contextlib.suppress(Exception):
                self._spark.client.close()

    def _prepare(self, select: sql.Select, measurement: Measurement) -> sql.Select:
        """Return a statement that reads a small source twice, so that it sorts fewer rows.

        If strings are hashed, the source is read only once, so that their digests are computed only
        once.
        """
        read = {
            found.name
            for found in private_tables(measurement.query.source, measurement.catalog).values()
        }
        if len(read) == 1 and read <= self._cheap_tables and not select.find(sql.BitwiseOr):
            broadcast_large_units(select)
        return select

    def _write(self, select: sql.Select) -> str:
        return SPARK.write(_with_distinct_ctes(select))

    def _rows(self, statement: str) -> Rows:
        return self._timed.wait(lambda: self._run(statement)[1])

    def _columns(self, statement: str) -> Columns:
        return name_columns(*self._timed.wait(lambda: self._run(statement)))

    def _run(self, statement: str) -> tuple[list[str], Rows]:
        """Return the names of the columns and the rows of a statement's result."""
        self._check_unaltered()
        found = self._spark.sql(statement)
        return found.columns, [tuple(row) for row in found.collect()]

    def _check_unaltered(self) -> None:
        """Raise TableAltered if a table's columns have changed since it was opened."""
        for name, schema in self._tables.items():
            self._spark.catalog.refreshTable(name)
            if self._spark.table(name).schema != schema:
                raise TableAltered(name)

    def _open(self, declared: Table | PublicTable, origin: SparkSource) -> dict[str, Kind]:
        """Make a source readable under its raw name, and return the kinds of its columns."""
        with _reported(declared.name):
            source, schema = self._find(declared.name, origin)
            if not origin.name and not self._is_connected:  # a table of the catalog may grow
                stored = self._spark.sql(sql.select("*").from_(source).sql("spark"))
                self._cheap_tables |= {declared.name} if is_cheap_to_read(stored) else set()
            types = {field.name: field.dataType for field in schema.fields}
            raw = _raw_public(types) if isinstance(declared, PublicTable) else _raw(declared, types)
            columns = [label(value, name) for name, (_, value) in raw.items()]
            rows = sql.Select(expressions=columns).from_(source).sql("spark")
            if isinstance(declared, PublicTable) and not self._is_connected:
                self._copy(raw_name(declared.name), rows)
            else:
                self._create(raw_name(declared.name), rows)
        return {name: kind for name, (kind, _) in raw.items()}

    def _find(self, name: str, origin: SparkSource) -> tuple[Sql, Any]:
        """Return a source as a table for statements, and its schema.

        A DataFrame belongs to the owner's session, so it is shared under an unguessable name.
        """
        if origin.name:
            source = ".".join(f"`{part.replace('`', '``')}`" for part in origin.name.split("."))
            self._tables[source] = self._spark.table(source).schema
            return sql.to_table(source, dialect="spark"), self._tables[source]
        if origin.path:
            frame = self._spark.read.parquet(origin.path)
            frame.createOrReplaceTempView(f"`source {name}`")
            return table(f"source {name}"), frame.schema
        shared = f"confide_{token_hex(16)}"
        origin.frame.createGlobalTempView(shared)
        self._shared.append(shared)
        database = self._spark.conf.get("spark.sql.globalTempDatabase", "global_temp")
        return sql.table_(shared, db=database, quoted=True), origin.frame.schema

    def _copy(self, name: str, rows: str) -> None:
        """Store the current rows of a public table on the executors.

        # Privacy: plans depend on the contents of public tables. If these changed, a row could
        # match two rows in a join, or a value could leave its range. If a copy is lost with its
        # executor, queries fail, whatever the private rows are.
        """
        self._spark.sql(rows).localCheckpoint().createOrReplaceTempView(f"`{name}`")

    def _create(self, name: str, rows: str) -> None:
        self._spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW `{name}` AS {rows}")

    def _check_state(self) -> None:
        """Check that units declared unique still are, in tables that can change.

        # Privacy: if units are declared unique, rows are not bounded, so several rows of one unit
        # are a fault. With Spark Connect, public tables cannot be copied, so a changed public table
        # is a fault.
        """
        if self._is_connected and self.facts.has_changed():
            raise engine_fault(CHANGED)
        for declared in self._changeable_unique:
            ((rows, units),) = self._fetch(count_units(declared))
            if rows != units:
                raise engine_fault(NOT_UNIQUE)

    def _check_unique(self, declared: Table) -> None:
        """Check that a unit declared unique is unique."""
        with _reported(declared.name):
            ((rows, units),) = self._rows(self._write(count_units(declared)))
        if rows != units:
            raise not_unique_error(declared)

    def _explain(self, error: Exception) -> str:
        """Return the kind of an error and advice; errors of Spark are identified by their names.

        Their classes belong to packages that are only installed with Spark.
        """
        is_altered = isinstance(error, TableAltered)
        named = f"TableAltered ({error})" if is_altered else name_failure(error, self._timed)
        advice = next((text for word, text in ADVICE if word in named), "")
        return f"{named}: {advice}" if advice else named


def _with_distinct_ctes(select: sql.Select) -> sql.Select:
    """Give the parts of each WITH distinct names, because Spark's dialect merges them into one.

    The names get the number of their WITH.
    """
    for index, found in enumerate(reversed(list(select.find_all(sql.With)))):
        parts = {part.alias for part in found.expressions}
        for name in found.parent_select.find_all(sql.Identifier) if found.parent_select else ():
            if name.this in parts:
                name.set("this", f"{name.this} {index}")
    return select


def _new_session(sources: Mapping[str, SparkSource]) -> TimedSession:
    """Return a new session for the sources, with its settings and its time limit."""
    owner = session = open_session(sources)
    if not any(source.cluster.startswith("sc://") for source in sources.values()):
        session = session.newSession()  # a session opened by such an address is new already
    with _closed_on_error(session), _reported(*sources):
        if is_connected(session):
            limit_retries(session)
        for name, value in SETTINGS.items():
            session.conf.set(name, value)
        return TimedSession.of(owner, session)


@contextlib.contextmanager
def _closed_on_error(session: Any) -> Iterator[None]:
    """Close a Spark Connect session if the block fails.

    A client that is not closed calls its server when the process ends. If the server is gone, that
    takes ten minutes.
    """
    try:
        yield
    except BaseException:
        if is_connected(session):
            with contextlib.suppress(Exception):
                session.client.close()
        raise


def _raw_public(types: Mapping[str, Any]) -> Raw:
    """Return the columns of a public table that queries can use."""
    known = {
        name: KINDS[kind.typeName()] for name, kind in types.items() if kind.typeName() in KINDS
    }
    return {name: (kind, spark_cast(column(name), TYPES[kind])) for name, kind in known.items()}


def _raw(declared: Table, types: Mapping[str, Any]) -> Raw:
    """Return the declared columns and the unit, each in a type that queries know."""
    raw: Raw = {}
    for name, column_type in declared.columns.items():
        stored = _type_of(declared.name, name, types)
        raw[name] = _read_column(declared.name, name, stored, column_type)
        type_name = stored.simpleString()
        found = Kind.DATE if stored.typeName() in TIMES else KINDS[stored.typeName()]
        check_readable(declared.name, name, column_type, type_name, found)
    if isinstance(declared.unit, str):
        raw[declared.unit] = _read_unit(declared, _type_of(declared.name, declared.unit, types))
    return raw


def _read_column(source: str, name: str, stored: Any, declared: Column) -> tuple[Kind, Sql]:
    """Return the kind of a column, and the SQL that reads it.

    Timestamps become dates if dates are declared, and strings unless timestamps are.
    """
    type_name = stored.typeName()
    value: Sql = column(name)
    if type_name in TIMES:
        is_time = declared.kind in (Kind.DATE, Kind.TIMESTAMP)
        kind: Kind = declared.kind if is_time else Kind.TEXT
    elif type_name in KINDS:
        kind = KINDS[type_name]
    else:
        raise BadDeclaration(
            f"Column {name!r} of {source!r} has type {stored.simpleString()}, which confide cannot "
            f"read as {declared.kind}. Do not declare it, or create a view that has a number, a "
            "string, a Boolean, or a date instead."
        )
    if type_name == "decimal" and isinstance(declared, Int):
        # ROUND of a decimal rounds halves away from zero; a later cast would round them to even.
        value = call("ROUND", value, sql.Literal.number("0"))
    return kind, spark_cast(value, TYPES[kind])


def _read_unit(declared: Table, stored: Any) -> tuple[Kind, Sql]:
    """Return the kind of a unit (integer, double, or string), and the SQL that reads it.

    # Privacy: different units stay different, so other types are compared as strings.
    """
    kind = KINDS.get(stored.typeName(), Kind.TEXT)
    if stored.typeName() in ("binary", "array", "map", "struct", "variant"):
        raise BadDeclaration(
            f"Unit {declared.unit!r} of {declared.name!r} has type {stored.simpleString()}. Units "
            "must be integers or strings."
        )
    if getattr(stored, "collation", BINARY) != BINARY:
        raise BadDeclaration(
            f"Unit {declared.unit!r} of {declared.name!r} has the collation {stored.collation}, "
            "which may treat different strings as equal. Create a view that converts them to one "
            "string, such as with `LOWER(...)`."
        )
    if stored.typeName() in ("decimal", *TIMES):
        kind = Kind.TEXT
    return kind, spark_cast(column(str(declared.unit)), TYPES[kind])


def _type_of(source: str, name: str, types: Mapping[str, Any]) -> Any:
    """Return the stored type of a declared column; the case of its name is ignored."""
    found = [kind for text, kind in types.items() if text.lower() == name.lower()]
    if len(found) == 1:
        return found[0]
    similar = get_close_matches(name, types, n=3)
    listed = ", ".join(map(repr, similar))
    advice = f"Did you mean {listed}?" if similar else "Declare one that it has."
    raise BadDeclaration(f"The source of table {source!r} has no column {name!r}. {advice}")


@contextlib.contextmanager
def _reported(*names: str) -> Iterator[None]:
    """Report Spark's errors to the owner, who opens the declaration, as BadDeclaration."""
    try:
        yield
    except ConfideError:
        raise
    except Exception as error:
        message = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
        named = ", ".join(map(repr, names))
        raise BadDeclaration(
            f"Table {named} cannot be read: {message}. Check its source."
        ) from error


def _drop_views(session: Any, shared: list[str]) -> None:
    """Drop the global views that share DataFrames, without waiting long for Spark."""
    short = TimedSession(session, SHORT_SECONDS)
    while shared:
        name = shared.pop()
        with contextlib.suppress(Exception):
            short.wait(partial(session.catalog.dropGlobalTempView, name))
