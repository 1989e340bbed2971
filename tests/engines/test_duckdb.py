"""DuckDB: what files that change under a running curator can do, and where its own files are."""

import logging
import stat
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from confide.curator import Curator
from confide.declare import Budget, Catalog, Category, Float, Int, Table
from confide.engines.duckdb import DuckDB
from confide.errors import Fault

ROWS: Final = 200
NUMBERS: Final = list(range(ROWS))
BEFORE: Final[dict[str, list[Any]]] = {
    "pid": NUMBERS,
    "n": [number % 10 for number in NUMBERS],
    "x": [0.5] * ROWS,
    "k": ["a", "b"] * (ROWS // 2),
}
AFTER: Final[dict[str, list[Any]]] = {
    "pid": [*map(str, NUMBERS[1:]), "nobody"],
    "n": [*["7"] * (ROWS - 1), "seven"],
    "x": [*["0.5"] * (ROWS - 1), "half"],
    "k": NUMBERS,
}
TEXT: Final = "SELECT k, COUNT(*) AS rows, SUM(n) AS n, SUM(x) AS x FROM t GROUP BY k"


def open_curator(path: Path, **units: Any) -> Curator:
    pq.write_table(pa.table({**BEFORE, **units}), path)
    table = Table(
        "t",
        path,
        unit="pid",
        columns={"n": Int(0, 9), "x": Float(0, 1), "k": Category(["a", "b"])},
        max_rows_per_unit=3,
        max_groups_per_unit=2,
    )
    return Curator([table], budget=Budget(10))


@pytest.mark.parametrize("column", AFTER)
@pytest.mark.parametrize("units", [NUMBERS, [float(number) for number in NUMBERS]])
def test_no_row_of_another_file_makes_a_question_fail(
    column: str, units: list[Any], tmp_path: Path
) -> None:
    """A file in the place of the declared one is read as declared, and odd cells are left out."""
    path = tmp_path / "t.parquet"
    curator = open_curator(path, pid=units)
    pq.write_table(pa.table({**BEFORE, "pid": units, column: AFTER[column]}), path)

    assert {"a", "b"} == {row["k"] for row in curator.sql(TEXT, epsilon=1).rows}


def test_a_file_that_is_gone_is_told_to_the_owner(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The owner reads what happened without asking for more, and the same key resumes it."""
    path = tmp_path / "t.parquet"
    curator = open_curator(path)
    kept = path.rename(tmp_path / "elsewhere")
    with caplog.at_level(logging.WARNING, "confide.owner"), pytest.raises(Fault):
        curator.sql(TEXT, epsilon=1, key="k")
    spent = curator.budget.spent.share
    kept.rename(path)

    assert "a file is gone" in caplog.text
    assert curator.sql(TEXT, epsilon=1, key="k").rows
    assert spent == curator.budget.spent.share


def test_rows_for_which_there_is_no_memory_are_for_nobody_else() -> None:
    """They would go into a folder that only its user may open, and that is gone in the end."""
    table = Table("t", pa.table(BEFORE), unit="pid", columns={"n": Int(0, 9)})
    engine = DuckDB(Catalog([table]), salt="")
    asked = engine._connection.execute("SELECT current_setting('temp_directory')")
    ((folder,),) = asked.fetchall()

    assert 0o700 == stat.S_IMODE(Path(folder).stat().st_mode)
    engine.close()
    assert not Path(folder).exists()
