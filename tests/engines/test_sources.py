"""One person's rows must not change how other people's rows are read."""

from pathlib import Path
from typing import Any, Final

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from confide.curator import Curator
from confide.declare import Budget, Category, Column, Date, Int, PublicTable, Table, Text
from confide.declare.columns import MAX_INT64
from confide.errors import BadDeclaration

MANY: Final = 30_000


def count_by(source: Any, column: Column, key: str = "v") -> dict[Any, int]:
    """Return the number of rows in each nonempty group, almost without noise."""
    table = Table("t", source, unit="pid", columns={"v": column})
    answer = Curator([table], budget=Budget(1e10)).sql(
        f"SELECT {key} AS k, COUNT(*) AS n FROM t GROUP BY k", epsilon=1e9
    )
    return {row["k"]: row["n"] for row in answer.rows if row["n"]}


def write_csv(folder: Path, values: list[str]) -> Path:
    path = folder / "t.csv"
    lines = ["pid,v", *(f"{place},{value}" for place, value in enumerate(values))]
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return path


def differ(before: dict[Any, int], after: dict[Any, int]) -> int:
    """Return the number of rows that changed their group."""
    return sum(abs(before.get(key, 0) - after.get(key, 0)) for key in before | after)


@pytest.mark.parametrize("sign", [-1, 1])
def test_no_number_is_too_large_for_bounds_near_the_limit_of_64_bits(sign: int) -> None:
    """If both bounds round to a double that needs more than 64 bits, no row makes a query fail."""
    low, high = sorted(sign * (MAX_INT64 - step) for step in (0, 9))
    rows = pa.table({"pid": [1, 2], "v": [1e30, -1e30]})

    assert 2 == sum(count_by(rows, Int(low, high)).values())


def test_one_row_of_a_csv_file_does_not_change_how_days_are_read(tmp_path: Path) -> None:
    """Two files that differ in one person's date differ in the groups of that person alone."""
    common, column = ["03/04/2020"] * 100, Date("2020-01-01", "2020-12-31")
    before = count_by(write_csv(tmp_path, [*common, "25/12/2020"]), column, "MONTH(v)")
    after = count_by(write_csv(tmp_path, [*common, "12/25/2020"]), column, "MONTH(v)")

    assert differ(before, after) <= 2


@pytest.mark.parametrize("others", [["01", "02"], ["1.0", "1.5"], ["true", "false"], ["1e3", "7"]])
def test_one_row_of_a_csv_file_does_not_change_how_keys_are_read(
    others: list[str], tmp_path: Path
) -> None:
    """Strings that look like numbers or Booleans stay strings, whatever else is in the file."""
    column = Category(dict.fromkeys([*others, "x", "1", "1.5", "1000.0", "7.0"]))
    before = count_by(write_csv(tmp_path, others * 50), column)
    after = count_by(write_csv(tmp_path, [*others * 50, "x"]), column)

    assert differ(before, after) <= 1


