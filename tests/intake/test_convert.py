"""Copies of CSV files have the intended values, for any delimiter, encoding, and format."""

import datetime as dt
import stat
from pathlib import Path
from typing import Any

import duckdb
import pytest

from confide.declare.tables import NAME
from confide.errors import BadDeclaration
from confide.intake import convert as conversion
from confide.intake.convert import Copy, convert_csv, plain_names
from confide.intake.csv_types import READERS, CellFormat, find_format

GERMAN = (
    "Kundennummer;Straße;Umsatz (€);Geburtstag;leer\n"
    "00017;Am Öhr 3;1.234,50;31.12.1999;\n"
    "00018;\"Hof; hinten\";-7;1.2.2003;\n"
)  # fmt: skip


def convert(folder: Path, content: bytes) -> tuple[Copy, list[tuple[Any, ...]]]:
    (folder / "t.csv").write_bytes(content)
    copy = convert_csv(folder / "t.csv", folder / "t.parquet")
    return copy, duckdb.read_parquet(str(folder / "t.parquet")).fetchall()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_german_file_is_read_correctly(tmp_path: Path, encoding: str, newline: str) -> None:
    """Semicolons, decimal commas, dotted dates, and umlauts are read correctly in each encoding."""
    copy, rows = convert(tmp_path, GERMAN.replace("\n", newline).encode(encoding))

    assert ["Kundennummer", "Strasse", "Umsatz_eur", "Geburtstag", "leer"] == [
        column.name for column in copy.columns
    ]
    assert [
        ("00017", "Am Öhr 3", 1234.5, dt.date(1999, 12, 31), None),
        ("00018", "Hof; hinten", -7.0, dt.date(2003, 2, 1), None),
    ] == rows
    assert 0 == sum(column.unread for column in copy.columns)


@pytest.mark.parametrize(
    ("shape", "cells", "value"),
    [
        (CellFormat.INT, ["12", "-3"], 12),
        (CellFormat.FLOAT, ["1.5", "2"], 1.5),
        (CellFormat.DECIMAL_COMMA, ["1,5", "1.234.567,25"], 1.5),
        (CellFormat.GROUPED, ["1.234", "950"], "1.234"),
        (CellFormat.BOOL, ["Yes", "n"], True),
        (CellFormat.DATE, ["2024-12-31", "2024-01-01"], dt.date(2024, 12, 31)),
        (CellFormat.DATE, ["2024-12-31 10:15+01:00", "2024-01-01"], dt.date(2024, 12, 31)),
        (
            CellFormat.TIMESTAMP,
            ["2024-12-31 10:15", "2024-01-01T10:00:00.5"],
            dt.datetime(2024, 12, 31, 10, 15),  # noqa: DTZ001  # without a time zone
        ),
        (CellFormat.DOTTED_DATE, ["31.12.2024"], dt.date(2024, 12, 31)),
        (CellFormat.DAY_FIRST, ["31/12/2024", "1/2/2024"], dt.date(2024, 12, 31)),
        (CellFormat.MONTH_FIRST, ["12/31/2024", "1/2/2024"], dt.date(2024, 12, 31)),
        (CellFormat.EITHER, ["1/2/2024", "12/12/2024"], "1/2/2024"),
        (CellFormat.TEXT, ["01067", "10115"], "01067"),
        (CellFormat.EMPTY, ["", "  "], ""),
    ],
)
def test_each_format_is_found_and_read(shape: CellFormat, cells: list[str], value: object) -> None:
    """The format of cells is found, and the first cell is read as the value that it represents."""
    assert shape is find_format(cells)
    reader = READERS[shape]("cell")
    [[found]] = duckdb.execute(f"SELECT {reader} FROM (SELECT $1 AS cell)", [cells[0]]).fetchall()
    assert value == found


def test_every_format_has_a_reader() -> None:
    """Every format that can be found can be read."""
    assert set(CellFormat) == set(READERS)


def test_odd_cells_and_rows_are_counted(tmp_path: Path) -> None:
    """A cell of another format is NULL, a long row is truncated, and both are counted."""
    lines = ["n,m", "many,1", "1,2,3", "4", *["5,6"] * 60]
    copy, rows = convert(tmp_path, "\n".join(lines).encode())

    assert [(None, 1), (1, 2), (4, None), (5, 6)] == rows[:4]
    assert [1, 0] == [column.unread for column in copy.columns]
    assert 1 == copy.long_rows


