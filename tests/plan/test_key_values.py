"""Domains of computed group keys: every value that a row can have, and no others."""

from dataclasses import replace
from datetime import date, datetime, timedelta
from functools import cache
from typing import Final

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import confide as cf
from confide.curator import Curator
from confide.engines.duckdb.dialect import write_duckdb
from confide.engines.sql.builders import select, table
from confide.engines.sql.expressions import Emitter
from confide.engines.sql.sources import leftmost
from confide.errors import UnsupportedQuery
from confide.expressions.tree import Column, walk
from confide.loss import Share
from confide.plan import Plan
from confide.plan.breakpoints import Breakpoints
from confide.plan.key_values import _find_axes, _image, _Incomputable, _Work
from confide.plan.keys import domain_of
from confide.plan.range_analysis import Range, RangeAnalysis
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
    """Return expressions of other expressions, whose values are exact in every double."""
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
    """Return the keys in the answer, or None if they are undeclared."""
    text = f"SELECT {key} AS k, COUNT(*) AS n FROM {SOURCE} GROUP BY k"
    (domain,) = CURATOR._planner.plan(read_sql(text, CURATOR.names), Share.floor("1/100")).domains
    return None if domain is None else set(domain)


@cache
def open_raw() -> duckdb.DuckDBPyConnection:
    """Return a DuckDB connection with the same rows."""
    connection = duckdb.connect()
    connection.register("people", ROWS)
    connection.register("codes", CODES.source)
    return connection


def find_keys(key: str) -> set[object]:
    """Return the keys that DuckDB finds if every value of the columns occurs, and NULL."""
    rows = open_raw().execute(f"SELECT DISTINCT {key} FROM {SOURCE}").fetchall()
    return {row[0].date() if isinstance(row[0], datetime) else row[0] for row in rows}


@given(key=KEYS)
@settings(max_examples=200, deadline=None)
def test_keys_of_one_column_are_exact(key: str) -> None:
    """An expression of one column has exactly the keys that some row could have."""
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
    """Decades, months, and similar keys occur once each, without the numbers in between."""
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
def test_no_key_of_a_row_is_omitted(key: str) -> None:
    """No key is omitted for rounding of halves, unknown conditions, or several columns."""
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
def test_null_is_a_key_if_the_query_can_produce_it(is_answered: bool, key: str) -> None:
    """A CASE without ELSE and an optional column have a NULL group; other keys do not."""
    planned = plan_keys(key)

    assert planned is not None
    assert is_answered == (None in planned)


def test_rows_without_a_match_are_a_group() -> None:
    """With almost no noise, a LEFT JOIN counts as DuckDB does, including rows without a match."""
    curator = Curator([TABLE, CODES], budget=cf.Budget(1e9))
    text = f"SELECT number, COUNT(*) AS n FROM {SOURCE} GROUP BY number"
    third = len(ROWS) // 3

    answer = curator.sql(text, share="1/2")

    assert [(5, third), (6, third), (None, third)] == [
        (row["number"], row["n"]) for row in answer.rows
    ]


LOW, HIGH = -7.3, 19.0
STEP: Final = 0.125
WIDE: Final = cf.Table(
    "wide",
    pa.table(
        {
            "x": [0.0],
            "price": [0.0],
            "n": [0],
            "day": pa.array([date(1900, 1, 1)]),
            "code": [1],
        }
    ),
    unit=cf.ROW,
    columns={
        "x": cf.Float(LOW, HIGH),
        "price": cf.Float(0, 1500),
        "n": cf.Int(-(10**7), 10**7),
        "day": cf.Date("1500-03-01", "2020-02-29"),
        "code": cf.Category([1, 2, 40]),
    },
)
WIDE_CURATOR: Final = Curator([WIDE], budget=cf.Budget(1))


def plan_wide(key: str) -> Plan:
    """Return the plan of counts by a key of the wide table."""
    text = f"SELECT {key} AS k, COUNT(*) AS c FROM wide GROUP BY k"
    return WIDE_CURATOR._planner.plan(read_sql(text, WIDE_CURATOR.names), Share.floor("1/100"))


def compute_keys(plan: Plan, rows: pa.Table) -> set[object]:
    """Return the keys that DuckDB computes by the statement of a plan, over values in bounds."""
    key, alias = Emitter(plan.ranges).emit(plan.query.keys[0]), leftmost(plan.query.source)
    connection = open_raw()
    connection.register("wide", rows)
    asked = f"SELECT DISTINCT * FROM ({write_duckdb(select([key], table('wide', alias)))})"
    return {key for (key,) in connection.execute(asked).fetchall()}


