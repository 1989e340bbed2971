"""Durable transactions and prepared statements on the raw driver; errors without data.

What SQLAlchemy adds to a statement takes longer than the statement; connections still come from its
pool, and statements are still written by it, once.

Every question runs a handful of them; composing each anew takes longer than the database does.
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
    PoolProxiedConnection,
    create_engine,
    event,
    make_url,
)
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool, QueuePool
from sqlalchemy.sql.base import Executable
from sqlalchemy.sql.elements import ClauseElement

from confide.errors import BadDeclaration
from confide.ledger.protocol import LedgerDamaged, LedgerUnavailable, as_fault, explain

__all__ = [
    "Conflict",
    "Database",
    "PreparedStatement",
    "RawConnection",
    "look_at_file",
    "read_address",
]

BEGIN: Final = {"sqlite": "BEGIN IMMEDIATE", "postgresql": "BEGIN ISOLATION LEVEL READ COMMITTED"}


class Conflict(Exception):
    """Another change came first, so that nothing of this one was written."""


class RawConnection:
    """One change on its way, statement by statement; then the next.

    A *locked* change begins by locking the head and ends with a commit. One that is not locked is
    a look and then one statement, which writes everything, or nothing if the head has moved.
    ``may_last`` tells whether something was sent that, once carried out, lasts.
    """

    __slots__ = ("_pooled", "cursor", "dialect", "is_locked", "may_last")

    def __init__(self, pooled: PoolProxiedConnection, dialect: Dialect) -> None:
        self._pooled, self.dialect = pooled, dialect
        self.is_locked, self.may_last = True, False
        self.cursor: Any = pooled.cursor()

    def begin(self, *, locked: bool) -> None:
        """Begin a change."""
        self.is_locked, self.may_last = locked, False
        if locked:
            self.cursor.execute(BEGIN[self.dialect.name])

    def send_last(self) -> None:
        """Say that the next statement is the one that writes."""
        self.may_last = not self.is_locked

    def commit(self) -> None:
        """Make a locked change last; another one lasts since its statement was carried out."""
        if self.is_locked:
            self.may_last = True
            self.cursor.execute("COMMIT")

    def is_cut(self, error: Any) -> bool:
        """Tell whether an error means that the connection is gone, and use it no more if so."""
        driver = self._pooled.dbapi_connection
        cut = driver is None or self.dialect.is_disconnect(error, driver, self.cursor)
        if cut:
            self._pooled.invalidate(error)
        return cut

    def drop(self) -> None:
        """Close the connection without a word to the database, which may be gone."""
        self._pooled.invalidate()

    def give_back(self) -> None:
        """Return the connection to the pool, which takes back what does not last."""
        self._pooled.close()


T = TypeVar("T")
DRIVERS: Final = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg"}
TRIES: Final = 3
AT_HAND: Final = 2
"""Bare connections that are kept between two changes."""
LOOKS: Final = {
    "sqlite": "BEGIN",
    "postgresql": "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
}
LARGEST_CHECKED: Final = 2**26
"""Bytes of a file up to which all its pages are looked at when it is opened."""
OPENED: "Final[WeakSet[Database]]" = WeakSet()


class Database:
    """Runs changes one after the other, each whole and on disk, or not at all.

    ``wait`` is how many seconds a change waits for others before it gives up.
    """

    def __init__(self, address: str | Path, *, wait: float = 30.0) -> None:
        self.url, self._wait = read_address(address), wait
        self._process, self._is_busy = os.getpid(), False
        self._lines: list[RawConnection] = []
        self._engine, self._left_behind = self._open(), list[object]()
        OPENED.add(self)

    @property
    def is_sqlite(self) -> bool:
        """Whether this is one file."""
        return self.url.get_backend_name() == "sqlite"

    def change(self, body: Callable[[Connection], T]) -> T:
        """Return what ``body`` returns, once all that it wrote is on disk.

        A connection that breaks before the end of ``body`` has written nothing, so ``body`` runs
        again. One that breaks while its changes are being made to last may have: that is a fault,
        and whoever asked can find out with the key.
        """
        return self._attempt(body, reads=False)

    def write(self, body: Callable[[RawConnection], T], *, locked: bool) -> T:
        """Do as `change` does, on the driver itself; see `RawConnection` for what is not locked.

        Raises:
            Moved: a change that was not locked met another, and has written nothing.
        """
        for left in reversed(range(TRIES)):
            line = self._take_line()
            try:
                line.begin(locked=locked)
                result = body(line)
                line.commit()
            except line.dialect.loaded_dbapi.Error as error:
                cut = line.is_cut(error)
                line.give_back()
                if cut:
                    self._drop_idle()
                # Privacy: what may have lasted is not done twice.
                if not cut or line.may_last or not left:
                    raise explain(error) from error
            except BaseException:
                line.give_back()
                raise
            else:
                self._put_by(line)
                return result
        raise AssertionError("the loop above returns or raises")

    def look(self, body: Callable[[Connection], T]) -> T:
        """Return what ``body`` reads, all of it as of one moment."""
        return self._attempt(body, reads=True)

    def check_file(self, connection: Connection, *, whole: bool) -> None:
        """Refuse a file of SQLite with damaged pages; ``whole`` looks into the largest too."""
        if not self.is_sqlite:
            return
        if whole:
            found = connection.exec_driver_sql("PRAGMA integrity_check(1)").scalar()
        elif Path(str(self.url.database)).stat().st_size <= LARGEST_CHECKED:
            found = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
        else:
            return
        if found != "ok":
            raise LedgerDamaged(
                "the ledger's file is damaged; restore the newest back-up, and let the anchor tell "
                "whether it is new enough"
            )

    def close(self) -> None:
        """Give all connections back."""
        engine = self._current()
        _give_back(self._lines)
        engine.dispose()

    def __reduce__(self) -> tuple["partial[Database]", tuple[()]]:
        """Be opened anew where a copy arrives, as a worker process needs it."""
        address = self.url.render_as_string(hide_password=False)
        return partial(Database, address, wait=self._wait), ()

    def _attempt(self, body: Callable[[Connection], T], *, reads: bool) -> T:
        for left in reversed(range(TRIES)):
            try:
                with self._connect() as connection:
                    if reads:
                        connection.execution_options(reads_only=True)
                    connection.begin()
                    result = self._run(connection, body)
                    connection.commit()
                    return result
            except _Broken as broken:
                if not left:
                    raise explain(broken.error) from broken.error
            except SQLAlchemyError as error:
                raise explain(error) from error
        raise AssertionError("the loop above returns or raises")

    def _run(self, connection: Connection, body: Callable[[Connection], T]) -> T:
        dialect = self._engine.dialect
        try:
            return body(connection)
        except DBAPIError as error:
            if error.connection_invalidated:
                raise _Broken(error) from error
            raise
        except dialect.loaded_dbapi.Error as error:  # of a statement that the driver itself ran
            if dialect.is_disconnect(error, connection.connection.dbapi_connection, None):
                connection.invalidate()
                raise _Broken(error) from error
            raise explain(error) from error

    def _take_line(self) -> RawConnection:
        """Return a bare connection, trying again where one of the pool was cut."""
        engine = self._current()
        try:
            return self._lines.pop()
        except IndexError:
            pass
        for left in reversed(range(TRIES)):
            try:
                return RawConnection(engine.raw_connection(), engine.dialect)
            except (SQLAlchemyError, engine.dialect.loaded_dbapi.Error) as error:
                if not left:
                    raise explain(error) from error
        raise AssertionError("the loop above returns or raises")

    def _drop_idle(self) -> None:
        """Close what is idle: what cut one connection has mostly cut all, as a restart does."""
        with suppress(IndexError):
            while True:
                self._lines.pop().drop()
        self._engine.dispose()

    def _put_by(self, line: RawConnection) -> None:
        """Keep a connection at hand whose change is over; the pool has more for busier times."""
        if len(self._lines) < AT_HAND:
            self._lines.append(line)
        else:
            line.give_back()

    def _connect(self) -> Connection:
        try:
            return self._current().connect()
        except DBAPIError as error:
            if error.connection_invalidated:
                raise _Broken(error) from error
            raise

    def _current(self) -> Engine:
        """Return the engine of this process.

        A fork opens connections of its own: one that two processes use is ruined, and closing a
        copy would close the other's. So what was inherited is neither used nor closed.
        """
        if self._process != os.getpid():
            if self._is_busy:
                raise LedgerUnavailable(
                    "this process was forked in the middle of a change of the ledger; fork before "
                    "questions are asked, or open the ledger again in the new process"
                )
            self._left_behind += [self._engine, self._lines]
            self._process, self._lines = os.getpid(), []
            self._engine = self._open()
        return self._engine

    def let_go(self) -> None:
        """Close what is idle before this process is forked.

        SQLite keeps one record of its locks for each open file of a process. A fork would inherit
        that record without the locks, and the parent, closing last as it believes, would take away
        the log that the fork writes to. So a fork must find the file closed.
        """
        if self._process == os.getpid():
            _give_back(self._lines)
            pool = self._engine.pool
            self._is_busy = (
                self.is_sqlite and isinstance(pool, QueuePool) and bool(pool.checkedout())
            )
            self._engine.dispose()

    def _open(self) -> Engine:
        engine = self._open_file() if self.is_sqlite else self._open_server()
        finalize(self, _dispose, engine, self._lines, os.getpid())
        return engine

    def _open_file(self) -> Engine:
        _make_file(Path(str(self.url.database)))
        engine = create_engine(self.url, connect_args={"timeout": self._wait}, hide_parameters=True)
        event.listen(engine, "connect", _prepare_file)
        event.listen(engine, "begin", _begin)
        return engine

    def _open_server(self) -> Engine:
        try:
            engine = create_engine(self.url, pool_size=8, hide_parameters=True)
        except ModuleNotFoundError as error:
            raise BadDeclaration(
                "a ledger in PostgreSQL needs the package psycopg; install confide[postgres]"
            ) from error
        wait = int(self._wait * 1000)

        def prepare(connection: Any, _: object) -> None:
            # Privacy: a charge that a server may lose after a crash is no charge.
            connection.autocommit = True  # we say ourselves where a change begins
            with connection.cursor() as cursor:
                cursor.execute("SET synchronous_commit = on")
                cursor.execute("SET default_transaction_isolation = 'read committed'")
                cursor.execute(f"SET lock_timeout = {wait}")

        event.listen(engine, "connect", prepare)
        event.listen(engine, "begin", _begin)
        return engine


def _dispose(engine: Engine, lines: list[RawConnection], process: int) -> None:
    """Close connections in the process that opened them; a fork has copies that it must not use."""
    if os.getpid() == process:
        _give_back(lines)
        engine.dispose()


def _give_back(lines: list[RawConnection]) -> None:
    with suppress(IndexError):
        while True:
            lines.pop().give_back()


def _make_file(path: Path) -> None:
    """Make the file of a ledger so that only its owner may read it; leave one that is there."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        raise LedgerUnavailable(
            f"the ledger {path.name} cannot be made ({error.strerror}); name another place"
        ) from error


