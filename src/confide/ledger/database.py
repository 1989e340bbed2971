"""Durable transactions and prepared statements for stored ledgers and anchors.

SQLAlchemy's overhead per statement exceeds the time of the statement itself, and every query runs a
few statements. So SQLAlchemy compiles a `PreparedStatement` only once, and the database driver
executes it. SQLAlchemy manages the connections, and executes all other statements. Errors are
reported without data.
"""

import os
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, TypeVar
from weakref import WeakSet, finalize

from sqlalchemy import (
    URL,
    Connection,
    Dialect,
    Engine,
    create_engine,
    event,
    make_url,
    text,
)
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool, QueuePool
from sqlalchemy.sql.base import Executable
from sqlalchemy.sql.elements import ClauseElement

from confide.errors import BadDeclaration
from confide.ledger.protocol import RESTORE, LedgerDamaged, LedgerUnavailable, as_fault, explain
from confide.ledger.raw_connection import BEGIN_CHANGE, RawConnection

__all__ = [
    "Conflict",
    "Database",
    "PreparedStatement",
    "read_address",
    "read_file",
    "wait_turn",
]


class Conflict(Exception):
    """Another change moved the head first, so this change wrote nothing."""


T = TypeVar("T")
DRIVERS: Final = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg"}
MAX_TRIES: Final = 3
MAX_IDLE_CONNECTIONS: Final = 2
"""The number of raw connections kept open between changes."""
BEGIN_READ: Final = {
    "sqlite": "BEGIN",
    "postgresql": "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
}
MAX_QUICK_CHECK_BYTES: Final = 2**26
"""The maximum size of a file whose pages are all checked when it is opened."""
OPEN_DATABASES: "Final[WeakSet[Database]]" = WeakSet()