def near_borders(low: float, high: float, step: float) -> list[float]:
    """Return a grid within bounds, with the doubles next to each grid point."""
    places = np.arange(np.ceil(low / step), np.floor(high / step) + 1) * step
    near = [low, high, *places]
    for _ in range(3):
        near += [*np.nextafter(near, -np.inf), *np.nextafter(near, np.inf)]
        near = sorted({*map(float, near)})
    return [value for value in near if low <= value <= high]


GRID: Final = near_borders(LOW, HIGH, STEP)
HALVES: Final = st.integers(-16, 16).map(lambda number: number / 2)
FACTORS: Final = st.sampled_from([1, 2, 3, 4, 0.5, 2.5, 0.7, -2, -0.25])


def follow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Return expressions that are monotone in other expressions."""
    return st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from("+-"), HALVES),
        st.builds("({} - {})".format, HALVES, inner),
        st.builds("({} {} {})".format, inner, st.sampled_from("*/"), FACTORS),
        st.builds("{}({}, {})".format, st.sampled_from(["LEAST", "GREATEST"]), inner, HALVES),
        st.builds("{}({})".format, st.sampled_from(["-", "FLOOR", "ROUND"]), inner),
    )


SLOPES: Final = st.one_of(
    st.just("x"), follow(st.just("x")), follow(follow(st.just("x"))), follow(follow(st.just("x")))
)
WHOLE: Final = st.one_of(
    st.builds("{}({})".format, st.sampled_from(["FLOOR", "CEIL"]), SLOPES),
    st.builds("CAST({} AS INT)".format, SLOPES),
    st.builds("CAST(ROUND({}) AS INT)".format, SLOPES),
    st.builds("CAST(ROUND({}, -1) AS INT)".format, SLOPES),
)


def combine_steps(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Return keys built from other keys, and from conditions on the column."""
    signs = st.sampled_from(["<", "<=", "=", "<>", ">", ">="])
    condition = st.one_of(
        st.builds("{} {} {}".format, SLOPES, signs, HALVES),
        st.builds("{} IN ({}, {})".format, SLOPES, HALVES, HALVES),
        st.builds("{} BETWEEN {} AND {} OR x > 4".format, SLOPES, HALVES, HALVES),
        st.builds("{} {} {}".format, inner, signs, inner),
        st.just("x IS NULL"),
    )
    return st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from("+-*"), inner),
        st.builds("({} % {})".format, inner, st.integers(1, 9)),
        st.builds("CASE WHEN {} THEN {} ELSE {} END".format, condition, inner, inner),
        st.builds("FLOOR({} / {})".format, inner, st.integers(1, 9)),
    )


STEPS: Final = st.recursive(WHOLE, combine_steps, max_leaves=3)


def list_points(plan: Plan) -> list[float | None]:
    """Return the values of a float column that represent all others in a key."""
    (key,) = plan.query.keys
    column = next(part for part in walk(key) if isinstance(part, Column))
    steps = Breakpoints(column, RangeAnalysis(plan.ranges))

    assert steps.add(key)
    return [None if np.isnan(value) else value for value in steps.points().tolist()]


@pytest.mark.slow
@given(key=STEPS)
@settings(max_examples=300, deadline=None)
def test_keys_of_a_rounded_float_are_exact(key: str) -> None:
    """A key that rounds a float has exactly the values of the doubles within its bounds.

    DuckDB computes the key on a grid, whose results must be in the domain, and at the breakpoints,
    whose results must be the entire domain.
    """
    plan = plan_wide(f"LEAST(GREATEST({key}, -999), 999)")
    (domain,) = plan.domains
    found = compute_keys(plan, pa.table({"x": GRID})) - {None}
    changes = compute_keys(plan, pa.table({"x": list_points(plan)})) - {None}

    assert domain is not None
    assert found <= set(domain)
    assert changes == set(domain)


