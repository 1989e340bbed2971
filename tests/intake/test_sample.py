"""The rows of a file show flags, integers, and repeated values, the same for CSV and Parquet."""

from pathlib import Path

import duckdb
import pytest

from confide.declare import Kind
from confide.intake.draft import DraftColumn
from confide.intake.sample import sample_file

ROWS = """
    SELECT i AS id, i % 2 AS smoker, (i % 2)::DOUBLE AS flag, (i % 7)::DOUBLE AS code,
        i / 4 AS cost, 'n' || i % 50 AS name, 1 AS month
    FROM range(200) AS t(i)
"""
KINDS = {
    "id": Kind.INT,
    "smoker": Kind.BOOL,
    "flag": Kind.BOOL,
    "code": Kind.INT,
    "cost": Kind.FLOAT,
    "name": Kind.TEXT,
    "month": Kind.INT,
}


def write_rows(path: Path, rows: str = ROWS) -> Path:
    quoted = str(path).replace("'", "''")
    duckdb.execute(f"COPY ({rows}) TO '{quoted}'")
    return path


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "it's.parquet"])
def test_flags_and_codes_are_recognized(tmp_path: Path, name: str) -> None:
    """0 and 1 are a flag, 3.0 is an integer, and a month is a month, in either kind of file."""
    found = sample_file(write_rows(tmp_path / name))

    assert KINDS == {name: column.kind for name, column in found.items()}
    assert found["flag"].is_guessed
    assert found["code"].is_guessed
    assert (200, 50) == (found["id"].values, found["name"].values)
    assert {200} == {column.rows for column in found.values() if column.values}


def test_a_schema_is_not_a_guess(tmp_path: Path) -> None:
    """Kinds from the schema of a Parquet file are certain; those of a CSV file are guesses."""
    stored = sample_file(write_rows(tmp_path / "t.parquet"))
    read = sample_file(write_rows(tmp_path / "t.csv"))

    assert DraftColumn(Kind.FLOAT) == stored["cost"]
    assert all(column.is_guessed for column in read.values())


def test_a_constant_column_is_not_a_flag(tmp_path: Path) -> None:
    """A number that is 1 in every row stays an integer, since it may be anything later."""
    path = write_rows(tmp_path / "t.csv", "SELECT 1 AS x, i AS y FROM range(9) AS t(i)")

    assert Kind.INT is sample_file(path)["x"].kind


def test_unreadable_rows_leave_values_uncounted(tmp_path: Path) -> None:
    """A CSV file with a broken row is drafted all the same, without numbers of values."""
    (tmp_path / "t.csv").write_text('a,b\n1,x\n2,"y\n' + "3,z,4,5\n" * 30, encoding="utf-8")
    found = sample_file(tmp_path / "t.csv")

    assert ["a", "b"] == list(found)
    assert {0} == {column.rows for column in found.values()}
