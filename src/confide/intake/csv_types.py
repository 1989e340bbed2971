"""Guesses the column types of CSV files, for a draft.

# Privacy: a guess is made from rows, so it goes into a comment that the owner confirms or mends. It
# is the type that nearly all of the first cells read as, which hardly any one row can change; no
# bound and no value is told.
"""

import csv
import re
import shlex
from collections.abc import Callable, Sequence
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Final

from confide.declare import Kind
from confide.errors import BadDeclaration

__all__ = [
    "KINDS",
    "MISSING",
    "READERS",
    "ROWS",
    "CellFormat",
    "check_titles",
    "conversion_hint",
    "find_delimiter",
    "find_shape",
    "guess_shapes",
]

ROWS: Final = 1_000
"""So many first rows are looked at."""
DELIMITERS: Final = ",;\t|"
NEARLY_ALL: Final = 0.95
ODD_FLAGS: Final = 1
"""Cells of a column of flags that may read otherwise; two such are words of a third meaning."""


class CellFormat(StrEnum):
    """What nearly all cells of a column look like, in words for the owner."""

    BOOL = "bool"
    INT = "int"
    FLOAT = "float"
    COMMA = "float, with a decimal comma"
    DATE = "date"
    DOTTED = "date, as in 31.12.2024"
    DAY_FIRST = "date, as in 31/12/2024"
    MONTH_FIRST = "date, as in 12/31/2024"
    EITHER = "text: dates with day or month first, which cannot be told"
    GROUPED = "text: 1.234 may be a thousand or a fraction, which cannot be told"
    TEXT = "text"
    EMPTY = "text: nothing to judge by"


PATTERNS: Final = (
    (CellFormat.BOOL, r"true|false|t|f|yes|no|y|n"),
    (CellFormat.INT, r"[-+]?(?:0|[1-9]\d{0,17})"),  # a zip code with a zero in front is text
    (CellFormat.GROUPED, r"[-+]?[1-9]\d{0,2}(?:\.\d{3})*"),
    (CellFormat.FLOAT, r"[-+]?(?:(?:0|[1-9]\d*)(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,3})?"),
    (CellFormat.COMMA, r"[-+]?(?:[1-9]\d{0,2}(?:\.\d{3})+|0|[1-9]\d*)(?:,\d+)?"),
    (CellFormat.DATE, r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d.*)?"),
    (CellFormat.DOTTED, r"\d{1,2}\.\d{1,2}\.\d{4}"),
    (CellFormat.EITHER, r"(?:0?[1-9]|1[0-2])/(?:0?[1-9]|1[0-2])/\d{4}"),
    (CellFormat.DAY_FIRST, r"\d{1,2}/(?:0?[1-9]|1[0-2])/\d{4}"),
    (CellFormat.MONTH_FIRST, r"(?:0?[1-9]|1[0-2])/\d{1,2}/\d{4}"),
)
MISSING: Final = ("na", "n/a", "#n/a", "nan", "null", "none")
"""What programs write into a cell that is empty, in capitals or not."""
READ: Final = tuple((shape, re.compile(pattern, re.IGNORECASE)) for shape, pattern in PATTERNS)


def find_shape(cells: Sequence[str]) -> CellFormat:
    """Return the narrowest shape that nearly all cells have which hold something.

    >>> find_shape(["1,50", "2", ""]), find_shape(["01067"]), find_shape(["13/1/2024", "2/2/2024"])
    (<CellFormat.COMMA: ...>, <CellFormat.TEXT: 'text'>, <CellFormat.DAY_FIRST: ...>)
    >>> find_shape(["NA", "3", "N/A", "nan"]), find_shape(["NA", "DE", "FR"])
    (<CellFormat.INT: 'int'>, <CellFormat.TEXT: 'text'>)
    """
    held = [cell.strip() for cell in cells if not _is_missing(cell)]
    if not held:
        return CellFormat.EMPTY
    for shape, pattern in READ:
        odd = sum(pattern.fullmatch(cell) is None for cell in held)
        if odd <= (1 - NEARLY_ALL) * len(held) and (
            shape is not CellFormat.BOOL or odd <= ODD_FLAGS
        ):
            return shape
    return CellFormat.TEXT


def _is_missing(cell: str) -> bool:
    return cell.strip().lower() in ("", *MISSING)


def find_delimiter(line: str) -> str:
    """Return what separates the names in the first line of a file."""
    return max(DELIMITERS, key=line.count)


def check_titles(file: str, titles: Sequence[str]) -> None:
    """See that the first line of a file has the names of its columns.

    Raises:
        BadDeclaration: it has none, or looks like a row.
    """
    if not any(title.strip() for title in titles):
        raise BadDeclaration(f"{file!r} has no first line with the names of its columns; add one")
    if _is_row(titles):
        raise BadDeclaration(
            f"the first line of {file!r} looks like a row; add a line of names above it"
        )