@pytest.mark.slow
@given(
    key=STEPS,
    low=st.floats(-1e6, 1e6),
    width=st.floats(0, 1e6),
    rate=st.floats(1e-3, 10),
    rows=st.lists(st.floats(0, 1), max_size=50),
)
@settings(max_examples=300, deadline=None)
def test_keys_of_a_float_follow_its_bounds(
    key: str, low: float, width: float, rate: float, rows: list[float]
) -> None:
    """For all bounds and factors, no key that DuckDB computes is omitted."""
    high = low + width / 100
    inside = [min(max(low + part * (high - low), low), high) for part in (0.0, 1.0, *rows)]
    scaled = key.replace("x", f"(x * {rate!r})")
    plan = plan_wide(f"LEAST(GREATEST({scaled}, -99), 99)")
    ranges = {**plan.ranges, (leftmost(plan.query.source), "x"): Range(low, high)}
    plan = replace(plan, measurement=replace(plan.measurement, ranges=ranges))
    domain = domain_of(plan.query.keys[0], ranges)

    assert domain is not None
    assert compute_keys(plan, pa.table({"x": inside})) - {None} <= set(domain)


@pytest.mark.parametrize(
    ("count", "key"),
    [
        (16, "FLOOR(price / 100) * 100"),
        (16, "CEIL(price / 100) * 100"),
        (16, "ROUND(price / 100) * 100"),
        (16, "ROUND(price, -2)"),
        (16, "FLOOR(price) - FLOOR(price) % 100"),
        (16, "CAST(price AS INT) - CAST(price AS INT) % 100"),
        (16, "CASE WHEN price < 100 THEN -1 ELSE FLOOR(price / 100) * 100 END"),
        (4, "CASE WHEN price >= 1000 THEN NULL ELSE FLOOR(price / 250) END"),
        (11, "LEAST(FLOOR(price / 100), 10)"),
        (16, "FLOOR(price / 100) / 10"),
        (39, "FLOOR(SQRT(price))"),
        (101, "CAST(price AS INT) % 101"),
        (16, "FLOOR(ABS(price - 750) / 50) * 5"),
    ],
)
def test_keys_of_rounded_prices_are_few(count: int, key: str) -> None:
    """Hundreds of a price up to 1,500 are 16 keys, not 1,501."""
    plan = plan_wide(key)
    (domain,) = plan.domains
    found = compute_keys(plan, pa.table({"price": near_borders(0.0, 1500.0, 0.5)}))

    assert domain is not None
    assert found - {None} == set(domain) - {None}
    assert count == len(set(domain) - {None})


def test_a_wrong_domain_is_detected() -> None:
    """The comparison detects a domain with one key missing or one too many."""
    plan = plan_wide("FLOOR(price / 100) * 100")
    (domain,) = plan.domains
    found = compute_keys(plan, pa.table({"price": near_borders(0.0, 1500.0, 0.5)}))

    assert domain is not None
    assert found != set(domain[:-1])
    assert found != {*domain, 50}


@pytest.mark.parametrize(
    ("count", "key"),
    [
        (2001, "FLOOR(n / 10000) * 2"),
        (201, "n - n % 100000"),
        (3, "code"),
        (3, "code * code"),
        (2, "code % 2"),
        (43, "code + FLOOR(n / 1000000)"),
    ],
)
def test_keys_of_long_and_listed_integers_are_exact(count: int, key: str) -> None:
    """Beyond 131,072 values, breakpoints give the exact keys; listed integers keep their values."""
    plan = plan_wide(key)
    (domain,) = plan.domains
    numbers = [*range(-(10**7), 10**7, 9_999), -(10**7), 10**7]
    numbers += [one + near for one in range(-(10**7), 10**7 + 1, 10_000) for near in (-1, 0, 1)]
    inside = [one for one in numbers if abs(one) <= 10**7]
    rows = pa.table(
        {"n": [one for one in inside for _ in range(3)], "code": [1, 2, 40] * len(inside)}
    )

    assert domain is not None
    assert compute_keys(plan, rows) == set(domain)
    assert count == len(domain)


@pytest.mark.parametrize(
    ("count", "key"),
    [
        (521, "YEAR(day)"),
        (6240, "DATE_TRUNC('month', day)"),
        (2081, "DATE_TRUNC('quarter', day)"),
        (53, "YEAR(day) - YEAR(day) % 10"),
        (12, "MONTH(day)"),
        (7, "DAYOFWEEK(day)"),
    ],
)
def test_keys_of_long_calendars_are_exact(count: int, key: str) -> None:
    """Five centuries of dates have exactly the right years, months, and weekdays."""
    plan = plan_wide(key)
    (domain,) = plan.domains
    first, last = date(1500, 3, 1), date(2020, 2, 29)
    days = [first + timedelta(days=place) for place in range((last - first).days + 1)]

    assert domain is not None
    assert compute_keys(plan, pa.table({"day": days})) == set(domain)
    assert count == len(domain)


