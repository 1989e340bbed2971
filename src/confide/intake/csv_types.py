"""Guesses of the column types of a CSV file, to draft a declaration.

# Privacy: a guess depends on private rows, so the draft contains it only as a comment, for the
# owner to confirm or correct. A guess is the type of nearly all cells of a column in the first
# rows, so a single row can hardly change it. It reveals no bound and no value.
"""

import csv
import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Final

from confide.declare import Kind
from confide.errors import BadDeclaration

__all__ = [
    "KINDS",
    "MAX_SAMPLE_ROWS",
    "MISSING",
    "READERS",
    "CellFormat",
    "check_titles",
    "conversion_hint",
    "find_delimiter",
    "find_format",
    "find_odd_titles",
    "guess_formats",
    "is_missing",
    "read_cells",
]

MAX_SAMPLE_ROWS: Final = 1_000
"""The number of rows that are read from the start of the file."""
DELIMITERS: Final = ",;\t|"
NEARLY_ALL: Final = 0.95
"""The share of a column's nonempty cells that must have its format."""
MAX_ODD_FLAGS: Final = 1
"""The largest number of cells in a column of flags that may be something else.

Two such cells could be a third category.
"""


class CellFormat(StrEnum):
    """The format of nearly all cells of a column, described for the owner."""

    BOOL = "bool"
    INT = "int"
    FLOAT = "float"
    DECIMAL_COMMA = "float, with a decimal comma"
    DATE = "date"
    TIMESTAMP = "timestamp"
    DOTTED_DATE = "date, as in 31.12.2024"
    DAY_FIRST = "date, as in 31/12/2024"
    MONTH_FIRST = "date, as in 12/31/2024"
    CURRENCY = "float, as in $1,234.50"
    EITHER = "text: dates with the day or the month first, which is ambiguous"
    GROUPED = "text: 1.234 may be a thousand or a fraction, which is ambiguous"
    TEXT = "text"
    EMPTY = "text: there are no values"


AMOUNT: Final = r"[-+]?\s?[$€£¥]?\s?(?:[1-9]\d{0,2}(?:,\d{3})+|0|[1-9]\d*)(?:\.\d+)?\s?[$€£¥]?"
PATTERNS: Final = (
    (CellFormat.BOOL, r"true|false|t|f|yes|no|y|n"),
    (CellFormat.INT, r"[-+]?(?:0|[1-9]\d{0,17})"),  # a zip code with a leading zero is text
    (CellFormat.GROUPED, r"[-+]?[1-9]\d{0,2}(?:\.\d{3})*"),
    (CellFormat.FLOAT, r"[-+]?(?:(?:0|[1-9]\d*)(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,3})?"),
    (CellFormat.DECIMAL_COMMA, r"[-+]?(?:[1-9]\d{0,2}(?:\.\d{3})+|0|[1-9]\d*)(?:,\d+)?"),
    (CellFormat.CURRENCY, rf"{AMOUNT}|\({AMOUNT}\)"),
    (CellFormat.DATE, r"\d{4}-\d\d-\d\d"),
    (CellFormat.TIMESTAMP, r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?)?"),
    (CellFormat.DATE, r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d.*)?"),  # with a time zone, say
    (CellFormat.DOTTED_DATE, r"\d{1,2}\.\d{1,2}\.\d{4}"),
    (CellFormat.EITHER, r"(?:0?[1-9]|1[0-2])/(?:0?[1-9]|1[0-2])/\d{4}"),
    (CellFormat.DAY_FIRST, r"\d{1,2}/(?:0?[1-9]|1[0-2])/\d{4}"),
    (CellFormat.MONTH_FIRST, r"(?:0?[1-9]|1[0-2])/\d{1,2}/\d{4}"),
)
"""A regular expression for each format, the narrowest first."""
MISSING: Final = ("na", "n/a", "#n/a", "nan", "null", "none")
"""The strings that programs write into empty cells, in lower case."""
FORMATS: Final = tuple(
    (cell_format, re.compile(pattern, re.IGNORECASE)) for cell_format, pattern in PATTERNS
)


YEAR: Final = re.compile(r"(?:19|20)\d\d")
"""Names of columns in tables with one column per year."""


