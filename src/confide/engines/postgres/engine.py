"""PostgreSQL: connections, timeouts, read-only transactions and statements."""

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
    PostgresColumn,
    Relation,
    find_relation,
    shape,
    shape_unit,
)
from confide.engines.protocol import TableAltered
from confide.engines.sql.engine import Columns, Rows, SqlEngine, engine_fault, name_columns
from confide.engines.sql.expressions import column, label
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
    "check_server",
    "connect",
    "fix_settings",
    "look_around",
    "watched",
]

OLDEST: Final = 170_000
PATIENCE: Final = "10min"
GRACE: Final = 60.0
"""Seconds past the time limit of a statement in which the server has to end it itself."""
LIMIT: Final = "SELECT setting FROM pg_catalog.pg_settings WHERE name = 'statement_timeout'"
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
"""What a session must not leave to a role, a database or the environment."""


def connect(address: str) -> "psycopg.Connection[Any]":
    """Return a connection whose transactions see one state, and only read."""
    connection = psycopg.connect(address, prepare_threshold=None)
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    connection.read_only = True
    return connection


def check_server(connection: "psycopg.Connection[Any]") -> None:
    """See that a server is one whose words we know.

    Raises:
        BadDeclaration: it is too old, or its database is not encoded in UTF8.
    """
    version = connection.info.server_version
    if version < OLDEST:
        raise BadDeclaration(
            f"PostgreSQL {OLDEST // 10_000} or newer is needed, this is {version // 10_000}"
        )
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise BadDeclaration(f"the database must be encoded in UTF8, this one is in {encoding}")


def fix_settings(connection: "psycopg.Connection[Any]") -> float:
    """Set what a session must not leave to others, and return the seconds of its time limit."""
    for name, value in SETTINGS.items():
        connection.execute("SELECT pg_catalog.set_config(%s, %s, false)", (name, value))
    limit = _limit_time(connection)
    connection.commit()
    return limit


@contextmanager
def look_around(address: str) -> Iterator["psycopg.Connection[Any]"]:
    """Lend a connection for what is looked at when tables are opened, and limit its time.

    Names are found as the role finds them, so its other settings stay.
    """
    with closing(connect(address)) as connection:
        with watched(connection, GRACE):
            limit = _limit_time(connection)
        with watched(connection, GRACE + limit):
            yield connection


def _limit_time(connection: "psycopg.Connection[Any]") -> float:
    """Return the seconds that a statement may take, once there is such a limit."""
    limit = _read_limit(connection)
    if limit:
        return limit
    setting = "SELECT pg_catalog.set_config('statement_timeout', %s, false)"
    connection.execute(setting, (PATIENCE,))
    return _read_limit(connection)


def _read_limit(connection: "psycopg.Connection[Any]") -> float:
    """Return how many seconds a statement may take, zero where there is no limit."""
    found = connection.execute(LIMIT).fetchone()
    return float(found[0]) / 1000 if found is not None else 0.0


