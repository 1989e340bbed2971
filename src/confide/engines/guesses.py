"""What the columns of a CSV file look like, as a hint to the owner who drafts its declaration.

# Privacy: a guess is made from rows, so it goes into a comment that the owner confirms or mends. It
# is the type that nearly all of the first cells read as, which hardly any one row can change; no
# bound and no value is told.
"""

import csv
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from confide.declare import Kind
from confide.errors import BadDeclaration

__all__ = ["guess_kinds", "say_conversion"]

ROWS: Final = 1_000
NEARLY_ALL: Final = 0.95
DELIMITERS: Final = ",;\t|"
SHAPES: Final = (
    (Kind.BOOL, re.compile(r"true|false|t|f|yes|no|y|n", re.IGNORECASE)),
    (Kind.INT, re.compile(r"[-+]?(?:0|[1-9]\d{0,17})")),  # a zip code with a zero in front is text
    (Kind.FLOAT, re.compile(r"[-+]?(?:(?:0|[1-9]\d*)(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,3})?")),
    (Kind.DATE, re.compile(r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d.*)?")),
)


def guess_kinds(path: Path) -> dict[str, Kind | None]:
    """Return the columns of a CSV file and what they look like; None where a column is empty."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            line = file.readline()
            names = _split(line, path)
            rows = list(islice(csv.reader(file), ROWS))
    except UnicodeDecodeError:
        raise BadDeclaration(
            f"{path.name!r} is not written in UTF-8, which confide reads; make a copy once, and "
            f"draft from that: {_say_encoding(path)}"
        ) from None
    except OSError as error:
        raise BadDeclaration(
            f"{str(path)!r} cannot be read ({error.strerror}); name a Parquet or CSV file"
        ) from None
    except csv.Error:
        raise BadDeclaration(
            f"{path.name!r} is no CSV file that can be read line by line; make a copy once, and "
            f"draft from that: {say_conversion(path)}"
        ) from None
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise BadDeclaration(
            f"{path.name!r} has two columns called {twice!r}; make a copy with names that differ, "
            f"and draft from that: {say_conversion(path)}"
        )
    return {name: _guess(list(_cells(rows, place))) for place, name in enumerate(names)}


def _split(line: str, path: Path) -> list[str]:
    """Return the names on the first line; refuse a file that another character separates."""
    delimiter = max(DELIMITERS, key=line.count)
    if delimiter != ",":
        raise BadDeclaration(
            f"{path.name!r} seems to be separated by {delimiter!r}; confide reads commas only, so "
            f"that no row can change how others are read. Make a copy once, and draft from that: "
            f"{say_conversion(path)}"
        )
    names = next(csv.reader([line]), [])
    if not names:
        raise BadDeclaration(
            f"{path.name!r} has no first line with the names of its columns; add one, or name a "
            "Parquet file"
        )
    return names


def say_conversion(path: Path) -> str:
    """Return the command that writes a CSV file as Parquet, with plain names."""
    read = f"duckdb.read_csv({str(path)!r}, normalize_names=True)"
    return _say_program(
        f"import duckdb; {read}.write_parquet({str(path.with_suffix('.parquet'))!r})"
    )


def _say_encoding(path: Path) -> str:
    """Return the command that writes a text of Western Europe as UTF-8."""
    copy = str(path.with_stem(f"{path.stem}-utf8"))
    read = f"Path({str(path)!r}).read_text('latin-1')"
    return _say_program(f"from pathlib import Path; Path({copy!r}).write_text({read}, 'utf-8')")


def _say_program(code: str) -> str:
    return f'python -c "{code}"' if code.isprintable() and not set(code) & set('"$`!\\') else code


def _cells(rows: Sequence[Sequence[str]], place: int) -> Iterator[str]:
    """Yield the cells of one column that hold something."""
    for row in rows:
        if place < len(row) and row[place].strip():
            yield row[place].strip()


def _guess(cells: Sequence[str]) -> Kind | None:
    """Return the narrowest kind that nearly all cells read as.

    >>> _guess(["1", "2"]), _guess(["1", "2.5"]), _guess(["01067"]), _guess([])
    (<Kind.INT: 'int'>, <Kind.FLOAT: 'float'>, <Kind.TEXT: 'text'>, None)
    """
    if not cells:
        return None
    for kind, shape in SHAPES:
        if sum(shape.fullmatch(cell) is not None for cell in cells) >= NEARLY_ALL * len(cells):
            return kind
    return Kind.TEXT
