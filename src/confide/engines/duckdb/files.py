"""Files and DataFrames for DuckDB: their column types, and cells that DuckDB cannot read.

Some types can contain such cells: timestamps outside DuckDB's range of years, strings that are not
UTF-8, or broken JSON. A query of a column with such a cell would raise a fault.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import duckdb
from sqlglot import expressions as sql

from confide.declare import Kind
from confide.engines.sql.builders import (
    TYPES,
    Sql,
    call,
    column,
    select,
    table,
    try_cast,
)
from confide.errors import BadDeclaration

__all__ = [
    "CSV_RULES",
    "FILES",
    "as_independent_cells",
    "base_type",
    "check_dataframe",
    "check_file",
    "csv_options",
    "describe",
    "kinds_of",
    "list_files",
    "read_cells",
    "read_parquet",
    "select_all",
    "types_of",
]

FILES: Final = (".parquet", ".csv")
WILDCARDS: Final = set("*?[")
"""The characters that make a path a pattern for several files."""
CSV_RULES: Final = (
    "A CSV file must have a line of column names, commas between columns, and decimal points. "
    "Write it this way, or convert it to Parquet."
)


def check_file(source: str | Path, base: str) -> None:
    """Refuse a file that does not exist, or that exists but whose path looks like a pattern.

    A pattern for several files is accepted. ``base`` states what relative paths are relative to,
    for the message.
    """
    path = Path(source)
    exists = path.exists()
    if exists and WILDCARDS & set(str(path.resolve())):
        raise BadDeclaration(
            f"The path {path.name!r} contains one of the characters `*`, `?`, and `[`, which "
            "select several files. Rename the file or its folder."
        )
    if exists or WILDCARDS & set(str(source)):
        return
    shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    raise BadDeclaration(f"There is no file `{shown}`. Paths are relative to {base}.")


def list_files(source: str | Path) -> list[str]:
    """Return the file at a path, or the files that match a pattern, sorted.

    If there are none, return the path.
    """
    path = Path(source).resolve()
    root = Path(path.anchor)
    found = [] if path.exists() else sorted(root.glob(str(path.relative_to(root))))
    return [str(one) for one in found] or [str(path)]


def check_dataframe(name: str, source: Any) -> None:
    """Refuse lists, dictionaries, and other sources that are not DataFrames."""
    is_series = type(source).__name__ == "Series"
    is_plain = isinstance(source, list | dict | tuple | set | int | float | bytes)
    if source is None or is_series or is_plain:
        raise BadDeclaration(
            f"The source of {name!r} has type {type(source).__name__}. Pass the path of a .parquet "
            "or .csv file, or a DataFrame of pandas, polars, or pyarrow; `pandas.DataFrame(rows)` "
            "creates one from lists, dictionaries, and series."
        )


def as_independent_cells(frame: Any) -> Any:
    """Return a DataFrame whose cells are read independently.

    # Privacy: pandas may store several types in one column. An engine would infer a common type, so
    # one person's cell would change how all others are read. As text, every cell is read by itself.
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
    """Return a SELECT of the rows of a file, or of the files that a pattern matches now.

    # Privacy: files with different types are refused. Some of their cells would be cast, which may
    # fail on a row.
    """
    reads = [select_all(call("READ_PARQUET", one)) for one in map(_literal, list_files(source))]
    found = {str(describe(connection, one.subquery())) for one in reads}
    if len(found) > 1:
        raise BadDeclaration(
            f"The files of table {name!r} differ in their columns or types. Write them with the "
            "same columns and types, or declare one of them."
        )
    array = sql.Array(expressions=[_literal(file) for file in list_files(source)])
    return reads[0] if len(reads) == 1 else select_all(call("READ_PARQUET", array))


def describe(connection: duckdb.DuckDBPyConnection, rows: Sql) -> list[tuple[Any, ...]]:
    """Return the name and DuckDB's type of each column of a table or a SELECT."""
    described = connection.execute(f"DESCRIBE FROM {rows.sql('duckdb')}").fetchall()
    return [row[:2] for row in described]


def csv_options(*, as_text: bool) -> list[Sql]:
    """Return fixed options for reading CSV.

    With ``as_text``, no row can change how other rows are read. Otherwise, DuckDB infers types.
    """
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


def _literal(value: str) -> Sql:
    return sql.Literal.string(value)


def select_all(source: Sql) -> sql.Select:
    """Return a SELECT of all columns of a source."""
    return sql.select(sql.Star()).from_(source)


