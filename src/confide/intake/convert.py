"""Conversion of CSV files to Parquet, with plain names and known types (`confide convert`).

Delimiters, encodings, decimal commas, and dates differ between countries. The owner settles them
once, in a copy, so that no row decides how other rows are read when queries run. The messages here
describe real rows, and are for the owner only.
"""

import csv
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import duckdb

from confide.errors import BadDeclaration
from confide.intake.csv_types import (
    MAX_SAMPLE_ROWS,
    MISSING,
    READERS,
    CellFormat,
    check_titles,
    find_delimiter,
    find_format,
)
from confide.intake.draft import name_table

__all__ = ["ConvertedColumn", "Copy", "convert_csv", "copy_parquet", "plain_names"]

BYTE_ORDER_MARKS: Final = {
    b"\xff\xfe": "utf-16",
    b"\xfe\xff": "utf-16",
    b"\xef\xbb\xbf": "utf-8-sig",
}
IS_FILLED: Final = f'LOWER(TRIM("{{}}")) NOT IN {("", *MISSING)}'
"""The SQL condition that a cell is neither empty nor a string such as NA.

A cell that meets it is counted as unread if it becomes NULL, which never happens in a text column.
"""
TRANSLITERATION: Final = str.maketrans(
    {"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ß": "ss", "€": "eur"}
)


@dataclass(frozen=True, slots=True)
class ConvertedColumn:
    """One column of a copy: its title in the file, its name in the copy, and its format.

    ``unread`` counts the cells in other formats, which are NULL in the copy. Strings such as NA,
    which stand for an empty cell, also become NULL in columns of numbers, dates, and flags, but are
    not counted.
    """

    title: str
    name: str
    shape: CellFormat
    unread: int


@dataclass(frozen=True, slots=True)
class Copy:
    """The result of a conversion: its columns, and the number of rows with excess cells."""

    columns: tuple[ConvertedColumn, ...]
    long_rows: int


def convert_csv(path: Path, target: Path) -> Copy:
    """Write a copy of a CSV file as Parquet, and return a description of the copy.

    Raises:
        BadDeclaration: the target is not a new .parquet file, the source has no column names, or a
            file cannot be read or written.
    """
    _check_target(target)
    with _reading(path) as rows:
        titles = next(rows, [])
        check_titles(path.name, titles)
        fitter = _RowFitter(len(titles))
        sample = list(fitter.fit(islice(rows, MAX_SAMPLE_ROWS)))
        formats = [find_format([row[index] for row in sample]) for index in range(len(titles))]
        # Privacy: the rows are stored in the folder of the copy for a moment, readable only by its
        # writer. They are removed afterwards, and so are rows that DuckDB spills.
        with TemporaryDirectory(dir=target.parent, prefix=".confide-") as folder:
            csv_file = Path(folder) / "rows.csv"
            with csv_file.open("x", encoding="utf-8", newline="") as file:
                writer = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n")
                writer.writerows(sample)
                writer.writerows(fitter.fit(rows))
            return Copy(tuple(_write(csv_file, target, titles, formats)), fitter.long_rows)


def copy_parquet(path: Path, target: Path) -> None:
    """Write the rows of a Parquet file to a new file, as CSV or Parquet according to its name."""
    rows = duckdb.read_parquet(str(path))
    if target.suffix.lower() == ".csv":
        rows.write_csv(str(target))
    else:
        rows.write_parquet(str(target))


def plain_names(titles: Sequence[str]) -> list[str]:
    """Return distinct names that can be declared, as similar to the titles as possible.

    >>> plain_names(["Größe (cm)", "Straße", "", "x", "X", "2024"])
    ['Groesse_cm', 'Strasse', 'column', 'x', 'X_2', 't_2024']
    """
    names: list[str] = []
    for title in titles:
        transliterated = unicodedata.normalize("NFC", title).translate(TRANSLITERATION)
        ascii_only = (
            unicodedata.normalize("NFKD", transliterated).encode("ascii", "ignore").decode()
        )
        words = "".join(char if char.isalnum() else " " for char in ascii_only).split()
        names.append(name_table("_".join(words) or "column", names))
    return names


