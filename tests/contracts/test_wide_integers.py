"""Integers of 64 bits are exact as keys, in joins, and in comparisons, on every engine."""

from typing import Final

import pyarrow as pa
import pytest

from confide.declare import Column, Int, PublicTable, Table
from support.places import PLACES, Place, find_place, pair_tables, read_exactly

MAX_INT64: Final = 2**63 - 1
IDS: Final = (2**53, 2**53 + 1, 2**53 + 2, MAX_INT64, MAX_INT64 - 1, -MAX_INT64, -(2**63), 0, None)


@pytest.fixture(scope="session", params=PLACES)
def place(request: pytest.FixtureRequest) -> Place:
    """Return a place for the rows of each engine, in turn."""
    return find_place(request.param, request)


def tables() -> list[Table | PublicTable]:
    """Return identifiers as integers, strings, and doubles, and a public table of some."""
    rows = {
        "pid": range(len(IDS)),
        "id": pa.array(IDS, pa.int64()),
        "text": pa.array(
            [None if one is None else str(one * 10**0) for one in IDS[:-2]] + ["1e30", "x"]
        ),
        "real": pa.array([None if one is None else float(one) for one in IDS]),
    }
    columns: dict[str, Column] = dict.fromkeys(("id", "text", "real"), Int(-MAX_INT64, MAX_INT64))
    known = pa.table({"code": pa.array([2**53 + 1, MAX_INT64], pa.int64()), "name": ["a", "b"]})
    return [
        Table("t", pa.table(rows), unit="pid", columns=columns, unique=True),
        PublicTable("known", known),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id, COUNT(*) AS n FROM t GROUP BY id",
        "SELECT text, COUNT(*) AS n FROM t GROUP BY text",
        "SELECT real, COUNT(*) AS n FROM t GROUP BY real",
        "SELECT COUNT(*) AS n FROM t WHERE id = 9007199254740993",
        "SELECT COUNT(*) AS n FROM t WHERE id IN (9007199254740993, 9223372036854775806)",
        "SELECT name, COUNT(*) AS n FROM t JOIN known ON id = code GROUP BY name",
        "SELECT id % 7 AS k, COUNT(*) AS n, COUNT(id) AS c FROM t GROUP BY k",
        "SELECT SUM(id) AS s, AVG(text) AS m FROM t",
        "SELECT COUNT(*) AS n FROM t WHERE id > 9223372036854775806 OR id < -9223372036854775806",
    ],
)
def test_wide_integers_are_those_of_duckdb(text: str, place: Place) -> None:
    """Groups, conditions, joins, and sums give the same integers as on DuckDB."""
    pair = pair_tables(tables(), place)
    plan = pair.plan(text)

    assert read_exactly(pair.here, plan) == read_exactly(pair.there, plan)


def test_no_two_wide_integers_are_merged(place: Place) -> None:
    """Integers that one double would stand for are different keys and match different rows."""
    pair = pair_tables(tables(), place)
    keys = read_exactly(pair.there, pair.plan("SELECT id, COUNT(*) AS n FROM t GROUP BY id"))[0]
    equal = read_exactly(
        pair.there, pair.plan("SELECT COUNT(*) AS n FROM t WHERE id = 9007199254740993")
    )
    joined = read_exactly(
        pair.there,
        pair.plan("SELECT name, COUNT(*) AS n FROM t JOIN known ON id = code GROUP BY name"),
    )

    assert {*IDS[:6], 0} <= {key for (key,) in keys}
    assert {-MAX_INT64: 2} == {key: counts[0] for (key,), counts in keys.items() if counts[0] > 1}
    assert [1] == [counts[0] for counts in equal[0].values()]
    assert [1, 1] == [counts[0] for counts in joined[0].values()]