def test_strings_for_an_empty_cell_are_missing(tmp_path: Path) -> None:
    """NA and similar strings are NULL among numbers, dates, and flags, but stay in text columns."""
    words = ["NA", "N/A", "NaN", "nan", "null", "NULL", "None", "#N/A", ""]
    lines = ["n,x,y,day,flag,land", '1,1.5,"2,5",2024-12-31,yes,DE', '2,2.5,"3,5",2024-12-30,no,NA']
    lines += [f"{word},{word},{word},{word},{word},FR" for word in words]
    copy, rows = convert(tmp_path, "\n".join(lines).encode())

    assert [
        CellFormat.INT,
        CellFormat.FLOAT,
        CellFormat.DECIMAL_COMMA,
        CellFormat.DATE,
        CellFormat.BOOL,
        CellFormat.TEXT,
    ] == [column.shape for column in copy.columns]
    assert (2, 2.5, 3.5, dt.date(2024, 12, 30), False, "NA") == rows[1]
    assert [(None, None, None, None, None, "FR")] * len(words) == rows[2:]
    assert 0 == sum(column.unread for column in copy.columns)


def test_names_can_be_declared_and_differ() -> None:
    """For any titles, the names in the copy can be declared and are distinct."""
    titles = ["", " ", "a b", "a_b", "A-B", "2024", "select", "日付", "x" * 200, "x" * 201, "é"]
    names = plain_names(titles)

    assert all(map(NAME.match, names))
    assert len(titles) == len({name.lower() for name in names})


@pytest.mark.parametrize("content", [b"", b"\n\n", b";;\n1;2;3\n", b"a,b\n1,\x00\x81\n"])
def test_a_file_without_a_table_is_refused(tmp_path: Path, content: bytes) -> None:
    """Nothing is written for a file without names, or with cells that are not text."""
    with pytest.raises(BadDeclaration):
        convert(tmp_path, content)

    assert ["t.csv"] == [path.name for path in tmp_path.iterdir()]


def test_nothing_is_overwritten_or_left_behind(tmp_path: Path) -> None:
    """A second copy is refused, and no other file is left next to the first one."""
    convert(tmp_path, b"a,b\n1,2\n")
    with pytest.raises(BadDeclaration, match="already exists"):
        convert_csv(tmp_path / "t.csv", tmp_path / "t.parquet")

    assert {"t.csv", "t.parquet"} == {path.name for path in tmp_path.iterdir()}
    for target in (tmp_path / "t.txt", tmp_path / "none" / "t.parquet"):
        with pytest.raises(BadDeclaration, match=r"Choose another file|must be"):
            convert_csv(tmp_path / "t.csv", target)


def test_spilled_rows_are_readable_by_their_user_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spilled rows go to a folder that only its user can open, and that is removed."""
    run, seen = conversion._run, []

    def look(connection: duckdb.DuckDBPyConnection, statement: str, values: Any) -> Any:
        ((folder,),) = connection.execute("SELECT current_setting('temp_directory')").fetchall()
        seen.append((Path(folder), stat.S_IMODE(Path(folder).stat().st_mode)))
        return run(connection, statement, values)

    monkeypatch.setattr(conversion, "_run", look)
    (tmp_path / "a.csv").write_text("n\n1\n", encoding="utf-8")
    convert_csv(tmp_path / "a.csv", tmp_path / "a.parquet")

    assert {0o700} == {mode for _, mode in seen}
    assert not any(folder.exists() for folder, _ in seen)


@pytest.mark.parametrize("content", [b"1,2,3\n4,5,6\n", b"1,5;31.12.2024;7\n2,5;1.1.2025;8\n"])
def test_a_row_is_not_lost_for_names(tmp_path: Path, content: bytes) -> None:
    """A file whose first line is a row is refused, and nothing is written."""
    with pytest.raises(BadDeclaration, match=r"looks like a row\. Add a line of column names"):
        convert(tmp_path, content)

    assert ["t.csv"] == [path.name for path in tmp_path.iterdir()]


def test_a_year_among_names_is_a_name(tmp_path: Path) -> None:
    """A first line is a line of names if one of its cells is not a number."""
    copy, rows = convert(tmp_path, b"person,2024\n1,5\n")

    assert ["person", "t_2024"] == [column.name for column in copy.columns]
    assert [(1, 5)] == rows