@contextmanager
def watched(connection: "psycopg.Connection[Any]", seconds: float) -> Iterator[None]:
    """Give up a connection whose server does not even end what takes too long."""
    timer = Timer(seconds, _cut_off, (connection,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _cut_off(connection: "psycopg.Connection[Any]") -> None:
    """End a connection from this side; whoever waits for the server then finds it closed."""
    with suppress(OSError, psycopg.Error), socket(fileno=os.dup(connection.fileno())) as line:
        line.shutdown(SHUT_RDWR)


@dataclass(frozen=True, slots=True)
class Source:
    """One table's address: how to connect, and which table or view to read."""

    address: str
    table: str

    @classmethod
    def of(cls, table: str, source: str) -> "Source":
        """Return an address such as ``postgresql://me@host/db?table=visits`` in its two parts."""
        parts = urlsplit(source)
        options = parse_qsl(parts.query, keep_blank_values=True)
        named = [value for key, value in options if key == "table"]
        if len(named) != 1 or not named[0]:
            raise BadDeclaration(
                f"source of {table!r} must name one table, as in "
                f"'postgresql://user@host/database?table={table}'"
            )
        rest = urlencode([pair for pair in options if pair[0] != "table"], quote_via=quote)
        return cls(urlunsplit(parts._replace(query=rest)), named[0])


ADVICE: Final = (
    (TableAltered, "a table was altered since it was opened; open the declaration again"),
    (psycopg.errors.QueryCanceled, "stopped, or slower than statement_timeout allows"),
    (psycopg.errors.InsufficientPrivilege, "the role may not read; GRANT SELECT on the table"),
    (psycopg.errors.LockNotAvailable, "a table was locked for longer than lock_timeout allows"),
    (psycopg.errors.DiskFull, "the server has no room left on its disk"),
    (psycopg.errors.OutOfMemory, "the server has no memory left"),
    (psycopg.errors.UndefinedTable, "a declared table is gone"),
    (psycopg.errors.UndefinedColumn, "a declared column is gone"),
    (psycopg.OperationalError, "the server cannot be reached, or ended the connection"),
)
CHANGED: Final = (
    "a public table was changed, or a unit declared unique has several rows; open the declaration "
    "again"
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
"""Whether an index lets a column hold each value once, also in tables that inherit."""


class PostgreSQL(SqlEngine):
    """Reads declared tables and views of one database by one role, through its own words only.

    # Privacy: every statement runs in a transaction that is read only, with all settings fixed that
    # could change a result, and the names of our own tables written out in full. That columns have
    # the types they had when the engine was opened is seen in the same transaction, before any row.
    """

    failures = (psycopg.Error, TableAltered)
    advice = ADVICE
    facts: TableFacts

    @staticmethod
    def read_columns(source: str) -> dict[str, Kind | None]:
        """Return the columns of a table or view and their kinds, from its types alone.

        Raises:
            BadDeclaration: it cannot be reached or found.
        """
        found = Source.of("visits", source)
        try:
            with look_around(found.address) as connection:
                relation = find_relation(connection, found.table, found.table)
        except psycopg.Error as error:
            raise BadDeclaration(f"PostgreSQL cannot be read: {_say(error)}") from error
        return {stored.name: stored.kind for stored in relation.columns}

    def __init__(self, catalog: Catalog, *, salt: str) -> None:
        self._salt, self._lock, self._depth = salt, threading.RLock(), 0
        self._patience = GRACE
        sources = {table.name: Source.of(table.name, table.source) for table in catalog.tables}
        self._address = _only_address(sources)
        self._open: psycopg.Connection[Any] | None = None
        self._ending: weakref.finalize[Any, PostgreSQL] | None = None
        self._read_columns: dict[str, tuple[Relation, tuple[PostgresColumn, ...]]] = {}
        try:
            with look_around(self._address) as connection:
                check_server(connection)
                found = {
                    name: find_relation(connection, name, source.table)
                    for name, source in sources.items()
                }
                kinds, raw = self._shape_all(catalog, found)
                self._check_types(connection)  # which the role must be allowed to read
        except (psycopg.Error, TableAltered) as error:
            raise BadDeclaration(f"PostgreSQL cannot be read: {_say(error)}") from error
        views, self._unit_kind = write_views(catalog, kinds)
        self._views = raw | {name: POSTGRESQL.translate(view) for name, view in views.items()}
        public = {name: kinds[name] for name in catalog.public}
        self.facts = TableFacts(self._ask, public)
        self._unique_tables = list_unique(catalog)
        for table in self._unique_tables:
            self._check_unique(table)

    def _shape_all(
        self, catalog: Catalog, found: Mapping[str, Relation]
    ) -> tuple[dict[str, dict[str, Kind]], dict[str, sql.Select]]:
        """Return what each table's raw columns hold, and the selections that make them so."""
        kinds: dict[str, dict[str, Kind]] = {}
        raw: dict[str, sql.Select] = {}
        for table in catalog.tables:
            relation = found[table.name]
            wanted = _wanted(table, relation)
            shaped = {name: shape(stored, declared) for name, (stored, declared) in wanted.items()}
            if isinstance(table, Table) and isinstance(table.unit, str):
                unit = relation.find(table.name, table.unit)
                wanted[table.unit] = unit, None
                shaped[table.unit] = shape_unit(unit, table.name)
            kinds[table.name] = {name: kind for name, (_, kind) in shaped.items()}
            shown = [label(value, name) for name, (value, _) in shaped.items()]
            raw[raw_name(table.name)] = sql.Select(
                expressions=shown, from_=sql.From(this=relation.table())
            )
            self._read_columns[table.name] = relation, tuple(one for one, _ in wanted.values())
        return kinds, raw

    def _check_state(self) -> None:
        """See that tables which live on still are what plans take them for.

        # Privacy: whatever the private rows are, a changed public table is a fault. A unit that
        # has several rows in spite of the declaration would not be cut.
        """
        if self.facts.has_changed() or not all(map(self._is_unique, self._unique_tables)):
            raise engine_fault(CHANGED)

    def _ask(self, asked: sql.Select) -> Rows:
        with self._session():
            return self._read(self._write(asked), self._rows)

    def _prepare(self, select: sql.Select, measurement: Measurement) -> sql.Select:
        del measurement
        return sort_by_numbers(select) if self._unit_kind is Kind.TEXT else select

    def _write(self, select: sql.Select) -> str:
        return POSTGRESQL.write(select, self._views)

    def _rows(self, statement: str) -> Rows:
        return self._cursor(statement).fetchall()

    def _columns(self, statement: str) -> Columns:
        cursor = self._cursor(statement)
        names = [str(one.name) for one in cursor.description or ()]
        return name_columns(names, cursor.fetchall())

    def _cursor(self, statement: str, values: Sequence[str] = ()) -> "psycopg.Cursor[Any]":
        if self._open is None:
            raise psycopg.OperationalError("there is no connection")
        with self._watched(self._open):
            return self._open.execute(statement.encode(), values or None)

    def _watched(self, connection: "psycopg.Connection[Any]") -> AbstractContextManager[None]:
        return watched(connection, self._patience)

    @contextmanager
    def _session(self) -> Iterator[None]:
        """Hold one transaction open, which sees one state of the tables."""
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
        """Begin a transaction, on a new connection where the old one is gone, and see the types."""
        try:
            if self._open is None or self._open.closed:
                self._open = self._connect()
            with self._watched(self._open):
                self._check_types(self._open)
        except psycopg.OperationalError:
            if self._open is not None and not self._open.closed:
                raise  # the server is there, but slow, or somebody holds a table
            self._drop()
            self._open = self._connect()
            with self._watched(self._open):
                self._check_types(self._open)

    def _check_types(self, connection: "psycopg.Connection[Any]") -> None:
        """See that columns are as they were; from here on, nobody can alter them before the end."""
        for relation, columns in self._read_columns.values():
            shown = [column(stored.name) for stored in columns]
            looked = sql.select(*shown).from_(relation.table()).limit(0)
            cursor = connection.execute(looked.sql("postgres").encode())
            found = [one.type_code for one in cursor.description or ()]
            if found != [stored.oid for stored in columns]:
                raise TableAltered(f"{relation.schema}.{relation.name}")

    def _connect(self) -> "psycopg.Connection[Any]":
        """Return a new connection, which is closed with the engine at the latest."""
        connection = connect(self._address)
        self._ending = weakref.finalize(self, connection.close)
        self._patience = GRACE
        with self._watched(connection):
            self._patience += fix_settings(connection)
        return connection

    def _end(self) -> None:
        """End the transaction; a connection on which that fails is given up."""
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
        """End the connection; the next question opens another."""
        with self._lock:
            self._drop()

    def _name(self, error: Exception) -> str:
        """Return the kind of an error, and the table or SQL's code of it beside."""
        state = getattr(error, "sqlstate", None)
        said = str(error) if isinstance(error, TableAltered) else state
        return f"{type(error).__name__} ({said})" if said else type(error).__name__

    def _is_unique(self, table: Table) -> bool:
        """Tell whether every unit of a table has one row; an index that says so is believed."""
        relation = self._read_columns[table.name][0]
        stored = relation.find(table.name, str(table.unit))
        with self._session():
            named = (relation.schema, relation.name, stored.name)
            ((indexed,),) = self._read(UNIQUE, lambda text: self._cursor(text, named).fetchall())
            if indexed:
                return True
            ((rows, units),) = self._ask(count_units(table))
        return bool(rows == units)

    def _check_unique(self, table: Table) -> None:
        """See that a unit declared unique is."""
        try:
            is_unique = self._is_unique(table)
        except Fault:
            raise BadDeclaration(
                f"table {table.name!r} is declared unique=True, but its units could not be "
                "counted; the log confide.owner has the reason"
            ) from None
        if not is_unique:
            raise not_unique_error(table)


def _only_address(sources: Mapping[str, Source]) -> str:
    addresses = {source.address for source in sources.values()}
    if len(addresses) > 1:
        raise BadDeclaration(
            f"tables {', '.join(sources)} name several databases, roles or options; all tables of "
            "one declaration must have the same address, but for table="
        )
    return addresses.pop()


def _wanted(
    table: Table | PublicTable, relation: Relation
) -> dict[str, tuple[PostgresColumn, Column | None]]:
    """Return the columns of a source that are read, with their declarations."""
    if isinstance(table, PublicTable):
        return {one.name: (one, None) for one in relation.columns if one.kind is not None}
    wanted: dict[str, tuple[PostgresColumn, Column | None]] = {
        name: (relation.find(table.name, name), declared)
        for name, declared in table.columns.items()
    }
    for name, declared in table.columns.items():
        stored = wanted[name][0]
        check_readable(table.name, name, declared, stored.type, stored.fitting)
    return wanted


def _say(error: Exception) -> str:
    """Return the first line of what the server says; later ones may quote rows."""
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__
