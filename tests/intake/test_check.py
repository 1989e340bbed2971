"""Findings about the owner's data are reported with exact figures."""

import re
import stat
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from confide.curator import Curator
from confide.declare import (
    Bool,
    Budget,
    Category,
    Date,
    Float,
    Int,
    Kind,
    PublicTable,
    Table,
    Text,
)
from confide.errors import BadDeclaration
from confide.intake.check import CheckFinding, _connect, inspect_table, read_schema

NAN = float("nan")
ROWS = pd.DataFrame(
    {
        "pid": ["a", "a", "a", "b", None],
        "age": [5, 200, -1, 50, None],
        "cost": [1.0, NAN, float("inf"), 2.0, 3.0],
        "ward": ["A", "B", "Z", None, "A"],
        "word": ["1", "x", "3", "4", None],
        "day": ["2020-01-01", "2020-02-30", "1999-01-01", None, "2020-06-01"],
        "flag": ["true", "no idea", "false", None, "0"],
    }
)


def declare(source: Any, **columns: Any) -> Table:
    return Table("visits", source, unit="pid", columns=columns or {"age": Int(0, 120)})


def write_parquet(select: str, file: Path) -> Path:
    """Write the result of a SELECT, with its exact types."""
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({select}) TO '{file}' (FORMAT parquet)")
    return file


def messages(table: Table | PublicTable) -> dict[str, list[str]]:
    """Return the messages about each column."""
    said: dict[str, list[str]] = {}
    for finding in inspect_table(table):
        said.setdefault(finding.column, []).append(finding.message)
    return said


def as_frame(rows: pd.DataFrame, folder: Path) -> Any:
    return rows


def as_csv(rows: pd.DataFrame, folder: Path) -> Any:
    rows.to_csv(folder / "visits.csv", index=False)
    return folder / "visits.csv"


def as_parquet(rows: pd.DataFrame, folder: Path) -> Any:
    rows.to_parquet(folder / "visits.parquet")
    return str(folder / "visits.parquet")


@pytest.mark.parametrize("store", [as_frame, as_csv, as_parquet])
def test_shares_outside_are_exact(
    store: Callable[[pd.DataFrame, Path], Any], tmp_path: Path
) -> None:
    """Values out of bounds, undeclared, or unreadable are counted among those that are not NULL."""
    said = messages(
        declare(
            store(ROWS, tmp_path),
            age=Int(0, 120),
            ward=Category(["A", "B"]),
            word=Int(0, 3),
            day=Date("2019-01-01", "2021-01-01"),
            flag=Bool(),
        )
    )

    assert "50% of the values are outside the bounds and are clipped." in said["age"]
    assert [
        "25% of the values are not listed and count as NULL. Add them to `values`; spaces and "
        "case matter."
    ] == said["ward"]
    assert "25% of the values cannot be read as int and count as NULL." in said["word"]
    assert "25% of the values are outside the bounds and are clipped." in said["word"]
    assert "25% of the values cannot be read as date and count as NULL." in said["day"]
    assert "25% of the values are outside the bounds and are clipped." in said["day"]
    assert (
        "25% of the values cannot be read as bool and count as NULL. Declare a category with its "
        "values."
    ) in said["flag"]


@pytest.mark.parametrize("store", [as_frame, as_csv, as_parquet])
def test_codes_and_flags_are_counted_as_they_are_read(
    store: Callable[[pd.DataFrame, Path], Any], tmp_path: Path
) -> None:
    """0.0 and 1.0 are read as Booleans and 1.0 as a code, so only other values are counted."""
    rows = pd.DataFrame(
        {
            "pid": ["a", "b", "c", "d", "e"],
            "flag": [0.0, 1.0, 1.0, 0.0, None],
            "code": [1.0, 2.0, 1.5, 9.0, None],
            "text": ["1.0", "2", "x", "1.5", None],
        }
    )
    unlisted = "of the values are not listed and count as NULL"
    for values in (["1", "2"], [1, 2]):
        declared = declare(
            store(rows, tmp_path), flag=Bool(), code=Category(values), text=Category(values)
        )
        said = {name: " ".join(found) for name, found in messages(declared).items()}

        assert "cannot be read" not in said.get("flag", "")
        assert f"50% {unlisted}" in said["code"]
        assert f"{50 if values == ['1', '2'] else 25}% " in said["text"]


