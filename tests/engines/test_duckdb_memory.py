"""Exceeding DuckDB's memory limit changes no integer, and leaves nothing behind."""

import stat
from pathlib import Path
from typing import Final

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

from confide.curator import Curator
from confide.declare import Budget, Catalog, Int, Table
from confide.engines.duckdb import memory
from confide.engines.duckdb.engine import SETTINGS, DuckDB
from confide.engines.duckdb.memory import Memory
from confide.errors import Fault
from confide.query.sql import read_sql
from support.places import SALT, SHARE, Exact, read_exactly

ROWS: Final = 1_000_000
SMALL: Final = 32
"""Megabytes: too few for that many rows, but enough for two threads."""
MUCH: Final = 4_000
TEXT: Final = "SELECT COUNT(*) AS rows, COUNT(DISTINCT who) AS units, SUM(n) AS n FROM t"


def draw_rows(rows: int) -> pa.Table:
    """Return five rows per unit, scattered over the table."""
    places = np.arange(rows, dtype=np.int64) * 7_919 % rows
    return pa.table({"who": places // 5, "n": places % 97})


def declare(source: pa.Table | Path) -> Table:
    return Table("t", source, unit="who", columns={"n": Int(0, 96)}, max_rows_per_unit=3)


def open_within(megabytes: int, table: Table, patch: pytest.MonkeyPatch, **more: str) -> DuckDB:
    """Return an engine with two threads and ``megabytes`` of memory."""
    patch.setattr(memory, "MIN_MEGABYTES", megabytes)
    patch.setattr(memory, "MEGABYTES_PER_THREAD", 0)
    for setting, value in {"threads": "2", **more}.items():
        patch.setitem(SETTINGS, setting, value)
    return DuckDB(Catalog([table]), salt=SALT)


def ask(engine: DuckDB, table: Table) -> Exact:
    curator = Curator([table], budget=Budget(1))
    return read_exactly(engine, curator._planner.plan(read_sql(TEXT, curator.names), SHARE))


def find_folder(engine: DuckDB) -> Path:
    asked = engine._connection.execute("SELECT current_setting('temp_directory')")
    ((folder,),) = asked.fetchall()
    return Path(folder)


def fail_when_out_of_memory(patch: pytest.MonkeyPatch) -> None:
    """Make statements that run out of memory fail."""
    patch.setattr(Memory, "run", lambda _, statement: statement())


def test_rows_beyond_memory_change_no_integer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spilled rows go to a folder for one user, which is removed, and the answer is unchanged."""
    table = declare(draw_rows(ROWS))
    expected = ask(open_within(MUCH, table, monkeypatch), table)
    fail_when_out_of_memory(monkeypatch)
    engine = open_within(SMALL, table, monkeypatch)
    folder = find_folder(engine)

    assert 0o700 == stat.S_IMODE(folder.stat().st_mode)
    assert expected == ask(engine, table)
    assert 0 == sum(file.stat().st_size for file in folder.iterdir())
    engine.close()
    assert not folder.exists()


def test_a_query_without_disk_space_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """If spilled rows have nowhere to go, the limit is lifted for the statement only."""
    table = declare(draw_rows(ROWS))
    expected = ask(open_within(MUCH, table, monkeypatch), table)
    engine = open_within(SMALL, table, monkeypatch, max_temp_directory_size="'0KB'")
    asked = "SELECT current_setting('memory_limit')"
    limit = engine._connection.execute(asked).fetchall()

    assert expected == ask(engine, table)
    assert limit == engine._connection.execute(asked).fetchall()
    fail_when_out_of_memory(monkeypatch)
    with pytest.raises(Fault):  # so the limit was lifted
        ask(engine, table)


def test_a_table_can_exceed_the_memory_limit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With little memory, a CSV file is opened and read as with much."""
    csv.write_csv(draw_rows(100_000), tmp_path / "t.csv")
    table = declare(tmp_path / "t.csv")
    expected = ask(open_within(MUCH, table, monkeypatch), table)

    assert expected == ask(open_within(1, table, monkeypatch), table)


def test_without_a_folder_there_is_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """If no folder can be created, statements use the memory that they need."""
    with duckdb.connect(":memory:") as connection:
        asked = "SELECT current_setting('memory_limit')"
        before = connection.execute(asked).fetchall()
        monkeypatch.setattr(memory, "make_folder", lambda: "")
        Memory(connection)

        assert before == connection.execute(asked).fetchall()


def test_no_other_setting_can_change() -> None:
    """The memory limit is the only setting of an open engine that can be changed."""
    engine = DuckDB(Catalog([declare(draw_rows(10))]), salt=SALT)
    engine._connection.execute("SET memory_limit = '1GB'")
    for setting in (
        "threads = 1",
        "enable_external_access = true",
        "allowed_configs = ['threads']",
    ):
        with pytest.raises(duckdb.InvalidInputException, match="locked"):
            engine._connection.execute(f"SET {setting}")
