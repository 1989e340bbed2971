"""Keys that WHERE excludes are omitted; all others are released."""

from datetime import date
from typing import Any, Final

import duckdb
import pyarrow as pa
import pytest

from confide.curator import Curator
from confide.declare import Bool, Budget, Category, Date, Float, Int, PublicTable, Table, Text
from confide.loss import Share
from confide.plan import DeclaredKeys
from confide.query.sql import read_sql

WARDS: Final = ["A", "B", None, "D"]
MANY: Final = 400
ROWS: Final = pa.table(
    {
        "pid": range(MANY),
        "ward": [(*WARDS, "unlisted")[place % 5] for place in range(MANY)],
        "age": [None if place % 17 == 4 else place % 12 for place in range(MANY)],
        "cost": [None if place % 13 == 1 else place % 41 / 4.0 for place in range(MANY)],
        "day": [date(2024, 1 + place % 12, 1 + place % 28) for place in range(MANY)],
        "smoker": [place % 2 == 0 for place in range(MANY)],
        "word": ["x"] * MANY,
        "grade": [(2, 4, 9, 4, None, 9)[place % 6] for place in range(MANY)],
    }
)
PLACES: Final = pa.table({"place": range(6), "name": list("abcdef"), "code": ["A", "B", "D"] * 2})
CURATOR: Final = Curator(
    [
        Table(
            "t",
            ROWS,
            unit="pid",
            columns={
                "ward": Category(WARDS),
                "age": Int(-3, 11),
                "cost": Float(0, 10),
                "day": Date("2024-01-01", "2024-12-31"),
                "smoker": Bool(),
                "word": Text(),
                "grade": Category([2, 4, 9, None]),
            },
        ),
        PublicTable("p", PLACES),
    ],
    budget=Budget(1e9, 1e-6),
)
ASKED: Final[dict[tuple[str, str], list[Any]]] = {
    ("ward", "ward = 'A'"): ["A"],
    ("ward", "'A' = ward"): ["A"],
    ("ward", "ward IN ('B', 'D', 'Z')"): ["B", "D"],
    ("ward", "ward <> 'A'"): ["B", "D"],
    ("ward", "ward NOT IN ('A', 'B')"): ["D"],
    ("ward", "ward = 'A' AND age > 3"): ["A"],
    ("ward", "age > 3"): WARDS,
    ("ward", "ward = 'A' OR age > 3"): WARDS,
    ("ward", "ward IS NULL"): WARDS,
    ("ward", "NOT (ward = 'A')"): WARDS,
    ("ward", "ward = 'Z'"): WARDS,
    ("ward", "LOWER(ward) = 'a'"): WARDS,
    ("age", "age BETWEEN 4 AND 6"): [4, 5, 6],
    ("age", "age > 4 AND 6 >= age"): [5, 6],
    ("age", "4.5 < age AND age < 7"): [5, 6],
    ("age", "age < -2.5"): [-3],
    ("age", "age = 4"): [4],
    ("age", "age = 4.5"): list(range(-3, 12)),
    ("age", "age IN (9, 11)"): [9, 11],
    ("age", "age IN (9, 4.5, 11, 90) AND age > 9"): [11],
    ("age * 2", "age IN (9, 11)"): [18, 22],
    ("FLOOR(age / 5) * 5", "age >= 5"): [5, 10],
    ("CASE WHEN age < 5 THEN 'young' ELSE 'old' END", "age >= 5"): ["young", "old"],
    ("MONTH(day)", "day >= DATE '2024-11-01'"): [11, 12],
    ("MONTH(day)", "day < DATE '2024-03-01'"): [1, 2],
    ("FLOOR(cost)", "cost < 3"): [0, 1, 2],
    ("FLOOR(cost)", "cost <= 3"): [0, 1, 2, 3],
    ("CEIL(cost)", "cost > 8"): [9, 10],
    ("grade", "grade = 4"): [4],
    ("grade", "grade <> 2 AND grade < 7.5"): [4],
    ("grade", "grade NOT IN (2, 4)"): [9],
    ("grade", "grade IN (2, 3, 9)"): [2, 9],
    ("grade", "grade BETWEEN 3 AND 8"): [4],
    ("grade", "grade = 3"): [2, 4, 9, None],
    ("grade * 10", "grade > 2"): [40, 90],
    ("grade * 10", "age > 3"): [20, 40, 90, None],
    ("smoker", "smoker"): [False, True],
}