def test_unreadable_cells_warn_without_refusing(tmp_path: Path) -> None:
    """A CSV column whose cells are all undeclared or unreadable is reported, yet it still opens."""
    rows = pd.DataFrame({"pid": ["a", "b"], "ward": ["x", "y"], "flag": ["maybe", "2.0"]})
    declared = declare(as_csv(rows, tmp_path), ward=Category(["A", "B"]), flag=Bool())
    said = {name: " ".join(found) for name, found in messages(declared).items()}

    assert "100% of the values are not listed and count as NULL" in said["ward"]
    assert "100% of the values cannot be read as bool and count as NULL." in said["flag"]
    text = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
    answer = Curator([declared], budget=Budget(1)).sql(text, share="1/10")
    assert ["A", "B"] == [row["ward"] for row in answer.rows]


@pytest.mark.parametrize("store", [as_frame, as_csv, as_parquet])
def test_units_are_counted(store: Callable[[pd.DataFrame, Path], Any], tmp_path: Path) -> None:
    """Rows without a unit and units above the limit are reported, with the share of lost rows."""
    assert [
        "20% of the rows have no unit and are dropped.",
        "50% of the units have more than 1 row. 40% of the rows never count. Raise "
        "`max_rows_per_unit`, or accept that these rows are dropped.",
    ] == messages(declare(store(ROWS, tmp_path)))["pid"]


def test_infinity_lies_outside_and_nan_is_null(tmp_path: Path) -> None:
    """In a float column, an infinite value is clipped and a NaN is NULL."""
    values = "UNNEST(['1', 'nan', 'inf', '2', NULL]::DOUBLE[])"
    source = write_parquet(f"SELECT 'a' AS pid, {values} AS cost", tmp_path / "visits.parquet")

    assert [
        "25% of the values cannot be read as float and count as NULL.",
        "25% of the values are outside the bounds and are clipped.",
    ] == messages(declare(source, cost=Float(0, 10)))["cost"]


def test_missing_columns_are_problems() -> None:
    """A declared column or unit that the source lacks is a problem, and comes first."""
    found = inspect_table(
        Table("visits", ROWS, unit="who", columns={"age": Int(0, 9), "x": Text()})
    )

    assert [("who", True), ("x", True)] == [(one.column, one.is_problem) for one in found[:2]]
    assert not any(one.is_problem for one in found[2:])


def test_a_repeated_unique_unit_is_a_problem() -> None:
    """With unique=True, a unit of three rows is a problem, not a note."""
    table = Table("visits", ROWS, unit="pid", columns={"ward": Text()}, unique=True)

    assert [True] == [one.is_problem for one in inspect_table(table) if "unique" in one.message]


def test_types_are_compared_with_the_schema(tmp_path: Path) -> None:
    """A column stored as another type is a note; one that cannot be read at all is a problem."""
    rows = "SELECT 1 AS pid, '5' AS age, [1, 2] AS list, 3 AS cost"
    source = write_parquet(rows, tmp_path / "visits.parquet")
    found = inspect_table(declare(source, age=Int(0, 9), list=Int(0, 9), cost=Float(0, 9)))

    assert [
        CheckFinding(
            "visits",
            "list",
            "Column 'list' of table 'visits' is stored as INTEGER[], so no value can be read as "
            "int. Declare category or text; or cast the column where it is stored.",
            is_problem=True,
        ),
        CheckFinding("visits", "age", "The column is stored as VARCHAR, but declared as int."),
    ] == found


@pytest.mark.parametrize("name", ["none.csv", "none.parquet", "none.xlsx"])
def test_a_source_that_cannot_be_read_is_a_problem(name: str, tmp_path: Path) -> None:
    """A missing file or an unknown kind of file is one problem of its table, public or not."""
    for table in (declare(tmp_path / name), PublicTable("icd", str(tmp_path / name))):
        assert [True] == [finding.is_problem for finding in inspect_table(table)]


def test_a_fitting_table_gets_no_finding() -> None:
    """Matching data, and an empty table, have no findings."""
    rows = pd.DataFrame({"pid": [1, 2], "age": [3, 4]})

    assert [] == inspect_table(declare(rows))
    assert [] == inspect_table(declare(rows.iloc[:0]))


