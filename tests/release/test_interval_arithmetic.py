"""Intervals of arithmetic on statistics are derived from the intervals of the statistics."""

import math
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from confide.curator import Curator
from confide.declare import Budget, Float, Int, Table
from confide.expressions.tree import AggregateCall, Expression, Key
from confide.query.sql import read_sql
from confide.release.estimates import Floats
from confide.release.program.interval_arithmetic import (
    divisor_of,
    find_core,
    list_statistics,
    map_ends,
)
from confide.release.program.run import evaluate

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
OUTER = (
    *("LN(AVG(x) / COUNT(*))", "100 * (AVG(x) / COUNT(*))", "ROUND(k - AVG(x) / COUNT(*), 1)"),
    *("ABS(AVG(x) / COUNT(*))", "k / GREATEST(AVG(x) / COUNT(*), 2)"),
)
RATIOS = (
    *("SUM(x) / COUNT(*)", "100 * SUM(x) / COUNT(*)", "(SUM(x) - k * COUNT(*)) / -COUNT(x)"),
    *("(SUM(x) / k + 1) / (2 - COUNT(*))", "1 / (SUM(x) - COUNT(*))", "k / COUNT(*)"),
)
BENDS = ("SUM(x) * COUNT(*) / SUM(x)", "SUM(x) / SQRT(COUNT(*))", "(SUM(x) / COUNT(*)) / COUNT(*)")
SEVERAL = (
    *("AVG(x) + SUM(x)", "AVG(x) - SUM(x)", "AVG(x) * SUM(x)", "AVG(x) / SUM(x)"),
    *(
        "AVG(x) / SQRT(SUM(x))",
        "LN(AVG(x) / SUM(x))",
        "EXP(AVG(x) * SUM(x))",
        "1 / AVG(x) / SUM(x)",
    ),
    *(
        "LEAST(AVG(x), LN(SUM(x)))",
        "GREATEST(LN(AVG(x)), SUM(x), k)",
        "LEAST(LN(AVG(x)), LN(SUM(x)))",
    ),
    *(
        "COALESCE(LN(AVG(x)), SUM(x))",
        "COALESCE(LN(AVG(x)), LN(SUM(x)), k)",
        "ABS(AVG(x) - SUM(x))",
    ),
    *(
        "CASE WHEN AVG(x) > SUM(x) THEN AVG(x) ELSE SUM(x) * k END",
        "k * (AVG(x) / SUM(x)) + AVG(x)",
    ),
    *("CASE WHEN AVG(x) > SUM(x) THEN 1 ELSE 0 END", "(AVG(x) - SUM(x)) / (AVG(x) + SUM(x))"),
    *("CAST(CASE WHEN AVG(x) > k THEN 'nothing' ELSE '7' END AS DOUBLE) + SUM(x)",),
)
BENT = ("ABS", "CASE", "NULLIF", "COALESCE(LN", "LEAST(k")


@cache
def read(text: str) -> Expression:
    query = read_sql(f"SELECT k, {text} AS s FROM t GROUP BY k", CURATOR.names)
    return query.outputs[1].expression


@pytest.mark.parametrize("text", OTHERS)
def test_expressions_that_are_not_monotone_are_their_own_core(text: str) -> None:
    """Two statistics, repeated statistics, and conditions are not treated as monotone functions."""
    expression = read(text)

    assert expression is find_core(expression)


@pytest.mark.parametrize("text", OUTER)
def test_outer_functions_are_removed_from_the_core(text: str) -> None:
    """Outer functions of one noisy argument reduce to the part with several statistics."""
    assert read("AVG(x) / COUNT(*)") == find_core(read(text))


@pytest.mark.parametrize("text", RATIOS)
def test_ratios_of_linear_expressions_are_known(text: str) -> None:
    """A quotient of linear expressions in counts and sums, with a noisy divisor, is a ratio."""
    assert divisor_of(read(text)) is not None


@pytest.mark.parametrize("text", [*MAPPED, *OTHERS, "AVG(x) / COUNT(*)", "SUM(x) / k", *BENDS])
def test_nothing_else_is_a_ratio_of_linear_expressions(text: str) -> None:
    """Means, products of sums, nonlinear functions, and noise-free divisors do not make a ratio."""
    assert divisor_of(read(text)) is None


def test_conditions_add_no_statistics() -> None:
    """The statistics of an expression are those of its values, each once, without conditions."""
    expression = read("CASE WHEN COUNT(*) > 2 THEN AVG(x) * AVG(x) ELSE SUM(x) END")

    assert [read("AVG(x)"), read("SUM(x)")] == list_statistics(expression)
    assert [] == list_statistics(read("CASE WHEN AVG(x) > 0 THEN 1 ELSE 0 END"))


@pytest.mark.parametrize("text", MAPPED)
@given(
    ends=st.tuples(st.floats(-100, 100), st.floats(-100, 100)).map(sorted),
    part=st.floats(0, 1),
    key=st.integers(-3, 3),
)
def test_a_value_between_the_ends_stays_between_them(
    text: str, ends: list[float], part: float, key: int
) -> None:
    """For any statistic within its interval, the expression is NULL or within its own interval."""
    expression = read(text)
    low, high = ends
    inside = min(max(low + part * (high - low), low), high)
    core = find_core(expression)
    assert isinstance(core, AggregateCall)

    def columns(one: Expression) -> Floats:
        return np.array([float(key) if isinstance(one, Key) else inside])

    value = float(evaluate(expression, columns, 1).astype(np.float64)[0])
    first, last = map_ends(expression, columns, 1, {core: (np.array([low]), np.array([high]))})

    assert math.isnan(value) or first[0] <= value <= last[0]


