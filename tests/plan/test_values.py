"""Group keys that are computed from a column: every one that a row can have, and no others."""

from datetime import date, datetime, timedelta
from functools import cache
from typing import Final

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import confide as cf
from confide.curator import Curator
from confide.loss import Share
from confide.query.sql import read_sql

AGES: Final = [*range(-7, 31), None]
DAYS: Final = [*(date(1999, 12, 30) + timedelta(days=day) for day in range(0, 900, 5)), None]
ROWS: Final = pa.table(
    {
        "age": [age for age in AGES for _ in DAYS],
        "day": [day for _ in AGES for day in DAYS],
        "code": [("x", "y", "z")[place % 3] for place in range(len(AGES) * len(DAYS))],
    }
)
TABLE: Final = cf.Table(
    "people",
    ROWS,
    unit=cf.ROW,
    columns={
        "age": cf.Int(-7, 30),
        "day": cf.Date("1999-12-30", "2002-06-12"),
        "code": cf.Category(["x", "y", "z"]),
    },
)
CODES: Final = cf.PublicTable("codes", pa.table({"code": ["x", "y"], "number": [5, 6]}))
NUMBERS: Final = st.integers(-12, 12).map(str)


def combine(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Return expressions of other expressions, whose values every double has exactly."""
    places = st.integers(1, 9)
    condition = st.one_of(
        st.builds(
            "{} {} {}".format, inner, st.sampled_from(["<", "<=", "=", "<>", ">", ">="]), inner
        ),
        st.builds("{} IS NULL".format, inner),
        st.builds("{} IN ({}, {})".format, inner, NUMBERS, NUMBERS),
        st.builds("{} BETWEEN {} AND 20 OR {} > 4".format, inner, NUMBERS, inner),
    )
    return st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from("+-*"), inner),
        st.builds("({} % {})".format, inner, st.one_of(places, places.map(lambda number: -number))),
        st.builds("{}({} / {})".format, st.sampled_from(["FLOOR", "CEIL"]), inner, places),
        st.builds("{}({})".format, st.sampled_from(["ABS", "-"]), inner),
        st.builds(
            "{}({}, {})".format, st.sampled_from(["LEAST", "GREATEST", "COALESCE"]), inner, NUMBERS
        ),
        st.builds("CASE WHEN {} THEN {} ELSE {} END".format, condition, inner, inner),
    )


KEYS: Final = st.recursive(st.sampled_from(["age", "age", "3"]), combine, max_leaves=6).filter(
    lambda key: "age" in key
)
CURATOR: Final = Curator([TABLE, CODES], budget=cf.Budget(1))
SOURCE: Final = "people LEFT JOIN codes USING (code)"


def plan_keys(key: str) -> set[object] | None:
    """Return the keys that are answered, or None where they are not known beforehand."""
    text = f"SELECT {key} AS k, COUNT(*) AS n FROM {SOURCE} GROUP BY k"
    (domain,) = CURATOR._plan(read_sql(text, CURATOR._names), Share.floor("1/100")).domains
    return None if domain is None else set(domain)


@cache
def open_raw() -> duckdb.DuckDBPyConnection:
    """Return DuckDB with the same rows."""
    connection = duckdb.connect()
    connection.register("people", ROWS)
    connection.register("codes", CODES.source)
    return connection


def find_keys(key: str) -> set[object]:
    """Return the keys that DuckDB finds where every value of the columns occurs, and NULL."""
    rows = open_raw().execute(f"SELECT DISTINCT {key} FROM {SOURCE}").fetchall()
    return {row[0].date() if isinstance(row[0], datetime) else row[0] for row in rows}


@given(key=KEYS)
@settings(max_examples=200, deadline=None)
def test_keys_of_a_column_are_those_that_its_values_give(key: str) -> None:
    """Of whatever is computed from one column, just the values that some row could have."""
    planned = plan_keys(f"LEAST(GREATEST({key}, -999), 999)")

    assert planned is not None
    assert find_keys(f"LEAST(GREATEST({key}, -999), 999)") - {None} == planned


@pytest.mark.parametrize(
    ("count", "key"),
    [
        (5, "FLOOR(age / 10) * 10"),
        (5, "age - age % 10 + CASE WHEN age < 0 THEN -10 ELSE 0 END"),
        (4, "YEAR(day)"),
        (31, "YEAR(day) * 100 + MONTH(day)"),
        (12, "QUARTER(day) * 10 + DAYOFWEEK(day) % 3"),
        (31, "DATE_TRUNC('month', day)"),
        (11, "DATE_TRUNC('quarter', day)"),
        (4, "DATE_TRUNC('year', day)"),
        (2, "CASE WHEN day < DATE '2001-01-01' THEN DATE '2000-01-01' ELSE DATE '2001-01-01' END"),
    ],
)
def test_keys_of_decades_and_months_are_few(count: int, key: str) -> None:
    """Decades, months and the like are answered once each, not every number between them."""
    planned = plan_keys(key)

    assert planned == find_keys(key) - {None}
    assert count == len(planned)


@pytest.mark.parametrize(
    "key",
    [
        "ROUND(age, -1)",
        "CAST(age / 4 AS INT)",
        "CAST(ROUND(age / 2) AS INT) * 2",
        "CASE WHEN code = 'x' THEN 3 ELSE age % 4 END",
        "CASE WHEN NOT (age > 3) THEN 1 ELSE 2 END * CASE WHEN LENGTH(code) > 1 THEN 5 ELSE 7 END",
        "CASE WHEN code LIKE 'x%' THEN FLOOR(age / 10) END",
        "FLOOR(SQRT(ABS(age)))",
        "age + MONTH(day)",
        "number + age % 2",
    ],
)
def test_no_key_that_a_row_has_is_left_out(key: str) -> None:
    """Where halves are rounded, conditions not understood or columns several, none is missed."""
    planned = plan_keys(key)

    assert planned is not None
    assert find_keys(key) - {None} <= planned


@pytest.mark.parametrize(
    ("is_answered", "key"),
    [
        (True, "CASE WHEN age < 20 THEN 1 END"),
        (True, "CASE WHEN age < 20 THEN 'young' WHEN age > 25 THEN NULL ELSE 'old' END"),
        (True, "CASE WHEN age < 20 THEN TRUE END"),
        (True, "1 + CASE WHEN age < 20 THEN 1 END"),
        (True, "number"),
        (True, "number + 1"),
        (False, "COALESCE(number, 0)"),
        (False, "COALESCE(CASE WHEN age < 20 THEN 1 END, age % 2)"),
        (False, "number IS NULL"),
        (False, "age"),
        (False, "day"),
        (False, "code"),
        (False, "age > 3"),
        (False, "FLOOR(age / 10)"),
    ],
)
def test_null_is_a_key_where_a_question_makes_it_one(is_answered: bool, key: str) -> None:
    """A CASE without ELSE and a column that may be missing have a NULL group, others have not."""
    planned = plan_keys(key)

    assert planned is not None
    assert is_answered == (None in planned)


def test_rows_without_a_partner_are_a_group_of_their_own() -> None:
    """With next to no noise a LEFT JOIN counts as DuckDB does, rows of no partner included."""
    curator = Curator([TABLE, CODES], budget=cf.Budget(1e9))
    text = f"SELECT number, COUNT(*) AS n FROM {SOURCE} GROUP BY number"
    third = len(ROWS) // 3

    answer = curator.sql(text, share="1/2")

    assert [(5, third), (6, third), (None, third)] == [
        (row["number"], row["n"]) for row in answer.rows
    ]


def test_a_column_of_too_many_values_has_the_keys_of_its_range() -> None:
    """Past 131,072 values of a column nothing is computed, and every number between is answered."""
    ids = cf.Table("ids", pa.table({"n": [1]}), unit=cf.ROW, columns={"n": cf.Int(0, 10**7)})
    curator = Curator([ids], budget=cf.Budget(1))
    text = "SELECT FLOOR(n / 10000) * 2 AS k, COUNT(*) AS c FROM ids GROUP BY k"
    (domain,) = curator._plan(read_sql(text, curator._names), Share.floor("1/100")).domains

    assert tuple(range(2001)) == domain
