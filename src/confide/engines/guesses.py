"""What the columns of a CSV file look like, as a hint to the owner who drafts its declaration.

# Privacy: a guess is made from rows, so it goes into a comment that the owner confirms or mends. It
# is the type that nearly all of the first cells read as, which hardly any one row can change; no
# bound and no value is told.
"""

import csv
import shlex
from itertools import islice
from pathlib import Path
from typing import Final

from confide.declare import Kind
from confide.engines.shapes import ROWS, Shape, find_delimiter, find_shape, see_titles
from confide.errors import BadDeclaration

__all__ = ["KINDS", "guess_shapes", "say_conversion"]

KINDS: Final[dict[Shape, Kind | None]] = {
    Shape.BOOL: Kind.BOOL,
    Shape.INT: Kind.INT,
    Shape.FLOAT: Kind.FLOAT,
    Shape.DATE: Kind.DATE,
    Shape.TEXT: Kind.TEXT,
    Shape.GROUPED: Kind.FLOAT,
    Shape.EMPTY: None,
}
"""What the engines read as it stands; other shapes need a copy first."""


def guess_shapes(path: Path) -> dict[str, Shape]:
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
            f"draft from that: {say_conversion(path)}"
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
    see_titles(path.name, names)
    lower = [name.lower() for name in names]
    twice = next((name for name in names if lower.count(name.lower()) > 1), None)
    if twice is not None:
        raise BadDeclaration(
            f"{path.name!r} has two columns called {twice!r}, in capitals or not; make a copy with "
            f"names that differ, and draft from that: {say_conversion(path)}"
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
            f"{say_conversion(path)}"
        )


def say_conversion(path: Path) -> str:
    """Return the command that writes a CSV file as Parquet, with plain names and known types."""
    return f"confide convert {shlex.quote(str(path))}"