def _let_all_go() -> None:
    for database in list(OPENED):
        database.let_go()


os.register_at_fork(before=_let_all_go)


class _Broken(Exception):
    """A connection broke before anything was made to last."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


def read_address(address: str | Path) -> URL:
    """Return where a ledger is: a path means a file of SQLite."""
    text = str(address)
    if "://" not in text:
        return URL.create("sqlite", database=text)
    try:
        url = make_url(text)
    except ArgumentError:
        raise BadDeclaration(
            "the address of a ledger must be a path, sqlite:///path or postgresql://...; "
            "the one given cannot be read"
        ) from None
    backend = url.get_backend_name()
    if backend not in DRIVERS:
        raise BadDeclaration(
            f"a ledger can be in sqlite or postgresql, got an address of {backend!r}"
        )
    if backend == "sqlite" and url.database in (None, "", ":memory:"):
        raise BadDeclaration("a ledger in SQLite needs a file; leave ledger out for memory only")
    return url.set(drivername=DRIVERS[backend])


def look_at_file(path: Path, body: Callable[[Connection], T]) -> T:
    """Return what ``body`` reads in a file of SQLite, of which no byte is changed.

    A log beside the file is read with it. Where there is none, SQLite would put one there, unless
    it is told that nobody writes.
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
    """Make every change last: the log is on disk before a change counts as made."""
    connection.isolation_level = None  # we say ourselves where a change begins
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def _begin(connection: Connection) -> None:
    """Begin a change: in SQLite with the only right to write, so that nothing read is outdated."""
    reads = connection.get_execution_options().get("reads_only", False)
    words = LOOKS if reads else BEGIN
    connection.exec_driver_sql(words[connection.dialect.name])


