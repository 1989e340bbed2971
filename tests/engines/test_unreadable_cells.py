"""Cells that DuckDB cannot read are reported to the owner on opening, not during a query."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from confide.curator import Curator
from confide.declare import Budget, Category, Column, Date, PublicTable, Table, Text
from confide.engines.duckdb import engine
from confide.errors import BadDeclaration, Fault, UnknownName
from confide.intake.check import inspect_table

DAYS: Final = Date("2000-01-01", "2030-12-31")


def broken_texts() -> pa.Array:
    """Return two strings, of which the second is not UTF-8."""
    starts = pa.py_buffer(np.array([0, 2, 5], np.int32).tobytes())
    return pa.StringArray.from_buffers(2, starts, pa.py_buffer(b"ab\xffcd"))


CELLS: Final[dict[str, tuple[pa.Array, Column, str]]] = {
    "milliseconds": (pa.array([0, 2**62], pa.timestamp("ms")), Text(), "c = 'x'"),
    "with a zone": (pa.array([0, 2**62], pa.timestamp("ms", "UTC")), DAYS, "c IS NULL"),
    "text": (broken_texts(), Text(), "UPPER(c) = 'X'"),
    "time": (pa.array([0, 2**40], pa.time64("us")), Text(), "c = '12:00:00'"),
}
"""Columns of two cells of which DuckDB cannot read the second, with declarations and queries."""


def as_frame(rows: pa.Table, folder: Path) -> Any:
    del folder
    return rows


def as_parquet(rows: pa.Table, folder: Path) -> Any:
    pq.write_table(rows, folder / "visits.parquet")
    return folder / "visits.parquet"


Store = Callable[[pa.Table, Path], Any]
STORES: Final = pytest.mark.parametrize("store", [as_frame, as_parquet])


def declare(name: str, store: Store, folder: Path, rows: int = 2) -> Table:
    """Return a table of ``rows`` rows, whose second row has the unreadable cell."""
    cells, declared, _ = CELLS[name]
    table = pa.table({"pid": [1, 2], "c": cells}).slice(0, rows)
    return Table("visits", store(table, folder), unit="pid", columns={"c": declared})


def open_curator(*tables: Table | PublicTable) -> Curator:
    return Curator(list(tables), budget=Budget(1e9, 1e-6))


@STORES
@pytest.mark.parametrize("name", CELLS)
def test_an_unreadable_cell_is_reported_to_the_owner(
    name: str, store: Store, tmp_path: Path
) -> None:
    """The error on opening names table and column but no value, and `confide check` repeats it."""
    table = declare(name, store, tmp_path)
    with pytest.raises(BadDeclaration, match="Column 'c' of table 'visits' contains a") as caught:
        open_curator(table)
    if store is as_parquet:
        (found,) = inspect_table(table)

        assert str(caught.value) == found.message
        assert found.is_problem


@STORES
@pytest.mark.parametrize("name", CELLS)
def test_without_that_cell_the_table_is_answered(name: str, store: Store, tmp_path: Path) -> None:
    """The other row alone can be opened and queried."""
    curator = open_curator(declare(name, store, tmp_path, rows=1))
    answer = curator.sql(f"SELECT COUNT(*) AS n FROM visits WHERE {CELLS[name][2]}", share="1/2")

    assert abs(answer.rows[0]["n"]) < 2.0


@STORES
@pytest.mark.parametrize("name", CELLS)
def test_such_a_cell_would_make_a_question_fail(
    name: str, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without reading cells first, the query raises a fault."""
    monkeypatch.setattr(engine, "read_cells", lambda *arguments: None)
    curator = open_curator(declare(name, store, tmp_path))
    with pytest.raises(Fault):
        curator.sql(f"SELECT COUNT(*) AS n FROM visits WHERE {CELLS[name][2]}", share="1/2")


@STORES
def test_units_are_read_too(store: Store, tmp_path: Path) -> None:
    """A unit that is not UTF-8 is refused, whatever else is declared."""
    source = store(pa.table({"pid": broken_texts(), "k": ["a", "b"]}), tmp_path)
    table = Table("visits", source, unit="pid", columns={"k": Category(["a", "b"])})
    with pytest.raises(BadDeclaration, match="Column 'pid' of table 'visits' contains a cell"):
        open_curator(table)


@STORES
def test_undeclared_columns_are_not_read(store: Store, tmp_path: Path) -> None:
    """An undeclared column can hold anything."""
    source = store(pa.table({"pid": [1, 2], "k": ["a", "b"], "c": broken_texts()}), tmp_path)
    curator = open_curator(Table("visits", source, unit="pid", columns={"k": Text()}))

    assert 2.0 == round(curator.sql("SELECT COUNT(*) AS n FROM visits", share="1/2").rows[0]["n"])
    with pytest.raises(UnknownName):
        curator.sql("SELECT COUNT(c) AS n FROM visits", share="1/4")


@STORES
def test_public_tables_are_read_too(store: Store, tmp_path: Path) -> None:
    """All rows of a public table must be readable, because private rows decide which are read."""
    people = Table("people", pa.table({"pid": [1], "k": ["a"]}), unit="pid", columns={"k": Text()})
    names = PublicTable("names", store(pa.table({"k": ["a", "b"], "c": broken_texts()}), tmp_path))
    with pytest.raises(BadDeclaration, match="Column 'c' of table 'names' contains a cell"):
        open_curator(people, names)


def test_a_frame_with_half_a_character_is_refused() -> None:
    """A Python string with a lone surrogate, which has no UTF-8 encoding, is refused."""
    rows = pd.DataFrame({"pid": [1, 2], "c": pd.Series(["a", "\ud800"], dtype=object)})
    with pytest.raises(BadDeclaration, match="UTF-8"):
        open_curator(Table("visits", rows, unit="pid", columns={"c": Text()}))


def test_a_public_table_of_no_known_type_is_refused() -> None:
    """A public table with only timestamps is refused, with the types it may hold."""
    people = Table("people", pa.table({"pid": [1], "k": ["a"]}), unit="pid", columns={"k": Text()})
    moments = PublicTable("moments", pa.table({"at": pa.array([0], pa.timestamp("us"))}))
    with pytest.raises(BadDeclaration, match="Public table 'moments' has no column"):
        open_curator(people, moments)