DAY = datetime(2020, 1, 1, tzinfo=UTC)
WORDS = ["1", "2020-01-01", "true"]
STORED = {
    **{str(kind): pa.array([1, 0, 1], kind) for kind in (pa.int8(), pa.int64(), pa.uint64())},
    **{str(kind): pa.array([1, 0, 1], kind) for kind in (pa.float32(), pa.float64())},
    "decimal": pa.array([Decimal(1)] * 3, pa.decimal128(10, 2)),
    "text": pa.array(WORDS),
    "enum": pa.array(WORDS).dictionary_encode(),
    "bool": pa.array([True, False, True]),
    "date": pa.array([DAY.date()] * 3),
    **{f"time in {unit}": pa.array([DAY] * 3, pa.timestamp(unit)) for unit in ("s", "ms", "ns")},
    **{f"UTC in {unit}": pa.array([DAY] * 3, pa.timestamp(unit, "UTC")) for unit in ("us", "ns")},
    "bytes": pa.array([b"1"] * 3),
    "hour": pa.array([1] * 3, pa.time32("s")),
    "span": pa.array([1] * 3, pa.duration("s")),
    "list": pa.array([[1]] * 3),
    "struct": pa.array([{"a": 1}] * 3),
}
DECLARED = [
    *(Int(0, 9), Float(0, 9), Bool(), Text(), Category(["1"])),
    Date("2020-01-01", "2020-12-31"),
]


def keyed(**columns: Any) -> Any:
    """Return a table of three people."""
    return pa.table({"pid": [1, 2, 3], **columns})


def refusals(table: Table) -> list[str]:
    """Return the reason for which a curator refuses a table, if any, in a list."""
    try:
        Curator([table], budget=Budget(1))
    except BadDeclaration as refusal:
        return [str(refusal)]
    return []


@pytest.mark.parametrize("kind", DECLARED, ids=lambda kind: type(kind).__name__)
def test_a_type_is_a_problem_where_a_curator_refuses_it(kind: Any) -> None:
    """The finding about a type is the error of opening it, whether there are values or not.

    A refused type has no other finding, such as advice about its format.
    """
    columns = {f"x{place}": cells for place, cells in enumerate(STORED.values())}
    empty = {name: pa.nulls(3, cells.type) for name, cells in columns.items()}
    refused = {name for name, cells in columns.items() if refusals(declare(keyed(x=cells), x=kind))}

    for rows in (keyed(**columns), keyed(**empty)):
        found = inspect_table(declare(rows, **dict.fromkeys(columns, kind)))
        assert refused == {one.column for one in found if one.is_problem}
        said = [one.message for one in found if one.column in refused]
        assert len(refused) == sum("so no value can be" in line for line in said)
        assert len(refused) == len(said)


def test_a_unit_is_a_problem_where_a_curator_refuses_it() -> None:
    """A type that may write one unit in several ways is reported with the error of opening it."""
    for name, cells in STORED.items():
        table = declare(pa.table({"pid": cells, "x": [1, 2, 3]}), x=Int(0, 9))
        problems = [one.message for one in inspect_table(table) if one.is_problem]

        assert (name, refusals(table)) == (name, problems)