def find_format(cells: Sequence[str]) -> CellFormat:
    """Return the narrowest format that nearly all nonempty cells have.

    >>> find_format(["1,50", "2", ""]), find_format(["01067"])
    (<CellFormat.DECIMAL_COMMA: ...>, <CellFormat.TEXT: 'text'>)
    >>> find_format(["13/1/2024", "2/2/2024"])
    <CellFormat.DAY_FIRST: 'date, as in 31/12/2024'>
    >>> find_format(["NA", "3", "N/A", "nan"]), find_format(["NA", "DE", "FR"])
    (<CellFormat.INT: 'int'>, <CellFormat.TEXT: 'text'>)
    """
    filled = [cell.strip() for cell in cells if not is_missing(cell)]
    if not filled:
        return CellFormat.EMPTY
    for cell_format, pattern in FORMATS:
        others = sum(pattern.fullmatch(cell) is None for cell in filled)
        if others <= (1 - NEARLY_ALL) * len(filled) and (
            cell_format is not CellFormat.BOOL or others <= MAX_ODD_FLAGS
        ):
            return cell_format
    return CellFormat.TEXT


def is_missing(cell: str) -> bool:
    """Return whether a cell is empty, or has a string that stands for an empty cell."""
    return cell.strip().lower() in ("", *MISSING)


def find_delimiter(line: str) -> str:
    """Return the character that separates the names in the first line of a file."""
    return max(DELIMITERS, key=line.count)


def check_titles(file: str, titles: Sequence[str]) -> None:
    """Check that the first line of a file contains the names of its columns.

    Raises:
        BadDeclaration: the line has no names, or looks like a row.
    """
    if not any(title.strip() for title in titles):
        raise BadDeclaration(f"The first line of {file!r} has no column names. Add them.")
    if _is_row(titles):
        raise BadDeclaration(
            f"The first line of {file!r} looks like a row. Add a line of column names above it."
        )


def _is_row(titles: Sequence[str]) -> bool:
    """Return whether a first line looks like a row: all its nonempty cells are numbers or dates.

    >>> _is_row(["1", "2.5", "NA", ""]), _is_row(["person", "2024"]), _is_row(["NA", ""])
    (True, False, False)
    """
    formats = {find_format([title]) for title in titles} - {CellFormat.EMPTY}
    names = {CellFormat.BOOL, CellFormat.TEXT}  # a column may be named y or n
    return bool(formats) and not formats & names


def find_odd_titles(titles: Iterable[str]) -> list[str]:
    """Return the column names that look like values: numbers or dates, except years.

    >>> find_odd_titles(["Ann", "34", "2020-01-31", "2024", "y"])
    ['34', '2020-01-31']
    """
    return [one for one in titles if not YEAR.fullmatch(one.strip()) and _is_row([one])]


def _cast(kind: str) -> Callable[[str], str]:
    return lambda name: f'TRY_CAST(TRIM("{name}") AS {kind})'


def _read_float(name: str) -> str:
    return _number(f'TRIM("{name}")')


def _read_comma(name: str) -> str:
    return _number(f"REPLACE(REPLACE(TRIM(\"{name}\"), '.', ''), ',', '.')")


def _number(text: str) -> str:
    """Return SQL that converts a string expression to a number; NaN becomes NULL."""
    return f"NULLIF(TRY_CAST({text} AS DOUBLE), CAST('NaN' AS DOUBLE))"


def _read_currency(name: str) -> str:
    """Return SQL that reads an amount; one in parentheses is negative, as in accounting."""
    digits = f"REGEXP_REPLACE(\"{name}\", '[^0-9.+-]', '', 'g')"
    negative = f"STARTS_WITH(TRIM(\"{name}\"), '(')"
    return f"CASE WHEN {negative} THEN -{_number(digits)} ELSE {_number(digits)} END"


def _read_flag(name: str) -> str:
    word = f'LOWER(TRIM("{name}"))'
    return (
        f"CASE WHEN {word} IN ('true', 't', 'yes', 'y') THEN true "
        f"WHEN {word} IN ('false', 'f', 'no', 'n') THEN false END"
    )


