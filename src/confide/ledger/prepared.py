"""Statements that are written out once and then run on the driver itself.

Every question runs a handful of them; composing each anew takes longer than the database does.
"""

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection, Dialect
from sqlalchemy.sql.base import Executable
from sqlalchemy.sql.elements import ClauseElement

from confide.ledger.lines import Line

__all__ = ["Prepared"]

Choose = Callable[[Mapping[str, Any]], tuple[Any, ...]]
Written = tuple[str, Choose | None, Mapping[str, Any]]


class Prepared:
    """One statement of SQLAlchemy, as text for each kind of database that it has met."""

    __slots__ = ("_statement", "_written")

    def __init__(self, statement: Executable) -> None:
        self._statement = statement
        self._written: dict[str, Written] = {}

    def run(self, connection: Connection | Line, values: Mapping[str, Any] | None = None) -> Any:
        """Return the driver's cursor, having run the statement in the change that has begun."""
        text, places, constants = self._written.get(connection.dialect.name) or self._write(
            connection.dialect
        )
        named = {**constants, **values} if constants and values else values or constants
        cursor = (
            connection.cursor if isinstance(connection, Line) else connection.connection.cursor()
        )
        cursor.execute(text, named if places is None else places(named))
        return cursor

    def first(self, connection: Connection | Line, values: Mapping[str, Any] | None = None) -> Any:
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