def _is_row(titles: Sequence[str]) -> bool:
    """Tell whether a first line looks like a row: all that it holds are numbers or dates.

    >>> _is_row(["1", "2.5", "NA", ""]), _is_row(["person", "2024"]), _is_row(["NA", ""])
    (True, False, False)
    """
    shapes = {find_shape([title]) for title in titles} - {CellFormat.EMPTY}
    names = {CellFormat.BOOL, CellFormat.TEXT}  # y and n are short names
    return bool(shapes) and not shapes & names


def _cast(kind: str) -> Callable[[str], str]:
    return lambda name: f'TRY_CAST(TRIM("{name}") AS {kind})'


def _read_float(name: str) -> str:
    return _number(f'TRIM("{name}")')


def _read_comma(name: str) -> str:
    return _number(f"REPLACE(REPLACE(TRIM(\"{name}\"), '.', ''), ',', '.')")


def _number(text: str) -> str:
    """Return a text as a number; NaN is none."""
    return f"NULLIF(TRY_CAST({text} AS DOUBLE), CAST('NaN' AS DOUBLE))"


def _read_flag(name: str) -> str:
    word = f'LOWER(TRIM("{name}"))'
    return (
        f"CASE WHEN {word} IN ('true', 't', 'yes', 'y') THEN true "
        f"WHEN {word} IN ('false', 'f', 'no', 'n') THEN false END"
    )


def _read_date(form: str) -> Callable[[str], str]:
    return lambda name: f"CAST(TRY_STRPTIME(TRIM(\"{name}\"), '{form}') AS DATE)"


def _keep(name: str) -> str:
    return f'"{name}"'


READERS: Final[dict[CellFormat, Callable[[str], str]]] = {
    CellFormat.BOOL: _read_flag,
    CellFormat.INT: _cast("BIGINT"),
    CellFormat.FLOAT: _read_float,
    CellFormat.COMMA: _read_comma,
    CellFormat.DATE: lambda name: f"CAST({_cast('TIMESTAMP')(name)} AS DATE)",
    CellFormat.DOTTED: _read_date("%d.%m.%Y"),
    CellFormat.DAY_FIRST: _read_date("%d/%m/%Y"),
    CellFormat.MONTH_FIRST: _read_date("%m/%d/%Y"),
    CellFormat.EITHER: _keep,
    CellFormat.GROUPED: _keep,
    CellFormat.TEXT: _keep,
    CellFormat.EMPTY: _keep,
}
"""How a cell of each shape is read; what does not read so is NULL."""


KINDS: Final[dict[CellFormat, Kind | None]] = {
    CellFormat.BOOL: Kind.BOOL,
    CellFormat.INT: Kind.INT,
    CellFormat.FLOAT: Kind.FLOAT,
    CellFormat.DATE: Kind.DATE,
    CellFormat.TEXT: Kind.TEXT,
    CellFormat.GROUPED: Kind.FLOAT,
    CellFormat.EMPTY: None,
}
"""What the engines read as it stands; other shapes need a copy first."""


def guess_shapes(path: Path) -> dict[str, CellFormat]:
    """Return the columns of a CSV file and what they look like."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            _check_delimiter(file.readline(), path)
            file.seek(0)
            reader = csv.reader(file)
            names = next(reader, [])
            rows = list(islice(reader, ROWS))
    except UnicodeDecodeError:
        raise BadDeclaration(
            f"{path.name!r} is not written in UTF-8, which confide reads; make a copy once, and "
            f"draft from that: {conversion_hint(path)}"
        ) from None
    except OSError as error:
        raise BadDeclaration(
            f"{str(path)!r} cannot be read ({error.strerror}); name a Parquet or CSV file"
        ) from None
    except csv.Error:
        raise BadDeclaration(
            f"{path.name!r} is no CSV file that can be read line by line; write it anew, or name a "
            "Parquet file"
        ) from None
    check_titles(path.name, names)
    lower = [name.lower() for name in names]
    twice = next((name for name in names if lower.count(name.lower()) > 1), None)
    if twice is not None:
        raise BadDeclaration(
            f"{path.name!r} has two columns called {twice!r}, in capitals or not; make a copy with "
            f"names that differ, and draft from that: {conversion_hint(path)}"
        )
    return {
        name: find_shape([row[place] for row in rows if place < len(row)])
        for place, name in enumerate(names)
    }


def _check_delimiter(line: str, path: Path) -> None:
    """Refuse a file that another character separates."""
    delimiter = find_delimiter(line)
    if delimiter != ",":
        raise BadDeclaration(
            f"{path.name!r} seems to be separated by {delimiter!r}; confide reads commas only, so "
            f"that no row can change how others are read. Make a copy once, and draft from that: "
            f"{conversion_hint(path)}"
        )


def conversion_hint(path: Path) -> str:
    """Return the command that writes a CSV file as Parquet, with plain names and known types."""
    return f"confide convert {shlex.quote(str(path))}"
