"""A bare connection of the driver, for the two changes that every question makes.

What SQLAlchemy adds to a statement takes longer than the statement; connections still come from its
pool, and statements are still written by it, once.
"""

from typing import Any, Final

from sqlalchemy import Dialect, PoolProxiedConnection

__all__ = ["Line", "Moved"]

BEGIN: Final = {"sqlite": "BEGIN IMMEDIATE", "postgresql": "BEGIN ISOLATION LEVEL READ COMMITTED"}


class Moved(Exception):
    """Another change came first, so that nothing of this one was written."""


class Line:
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
