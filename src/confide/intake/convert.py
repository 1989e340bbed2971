"""CSV to Parquet: plain names, known types.

Separators, encodings, decimal commas and dates differ from country to country. They are settled
once, by the owner and for a copy, so that no row decides how others are read when questions are
asked. What is told here is about real rows and for the owner's eyes.
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
    MISSING,
    READERS,
    ROWS,
    CellFormat,
    check_titles,
    find_delimiter,
    find_shape,
)
from confide.intake.draft import name_table

__all__ = ["Converted", "Copy", "convert_csv", "copy_parquet", "plain_names"]

MARKS: Final = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"\xef\xbb\xbf": "utf-8-sig"}
HELD: Final = f'LOWER(TRIM("{{}}")) NOT IN {("", *MISSING)}'
"""Whether a cell holds something, as SQL; among texts, what stands for nothing is a text."""
SPELLED: Final = str.maketrans(
    {"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ß": "ss", "€": "eur"}
)


@dataclass(frozen=True, slots=True)
class Converted:
    """One column of a copy: its title in the file, its name in the copy, and how it is read.

    ``unread`` counts the cells that hold something else; they are NULL in the copy. So is what
    stands for an empty cell, such as NA, among numbers, dates and flags; it is not counted.
    """

    title: str
    name: str
    shape: CellFormat
    unread: int


@dataclass(frozen=True, slots=True)
class Copy:
    """What became of a file: its columns, and how many rows had more cells than names."""

    columns: tuple[Converted, ...]
    long_rows: int


def convert_csv(path: Path, target: Path) -> Copy:
    """Write a copy of a CSV file as Parquet, and return what became of it.

    A file that is there already stays as it is.
    """
    _check_target(target)
    with _reading(path) as rows:
        titles = next(rows, [])
        check_titles(path.name, titles)
        sheet = _Sheet(len(titles))
        sample = list(sheet.fit(islice(rows, ROWS)))
        shapes = [find_shape([row[place] for row in sample]) for place in range(len(titles))]
        # Privacy: the rows lie in the folder of the copy for a moment, readable to its writer
        # alone, and are removed with it; so are those for which DuckDB has no memory.
        with TemporaryDirectory(dir=target.parent, prefix=".confide-") as folder:
            plain = Path(folder) / "rows.csv"
            with plain.open("x", encoding="utf-8", newline="") as file:
                writer = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n")
                writer.writerows(sample)
                writer.writerows(sheet.fit(rows))
            return Copy(tuple(_write(plain, target, titles, shapes)), sheet.long_rows)


def copy_parquet(path: Path, target: Path) -> None:
    """Write the rows of a Parquet file into a new file, as CSV or Parquet by its name."""
    rows = duckdb.read_parquet(str(path))
    if target.suffix.lower() == ".csv":
        rows.write_csv(str(target))
    else:
        rows.write_parquet(str(target))


def plain_names(titles: Sequence[str]) -> list[str]:
    """Return names that can be declared, as near to the titles as can be, and no two alike.

    >>> plain_names(["Größe (cm)", "Straße", "", "x", "X", "2024"])
    ['Groesse_cm', 'Strasse', 'column', 'x', 'X_2', 't_2024']
    """
    names: list[str] = []
    for title in titles:
        spelled = unicodedata.normalize("NFC", title).translate(SPELLED)
        ascii_only = unicodedata.normalize("NFKD", spelled).encode("ascii", "ignore").decode()
        words = "".join(char if char.isalnum() else " " for char in ascii_only).split()
        names.append(name_table("_".join(words) or "column", names))
    return names


class _Sheet:
    """Gives every row as many cells as there are names, and counts those that had more."""

    def __init__(self, width: int) -> None:
        self.width, self.long_rows = width, 0

    def fit(self, rows: Iterable[Sequence[str]]) -> Iterator[list[str]]:
        """Yield each row, cut or filled up."""
        for row in rows:
            self.long_rows += len(row) > self.width
            yield [*row[: self.width], *[""] * (self.width - len(row))]


def _check_target(target: Path) -> None:
    if target.suffix.lower() != ".parquet":
        raise BadDeclaration(f"the copy must be a .parquet file, got {target.name!r}")
    if target.exists():
        raise BadDeclaration(f"{target} is there already; remove it, or name another file")
    if not target.parent.is_dir():
        raise BadDeclaration(f"{target} cannot be written: no such folder; name another file")


@contextmanager
def _reading(path: Path) -> Iterator[Iterator[list[str]]]:
    """Lend the rows of a file, its first line included, whatever separates and encodes them."""
    try:
        with path.open(encoding=_find_encoding(path), newline="") as file:
            delimiter = find_delimiter(file.readline())
            file.seek(0)
            yield (row for row in csv.reader(file, delimiter=delimiter) if row)
    except OSError as error:
        raise BadDeclaration(
            f"{str(path)!r} cannot be copied ({error.strerror}); name a CSV file that can be read, "
            "and a copy that can be written"
        ) from None
    except (csv.Error, UnicodeError):
        raise BadDeclaration(
            f"{path.name!r} is no CSV file: text, one row a line; export it anew, or write Parquet"
        ) from None


def _find_encoding(path: Path) -> str:
    """Return how a text is encoded: by its first bytes, else UTF-8, else Western European."""
    with path.open("rb") as file:
        first = file.read(3)
    for mark, encoding in MARKS.items():
        if first.startswith(mark):
            return encoding
    try:
        with path.open(encoding="utf-8", newline="") as text:
            while text.read(1 << 20):
                pass
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"


def _write(
    plain: Path, target: Path, titles: Sequence[str], shapes: Sequence[CellFormat]
) -> list[Converted]:
    """Write cells that all stand in quotes as columns of their types."""
    names = plain_names(titles)
    types = ", ".join(f"'{name}': 'VARCHAR'" for name in names)
    options = "header=false, delim=',', quote='\"', escape='\"', new_line='\\n', nullstr=''"
    cells = f"read_csv($1, {options}, auto_detect=false, columns={{{types}}})"
    named = [(name, READERS[shape](name)) for name, shape in zip(names, shapes, strict=True)]
    read = [f'{reader} AS "{name}"' for name, reader in named]
    lost = [f"COUNT(*) FILTER ({HELD.format(name)} AND {reader} IS NULL)" for name, reader in named]
    with duckdb.connect(":memory:") as connection:
        connection.execute("SET temp_directory = $folder", {"folder": str(plain.parent)})
        rows = f"SELECT {', '.join(read)} FROM {cells}"  # noqa: S608  # plain names alone
        _run(connection, f"COPY ({rows}) TO $2 (FORMAT parquet)", [str(plain), str(target)])
        counts = f"SELECT {', '.join(lost)} FROM {cells}"  # noqa: S608  # plain names alone
        [unread] = _run(connection, counts, [str(plain)])
    return [Converted(*column) for column in zip(titles, names, shapes, unread, strict=True)]


def _run(connection: duckdb.DuckDBPyConnection, statement: str, values: Sequence[str]) -> list[Any]:
    try:
        return connection.execute(statement, list(values)).fetchall()
    except duckdb.Error as error:
        reason = str(error).split("\n", maxsplit=1)[0]
        raise BadDeclaration(f"the copy cannot be written: {reason}; name another file") from None
