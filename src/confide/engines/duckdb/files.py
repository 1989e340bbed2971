"""Files and frames for DuckDB, their column types, and cells that it cannot read.

Some types hold values that DuckDB cannot read: moments outside its years, texts that are not UTF-8,
broken JSON. Whoever asked about a column with such a cell would get a fault instead of an answer.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import duckdb
from sqlglot import expressions as sql

from confide.declare import Kind
from confide.engines.sql.expressions import TYPES, Sql, call, column, select, table, try_cast
from confide.errors import BadDeclaration

__all__ = [
    "CSV_RULES",
    "FILES",
    "cell_by_cell",
    "check_file",
    "check_frame",
    "csv_options",
    "describe",
    "everything",
    "kinds_of",
    "list_files",
    "plain_type",
    "read_cells",
    "read_parquet",
    "types_of",
]

FILES: Final = (".parquet", ".csv")
WILD: Final = set("*?[")
"""Characters by which a path is a pattern that stands for several files."""
CSV_RULES: Final = (
    "a CSV file must have a line of names, commas between columns and points in numbers: write it "
    "so, or as Parquet"
)


def check_file(source: str | Path, seen_from: str) -> None:
    """Refuse a file that is not there, or whose own name reads as a pattern for others."""
    path = Path(source)
    is_there = path.exists()
    if is_there and WILD & set(str(path.resolve())):
        raise BadDeclaration(
            f"the path {path.name!r} has one of the characters * ? [, which stand for other names; "
            "rename the file, or its folder"
        )
    if is_there or WILD & set(str(source)):
        return
    shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    raise BadDeclaration(f"there is no file {shown}; write its path as seen from {seen_from}")


def list_files(source: str | Path) -> list[str]:
    """Return the file that a path names, or those that a pattern stands for, in order."""
    path = Path(source).resolve()
    root = Path(path.anchor)
    found = [] if path.exists() else sorted(root.glob(str(path.relative_to(root))))
    return [str(one) for one in found] or [str(path)]


def check_frame(name: str, source: Any) -> None:
    """Refuse rows in lists and dictionaries, which are no frame yet."""
    is_series = type(source).__name__ == "Series"
    is_plain = isinstance(source, list | dict | tuple | set | int | float | bytes)
    if source is None or is_series or is_plain:
        raise BadDeclaration(
            f"source of {name!r} is of type {type(source).__name__}; give the path of a .parquet "
            "or .csv file, or a frame of pandas, polars or pyarrow: pandas.DataFrame(rows) makes "
            "one of lists, dictionaries and series"
        )


def cell_by_cell(frame: Any) -> Any:
    """Return a frame whose cells are read one by one.

    # Privacy: pandas may keep cells of several types in one column, for which an engine finds a
    # common one; then one person's cell would change how all others are read. As text none does.
    """
    if not type(frame).__module__.startswith("pandas"):
        return frame
    mixed = [name for name, kind in frame.dtypes.items() if str(kind) == "object"]
    return frame.assign(
        **{
            name: frame[name].astype(object).where(frame[name].isna(), frame[name].astype(str))
            for name in mixed
        }
    )


def read_parquet(
    connection: duckdb.DuckDBPyConnection, name: str, source: str | Path
) -> sql.Select:
    """Return what reads a file, or the files that a pattern stands for by now.

    # Privacy: of files with different types, cells of some are cast, which may fail on a row.
    """
    reads = [everything(call("READ_PARQUET", one)) for one in map(_text, list_files(source))]
    found = {str(describe(connection, one.subquery())) for one in reads}
    if len(found) > 1:
        raise BadDeclaration(
            f"the files of table {name!r} differ in their columns or types; write them alike, "
            "or declare one of them"
        )
    several = sql.Array(expressions=[_text(file) for file in list_files(source)])
    return reads[0] if len(reads) == 1 else everything(call("READ_PARQUET", several))


def describe(connection: duckdb.DuckDBPyConnection, rows: Sql) -> list[tuple[Any, ...]]:
    """Return the names and types of the columns of a table or a selection."""
    described = connection.execute(f"DESCRIBE FROM {rows.sql('duckdb')}").fetchall()
    return [row[:2] for row in described]


def csv_options(*, as_text: bool) -> list[Sql]:
    """Return a fixed dialect, so that no row can change how the others are read."""
    options: dict[str, Sql] = {
        "header": sql.true(),
        "delim": sql.Literal.string(","),
        "quote": sql.Literal.string('"'),
        "escape": sql.Literal.string('"'),
        "comment": sql.Literal.string(""),
        "skip": sql.Literal.number(0),
    }
    if as_text:
        options["all_varchar"] = sql.true()
    return [sql.EQ(this=sql.column(name), expression=value) for name, value in options.items()]


def _text(said: str) -> Sql:
    return sql.Literal.string(said)


def everything(source: Sql) -> sql.Select:
    """Return all columns of what is read."""
    return sql.select(sql.Star()).from_(source)


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


KINDS: Final = (
    (Kind.INT, ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")),
    (Kind.FLOAT, ("FLOAT", "DOUBLE", "DECIMAL", "HUGEINT", "UBIGINT")),
    (Kind.TEXT, ("VARCHAR", "ENUM")),
    (Kind.BOOL, ("BOOLEAN",)),
    (Kind.DATE, ("DATE",)),
)


SEPARATORS: Final = ";\t|"


SHOWN: Final = 10


def kinds_of(connection: duckdb.DuckDBPyConnection, raw: str) -> dict[str, Kind]:
    """Return the columns of a table that questions can use, with their types."""
    rows = connection.execute(f"DESCRIBE {table(raw).sql('duckdb')}").fetchall()
    found = {}
    for name, engine_type, *_ in rows:
        plain = plain_type(str(engine_type))
        found.update({str(name): kind for kind, names in KINDS if plain in names})
    return found


def plain_type(said: str) -> str:
    """Return a type of the engine without its parameters; a list stays one.

    >>> plain_type("DECIMAL(10,2)"), plain_type("DECIMAL(10,2)[]")
    ('DECIMAL', 'DECIMAL(10,2)[]')
    """
    return said if said.endswith("]") else said.split("(", maxsplit=1)[0]


def types_of(
    connection: duckdb.DuckDBPyConnection, raw: str, names: Collection[str]
) -> dict[str, str]:
    """Return the engine's types of columns, which it finds in upper or lower case."""
    rows = connection.execute(f"DESCRIBE {table(raw).sql('duckdb')}").fetchall()
    found = {str(name).lower(): str(kind) for name, kind, *_ in rows}
    for name in names:
        if name.lower() not in found:
            source = raw.removeprefix("raw ")
            raise BadDeclaration(_say_missing(source, name, [str(row[0]) for row in rows]))
    return {name: found[name.lower()] for name in names}


def _say_missing(source: str, name: str, found: Sequence[str]) -> str:
    """Return what is wrong and what to write instead; the names of columns are no data."""
    said = f"the source of table {source!r} has no column {name!r}"
    if len(found) == 1 and any(mark in found[0] for mark in SEPARATORS):
        return (
            f"{said}, but a single one called {found[0]!r}; a CSV file must have commas between "
            "columns: write it so, or as Parquet"
        )
    lower = {one.lower(): one for one in found}
    near = get_close_matches(name.lower(), lower, 1)
    shown = [lower[one] for one in near] or [*found[:SHOWN], *["..."] * (len(found) > SHOWN)]
    return f"{said}; declare one that it has, such as {', '.join(shown)}"