def answered(key: str, where: str) -> list[Any]:
    text = f"SELECT {key} AS k, COUNT(*) AS n FROM t WHERE {where} GROUP BY {key}"
    plan = CURATOR._planner.plan(read_sql(text, CURATOR.names), Share.floor("1/100"))
    assert isinstance(plan.keys, DeclaredKeys)
    return [group[0] for group in plan.keys.groups]


@pytest.mark.parametrize(("key", "where"), ASKED)
def test_keys_are_those_that_rows_can_have(key: str, where: str) -> None:
    """Simple comparisons exclude keys, and other conditions exclude none."""
    assert ASKED[key, where] == answered(key, where)


@pytest.mark.parametrize(("key", "where"), ASKED)
def test_no_row_is_lost(key: str, where: str) -> None:
    """Without noise, every listed group that plain SQL finds has all of its rows."""
    connection = duckdb.connect()
    connection.register("raw", ROWS)
    listed = "CASE WHEN ward IN ('A', 'B', 'D') THEN ward END AS ward"
    connection.execute(f"CREATE VIEW t AS SELECT * REPLACE ({listed}) FROM raw")
    asked = f"SELECT {key} AS k, COUNT(*) AS n FROM t WHERE {where} GROUP BY {key}"
    plain = {row[0]: row[1] for row in connection.execute(asked).fetchall()}
    noisy = {row["k"]: row["n"] for row in CURATOR.sql(asked, share="1/1000").rows}

    has_null = key == "ward" or "grade" in key
    assert {name: count for name, count in plain.items() if name is not None or has_null} == {
        name: count for name, count in noisy.items() if count
    }


def test_public_columns_are_narrowed_too() -> None:
    """A comparison on a column of a public table excludes the other keys of that table."""
    text = (
        "SELECT name, COUNT(*) AS n FROM t JOIN p ON age = place WHERE name <= 'c' AND name <> 'a'"
    )
    plan = CURATOR._planner.plan(
        read_sql(f"{text} GROUP BY name", CURATOR.names), Share.floor("1/100")
    )
    assert isinstance(plan.keys, DeclaredKeys)

    assert list("bcdef") == [group[0] for group in plan.keys.groups]


def test_explain_states_that_where_reduces_the_keys() -> None:
    """`explain` states the number of groups, and that WHERE reduces it."""
    told = str(
        CURATOR.explain(
            "SELECT ward, COUNT(*) AS n FROM t WHERE ward = 'A' GROUP BY ward", share="1/1000"
        )
    )

    assert "every ward that WHERE allows, 1 group," in " ".join(told.split())


def test_integers_past_exact_doubles_are_not_narrowed() -> None:
    """Comparisons exclude no integers past 2^53, which engines compare with floats as doubles."""
    big = 2**53
    public = pa.table({"k": [0, 1, 2, 3], "big": [big, big + 1, big + 2, big + 3]})
    rows = pa.table({"pid": range(40), "a": [place % 4 for place in range(40)]})
    curator = Curator(
        [Table("t", rows, unit="pid", columns={"a": Int(0, 3)}), PublicTable("p", public)],
        budget=Budget(1e9, 1e-6),
    )
    kept = f"FROM t JOIN p ON a = k WHERE big = {big}.0"
    groups = curator.sql(f"SELECT big, COUNT(*) AS n {kept} GROUP BY big", share="1/1000").rows
    (whole,) = curator.sql(f"SELECT COUNT(*) AS n {kept}", share="1/1000").rows

    assert whole["n"] == sum(row["n"] for row in groups)
