"""Ranges of expressions: known strings derived from lists, and lengths of substrings."""

import re
from typing import Final

import pyarrow as pa
import pytest

import confide as cf
from confide.curator import Curator
from confide.declare import Column as Declared
from confide.declare import Kind
from confide.errors import UnsupportedQuery
from confide.expressions.functions import Function
from confide.expressions.tree import Call, Column, Expression, Literal
from confide.plan.range_analysis import Range, range_of
from confide.plan.range_arithmetic import Ranges

WARDS: Final = ("north", "South", "east", None)
COLUMNS: Final[Ranges] = {
    ("t", "ward"): Range(float("-inf"), float("inf"), WARDS),
    ("t", "umlaut"): Range(float("-inf"), float("inf"), ("straße",)),
    ("t", "note"): Range(float("-inf"), float("inf")),
}


def part(name: str, *places: int) -> Expression:
    literals = (Literal(place, Kind.INT) for place in places)
    return Call(Function.SUBSTR, (Column("t", name, Kind.TEXT), *literals), Kind.TEXT)


def change(function: Function, name: str) -> Expression:
    return Call(function, (Column("t", name, Kind.TEXT),), Kind.TEXT)


def joined(prefix: str, name: str) -> Expression:
    parts = (Literal(prefix, Kind.TEXT), Column("t", name, Kind.TEXT))
    return Call(Function.CONCAT, parts, Kind.TEXT)


def replaced(name: str, old: str, new: str) -> Expression:
    literals = (Literal(text, Kind.TEXT) for text in (old, new))
    return Call(Function.REPLACE, (Column("t", name, Kind.TEXT), *literals), Kind.TEXT)


@pytest.mark.parametrize(
    ("values", "expression"),
    [
        (("NORTH", "SOUTH", "EAST", None), change(Function.UPPER, "ward")),
        (("north", "south", "east", None), change(Function.LOWER, "ward")),
        (("n", "S", "e", None), part("ward", 1, 1)),
        (("rth", "uth", "st", None), part("ward", 3, 9)),
        (("rth", "uth", "st", None), part("ward", 3)),
        (("", None), part("ward", 1, 0)),
        (("th", "st", None), part("ward", -2)),
        (("<north", "<South", "<east", None), joined("<", "ward")),
        (None, joined("<", "note")),
        (("nxrth", "Sxuth", "east", None), replaced("ward", "o", "x")),
        (None, change(Function.UPPER, "umlaut")),  # engines disagree on its upper case
        (None, change(Function.UPPER, "note")),
        (None, part("ward", -1, 1)),
        (None, part("ward", 0, 1)),
        (None, part("ward", 1, -1)),
    ],
)
def test_strings_derived_from_a_list_are_known(
    values: tuple[str | None, ...] | None, expression: Expression
) -> None:
    """Case changes and substrings of listed strings are known, and no other values are."""
    assert values == range_of(expression, COLUMNS).values


@pytest.mark.parametrize(
    ("low", "high", "expression"),
    [
        (0, 3, part("note", 2, 3)),
        (0, 3, part("note", 2, -3)),
        (0, 2**31, part("note", 2)),
        (2, 3, part("ward", 3)),
        (0, 2, part("note", -2)),
        (0, 10_001, joined("<", "note")),
        (0, 20_000, replaced("note", "a", "bc")),
        (4, 5, Column("t", "ward", Kind.TEXT)),
    ],
)
def test_a_substring_has_a_bounded_length(low: int, high: int, expression: Expression) -> None:
    """The length of a substring is at most the requested number of characters."""
    length = Call(Function.LENGTH, (expression,), Kind.INT)

    assert Range(low, high) == range_of(length, COLUMNS)


def test_always_null_is_refused_before_the_charge() -> None:
    """A remainder modulo zero is always NULL, and is refused as a summand or key for free."""
    table = cf.Table("t", pa.table({"n": [1, 2]}), unit=cf.ROW, columns={"n": cf.Int(0, 9)})
    curator = Curator([table], budget=cf.Budget(1))

    for statistic in ("SUM(n % 0)", "AVG(n % 0)", "MEDIAN(n % 0)", "SUM(n + NULL % 2)"):
        with pytest.raises(UnsupportedQuery, match="always NULL"):
            curator.sql(f"SELECT {statistic} AS s FROM t", share="1/10")
    assert 0 == curator.budget.spent.share
    keys = curator.sql("SELECT n % 0 AS k, COUNT(*) AS c FROM t GROUP BY k", share="1/10")
    assert [] == keys.rows