def test_timestamps_are_compared_with_bounds_in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Timestamps become dates in UTC, in any time zone of the process."""
    late = datetime(2020, 12, 31, 23, 30, tzinfo=UTC)
    at = pa.array([late, late + timedelta(hours=1), late], pa.timestamp("us", "UTC"))
    table = declare(keyed(at=at), at=Date("2020-01-01", "2020-12-31"))
    shares = ["33.3% of the values are outside the bounds and are clipped."]
    for zone in ("America/New_York", "Asia/Tokyo"):
        monkeypatch.setenv("TZ", zone)

        assert shares == messages(table)["at"]


def test_the_schema_gives_names_and_kinds(tmp_path: Path) -> None:
    """The columns of a Parquet file are read with their kinds."""
    kinds = {"pid": Kind.TEXT, "n": Kind.INT, "x": Kind.FLOAT, "b": Kind.BOOL, "d": Kind.DATE}
    rows = "SELECT 'a' AS pid, 1 AS n, 1.5 AS x, true AS b, DATE '2020-01-01' AS d"
    write_parquet(rows, tmp_path / "t.parquet")

    assert kinds == read_schema(tmp_path / "t.parquet")


def test_a_draft_knows_every_type_that_can_be_read(tmp_path: Path) -> None:
    """If values of a type can be read as more than text, a draft declares one of those kinds."""
    stored = {name: cells for name, cells in STORED.items() if name != "span"}  # in files a number
    pq.write_table(pa.table(stored), tmp_path / "t.parquet")
    found = read_schema(tmp_path / "t.parquet")
    texts = {"bytes", "hour", "list", "struct"}

    assert texts == {name for name, kind in found.items() if kind is None}
    assert Kind.INT == found["uint64"]
    assert {Kind.TIMESTAMP} == {found[name] for name in found if name.startswith(("time", "UTC"))}


def test_a_column_in_another_format_is_reported_with_a_fix(tmp_path: Path) -> None:
    """If most values cannot be read as declared, the note names the command that converts them."""
    rows = ["pid,paid,day", *(f'{pid},"{pid},5",2024-01-{pid + 10}' for pid in range(9))]
    rows += ["9,7,2024-01-20"]
    (tmp_path / "t.csv").write_text("\n".join(rows), encoding="utf-8")
    days = Date("2024-01-01", "2024-12-31")
    declared = Table(
        "t", tmp_path / "t.csv", unit="pid", columns={"paid": Float(0, 10), "day": days}
    )
    [note] = inspect_table(declared)

    assert "paid" == note.column
    assert "confide convert" in note.message
    assert not note.is_problem


def test_spilled_rows_are_readable_by_their_user_only() -> None:
    """Spilled rows go to a folder that only its user can open, and that is removed."""
    with _connect() as connection:
        ((folder,),) = connection.execute("SELECT current_setting('temp_directory')").fetchall()
        assert 0o700 == stat.S_IMODE(Path(folder).stat().st_mode)

    assert not Path(folder).exists()


@pytest.mark.parametrize("kind", [Bool(), Int(0, 9), Float(0, 9), Date("2020-01-01", "2021-01-01")])
def test_a_column_without_readable_values_is_a_problem(kind: Any) -> None:
    """A column whose values are all NULL as declared is a problem."""
    rows = pd.DataFrame({"pid": [1, 2], "word": ["neither", "nor"]})
    problems = [one for one in inspect_table(declare(rows, word=kind)) if one.is_problem]

    assert ["word"] == [one.column for one in problems]
    assert "100% of the values cannot be read as" in problems[0].message
    assert re.search(r"\. [A-Z]", problems[0].message)


@pytest.mark.parametrize("name", ["nowhere.csv", "data/nowhere.parquet"])
def test_a_missing_file_is_named(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The finding names the file and the folder to which its path is relative."""
    monkeypatch.chdir(tmp_path)
    said = f"There is no file `{name}`. Paths are relative to `confide.toml`."

    assert [said] == messages(declare(tmp_path / name))[""]
    assert [said] == messages(PublicTable("icd", str(tmp_path / name)))[""]


def test_the_type_of_a_file_is_checked_first(tmp_path: Path) -> None:
    """A spreadsheet is refused whether or not it exists, and so is a list of rows."""
    [said] = messages(declare(tmp_path / "nowhere.xlsx"))[""]

    assert "must be a .parquet or .csv file" in said
    assert "pandas.DataFrame(rows)" in messages(declare([{"who": 1}]))[""][0]


def test_a_broken_file_is_reported_with_a_fix(tmp_path: Path) -> None:
    """An existing file that is not Parquet is one problem, with advice."""
    (tmp_path / "t.parquet").write_bytes(b"nothing of the kind")
    [said] = messages(declare(tmp_path / "t.parquet"))[""]

    assert said.endswith(". Write the file again.")


def test_tabs_are_converted_first(tmp_path: Path) -> None:
    """A tab-separated file is refused with the command that makes a readable copy."""
    with pytest.raises(BadDeclaration, match=r"confide convert .*tab\.tsv"):
        read_schema(tmp_path / "tab.tsv")


def test_nan_in_a_file_is_reported_like_in_a_dataframe(tmp_path: Path) -> None:
    """Statistics of a Parquet file, which ignore NaN, change no finding."""
    rows = pa.table({"pid": [1.0, 2.0, NAN, NAN, 3.0], "x": [1.0, 2.0, NAN, NAN, 20.0]})
    pq.write_table(rows, tmp_path / "visits.parquet")
    for high in (10, 50):
        framed, filed = (
            messages(declare(source, x=Float(0, high)))
            for source in (rows, tmp_path / "visits.parquet")
        )

        assert framed == filed
        assert "count as NULL" in framed["x"][0]


def test_fractions_in_an_integer_column_are_counted(tmp_path: Path) -> None:
    """Values that an integer column rounds are a note; integers stored as floats are not."""
    rows = pd.DataFrame({"pid": range(9), "n": [1.0, 2.0, 3.0, 5.5, 4.0, 7.25, 8.0, 0.0, None]})
    path = tmp_path / "t.csv"
    rows.to_csv(path, index=False)
    note = "25% of the values are not integers and are rounded. Declare `float` to keep them."

    assert {"n": [note]} == messages(declare(str(path), n=Int(0, 9)))
    rows.round().to_csv(path, index=False)
    assert {} == messages(declare(str(path), n=Int(0, 9)))