@pytest.mark.parametrize("text", SEVERAL)
@given(
    averages=st.tuples(st.floats(-100, 100), st.floats(-100, 100)).map(sorted),
    sums=st.tuples(st.floats(-100, 100), st.floats(-100, 100)).map(sorted),
    parts=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    key=st.integers(-3, 3),
)
def test_values_between_the_ends_of_several_stay_between_those_of_all(
    text: str, averages: list[float], sums: list[float], parts: tuple[float, float], key: int
) -> None:
    """For both statistics within their intervals, the expression is NULL or within its own."""
    expression, average = read(text), read("AVG(x)")
    inside = [
        min(max(low + part * (high - low), low), high)
        for (low, high), part in zip((averages, sums), parts, strict=True)
    ]

    def columns(one: Expression) -> Floats:
        value = inside[0 if one == average else 1]
        return np.array([float(key) if isinstance(one, Key) else value])

    value = float(evaluate(expression, columns, 1).astype(np.float64)[0])
    ends = {average: _ends(averages), read("SUM(x)"): _ends(sums)}
    first, last = map_ends(expression, columns, 1, ends)

    assert math.isnan(value) or first[0] <= value <= last[0]


def _ends(both: list[float]) -> tuple[Floats, Floats]:
    return np.array(both[:1]), np.array(both[1:])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("AVG(x) + SUM(x)", (1.0, 7.0)),
        ("AVG(x) - SUM(x)", (-4.0, 2.0)),
        ("AVG(x) * SUM(x)", (-3.0, 12.0)),
        ("AVG(x) / SUM(x)", (-0.5, 2.0)),
        ("SUM(x) / AVG(x)", (-math.inf, math.inf)),
        ("SUM(x) / ABS(AVG(x))", (0.5, math.inf)),
        ("-SUM(x) / ABS(AVG(x))", (-math.inf, -0.5)),
        ("SUM(x) / -ABS(AVG(x))", (-math.inf, -0.5)),
        ("LEAST(LN(AVG(x)), SUM(x))", (-math.inf, 3.0)),
        ("COALESCE(LN(AVG(x) - 9), SUM(x))", (2.0, 3.0)),
    ],
)
def test_intervals_of_several_statistics_are_exact(
    text: str, expected: tuple[float, float]
) -> None:
    """With AVG(x) in [-1, 4] and SUM(x) in [2, 3], expressions lie within the listed intervals."""
    ends = {read("AVG(x)"): _ends([-1.0, 4.0]), read("SUM(x)"): _ends([2.0, 3.0])}
    found = map_ends(read(text), lambda _: np.zeros(1), 1, ends)

    assert expected == (found[0][0], found[1][0])


@pytest.mark.parametrize("text", [text for text in MAPPED if not text.startswith(BENT)])
@given(
    ends=st.tuples(st.floats(0.01, 100), st.floats(0.01, 100)).map(sorted), key=st.integers(-3, 3)
)
def test_no_interval_is_wider_than_its_statistic_makes_it(
    text: str, ends: list[float], key: int
) -> None:
    """The interval of a monotone function ends at its values at the two ends, if they exist."""
    expression = read(text)

    def columns(one: Expression) -> Floats:
        return np.full(2, float(key)) if isinstance(one, Key) else np.array(ends)

    values = evaluate(expression, columns, 2).astype(np.float64)
    low, high = (np.full(2, end) for end in ends)
    first, last = map_ends(expression, columns, 2, {find_core(expression): (low, high)})
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
def test_choices_have_the_ends_of_all_possible_values(
    text: str, expected: tuple[float, float]
) -> None:
    """ABS and conditional values lie within these intervals if AVG(x) is in [-1, 4] and k is 0."""
    ends = {read("AVG(x)"): (np.array([-1.0]), np.array([4.0]))}
    found = map_ends(read(text), lambda _: np.zeros(1), 1, ends)

    assert expected == (found[0][0], found[1][0])


def test_undefined_ends_are_infinite() -> None:
    """LN of zero has no lower end, a huge EXP no upper end, and SQRT of zero starts at zero."""

    def ends(text: str, low: float, high: float) -> tuple[float, float]:
        known = {read("AVG(x)"): (np.array([low]), np.array([high]))}
        found = map_ends(read(text), lambda _: np.zeros(1), 1, known)
        return float(found[0][0]), float(found[1][0])

    assert (-math.inf, 0.0) == ends("LN(AVG(x))", -1.0, 1.0)
    assert (0.0, math.inf) == ends("-LN(AVG(x))", -1.0, 1.0)
    assert (1.0, math.inf) == ends("EXP(20 * AVG(x))", 0.0, 90.0)
    assert (0.0, 2.0) == ends("SQRT(AVG(x))", -1.0, 4.0)
    assert (-math.inf, math.inf) == ends("1 / AVG(x)", -1.0, 4.0)
    assert all(map(math.isnan, ends("LN(AVG(x))", -2.0, -1.0)))
