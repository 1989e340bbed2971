"""Intervals of arithmetic on one statistic are those of the statistic, taken along."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from confide.curator import Curator
from confide.declare import Budget, Float, Int, Table
from confide.query.sql import read_sql
from confide.query.tree import Aggregate, Expression, Key
from confide.release.ends import map_ends, sole_statistic
from confide.release.estimates import Floats
from confide.release.evaluate import evaluate

TABLE = Table(
    "t",
    pa.table({"pid": [1], "k": [1], "x": [1.0]}),
    unit="pid",
    columns={"k": Int(-3, 3), "x": Float(-100, 100)},
)
CURATOR = Curator([TABLE], budget=Budget(1))
MAPPED = (
    *("AVG(x) * 100", "AVG(x) / -7", "3 - AVG(x)", "-AVG(x)", "k * AVG(x) + k", "AVG(x) / k"),
    *("ROUND(AVG(x), 1)", "ROUND(AVG(x))", "FLOOR(AVG(x))", "CEIL(-AVG(x) / 3)"),
    *("LN(AVG(x))", "EXP(AVG(x))", "SQRT(AVG(x))", "EXP(20 * AVG(x))", "1 / AVG(x)", "k / AVG(x)"),
    *("LEAST(AVG(x), 3)", "GREATEST(AVG(x), k, 0)", "CAST(AVG(x) AS DOUBLE)"),
    *("LEAST(LN(AVG(x)), 2)", "GREATEST(EXP(20 * AVG(x)), 5)", "1 - 2 * LEAST(SQRT(AVG(x)), k)"),
    *("ABS(AVG(x))", "ABS(3 - AVG(x)) * k", "COALESCE(AVG(x), 0)", "COALESCE(LN(AVG(x)), k, 7)"),
    *("COALESCE(AVG(x))", "NULLIF(AVG(x), k)", "CASE WHEN k > 0 THEN AVG(x) ELSE -AVG(x) END"),
    *("CASE WHEN AVG(x) > k THEN AVG(x) END", "CASE WHEN COUNT(*) > 2 THEN AVG(x) ELSE k END"),
    *("k * (1 / (AVG(x) - 0.5))", "LEAST(k * (1 / (AVG(x) - 0.5)), 3)", "k * EXP(20 * AVG(x))"),
    *("ROUND(1 / LN(AVG(x)), 2)", "LN(GREATEST(SQRT(AVG(x) - k), 1))", "1e300 * (AVG(x) * 1e10)"),
)
OTHERS = (
    *("AVG(x) - AVG(x)", "AVG(x) / COUNT(*)", "AVG(x) * AVG(x)", "COALESCE(AVG(x), COUNT(*))"),
    "CASE WHEN AVG(x) > 0 THEN 1 ELSE 0 END",
)
BENT = ("ABS", "CASE", "NULLIF", "COALESCE(LN", "LEAST(k")


def read(text: str) -> Expression:
    query = read_sql(f"SELECT k, {text} AS s FROM t GROUP BY k", CURATOR._names)
    return query.outputs[1].expression


@pytest.mark.parametrize("text", OTHERS)
def test_what_neither_rises_nor_falls_is_left_alone(text: str) -> None:
    """Two statistics, the same one twice, and what only a condition depends on are not mapped."""
    assert sole_statistic(read(text)) is None


@pytest.mark.parametrize("text", MAPPED)
@given(
    ends=st.tuples(st.floats(-100, 100), st.floats(-100, 100)).map(sorted),
    part=st.floats(0, 1),
    key=st.integers(-3, 3),
)
def test_a_value_between_the_ends_stays_between_them(
    text: str, ends: list[float], part: float, key: int
) -> None:
    """Whatever the statistic is within its interval, the expression is NULL or within its own."""
    expression = read(text)
    low, high = ends
    inside = min(max(low + part * (high - low), low), high)
    assert isinstance(sole_statistic(expression), Aggregate)

    def columns(one: Expression) -> Floats:
        return np.array([float(key) if isinstance(one, Key) else inside])

    value = float(evaluate(expression, columns, 1).astype(np.float64)[0])
    first, last = map_ends(expression, columns, 1, (np.array([low]), np.array([high])))

    assert math.isnan(value) or first[0] <= value <= last[0]


@pytest.mark.parametrize("text", [text for text in MAPPED if not text.startswith(BENT)])
@given(
    ends=st.tuples(st.floats(0.01, 100), st.floats(0.01, 100)).map(sorted), key=st.integers(-3, 3)
)
def test_no_interval_is_wider_than_its_statistic_makes_it(
    text: str, ends: list[float], key: int
) -> None:
    """What rises or falls has its values at the two ends for its own, wherever there are such."""
    expression = read(text)

    def columns(one: Expression) -> Floats:
        return np.full(2, float(key)) if isinstance(one, Key) else np.array(ends)

    values = evaluate(expression, columns, 2).astype(np.float64)
    low, high = (np.full(2, end) for end in ends)
    first, last = map_ends(expression, columns, 2, (low, high))
    if np.isfinite([*values, first[0], last[0]]).all():
        assert sorted(values) == [first[0], last[0]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ABS(AVG(x))", (0.0, 4.0)),
        ("ABS(AVG(x) - 5)", (1.0, 6.0)),
        ("COALESCE(AVG(x), 9)", (-1.0, 4.0)),
        ("COALESCE(9, AVG(x))", (9.0, 9.0)),
        ("COALESCE(SQRT(AVG(x)), 9)", (0.0, 9.0)),
        ("NULLIF(AVG(x), 2)", (-1.0, 4.0)),
        ("CASE WHEN COUNT(*) > 2 THEN AVG(x) END", (-1.0, 4.0)),
        ("CASE WHEN COUNT(*) > 2 THEN AVG(x) ELSE 9 END", (-1.0, 9.0)),
        ("CASE WHEN k = 0 THEN 1 - AVG(x) ELSE 9 END", (-3.0, 2.0)),
        ("CASE WHEN k <> 0 THEN AVG(x) WHEN k = 0 THEN 9 ELSE AVG(x) END", (9.0, 9.0)),
        ("k * (1 / AVG(x))", (0.0, 0.0)),
    ],
)
def test_choices_have_the_ends_of_what_may_be_chosen(
    text: str, expected: tuple[float, float]
) -> None:
    """A size, and a value among several, lie between these where AVG(x) is from -1 to 4, k is 0."""
    found = map_ends(read(text), lambda _: np.zeros(1), 1, (np.array([-1.0]), np.array([4.0])))

    assert expected == (found[0][0], found[1][0])


def test_ends_without_a_value_lie_infinitely_far_on_their_side() -> None:
    """A logarithm has no low end at zero, a power none above all doubles, a root has zero."""

    def ends(text: str, low: float, high: float) -> tuple[float, float]:
        found = map_ends(read(text), lambda _: np.zeros(1), 1, (np.array([low]), np.array([high])))
        return float(found[0][0]), float(found[1][0])

    assert (-math.inf, 0.0) == ends("LN(AVG(x))", -1.0, 1.0)
    assert (0.0, math.inf) == ends("-LN(AVG(x))", -1.0, 1.0)
    assert (1.0, math.inf) == ends("EXP(20 * AVG(x))", 0.0, 90.0)
    assert (0.0, 2.0) == ends("SQRT(AVG(x))", -1.0, 4.0)
    assert (-math.inf, math.inf) == ends("1 / AVG(x)", -1.0, 4.0)
    assert all(map(math.isnan, ends("LN(AVG(x))", -2.0, -1.0)))