def _read_date(form: str) -> Callable[[str], str]:
    return lambda name: f"CAST(TRY_STRPTIME(TRIM(\"{name}\"), '{form}') AS DATE)"


def _unchanged(name: str) -> str:
    return f'"{name}"'


READERS: Final[dict[CellFormat, Callable[[str], str]]] = {
    CellFormat.BOOL: _read_flag,
    CellFormat.INT: _cast("BIGINT"),
    CellFormat.FLOAT: _read_float,
    CellFormat.DECIMAL_COMMA: _read_comma,
    CellFormat.CURRENCY: _read_currency,
    CellFormat.TIMESTAMP: _cast("TIMESTAMP"),
    CellFormat.DATE: lambda name: f"CAST({_cast('TIMESTAMP')(name)} AS DATE)",
    CellFormat.DOTTED_DATE: _read_date("%d.%m.%Y"),
    CellFormat.DAY_FIRST: _read_date("%d/%m/%Y"),
    CellFormat.MONTH_FIRST: _read_date("%m/%d/%Y"),
    CellFormat.EITHER: _unchanged,
    CellFormat.GROUPED: _unchanged,
    CellFormat.TEXT: _unchanged,
    CellFormat.EMPTY: _unchanged,
}
"""Functions that return the SQL to read a column of each format.

Text is unchanged. In other columns, cells that do not have the format become NULL.
"""


KINDS: Final[dict[CellFormat, Kind | None]] = {
    CellFormat.BOOL: Kind.BOOL,
    CellFormat.INT: Kind.INT,
    CellFormat.FLOAT: Kind.FLOAT,
    CellFormat.DATE: Kind.DATE,
    CellFormat.TIMESTAMP: Kind.TIMESTAMP,
    CellFormat.TEXT: Kind.TEXT,
    CellFormat.GROUPED: Kind.FLOAT,
    CellFormat.EMPTY: None,
}
"""The kind in which engines can read a column of each format, or None if any kind is possible.

Engines can read columns of other formats only as text, until the file is converted.
"""


def guess_formats(path: Path) -> dict[str, CellFormat]:
    """Return the format of each column of a CSV file, guessed from its first rows."""
    return {name: find_format(cells) for name, cells in read_cells(path).items()}


def read_cells(path: Path) -> dict[str, list[str]]:
    """Return the first cells of each column; refuse a CSV file that engines cannot read."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            _check_delimiter(file.readline(), path)
            file.seek(0)
            reader = csv.reader(file)
            names = next(reader, [])
            rows = list(islice(reader, MAX_SAMPLE_ROWS))
    except UnicodeDecodeError:
        raise BadDeclaration(
            f"{path.name!r} is not encoded in UTF-8, which confide reads. Run "
            f"`{conversion_hint(path)}`, and draft from the copy."
        ) from None
    except OSError as error:
        raise BadDeclaration(
            f"{str(path)!r} cannot be read ({error.strerror}). Name a Parquet or CSV file."
        ) from None
    except csv.Error:
        raise BadDeclaration(
            f"{path.name!r} is not a CSV file with one row per line. Write it again, or name a "
            "Parquet file."
        ) from None
    check_titles(path.name, names)
    lowered = [name.lower() for name in names]
    repeated = next((name for name in names if lowered.count(name.lower()) > 1), None)
    if repeated is not None:
        raise BadDeclaration(
            f"{path.name!r} has two columns named {repeated!r}, if case is ignored. Run "
            f"`{conversion_hint(path)}`, which renames them, and draft from the copy."
        )
    return {
        name: [row[index] for row in rows if index < len(row)] for index, name in enumerate(names)
    }


def _check_delimiter(line: str, path: Path) -> None:
    """Refuse a file whose delimiter is not a comma."""
    delimiter = find_delimiter(line)
    if delimiter != ",":
        raise BadDeclaration(
            f"{path.name!r} seems to be separated by {delimiter!r}. confide reads only commas, so "
            f"that no row can change how others are read. Run `{conversion_hint(path)}`, and draft "
            "from the copy."
        )


def conversion_hint(path: Path) -> str:
    """Return the command that converts a CSV file to Parquet, with plain names and known types."""
    return f"confide convert {shlex.quote(str(path))}"