@pytest.mark.parametrize(
    "key",
    [
        "FLOOR(x) * 100 + MONTH(day)",
        "FLOOR(x) + FLOOR(LN(price + 1)) * 100",
        "FLOOR(x) % 4 + code + CAST(price / 500 AS INT)",
        "CASE WHEN x * x < 20 THEN FLOOR(x) ELSE 99 END",
        "FLOOR(ABS(x)) + CAST(x AS INT)",
        "FLOOR(x * x) - FLOOR(10 / (x + 8))",
        "CASE WHEN NOT (x > 3) THEN 1 ELSE FLOOR(x) * 5 END",
        "CAST(x > 3 AS INT) + FLOOR(x / 5)",
        "FLOOR(EXP(x / 4))",
    ],
)
def test_keys_of_several_columns_omit_none(key: str) -> None:
    """With several columns, or a part that cannot be evaluated, no key of a row is omitted."""
    plan = plan_wide(key)
    (domain,) = plan.domains
    count = len(GRID)
    rows = {
        "x": GRID,
        "price": np.linspace(0, 1500, count),
        "day": [date(1999, 1, 1) + timedelta(days=place) for place in range(count)],
        "code": [(1, 2, 40)[place % 3] for place in range(count)],
    }

    assert domain is not None
    assert compute_keys(plan, pa.table(rows)) <= set(domain)


LADDER: Final = " ".join(f"WHEN n < {25 * one} THEN {one}" for one in range(1, 71))
SHORT: Final = cf.Table(
    "short",
    pa.table(
        {
            "n": np.arange(2_001),
            "m": np.arange(2_001) % 101,
            "w": 65 * np.arange(2_001),
            "s": 65 * np.arange(2_001),
        }
    ),
    unit=cf.ROW,
    columns={
        "n": cf.Int(0, 2_000),
        "m": cf.Int(0, 100),
        "w": cf.Int(0, 131_071),
        "s": cf.Int(0, 131_000),
    },
)


@pytest.mark.parametrize(
    "key",
    [
        f"CASE {LADDER} ELSE n % 7 END + m",
        f"CASE {LADDER.replace('n <', 'w <')} ELSE w % 7 END",
        "FLOOR(SQRT(1.0 * w * w * w * w) / 1000000000) + m % 3 + n % 2",
    ],
    ids=["many cases", "one long column", "many digits"],
)
def test_keys_that_cannot_be_computed_are_those_of_their_range(key: str) -> None:
    """If a key has too many cases or digits to compute, no row loses its group."""
    curator = Curator([SHORT], budget=cf.Budget(1e9))
    answer = curator.sql(f"SELECT {key} AS k, COUNT(*) AS c FROM short GROUP BY k", share="1/2")

    assert 2_001 == sum(row["c"] for row in answer.rows)


def test_the_work_for_one_key_is_bounded() -> None:
    """Nested cases at 131,000 points stop after MAX_WORK computed numbers."""
    curator = Curator([SHORT], budget=cf.Budget(1e9))
    cases = " ".join(f"WHEN NOT (m IN ({one}, 2)) THEN s + {one}" for one in range(7))
    one = f"(CASE {cases} ELSE s END)"
    asked = f"LEAST({', '.join(f'{one} * {one} % {by}' for by in range(2, 10))})"
    text = f"SELECT {asked} AS k, COUNT(*) AS c FROM short GROUP BY k"
    plan = curator._planner.plan(read_sql(text, curator.names), Share.floor("1/100"))
    (key,), work = plan.query.keys, _Work()
    axes = _find_axes(key, RangeAnalysis(plan.ranges))
    assert axes is not None
    with pytest.raises(_Incomputable):
        _image(key, axes, work)

    assert -64 * 2**17 < work.left < 0


def test_an_unrounded_float_has_no_known_keys() -> None:
    """A float column, or a shifted one, has too many keys to list."""
    for key in ("x", "x * 2", "x - FLOOR(x)", "ROUND(price, 1)"):
        with pytest.raises(UnsupportedQuery, match="undeclared"):
            plan_wide(key)