class Database:
    """A database with atomic, durable changes, which wait up to ``wait`` seconds for a lock."""

    def __init__(self, address: str | Path, *, wait: float = 30.0) -> None:
        self.url, self._wait = read_address(address), wait
        self._process, self._is_busy = os.getpid(), False
        self._idle: list[RawConnection] = []
        self._engine, self._inherited = self._open(), list[object]()
        OPEN_DATABASES.add(self)

    @property
    def is_sqlite(self) -> bool:
        """Whether the database is a single SQLite file."""
        return self.url.get_backend_name() == "sqlite"

    def change(self, body: Callable[[Connection], T]) -> T:
        """Return the result of ``body`` once all its writes are on disk.

        If the connection breaks while ``body`` runs, nothing was written, so ``body`` runs again,
        up to `MAX_TRIES` times in all. If the connection breaks during the commit, the changes may
        be durable. That is a fault, and the caller can use the idempotency key to learn the
        outcome.
        """
        return self._attempt(body, reads=False)

    def write(self, body: Callable[[RawConnection], T], *, locked: bool) -> T:
        """Return the result of ``body`` as `change` does, but pass it a driver connection.

        `RawConnection` explains ``locked``.

        Raises:
            Conflict: another change moved the head first, and this one was not locked.
        """
        for tries_left in reversed(range(MAX_TRIES)):
            connection = self._take_connection()
            try:
                connection.begin(locked=locked)
                result = body(connection)
                connection.commit()
            except connection.dialect.loaded_dbapi.Error as error:
                is_gone = connection.is_disconnect(error)
                connection.release()
                if is_gone:
                    self._discard_idle()
                # Privacy: never retry a transaction that may have committed.
                if not is_gone or connection.may_last or not tries_left:
                    raise explain(error) from error
            except BaseException:
                connection.release()
                raise
            else:
                self._keep_or_release(connection)
                return result
        raise AssertionError("the loop above returns or raises")

    def read(self, body: Callable[[Connection], T]) -> T:
        """Return the result of ``body``, which reads one consistent snapshot."""
        return self._attempt(body, reads=True)

    def check_file(self, connection: Connection, *, whole: bool) -> None:
        """Raise LedgerDamaged if a SQLite file is damaged.

        Without ``whole``, the check is less thorough, and large files are skipped.
        """
        if not self.is_sqlite:
            return
        if whole:
            found = connection.exec_driver_sql("PRAGMA integrity_check(1)").scalar()
        elif Path(str(self.url.database)).stat().st_size <= MAX_QUICK_CHECK_BYTES:
            found = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
        else:
            return
        if found != "ok":
            raise LedgerDamaged(f"The ledger's file is damaged. {RESTORE}")

    def close(self) -> None:
        """Close all connections."""
        engine = self._current()
        _release_all(self._idle)
        engine.dispose()

    def __reduce__(self) -> tuple["partial[Database]", tuple[()]]:
        """Support pickling by reopening the database, as worker processes need."""
        address = self.url.render_as_string(hide_password=False)
        return partial(Database, address, wait=self._wait), ()

    def _attempt(self, body: Callable[[Connection], T], *, reads: bool) -> T:
        """Return the result of one transaction, repeated if the connection breaks in ``body``."""
        for tries_left in reversed(range(MAX_TRIES)):
            try:
                with self._connect() as connection:
                    if reads:
                        connection.execution_options(reads_only=True)
                    result = self._run(connection, body)
                    connection.commit()
                    return result
            except _Broken as broken:
                if not tries_left:
                    raise explain(broken.error) from broken.error
            except SQLAlchemyError as error:
                raise explain(error) from error
        raise AssertionError("the loop above returns or raises")

    def _run(self, connection: Connection, body: Callable[[Connection], T]) -> T:
        """Return the result of ``body``; raise `_Broken` if the connection breaks."""
        dialect = self._engine.dialect
        try:
            connection.begin()
            return body(connection)
        except DBAPIError as error:
            if error.connection_invalidated:
                raise _Broken(error) from error
            raise
        except dialect.loaded_dbapi.Error as error:  # from a statement that the driver executed
            if dialect.is_disconnect(error, connection.connection.dbapi_connection, None):
                connection.invalidate()
                raise _Broken(error) from error
            raise explain(error) from error

    def _take_connection(self) -> RawConnection:
        """Return an idle or new raw connection; retry if the database refuses one."""
        engine = self._current()
        try:
            return self._idle.pop()
        except IndexError:
            pass
        for tries_left in reversed(range(MAX_TRIES)):
            try:
                return RawConnection(engine.raw_connection(), engine.dialect)
            except (SQLAlchemyError, engine.dialect.loaded_dbapi.Error) as error:
                if not tries_left:
                    raise explain(error) from error
        raise AssertionError("the loop above returns or raises")

    def _discard_idle(self) -> None:
        """Close idle connections: a restart of the server, for example, breaks all of them."""
        with suppress(IndexError):
            while True:
                self._idle.pop().discard()
        self._engine.dispose()

    def _keep_or_release(self, connection: RawConnection) -> None:
        """Keep a connection for the next change, or return it to the pool if enough are kept."""
        if len(self._idle) < MAX_IDLE_CONNECTIONS:
            self._idle.append(connection)
        else:
            connection.release()

    def _connect(self) -> Connection:
        try:
            return self._current().connect()
        except DBAPIError as error:
            if error.connection_invalidated:
                raise _Broken(error) from error
            raise

    def _current(self) -> Engine:
        """Return the SQLAlchemy engine of this process.

        A forked process opens its own connections. It neither uses nor closes inherited ones: two
        processes cannot share a connection, and closing it would close the parent's.
        """
        if self._process != os.getpid():
            if self._is_busy:
                raise LedgerUnavailable(
                    "This process was forked during a change of the ledger. Fork before queries "
                    "run, or open the ledger again in the new process."
                )
            self._inherited += [self._engine, self._idle]
            self._process, self._idle = os.getpid(), []
            self._engine = self._open()
        return self._engine

    def close_idle(self) -> None:
        """Close idle connections before this process forks.

        SQLite keeps a record of its locks for each file that a process has open. A forked process
        would inherit that record without the locks. When the parent closed the file, the parent
        would take itself for the last user, and delete the log that the fork writes to. So this
        method closes the file.
        """
        if self._process == os.getpid():
            _release_all(self._idle)
            pool = self._engine.pool
            self._is_busy = (
                self.is_sqlite and isinstance(pool, QueuePool) and bool(pool.checkedout())
            )
            self._engine.dispose()

    def _open(self) -> Engine:
        engine = self._open_file() if self.is_sqlite else self._open_server()
        finalize(self, _dispose, engine, self._idle, os.getpid())
        return engine

    def _open_file(self) -> Engine:
        _create_file(Path(str(self.url.database)))
        engine = create_engine(self.url, connect_args={"timeout": self._wait}, hide_parameters=True)
        event.listen(engine, "connect", _prepare_file)
        event.listen(engine, "begin", _begin)
        return engine

    def _open_server(self) -> Engine:
        try:
            engine = create_engine(self.url, pool_size=8, hide_parameters=True)
        except ModuleNotFoundError as error:
            raise BadDeclaration(
                "A PostgreSQL ledger needs the `psycopg` package. Run `pip install "
                "'confide[postgres]'`."
            ) from error
        wait = int(self._wait * 1000)

        def prepare(connection: Any, _: object) -> None:
            # Privacy: a charge must survive a crash of the server, so commits are synchronous.
            connection.autocommit = True  # we start transactions explicitly
            with connection.cursor() as cursor:
                cursor.execute("SET synchronous_commit = on")
                cursor.execute("SET default_transaction_isolation = 'read committed'")
                cursor.execute(f"SET lock_timeout = {wait}")

        event.listen(engine, "connect", prepare)
        event.listen(engine, "begin", _begin)
        return engine


def _dispose(engine: Engine, idle: list[RawConnection], process: int) -> None:
    """Close connections in the process that opened them; a fork must not use its copies."""
    if os.getpid() == process:
        _release_all(idle)
        engine.dispose()


