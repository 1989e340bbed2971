"""Facts about the rows of a file that help to draft its declaration.

# Privacy: everything here depends on private rows. The draft shows it in comments, to the owner,
# who decides what becomes part of the declaration. No bound and no value is among it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import duckdb

from confide.declare import Kind
from confide.intake.check import read_schema
from confide.intake.csv_types import (
    KINDS,
    MAX_ODD_FLAGS,
    MAX_SAMPLE_ROWS,
    NEARLY_ALL,
    find_format,
    is_missing,
    read_cells,
)
from confide.intake.draft import DraftColumn
from confide.intake.hints import bounds_hint

__all__ = ["sample_file"]

FLAG: Final = re.compile(r"[01](?:\.0*)?")
INTEGER: Final = re.compile(r"[-+]?\d+(?:\.0*)?")
MAX_COUNTED_COLUMNS: Final = 20
FLAG_NOTE: Final = 'stored as 0 and 1; or { type = "int", low = 0, high = 1 }'
WORDS_NOTE: Final = 'or { type = "category", values = ["No", "Yes"] }'
INTEGER_NOTE: Final = 'integers, stored as floats; or { type = "category", values = [1, 2, 3] }'


def sample_file(path: Path) -> dict[str, DraftColumn]:
    """Return each column of a CSV or Parquet file, with facts for the owner."""
    if path.suffix.lower() == ".csv":
        cells = read_cells(path)
        kinds = {name: KINDS.get(find_format(found), Kind.TEXT) for name, found in cells.items()}
        relation = f"read_csv({_quote(path)}, all_varchar = true, header = true, delim = ',')"
        is_guessed = True
    else:
        kinds = read_schema(path)
        relation = f"read_parquet({_quote(path)})"
        cells = _read_strings(relation, [name for name, kind in kinds.items() if _is_number(kind)])
        is_guessed = False
    found = {
        name: _refine(name, kind, cells.get(name, ()), is_guessed=is_guessed)
        for name, kind in kinds.items()
    }
    return _count_values(relation, found)


def _is_number(kind: Kind | None) -> bool:
    return kind in (Kind.INT, Kind.FLOAT)


def _refine(name: str, kind: Kind | None, cells: Sequence[str], *, is_guessed: bool) -> DraftColumn:
    """Return a column, with a narrower kind if nearly all of its numbers fit that kind.

    A column of 0 and 1 becomes a flag, unless its name suggests bounds, such as an hour. A column
    of floats such as 3.0 becomes one of integers.
    """
    filled = [cell.strip() for cell in cells if not is_missing(cell)]
    if _is_number(kind) and filled:
        flags = {cell[0] for cell in filled if FLAG.fullmatch(cell)}
        odd = sum(FLAG.fullmatch(cell) is None for cell in filled)
        is_flag = len(flags) == 2 and bounds_hint(name) is None
        if is_flag and odd <= min(MAX_ODD_FLAGS, (1 - NEARLY_ALL) * len(filled)):
            return DraftColumn(Kind.BOOL, is_guessed=True, note=FLAG_NOTE)
        odd = sum(INTEGER.fullmatch(cell) is None for cell in filled)
        if kind is Kind.FLOAT and odd <= (1 - NEARLY_ALL) * len(filled):
            return DraftColumn(Kind.INT, is_guessed=True, note=INTEGER_NOTE)
    return DraftColumn(kind, is_guessed, WORDS_NOTE if is_guessed and kind is Kind.BOOL else "")


def _read_strings(relation: str, names: Sequence[str]) -> dict[str, list[str]]:
    """Return the first cells of some columns as strings."""
    if not names:
        return {}
    listed = ", ".join(f"CAST({_name(name)} AS VARCHAR)" for name in names)
    with duckdb.connect() as connection:
        query = f"SELECT {listed} FROM {relation} LIMIT {MAX_SAMPLE_ROWS}"  # noqa: S608  # quoted
        rows = connection.execute(query).fetchall()
    return {name: [row[i] or "" for row in rows] for i, name in enumerate(names)}


def _count_values(relation: str, found: Mapping[str, DraftColumn]) -> dict[str, DraftColumn]:
    """Return the columns, with the numbers of values of the first columns of integers or strings.

    If a row cannot be read, nothing is counted.
    """
    names = [name for name, one in found.items() if one.kind in (Kind.INT, Kind.TEXT)]
    counts = "".join(f", COUNT(DISTINCT {_name(name)})" for name in names[:MAX_COUNTED_COLUMNS])
    query = f"SELECT COUNT(*){counts} FROM {relation}"  # noqa: S608  # quoted
    try:
        with duckdb.connect() as connection:
            rows, *values = connection.execute(query).fetchone() or (0,)
    except duckdb.Error:  # `confide check` reports unreadable rows
        return dict(found)
    counted = dict(zip(names, values, strict=False))
    return {
        name: replace(one, values=counted[name], rows=rows) if name in counted else one
        for name, one in found.items()
    }


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _quote(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
