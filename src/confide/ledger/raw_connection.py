"""Driver connections that the guarded changes of a stored ledger run on, without SQLAlchemy."""

from typing import Any, Final

from sqlalchemy import Dialect, PoolProxiedConnection

__all__ = ["BEGIN_CHANGE", "RawConnection"]

BEGIN_CHANGE: Final = {
    "sqlite": "BEGIN IMMEDIATE",
    "postgresql": "BEGIN ISOLATION LEVEL READ COMMITTED",
}


class RawConnection:
    """A driver connection that executes one change after another.

    A *locked* change is a transaction that locks the ledger before it reads, and ends with a
    commit. A change that is *not locked* reads, and then executes one statement, which writes
    everything, or nothing if the head has moved. ``may_last`` is true if the current change may
    already have sent a statement with a durable effect.
    """

    __slots__ = ("_pooled", "cursor", "dialect", "is_locked", "may_last")

    def __init__(self, pooled: PoolProxiedConnection, dialect: Dialect) -> None:
        self._pooled, self.dialect = pooled, dialect
        self.is_locked, self.may_last = True, False
        self.cursor: Any = pooled.cursor()

    def begin(self, *, locked: bool) -> None:
        """Start a change."""
        self.is_locked, self.may_last = locked, False
        if locked:
            self.cursor.execute(BEGIN_CHANGE[self.dialect.name])

    def mark_write(self) -> None:
        """Note that the next statement writes, and so is durable if the change is not locked."""
        self.may_last = not self.is_locked

    def commit(self) -> None:
        """Commit a locked change; a change that is not locked is durable without a commit."""
        if self.is_locked:
            self.may_last = True
            self.cursor.execute("COMMIT")

    def is_disconnect(self, error: Any) -> bool:
        """Return whether an error means that the connection is lost; invalidate it if so."""
        driver = self._pooled.dbapi_connection
        is_gone = driver is None or self.dialect.is_disconnect(error, driver, self.cursor)
        if is_gone:
            self._pooled.invalidate(error)
        return is_gone

    def discard(self) -> None:
        """Close the connection without contacting the database, which may be gone."""
        self._pooled.invalidate()

    def release(self) -> None:
        """Return the connection to the pool; the pool rolls back uncommitted changes."""
        self._pooled.close()