def _release_all(idle: list[RawConnection]) -> None:
    with suppress(IndexError):
        while True:
            idle.pop().release()


def _create_file(path: Path) -> None:
    """Create a ledger file that only its owner can read; leave an existing one unchanged."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        raise LedgerUnavailable(
            f"The ledger `{path.name}` cannot be created ({error.strerror}). Choose another path."
        ) from error


def _close_all_idle() -> None:
    for database in list(OPEN_DATABASES):
        database.close_idle()


os.register_at_fork(before=_close_all_idle)


class _Broken(Exception):
    """A connection broke before any change was durable."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


def read_address(address: str | Path) -> URL:
    """Return the address of a ledger as a URL; a path means a SQLite file."""
    text = str(address)
    if "://" not in text:
        return URL.create("sqlite", database=text)
    try:
        url = make_url(text)
    except ArgumentError:
        raise BadDeclaration(
            "The address of the ledger cannot be parsed. Use a path, `sqlite:///path`, or "
            "`postgresql://...`."
        ) from None
    backend = url.get_backend_name()
    if backend not in DRIVERS:
        raise BadDeclaration(
            f"A ledger can be in `sqlite` or `postgresql`; got an address of {backend!r}."
        )
    if backend == "sqlite" and url.database in (None, "", ":memory:"):
        raise BadDeclaration(
            "A SQLite ledger needs a file. To keep the ledger in memory only, omit `ledger`."
        )
    return url.set(drivername=DRIVERS[backend])


def read_file(path: Path, body: Callable[[Connection], T]) -> T:
    """Return the result of ``body`` on a SQLite file, without changing a byte of it.

    An existing write-ahead log is read too. Without one, the file is opened as immutable, because
    SQLite would create a log otherwise.
    """
    has_log = Path(f"{path}-wal").exists()
    address = f"{path.resolve().as_uri()}?mode=ro{'' if has_log else '&immutable=1'}"
    engine = create_engine(
        "sqlite://", creator=lambda: sqlite3.connect(address, uri=True), poolclass=NullPool
    )
    try:
        with engine.connect() as connection:
            return body(connection)
    except SQLAlchemyError as error:
        raise as_fault(error) from error


def _prepare_file(connection: sqlite3.Connection, _: object) -> None:
    """Configure SQLite so that the write-ahead log is on disk before a commit returns."""
    connection.isolation_level = None  # we start transactions explicitly
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def _begin(connection: Connection) -> None:
    """Start a transaction; in SQLite, a change takes the write lock before it reads."""
    reads = connection.get_execution_options().get("reads_only", False)
    statements = BEGIN_READ if reads else BEGIN_CHANGE
    connection.exec_driver_sql(statements[connection.dialect.name])


SETUP_LOCK: Final = 4_027_431_614  # arbitrary, to avoid other programs' advisory locks


def wait_turn(connection: Connection) -> None:
    """Wait until no other process creates tables; in SQLite, changes exclude each other anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": SETUP_LOCK})


SelectValues = Callable[[Mapping[str, Any]], tuple[Any, ...]]
CompiledStatement = tuple[str, SelectValues | None, Mapping[str, Any]]
"""The SQL text, a function that puts the parameters in order (None if they have names), and the
parameters that are constants."""


class PreparedStatement:
    """A SQLAlchemy statement, compiled once per dialect."""

    __slots__ = ("_statement", "_written")

    def __init__(self, statement: Executable) -> None:
        self._statement = statement
        self._written: dict[str, CompiledStatement] = {}

    def run(
        self, connection: Connection | RawConnection, values: Mapping[str, Any] | None = None
    ) -> Any:
        """Execute the statement in the current transaction, and return the driver's cursor."""
        text, places, constants = self._written.get(connection.dialect.name) or self._write(
            connection.dialect
        )
        named = {**constants, **values} if constants and values else values or constants
        cursor = (
            connection.cursor
            if isinstance(connection, RawConnection)
            else connection.connection.cursor()
        )
        cursor.execute(text, named if places is None else places(named))
        return cursor

    def first(
        self, connection: Connection | RawConnection, values: Mapping[str, Any] | None = None
    ) -> Any:
        """Return the first row as a tuple, or None if there is none."""
        return self.run(connection, values).fetchone()

    def _write(self, dialect: Dialect) -> CompiledStatement:
        assert isinstance(self._statement, ClauseElement)  # noqa: S101 - for the type alone
        compiled: Any = self._statement.compile(dialect=dialect)
        names = compiled.positiontup if compiled.positional else None
        constants = {name: value for name, value in compiled.params.items() if value is not None}
        result = self._written[dialect.name] = (str(compiled), _value_selector(names), constants)
        return result


def _value_selector(names: list[str] | None) -> SelectValues | None:
    """Return a function from a mapping to its values in the order of ``names``.

    The result is None if there are no names.
    """
    if not names:
        return None
    if len(names) == 1:
        return lambda values: (values[names[0]],)
    return itemgetter(*names)