Choose = Callable[[Mapping[str, Any]], tuple[Any, ...]]
Written = tuple[str, Choose | None, Mapping[str, Any]]


class PreparedStatement:
    """One statement of SQLAlchemy, as text for each kind of database that it has met."""

    __slots__ = ("_statement", "_written")

    def __init__(self, statement: Executable) -> None:
        self._statement = statement
        self._written: dict[str, Written] = {}

    def run(
        self, connection: Connection | RawConnection, values: Mapping[str, Any] | None = None
    ) -> Any:
        """Return the driver's cursor, having run the statement in the change that has begun."""
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
        """Return the first row as a tuple; None where there is none."""
        return self.run(connection, values).fetchone()

    def _write(self, dialect: Dialect) -> Written:
        assert isinstance(self._statement, ClauseElement)  # noqa: S101 - for the type alone
        compiled: Any = self._statement.compile(dialect=dialect)
        names = compiled.positiontup if compiled.positional else None
        constants = {name: value for name, value in compiled.params.items() if value is not None}
        written = self._written[dialect.name] = (str(compiled), _choose(names), constants)
        return written


def _choose(names: list[str] | None) -> Choose | None:
    """Return what takes values out of a mapping in the order of their places in a statement."""
    if not names:
        return None
    if len(names) == 1:
        return lambda values: (values[names[0]],)
    return itemgetter(*names)