@pytest.mark.parametrize("last", ["x", "9" * 40])
def test_no_row_of_a_csv_file_makes_a_question_fail(last: str, tmp_path: Path) -> None:
    """A row that does not match its column is NULL, anywhere in a long file."""
    values = [str(place % 2) for place in range(MANY)]
    found = count_by(write_csv(tmp_path, [*values, last]), Int(0, 1))

    assert differ({0: MANY // 2, 1: MANY // 2}, found) <= 1


def make_frame(values: list[Any]) -> pd.DataFrame:
    return pd.DataFrame({"pid": range(len(values)), "v": pd.Series(values, dtype=object)})


@pytest.mark.parametrize(
    ("other", "odd"),
    [
        (1, 2.5),
        (True, "x"),
        (1, "x"),
        (1.5, "x"),
    ],
)
def test_one_object_does_not_change_how_others_are_read(other: object, odd: object) -> None:
    """In a pandas column of objects, every value is read independently."""
    column = Category(["1", "1.0", "1.5", "2.5", "True", "true", "x"])
    before = count_by(make_frame([other] * 20), column)
    after = count_by(make_frame([*[other] * 20, odd]), column)

    assert differ(before, after) <= 1


@pytest.mark.parametrize(
    ("units", "people"),
    [
        ([0.0, -0.0, 0.0, 2.0], 2),
        ([float("nan"), 1.0, None, 1.0], 1),
        ([None, None], 0),
        (["1", "1.0"], 2),
    ],
)
def test_equal_units_are_one(units: list[Any], people: int) -> None:
    """Both zeros are one unit, NaN is not a unit, and different strings are different units."""
    table = pa.table({"pid": pa.array(units, from_pandas=False), "v": [1] * len(units)})
    curator = Curator(
        [Table("t", table, unit="pid", columns={"v": Int(0, 1)})], budget=Budget(1e10)
    )

    assert people == round(curator.sql("SELECT COUNT(*) AS n FROM t", epsilon=1e9).rows[0]["n"])


@pytest.mark.parametrize("unit", [pd.Timedelta(1, "D"), [1], {"a": 1}])
def test_units_with_several_strings_are_refused(unit: Any) -> None:
    """A unit whose equal values may be written in several ways is refused."""
    table = pa.table({"pid": [unit], "v": [1]})
    with pytest.raises(BadDeclaration, match="in several ways"):
        Curator([Table("t", table, unit="pid", columns={"v": Int(0, 1)})], budget=Budget(1))


@pytest.mark.parametrize("name", ["nowhere.csv", "nowhere.parquet"])
def test_a_missing_file_is_reported_as_missing(name: str, tmp_path: Path) -> None:
    """For a missing file, private or public, the error names the file and no format rules."""
    people = Table("t", pa.table({"pid": [1], "v": [1]}), unit="pid", columns={"v": Int(0, 1)})
    lost = Table("v", tmp_path / name, unit="pid", columns={"v": Int(0, 1)})
    for table in (lost, PublicTable("v", tmp_path / name)):
        with pytest.raises(BadDeclaration, match=rf"There is no file .*{name}`. Paths are"):
            Curator([people, table], budget=Budget(1))


LOOSE: Final = ([{"pid": 1, "v": 1}], {"pid": [1], "v": [1]}, None, 7, pd.Series([1, 2]))


@pytest.mark.parametrize("rows", LOOSE, ids=lambda rows: type(rows).__name__)
def test_sources_other_than_dataframes_are_refused(rows: Any) -> None:
    """Lists and dictionaries are refused with a message that the owner can act on."""
    table = Table("v", rows, unit="pid", columns={"v": Int(0, 1)})
    with pytest.raises(BadDeclaration, match=r"pandas\.DataFrame\(rows\)"):
        Curator([table], budget=Budget(1))


@pytest.mark.parametrize(
    ("said", "lines", "unit", "column"),
    [
        (
            "'war'. Declare one of its columns, such as ward",
            "pid,ward\n1,a\n",
            "pid",
            "war",
        ),
        (
            "'pi'. Declare one of its columns, such as pid",
            "pid,ward\n1,a\n",
            "pi",
            "ward",
        ),
        ("Declare one of its columns, such as pid, ward", "pid,ward\n1,a\n", "z", "ward"),
        ("a single column named 'pid;ward'", "pid;ward\n1;a\n", "pid", "ward"),
        ("commas between columns, and decimal points", "pid;ward\n1;2,5\n2;3,5\n", "pid", "ward"),
    ],
)
def test_missing_columns_are_reported(
    said: str, lines: str, unit: str, column: str, tmp_path: Path
) -> None:
    """A missing column, or another delimiter, is refused with the fix."""
    path = tmp_path / "t.csv"
    path.write_text(lines, encoding="utf-8")
    table = Table("t", path, unit=unit, columns={column: Int(0, 9)})
    with pytest.raises(BadDeclaration) as caught:
        Curator([table], budget=Budget(1))

    assert said in str(caught.value)


def write_parts(folder: Path, *parts: pa.Table) -> str:
    """Write several files and return a pattern that matches them."""
    for number, rows in enumerate(parts):
        pq.write_table(rows, folder / f"part-{number}.parquet")
    return str(folder / "part-*.parquet")


def test_a_pattern_matches_all_existing_files(tmp_path: Path) -> None:
    """All files that match a pattern count; a file added later needs another declaration."""
    parts = [pa.table({"pid": [place], "v": [1]}) for place in range(3)]
    pattern = write_parts(tmp_path, *parts)
    table = Table("v", pattern, unit="pid", columns={"v": Int(0, 1)})
    curator = Curator([table], budget=Budget(1e9))
    write_parts(tmp_path, *parts, parts[0])
    answer = curator.sql("SELECT COUNT(*) AS n, SUM(v) AS s FROM v", share="1/2")

    assert [3, 3] == [round(answer.rows[0][name]) for name in ("n", "s")]


@pytest.mark.parametrize("other", [[1.5], ["x"], [True]], ids=str)
def test_files_of_one_pattern_must_be_alike(other: list[Any], tmp_path: Path) -> None:
    """A file of another type, whose cells would have to be cast, is refused on opening."""
    pattern = write_parts(
        tmp_path, pa.table({"pid": [1], "v": [1]}), pa.table({"pid": [2], "v": other})
    )
    table = Table("v", pattern, unit="pid", columns={"v": Int(0, 1)})
    with pytest.raises(BadDeclaration, match="The files of table 'v' differ"):
        Curator([table], budget=Budget(1))


@pytest.mark.parametrize("name", ["b[1].parquet", "b*.parquet", "c[1].csv"])
def test_a_file_whose_name_is_a_pattern_is_refused(name: str, tmp_path: Path) -> None:
    """A file whose name is a pattern is refused, because the pattern could match another file."""
    rows = pa.table({"pid": [1], "v": [1]})
    if name.endswith(".csv"):
        (tmp_path / name).write_text("pid,v\n1,1\n", encoding="utf-8")
    else:
        pq.write_table(rows, tmp_path / name)
    with pytest.raises(BadDeclaration, match=r"which select several files\. Rename the file"):
        Curator(
            [Table("v", tmp_path / name, unit="pid", columns={"v": Int(0, 1)})], budget=Budget(1)
        )


def test_split_part_reads_a_limited_part_of_a_long_string() -> None:
    """One person's string with millions of separators does not make a query slower."""
    rows = pa.table({"pid": [1, 2], "v": ["-" * 9_999 + "a-b", "a" * 10_001]})
    is_whole = "LENGTH(SPLIT_PART(v, '-', 1)) > 10000"

    assert {False: 2} == count_by(rows, Text(), is_whole)
    assert {False: 1, True: 1} == count_by(rows, Text(max_length=20_000), is_whole)
