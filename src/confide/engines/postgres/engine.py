"""PostgreSQL: connections, timeouts, read-only transactions, and statements."""

import os
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from socket import SHUT_RDWR, socket
from threading import Timer
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import psycopg
from sqlglot import expressions as sql

from confide.declare import Catalog, Column, Kind, PublicTable, Table
from confide.engines.postgres.dialect import POSTGRESQL, sort_by_numbers
from confide.engines.postgres.types import (
    TIMES,
    PostgresColumn,
    Relation,
    convert,
    convert_unit,
    find_relation,
)
from confide.engines.protocol import TableAltered
from confide.engines.sql.builders import column, label
from confide.engines.sql.engine import Columns, Rows, SqlEngine, engine_fault, name_columns
from confide.engines.sql.sources import raw_name, write_views
from confide.engines.sql.table_facts import (
    TableFacts,
    check_readable,
    count_units,
    list_unique,
    not_unique_error,
)
from confide.errors import BadDeclaration, Fault
from confide.plan import Measurement

__all__ = [
    "GRACE",
    "PostgreSQL",
    "catalog_connection",
    "check_server",
    "connect",
    "fix_settings",
    "watched",
]

MIN_SERVER_VERSION: Final = 170_000
STATEMENT_TIMEOUT: Final = "10min"
GRACE: Final = 60.0
"""The seconds that the server has to end a statement after its time limit."""
TIMEOUT_SETTING: Final = (
    "SELECT setting FROM pg_catalog.pg_settings WHERE name = 'statement_timeout'"
)
SETTINGS: Final[Mapping[str, str]] = {
    "search_path": "pg_catalog, pg_temp",
    "default_transaction_read_only": "on",
    "client_encoding": "UTF8",
    "TimeZone": "UTC",
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "standard_conforming_strings": "on",
    "lc_monetary": "C",
    "lc_numeric": "C",
    "lc_time": "C",
    "transform_null_equals": "off",
    "jit": "off",
}
"""Settings of a session that must not depend on a role, a database, or the environment.

They could change results.
"""


def connect(address: str) -> "psycopg.Connection[Any]":
    """Return a connection whose transactions read one snapshot each, and cannot write."""
    connection = psycopg.connect(address, prepare_threshold=None)
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    connection.read_only = True
    return connection


def check_server(connection: "psycopg.Connection[Any]") -> None:
    """Check that a server's version and encoding are supported.

    Raises:
        BadDeclaration: it is too old, or its database is not encoded in UTF8.
    """
    version = connection.info.server_version
    if version < MIN_SERVER_VERSION:
        raise BadDeclaration(
            f"PostgreSQL {MIN_SERVER_VERSION // 10_000} or newer is needed; "
            f"got version {version // 10_000}."
        )
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise BadDeclaration(f"The database must be encoded in UTF8; got {encoding}.")


def fix_settings(connection: "psycopg.Connection[Any]") -> float:
    """Apply SETTINGS to a session, and return its time limit for statements in seconds."""
    for name, value in SETTINGS.items():
        connection.execute("SELECT pg_catalog.set_config(%s, %s, false)", (name, value))
    limit = _ensure_time_limit(connection)
    connection.commit()
    return limit


@contextmanager
def catalog_connection(address: str) -> Iterator["psycopg.Connection[Any]"]:
    """Yield a connection for reading PostgreSQL's catalog when tables are opened.

    It has a time limit. The role's other settings stay, so that names are resolved as for the role.
    """
    with closing(connect(address)) as connection:
        with watched(connection, GRACE):
            limit = _ensure_time_limit(connection)
        with watched(connection, GRACE + limit):
            yield connection


def _ensure_time_limit(connection: "psycopg.Connection[Any]") -> float:
    """Return the time limit of a session for statements, in seconds; set one if it has none."""
    limit = _read_limit(connection)
    if limit:
        return limit
    setting = "SELECT pg_catalog.set_config('statement_timeout', %s, false)"
    connection.execute(setting, (STATEMENT_TIMEOUT,))
    return _read_limit(connection)


def _read_limit(connection: "psycopg.Connection[Any]") -> float:
    """Return the time limit of a session for statements, in seconds, or zero if it has none."""
    found = connection.execute(TIMEOUT_SETTING).fetchone()
    return float(found[0]) / 1000 if found is not None else 0.0