READABLE_TYPES: Final = {
    *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "BOOLEAN", "DATE", "UUID", '"NULL"'),
    *("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT", "DOUBLE", "FLOAT", "DECIMAL"),
}
"""Types whose values can all be read; cells of other types are tested when a table is opened."""

RESOURCE_ERRORS: Final = (
    duckdb.IOException,
    duckdb.OutOfMemoryException,
    duckdb.InterruptException,
)
"""Errors that do not depend on the contents of a cell."""


def read_cells(
    run: Callable[[str], Any],
    named: tuple[str, str],
    types: Mapping[str, str],
    columns: Mapping[str, Kind],
) -> None:
    """Read every cell of the columns whose types can contain unreadable values.

    ``run`` executes a statement. ``named`` has the names of a table and of its raw table.
    ``types`` gives DuckDB's types of its columns, and ``columns`` the kinds to read them as.

    # Privacy: an error about one cell reveals something about its row, so it must not depend on a
    # query. Here only the owner sees it. Later queries read the same cells, so they cannot fail.

    Raises:
        BadDeclaration: a cell cannot be read.
    """
    for name, statement in _list_readings(named[1], types, columns):
        try:
            run(statement)
        except RESOURCE_ERRORS:
            raise
        except duckdb.Error as error:
            raise BadDeclaration(
                f"Column {name!r} of table {named[0]!r} contains a cell that DuckDB cannot read as "
                f"{columns[name]}, such as a timestamp outside its years, a string that is not "
                "UTF-8, or broken JSON. Fix the cell where it is stored, or do not declare the "
                "column."
            ) from error


def _list_readings(
    raw: str, types: Mapping[str, str], columns: Mapping[str, Kind]
) -> Iterator[tuple[str, str]]:
    """Yield the columns that may contain unreadable cells, each with a statement that reads it."""
    for name, kind in columns.items():
        if base_type(types[name]) not in READABLE_TYPES:
            # A hash of every cell, since counting cells does not decode strings.
            found = call("BIT_XOR", call("HASH", _read(column(name), kind)))
            yield name, select([found], table(raw)).sql("duckdb")


def _read(cell: Sql, kind: Kind) -> Sql:
    """Return a cell as a value of its kind.

    Strings are decoded, because DataFrames do not ensure that they are UTF-8.
    """
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


MAX_SUGGESTIONS: Final = 10


def kinds_of(connection: duckdb.DuckDBPyConnection, raw: str) -> dict[str, Kind]:
    """Return the columns of a raw table that queries can use, with their kinds."""
    rows = connection.execute(f"DESCRIBE {table(raw).sql('duckdb')}").fetchall()
    found = {}
    for name, engine_type, *_ in rows:
        plain = base_type(str(engine_type))
        found.update({str(name): kind for kind, names in KINDS if plain in names})
    return found


def base_type(type_name: str) -> str:
    """Return a type of the engine without its parameters; list types are unchanged.

    >>> base_type("DECIMAL(10,2)"), base_type("DECIMAL(10,2)[]")
    ('DECIMAL', 'DECIMAL(10,2)[]')
    """
    return type_name if type_name.endswith("]") else type_name.split("(", maxsplit=1)[0]


def types_of(
    connection: duckdb.DuckDBPyConnection, raw: str, names: Collection[str]
) -> dict[str, str]:
    """Return DuckDB's types of the named columns of a raw table; the case of names is ignored."""
    rows = connection.execute(f"DESCRIBE {table(raw).sql('duckdb')}").fetchall()
    found = {str(name).lower(): str(kind) for name, kind, *_ in rows}
    for name in names:
        if name.lower() not in found:
            source = raw.removeprefix("raw ")
            raise BadDeclaration(_missing_column_error(source, name, [str(row[0]) for row in rows]))
    return {name: found[name.lower()] for name in names}


def _missing_column_error(source: str, name: str, found: Sequence[str]) -> str:
    """Return an error message that suggests other columns; names of columns are not private."""
    message = f"The source of table {source!r} has no column {name!r}"
    if len(found) == 1 and any(mark in found[0] for mark in SEPARATORS):
        return (
            f"{message}, but a single column named {found[0]!r}. A CSV file must have commas "
            "between columns. Write it this way, or convert it to Parquet."
        )
    by_lowercase = {one.lower(): one for one in found}
    similar = get_close_matches(name.lower(), by_lowercase, 1)
    shown = [by_lowercase[one] for one in similar] or [
        *found[:MAX_SUGGESTIONS],
        *["..."] * (len(found) > MAX_SUGGESTIONS),
    ]
    return f"{message}. Declare one of its columns, such as {', '.join(shown)}."
