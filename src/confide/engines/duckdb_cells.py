"""Cells of which DuckDB makes nothing: a table that holds one is refused when it is opened.

Some types hold values that DuckDB cannot read: moments outside its years, texts that are not UTF-8,
broken JSON. Whoever asked about a column with such a cell would get a fault instead of an answer.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import duckdb

from confide.declare import Kind
from confide.engines.expressions import TYPES, Sql, call, try_cast
from confide.engines.fragments import column, select, table
from confide.engines.public import plain_type
from confide.errors import BadDeclaration

__all__ = ["read_cells"]

SURE: Final = {
    *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "BOOLEAN", "DATE", "UUID", '"NULL"'),
    *("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT", "DOUBLE", "FLOAT", "DECIMAL"),
}
"""Types of which every cell can be read; of others all cells are read once."""

MACHINE: Final = (duckdb.IOException, duckdb.OutOfMemoryException, duckdb.InterruptException)
"""Errors that say nothing about a cell."""


def read_cells(
    run: Callable[[str], Any],
    named: tuple[str, str],
    types: Mapping[str, str],
    columns: Mapping[str, Kind],
) -> None:
    """Read every cell of the columns that might hold one which cannot be read.

    ``named`` is a table and the name of its rows as they are stored, ``types`` what the engine says
    of its columns and ``columns`` as what they are to be read.

    # Privacy: a fault that one cell causes tells of its row. Here it is the owner who hears of it;
    # after it questions read the same cells, so none of them can fail.

    Raises:
        BadDeclaration: there is such a cell.
    """
    for name, statement in _list_readings(named[1], types, columns):
        try:
            run(statement)
        except MACHINE:
            raise
        except duckdb.Error as error:
            raise BadDeclaration(
                f"column {name!r} of table {named[0]!r} holds a cell that DuckDB cannot read as "
                f"{columns[name]}: a moment outside its years, a text that is not UTF-8, broken "
                "JSON or the like; mend the cell where it is stored, or do not declare the column"
            ) from error


def _list_readings(
    raw: str, types: Mapping[str, str], columns: Mapping[str, Kind]
) -> Iterator[tuple[str, str]]:
    """Yield the columns whose types are not sure, each with a statement that reads all of it."""
    for name, kind in columns.items():
        if plain_type(types[name]) not in SURE:
            # A hash of every cell: to count cells, or those that are not NULL, reads no text.
            found = call("BIT_XOR", call("HASH", _read(column(name), kind)))
            yield name, select([found], table(raw)).sql("duckdb")


def _read(cell: Sql, kind: Kind) -> Sql:
    """Return what is read of a cell. Of a frame, texts are taken as they are: these are decoded."""
    value = try_cast(cell, TYPES[kind])
    return call("DECODE", call("ENCODE", value)) if kind is Kind.TEXT else value
