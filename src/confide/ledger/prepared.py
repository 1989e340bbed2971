"""Statements that are written out once and then run on the driver itself.

Every question runs a handful of them; composing each anew takes longer than the database does.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.sql.base import Executable
from sqlalchemy.sql.elements import ClauseElement

__all__ = ["Prepared"]

Written = tuple[str, tuple[str, ...] | None, Mapping[str, Any]]


class Prepared:
    """One statement of SQLAlchemy, as text for each kind of database that it has met."""

    __slots__ = ("_statement", "_written")

    def __init__(self, statement: Executable) -> None:
        self._statement = statement
        self._written: dict[str, Written] = {}

    def run(self, connection: Connection, values: Mapping[str, Any] | None = None) -> Any:
        """Return the driver's cursor, having run the statement in the change that has begun."""
        written = self._written.get(connection.dialect.name)
        if written is None:
            written = self._write(connection)
        text, places, constants = written
        named = {**constants, **values} if values else constants
        cursor = connection.connection.cursor()
        cursor.execute(text, named if places is None else tuple(map(named.__getitem__, places)))
        return cursor

    def first(self, connection: Connection, values: Mapping[str, Any] | None = None) -> Any:
        """Return the first row as a tuple; None where there is none."""
        return self.run(connection, values).fetchone()

    def _write(self, connection: Connection) -> Written:
        assert isinstance(self._statement, ClauseElement)  # noqa: S101 - for the type alone
        compiled: Any = self._statement.compile(dialect=connection.dialect)
        places = tuple(compiled.positiontup) if compiled.positional else None
        constants = {name: value for name, value in compiled.params.items() if value is not None}
        written = self._written[connection.dialect.name] = (str(compiled), places, constants)
        return written