@contextmanager
def watched(connection: "psycopg.Connection[Any]", seconds: float) -> Iterator[None]:
    """Shut a connection down if the block takes longer than ``seconds``.

    The server itself ends slow statements, so this happens only if it does not respond.
    """
    timer = Timer(seconds, _shut_down, (connection,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _shut_down(connection: "psycopg.Connection[Any]") -> None:
    """Shut down the socket of a connection, so that a thread that waits for it gets an error."""
    with suppress(OSError, psycopg.Error), socket(fileno=os.dup(connection.fileno())) as channel:
        channel.shutdown(SHUT_RDWR)


@dataclass(frozen=True, slots=True)
class Source:
    """The address of a table: how to connect, and the name of the table or view to read."""

    address: str
    table: str

    @classmethod
    def of(cls, table: str, source: str) -> "Source":
        """Return the parts of an address such as ``postgresql://me@host/db?table=visits``."""
        parts = urlsplit(source)
        options = parse_qsl(parts.query, keep_blank_values=True)
        names = [value for key, value in options if key == "table"]
        if len(names) != 1 or not names[0]:
            raise BadDeclaration(
                f"The source of {table!r} must name one table, as in "
                f"'postgresql://user@host/database?table={table}'."
            )
        rest = urlencode([pair for pair in options if pair[0] != "table"], quote_via=quote)
        return cls(urlunsplit(parts._replace(query=rest)), names[0])


ADVICE: Final = (
    (TableAltered, "A table was altered since it was opened. Open the declaration again."),
    (
        psycopg.errors.QueryCanceled,
        "The statement was stopped, or took longer than statement_timeout allows.",
    ),
    (psycopg.errors.InsufficientPrivilege, "The role cannot read. GRANT SELECT on the table."),
    (psycopg.errors.LockNotAvailable, "A table was locked for longer than lock_timeout allows."),
    (psycopg.errors.DiskFull, "The server's disk is full."),
    (psycopg.errors.OutOfMemory, "The server has no memory left."),
    (psycopg.errors.UndefinedTable, "A declared table is missing."),
    (psycopg.errors.UndefinedColumn, "A declared column is missing."),
    (psycopg.OperationalError, "The server cannot be reached, or ended the connection."),
)
CHANGED: Final = (
    "A public table was changed, or a unit that is declared unique has several rows. Open the "
    "declaration again."
)
UNIQUE: Final = """
SELECT EXISTS (
    SELECT FROM pg_catalog.pg_index AS i
    JOIN pg_catalog.pg_class AS c ON c.oid = i.indrelid
    JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = i.indkey[0]
    WHERE n.nspname = %s AND c.relname = %s AND a.attname = %s
    AND i.indisunique AND i.indisvalid AND i.indnkeyatts = 1
    AND i.indpred IS NULL AND i.indexprs IS NULL
    AND (c.relkind = 'p' OR NOT EXISTS (
        SELECT FROM pg_catalog.pg_inherits AS h WHERE h.inhparent = c.oid))
)
"""
"""Whether an index ensures that a column's values are unique, including in inheriting tables."""


class PostgreSQL(SqlEngine):
    """Reads declared tables and views of one database, with the rights of one role.

    # Privacy: every statement runs in a read-only transaction, with all settings fixed that could
    # change a result, and with schema-qualified names of tables. Before it reads any row, the same
    # transaction checks that columns still have the types that they had when the engine was opened.
    """

    failures = (psycopg.Error, TableAltered)
    advice = ADVICE
    facts: TableFacts

    @staticmethod
    def read_columns(source: str) -> dict[str, Kind | None]:
        """Return the columns of a table or view with their kinds, from its schema alone.

        Raises:
            BadDeclaration: the server cannot be reached, or the table cannot be found.
        """
        found = Source.of("visits", source)
        try:
            with catalog_connection(found.address) as connection:
                relation = find_relation(connection, found.table, found.table)
        except psycopg.Error as error:
            raise _unreadable(error) from error
        return {
            stored.name: Kind.TIMESTAMP if stored.base in TIMES else stored.kind
            for stored in relation.columns
        }

    def __init__(self, catalog: Catalog, *, salt: str) -> None:
        self._salt, self._lock, self._depth = salt, threading.RLock(), 0
        self._time_limit = GRACE
        sources = {table.name: Source.of(table.name, table.source) for table in catalog.tables}
        self._address = _common_address(sources)
        self._open: psycopg.Connection[Any] | None = None
        self._ending: weakref.finalize[Any, PostgreSQL] | None = None
        self._read_columns: dict[str, tuple[Relation, tuple[PostgresColumn, ...]]] = {}
        try:
            with catalog_connection(self._address) as connection:
                check_server(connection)
                found = {
                    name: find_relation(connection, name, source.table)
                    for name, source in sources.items()
                }
                kinds, raw = self._convert_all(catalog, found)
                self._check_types(connection)  # the role must be allowed to read them
        except (psycopg.Error, TableAltered) as error:
            raise _unreadable(error) from error
        views, self._unit_kind = write_views(catalog, kinds)
        self._views = raw | {name: POSTGRESQL.translate(view) for name, view in views.items()}
        public = {name: kinds[name] for name in catalog.public}
        self.facts = TableFacts(self._fetch, public)
        self._unique_tables = list_unique(catalog)
        for table in self._unique_tables:
            self._check_unique(table)

    def _convert_all(
        self, catalog: Catalog, found: Mapping[str, Relation]
    ) -> tuple[dict[str, dict[str, Kind]], dict[str, sql.Select]]:
        """Return the kinds of each table's raw columns, and the SELECTs that read them as such.

        ``found`` are the relations of the tables. The SELECTs are keyed by the raw tables' names.
        """
        kinds: dict[str, dict[str, Kind]] = {}
        raw: dict[str, sql.Select] = {}
        for table in catalog.tables:
            relation = found[table.name]
            selected = _declared_columns(table, relation)
            shaped = {
                name: convert(stored, declared) for name, (stored, declared) in selected.items()
            }
            if isinstance(table, Table) and isinstance(table.unit, str):
                unit = relation.find(table.name, table.unit)
                selected[table.unit] = unit, None
                shaped[table.unit] = convert_unit(unit, table.name)
            kinds[table.name] = {name: kind for name, (_, kind) in shaped.items()}
            shown = [label(value, name) for name, (value, _) in shaped.items()]
            raw[raw_name(table.name)] = sql.Select(
                expressions=shown, from_=sql.From(this=relation.table())
            )
            self._read_columns[table.name] = (
                relation,
                tuple(entry for entry, _ in selected.values()),
            )
        return kinds, raw

    def _check_state(self) -> None:
        """Check that public tables and unique units are still as plans assume.

        # Privacy: a changed public table is a fault, whatever the private rows are. If units are
        # declared unique, rows are not bounded, so several rows of one unit are a fault too.
        """
        if self.facts.has_changed() or not all(map(self._is_unique, self._unique_tables)):
            raise engine_fault(CHANGED)

    def _fetch(self, statement: sql.Select) -> Rows:
        with self._session():
            return self._read(self._write(statement), self._rows)

    def _prepare(self, select: sql.Select, measurement: Measurement) -> sql.Select:
        del measurement
        return sort_by_numbers(select) if self._unit_kind is Kind.TEXT else select

    def _write(self, select: sql.Select) -> str:
        return POSTGRESQL.write(select, self._views)

    def _rows(self, statement: str) -> Rows:
        return self._cursor(statement).fetchall()

    def _columns(self, statement: str) -> Columns:
        cursor = self._cursor(statement)
        names = [str(entry.name) for entry in cursor.description or ()]
        return name_columns(names, cursor.fetchall())

    def _cursor(self, statement: str, values: Sequence[str] = ()) -> "psycopg.Cursor[Any]":
        if self._open is None:
            raise psycopg.OperationalError("there is no connection")
        with self._watched(self._open):
            return self._open.execute(statement.encode(), values or None)

    def _watched(self, connection: "psycopg.Connection[Any]") -> AbstractContextManager[None]:
        return watched(connection, self._time_limit)

    @contextmanager
    def _session(self) -> Iterator[None]:
        """Hold one transaction open, which reads one snapshot of the tables."""
        with self._lock:
            self._depth += 1
            try:
                if self._depth == 1:
                    self._read("BEGIN", self._begin)
                yield
            finally:
                self._depth -= 1
                if not self._depth:
                    self._end()

    def _begin(self, _: str) -> None:
        """Begin a transaction and check the types, on a new connection if the old one is gone."""
        try:
            if self._open is None or self._open.closed:
                self._open = self._connect()
            with self._watched(self._open):
                self._check_types(self._open)
        except psycopg.OperationalError:
            if self._open is not None and not self._open.closed:
                raise  # the server is there, but slow, or a table is locked
            self._drop()
            self._open = self._connect()
            with self._watched(self._open):
                self._check_types(self._open)

    def _check_types(self, connection: "psycopg.Connection[Any]") -> None:
        """Check that columns are unchanged.

        Reading them also takes locks, so they cannot change until the transaction ends.
        """
        for relation, columns in self._read_columns.values():
            shown = [column(stored.name) for stored in columns]
            selection = sql.select(*shown).from_(relation.table()).limit(0)
            cursor = connection.execute(selection.sql("postgres").encode())
            found = [entry.type_code for entry in cursor.description or ()]
            if found != [stored.oid for stored in columns]:
                raise TableAltered(f"{relation.schema}.{relation.name}")

    def _connect(self) -> "psycopg.Connection[Any]":
        """Return a new connection, which is closed at the latest when the engine is deleted."""
        connection = connect(self._address)
        self._ending = weakref.finalize(self, connection.close)
        self._time_limit = GRACE
        with self._watched(connection):
            self._time_limit += fix_settings(connection)
        return connection

    def _end(self) -> None:
        """End the transaction, or close the connection if that fails."""
        try:
            if self._open is not None:
                with self._watched(self._open):
                    self._open.rollback()
        except psycopg.Error:
            self._drop()

    def _drop(self) -> None:
        if self._ending is not None:
            with suppress(psycopg.Error):
                self._ending()
        self._open = None

    def close(self) -> None:
        """Close the connection; the next query opens another."""
        with self._lock:
            self._drop()

    def _name(self, error: Exception) -> str:
        """Return the class of an error, with the altered table or the SQLSTATE in parentheses."""
        state = getattr(error, "sqlstate", None)
        detail = str(error) if isinstance(error, TableAltered) else state
        return f"{type(error).__name__} ({detail})" if detail else type(error).__name__

    def _is_unique(self, table: Table) -> bool:
        """Return whether every unit of a table has one row; a unique index is sufficient."""
        relation = self._read_columns[table.name][0]
        stored = relation.find(table.name, str(table.unit))
        with self._session():
            names = (relation.schema, relation.name, stored.name)
            ((indexed,),) = self._read(UNIQUE, lambda text: self._cursor(text, names).fetchall())
            if indexed:
                return True
            ((rows, units),) = self._fetch(count_units(table))
        return bool(rows == units)

    def _check_unique(self, table: Table) -> None:
        """Check that a unit declared unique is unique."""
        try:
            is_unique = self._is_unique(table)
        except Fault:
            raise BadDeclaration(
                f"Table {table.name!r} is declared `unique=True`, but its units could not be "
                "counted. The log `confide.owner` has the reason."
            ) from None
        if not is_unique:
            raise not_unique_error(table)


def _common_address(sources: Mapping[str, Source]) -> str:
    """Return the address that all sources share; raise BadDeclaration if they differ."""
    addresses = {source.address for source in sources.values()}
    if len(addresses) > 1:
        raise BadDeclaration(
            f"The addresses of tables {', '.join(sources)} differ in their databases, roles, or "
            "options. All tables of one declaration must have the same address, except for "
            "`table=`."
        )
    return addresses.pop()


def _declared_columns(
    table: Table | PublicTable, relation: Relation
) -> dict[str, tuple[PostgresColumn, Column | None]]:
    """Return the columns that are read from a source, with their declarations.

    Columns of public tables have no declaration.
    """
    if isinstance(table, PublicTable):
        return {entry.name: (entry, None) for entry in relation.columns if entry.kind is not None}
    selected: dict[str, tuple[PostgresColumn, Column | None]] = {
        name: (relation.find(table.name, name), declared)
        for name, declared in table.columns.items()
    }
    for name, declared in table.columns.items():
        stored = selected[name][0]
        check_readable(table.name, name, declared, stored.type, stored.castable_kind)
    return selected


def _unreadable(error: Exception) -> BadDeclaration:
    """Return the error for a server or table that cannot be read.

    It has only the first line of the server's message, since later lines may quote rows.
    """
    reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
    return BadDeclaration(
        f"PostgreSQL cannot be read: {reason}. Check the address, and the rights of the role."
    )
