"""Statistics of a Parquet file change no answer: NaN is NULL, whatever other rows hold.

Files store the minimum and maximum of a column, ignoring NaN (pyarrow and polars do). An engine
that takes these as bounds of all rows drops comparisons with them. Totals of a file must equal
those of the same rows in a DataFrame, whose sensitivity is tested elsewhere.
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from confide.curator import Curator
from confide.declare import Budget, Column, Float, Int, PublicTable, Table
from confide.engines import SqlEngine
from confide.engines.duckdb.engine import DuckDB
from confide.ledger import Hold
from confide.loss import Share
from confide.query.sql import read_sql
from confide.release.unseal import unseal

SHARE: Final = Share.floor("1/1000")
NAN: Final = [math.nan] * 500
DIGITS: Final = [float(place % 10) for place in range(500)]
ROWS: Final = {
    "nobody": NAN,
    "digits": DIGITS + NAN,
    "one far above": [*DIGITS, *NAN, 1e9],
    "one far below": [*DIGITS, *NAN, -1e9],
    "one of all": [*NAN, 1.0],
    "no end": [*DIGITS, *NAN, math.inf, -math.inf],
    "the same": [3.0] * 500 + NAN,
    "only infinite": [math.inf] * 500 + NAN,
}
QUESTIONS: Final = (
    "SELECT COUNT(x) AS n, SUM(x) AS s, VAR_SAMP(x) AS v FROM t",
    "SELECT COUNT(*) AS n FROM t WHERE x IS NULL",
    "SELECT COUNT(*) AS n FROM t WHERE x > 5 OR x <= 3",
    "SELECT SUM(x * 2) AS s FROM t WHERE NOT (x < 4)",
    "SELECT SUM(FLOOR(x)) AS s FROM t WHERE FLOOR(x) > 3",
    "SELECT SUM(LEAST(GREATEST(LN(x), 0), 1)) AS s FROM t",
    "SELECT MEDIAN(x) AS m FROM t",
    "SELECT MEDIAN(half) AS m FROM t",
    "SELECT SUM(whole) AS s, COUNT(whole) AS n FROM t",
    "SELECT FLOOR(x) AS k, COUNT(*) AS n FROM t GROUP BY FLOOR(x)",
    "SELECT COUNT(DISTINCT u) AS n, COUNT(*) AS m FROM t",
    "SELECT COUNT(*) AS n, SUM(p.worth) AS s FROM t JOIN p ON FLOOR(t.x) = p.place",
)


def write_pyarrow(rows: pa.Table, file: Path) -> None:
    pq.write_table(rows, file, row_group_size=400)


def write_polars(rows: pa.Table, file: Path) -> None:
    pl.DataFrame(rows).write_parquet(file)


def open_curator(values: list[float], store: Callable[[str, pa.Table], Any]) -> Curator:
    """Return a curator over rows with these values, each three times, and with units of doubles."""
    units = [math.nan if place % 7 == 3 else float(place // 2) for place in range(len(values))]
    rows = pa.table({"u": units, "x": values, "half": values, "whole": values})
    columns: dict[str, Column] = {
        "x": Float(0, 10),
        "half": Float(0, 10, step=0.5),
        "whole": Int(0, 9),
    }
    public = pa.table({"place": [0, 1, 2, 3], "worth": [1.0, math.nan, 2.5, math.nan]})
    return Curator(
        [
            Table("t", store("t", rows), unit="u", columns=columns, max_rows_per_unit=2),
            PublicTable("p", store("p", public)),
        ],
        budget=Budget(1e6),
    )


def read_totals(curator: Curator, text: str) -> tuple[Any, Any]:
    """Return the exact totals and counts per cell of a query."""
    engine = curator._engine
    assert isinstance(engine, SqlEngine)
    plan = curator._planner.plan(read_sql(text, curator.names), SHARE)
    sealed = engine.run(plan.measurement, Hold(0, SHARE))
    counts = [
        {group: (cells.tolist(), rows.tolist()) for group, (cells, rows) in one.items()}
        for one in unseal(sealed).counts
    ]
    return unseal(sealed).groups, counts


@pytest.mark.parametrize("write", [write_pyarrow, write_polars])
@pytest.mark.parametrize("named", ROWS)
def test_a_file_is_answered_like_a_dataframe(
    named: str, write: Callable[[pa.Table, Path], None], tmp_path: Path
) -> None:
    """A file and a DataFrame with the same rows give the same totals, for any statistics."""

    def store(name: str, rows: pa.Table) -> Path:
        file = tmp_path / f"{name}.parquet"
        write(rows, file)
        return file

    framed, filed = (
        open_curator(ROWS[named], lambda _, rows: rows),
        open_curator(ROWS[named], store),
    )
    for text in QUESTIONS:
        assert read_totals(framed, text) == read_totals(filed, text), text


def test_statistics_of_files_would_change_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If DuckDB uses a file's statistics, NaN is not NULL: the test above fails."""
    monkeypatch.setattr(DuckDB, "_find_doubles", lambda self, catalog: None)
    with pytest.raises(AssertionError):
        test_a_file_is_answered_like_a_dataframe("digits", write_pyarrow, tmp_path)
