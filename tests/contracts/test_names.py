"""Columns may have any name, on every engine, in SQL, in Python, and in canonical text."""

from typing import Final

import pyarrow as pa
import pytest

from confide.declare import Category, Column, Float, Table, Text
from confide.plan.keys import DeclaredKeys
from confide.query import TableQuery, canonical, col, count
from confide.query import sum as total
from confide.query.sql import read_sql
from support.places import PLACES, Place, find_place, pair_tables, read_exactly

NAMES: Final = (
    "net price",
    "Sepal.Length",
    "größe (cm)",
    "a-b%",
    "it's",
    "select",
    "{x}",
    "$1",
    "#?",
)
UNIT: Final = "patient id"


@pytest.fixture(scope="session", params=PLACES)
def place(request: pytest.FixtureRequest) -> Place:
    """Return a place for the rows of each engine, in turn."""
    return find_place(request.param, request)


def declare() -> Table:
    """Return a table of numbers, strings, and categories with odd names."""
    rows = {UNIT: [1, 2, 2, 3, 4], **{name: [0.5, 1.5, 2.5, None, 4.0] for name in NAMES}}
    rows |= {"my ward": ["A", "B", "B", "A", "C"], "no te": ["x" * 9, "xyz", "", None, "xyz!"]}
    columns: dict[str, Column] = {name: Float(0, 3, step=0.5) for name in NAMES}
    columns |= {"my ward": Category(["A", "B"]), "no te": Text(max_length=3)}
    return Table("t", pa.table(rows), unit=UNIT, columns=columns, max_rows_per_unit=2)


def test_columns_have_any_name(place: Place) -> None:
    """A quoted name is a column, and Python takes it as it is."""
    pair = pair_tables([declare()], place)
    sums = ", ".join(f'SUM("{name}") AS "{name}"' for name in NAMES)
    text = f'SELECT "my ward", {sums}, COUNT(DISTINCT "{UNIT}") AS n FROM t GROUP BY "My Ward"'
    plan = pair.plan(text)
    found = read_exactly(pair.there, plan)

    assert read_exactly(pair.here, plan) == found
    query = read_sql(text, pair.curator.names)
    assert query == read_sql(canonical(query), pair.curator.names)
    built = (
        TableQuery("t")
        .where(col("Sepal.Length") > 1)
        .group_by("my ward")
        .agg(n=count(), s=total("net price"))
        .build(pair.curator.names)
    )
    asked = (
        'SELECT "my ward", COUNT(*) AS n, SUM("net price") AS s FROM t WHERE "Sepal.Length" > 1 '
        'GROUP BY "my ward"'
    )
    assert read_sql(asked, pair.curator.names) == built


def test_a_text_is_cut_at_the_source(place: Place) -> None:
    """Strings are cut to the declared length before anything else, which bounds their length."""
    pair = pair_tables([declare()], place)
    keys = read_exactly(
        pair.there, pair.plan('SELECT "no te" AS k, COUNT(*) AS n FROM t GROUP BY k')
    )[0]
    plan = pair.plan('SELECT LENGTH("no te") AS k, COUNT(*) AS n FROM t GROUP BY k')
    lengths = read_exactly(pair.there, plan)[0]

    assert {"xxx", "xyz", ""} <= {key for (key,) in keys} <= {"xxx", "xyz", "", None}
    assert isinstance(plan.keys, DeclaredKeys)
    assert ((0,), (1,), (2,), (3,)) == plan.keys.groups
    assert {0: 1, 3: 3} == {key: counts[0] for (key,), counts in lengths.items()}