@pytest.mark.parametrize(
    ("statistic", "named"),
    [
        ("SUM(n / m)", "n / m` is unbounded"),
        ("AVG(1 / n)", "1 / n` is unbounded"),
        ("SUM(LENGTH(note))", "LENGTH(note)` is unbounded"),
        ("AVG(2 * LENGTH(note) + n)", "2 * LENGTH(note) + n` is unbounded"),
        ("MEDIAN(CAST(note AS BIGINT))", "CAST(note AS BIGINT)` is unbounded"),
        ("SUM(n - CAST(note AS BIGINT))", "n - CAST(note AS BIGINT)` is unbounded"),
        (f"SUM(CASE WHEN note = '{'a' * 90}' THEN n / m END)", "aaaa...` is unbounded"),
    ],
)
def test_unbounded_values_are_named_and_refused(statistic: str, named: str) -> None:
    """A value bounded only by its type is refused for free, with its name and an alternative."""
    rows = pa.table({"n": [1, 2], "m": [0, 1], "note": ["7", "x"]})
    columns: dict[str, Declared] = {"n": cf.Int(0, 9), "m": cf.Int(0, 9), "note": cf.Text()}
    curator = Curator([cf.Table("t", rows, unit=cf.ROW, columns=columns)], budget=cf.Budget(1e10))

    with pytest.raises(UnsupportedQuery, match=re.escape(named)) as refused:
        curator.sql(f"SELECT {statistic} AS s FROM t", share="1/10")

    assert "LEAST(GREATEST(..., low), high)" in str(refused.value)
    assert 0 == curator.budget.spent.share
    for bounded in ("LEAST(LENGTH(note), 9)", "LEAST(GREATEST(CAST(note AS BIGINT), 0), 9)"):
        answer = curator.sql(f"SELECT SUM({bounded}) AS s FROM t", epsilon=1e9)
        assert 0 <= answer.rows[0]["s"] <= 18


@pytest.mark.parametrize(
    "bounded",
    [
        "CASE WHEN LENGTH(note) > 3 THEN income ELSE 0 END",
        "CASE WHEN CAST(note AS BIGINT) > 3 THEN income ELSE 0 END",
        "LEAST(GREATEST(CAST(note AS BIGINT), 0), 5000000000)",
        "CAST(note AS BIGINT) % 7 + income",
    ],
)
def test_a_wide_declared_or_literal_range_is_a_bound(bounded: str) -> None:
    """Lengths and casts in conditions, or between literal bounds, leave wide sums bounded."""
    rows = pa.table({"income": [10**9, 2], "note": ["7", "long"]})
    columns: dict[str, Declared] = {"income": cf.Int(0, 3 * 10**9), "note": cf.Text()}
    curator = Curator([cf.Table("t", rows, unit=cf.ROW, columns=columns)], budget=cf.Budget(1))

    assert curator.preview(f"SELECT SUM({bounded}) AS s FROM t", epsilon=0.1).errors


@pytest.mark.parametrize(
    ("inner", "named"),
    [
        ("SUM(CAST(note AS DOUBLE))", "CAST(note AS DOUBLE)` is unbounded"),
        ("AVG(CAST(note AS BIGINT))", "CAST(note AS BIGINT)` is unbounded"),
        ("SUM(LENGTH(note))", "LENGTH(note)` is unbounded"),
        ("SUM(1 / LENGTH(note))", "1 / LENGTH(note)` is unbounded"),
        ("SUM(n % 0)", "n % 0` is always NULL"),
        ("AVG(huge)", "`huge` can exceed 1e+280"),
    ],
)
@pytest.mark.parametrize("asked", ["AVG(t) AS x FROM ({})", "COUNT(*) AS x FROM ({}) WHERE t > 5"])
def test_per_unit_statistics_need_bounds_too(asked: str, inner: str, named: str) -> None:
    """An unbounded argument in a subquery is refused for free, even if only a condition uses it."""
    rows = pa.table({"pid": [1, 1], "n": [1, 2], "huge": [1.0, 2.0], "note": ["7", "x"]})
    columns: dict[str, Declared] = {
        "n": cf.Int(0, 9),
        "huge": cf.Float(0, 1e290),
        "note": cf.Text(),
    }
    table = cf.Table("t", rows, unit="pid", columns=columns, max_rows_per_unit=2)
    curator = Curator([table], budget=cf.Budget(1))
    below = f"SELECT pid, {inner} AS t FROM t GROUP BY pid"

    with pytest.raises(UnsupportedQuery, match=re.escape(named)):
        curator.sql(f"SELECT {asked.format(below)}", epsilon=0.1)

    assert 0 == curator.budget.spent.share


def test_keys_derived_from_a_list_are_all_released() -> None:
    """Groups by the upper case of a category are its listed values, without any delta."""
    rows = pa.table({"pid": [1, 2, 3, 4], "ward": ["north", "South", "?", "north"]})
    wards = cf.Category([ward for ward in WARDS if ward != "east"])
    table = cf.Table("t", rows, unit="pid", columns={"ward": wards}, unique=True)
    curator = Curator([table], budget=cf.Budget(1e10))
    asked = "SELECT {} AS w, COUNT(*) AS n FROM t GROUP BY w"
    capitals = curator.sql(asked.format("UPPER(ward)"), epsilon=1e9)
    first = curator.sql(asked.format("SUBSTR(LOWER(ward), 1, 1)"), epsilon=1e9)

    assert [("NORTH", 2), ("SOUTH", 1), (None, 1)] == [(r["w"], r["n"]) for r in capitals.rows]
    assert [("n", 2), ("s", 1), (None, 1)] == [(r["w"], r["n"]) for r in first.rows]


def test_a_shared_part_is_analyzed_once() -> None:
    """The range of a sum of 2^60 equal parts, built in 60 steps, is found in 60 steps."""
    doubled: Expression = Literal(1, Kind.INT)
    for _ in range(60):
        doubled = Call(Function.ADD, (doubled, doubled), Kind.INT)

    found = range_of(doubled, {})

    assert found.low <= 2**60 <= found.high < 2**60 + 2**20