class _RowFitter:
    """Fits every row to the number of columns, and counts the rows that had more cells."""

    def __init__(self, width: int) -> None:
        self.width, self.long_rows = width, 0

    def fit(self, rows: Iterable[Sequence[str]]) -> Iterator[list[str]]:
        """Yield each row, truncated or padded with empty cells."""
        for row in rows:
            self.long_rows += len(row) > self.width
            yield [*row[: self.width], *[""] * (self.width - len(row))]


def _check_target(target: Path) -> None:
    """Raise BadDeclaration unless the target is a new Parquet file in an existing folder."""
    if target.suffix.lower() != ".parquet":
        raise BadDeclaration(f"The copy must be a .parquet file; got {target.name!r}.")
    if target.exists():
        raise BadDeclaration(f"`{target}` already exists. Remove it, or choose another file name.")
    if not target.parent.is_dir():
        raise BadDeclaration(
            f"`{target}` cannot be written, because its folder does not exist. Choose another file "
            "name."
        )


@contextmanager
def _reading(path: Path) -> Iterator[Iterator[list[str]]]:
    """Yield an iterator over the nonempty rows of a CSV file, the names of its columns first.

    The delimiter and the encoding are guessed.
    """
    try:
        with path.open(encoding=_find_encoding(path), newline="") as file:
            delimiter = find_delimiter(file.readline())
            file.seek(0)
            yield (row for row in csv.reader(file, delimiter=delimiter) if row)
    except OSError as error:
        raise BadDeclaration(
            f"{str(path)!r} cannot be copied ({error.strerror}). Name a CSV file that can be read, "
            "and a copy that can be written."
        ) from None
    except (csv.Error, UnicodeError):
        raise BadDeclaration(
            f"{path.name!r} is not a CSV file with one row per line. Export it again, or convert "
            "it to Parquet."
        ) from None


def _find_encoding(path: Path) -> str:
    """Return the encoding of a file, by its byte order mark if it has one.

    Otherwise it is UTF-8 if the file can be decoded so, else the Western European cp1252.
    """
    with path.open("rb") as file:
        first = file.read(3)
    for bom, encoding in BYTE_ORDER_MARKS.items():
        if first.startswith(bom):
            return encoding
    try:
        with path.open(encoding="utf-8", newline="") as text:
            while text.read(1 << 20):
                pass
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"


def _write(
    csv_file: Path, target: Path, titles: Sequence[str], formats: Sequence[CellFormat]
) -> list[ConvertedColumn]:
    """Write the rows of a CSV file, whose cells are all quoted, to a Parquet file.

    Each column gets the type of its format. Returns a description of each column.
    """
    names = plain_names(titles)
    types = ", ".join(f"'{name}': 'VARCHAR'" for name in names)
    options = "header=false, delim=',', quote='\"', escape='\"', new_line='\\n', nullstr=''"
    cells = f"read_csv($1, {options}, auto_detect=false, columns={{{types}}})"
    named = [(name, READERS[shape](name)) for name, shape in zip(names, formats, strict=True)]
    columns_sql = [f'{reader} AS "{name}"' for name, reader in named]
    unread_counts = [
        f"COUNT(*) FILTER ({IS_FILLED.format(name)} AND {reader} IS NULL)" for name, reader in named
    ]
    with duckdb.connect(":memory:") as connection:
        connection.execute("SET temp_directory = $folder", {"folder": str(csv_file.parent)})
        rows = f"SELECT {', '.join(columns_sql)} FROM {cells}"  # noqa: S608  # only plain names
        _run(connection, f"COPY ({rows}) TO $2 (FORMAT parquet)", [str(csv_file), str(target)])
        counts = f"SELECT {', '.join(unread_counts)} FROM {cells}"  # noqa: S608  # only plain names
        [unread] = _run(connection, counts, [str(csv_file)])
    return [ConvertedColumn(*column) for column in zip(titles, names, formats, unread, strict=True)]


def _run(connection: duckdb.DuckDBPyConnection, statement: str, values: Sequence[str]) -> list[Any]:
    """Return the rows of a statement; raise BadDeclaration if it fails."""
    try:
        return connection.execute(statement, list(values)).fetchall()
    except duckdb.Error as error:
        reason = str(error).split("\n", maxsplit=1)[0].rstrip(".")
        raise BadDeclaration(
            f"The copy cannot be written: {reason}. Choose another file name."
        ) from None
