"""Queries whose answers might not be finite are refused before they are charged."""

import math

import pyarrow as pa
import pytest

from confide.curator import Curator
from confide.declare import Budget, Float, Int, Table
from confide.errors import UnsupportedQuery

TABLE = Table(
    "t",
    pa.table({"pid": [1, 2, 3], "age": [20, 30, 40], "x": [0.0, 1e279, -1e280]}),
    unit="pid",
    columns={"age": Int(0, 120), "x": Float(-1e280, 1e280)},
)


@pytest.mark.parametrize("budget", [Budget(10), Budget(10, 1e-6)], ids=["pure", "gaussian"])
@pytest.mark.parametrize(
    "asked",
    [
        *("SUM(EXP(EXP(age)))", "SUM(1e308)", "AVG(EXP(EXP(age)))", "MEDIAN(EXP(EXP(age)))"),
        *("SUM(x * 10)", "AVG(x) + SUM(-1e281)", "STDDEV(x)"),
    ],
)
def test_numbers_too_large_to_add_up_are_refused(asked: str, budget: Budget) -> None:
    """Sums of numbers near the limit of doubles are refused, and nothing is spent.

    Otherwise values, intervals, and predicted errors would be infinite or NaN.
    """
    curator = Curator([TABLE], budget=budget)
    for ask in (curator.preview, curator.sql):
        with pytest.raises(UnsupportedQuery, match=r"LEAST\(GREATEST|Scale|too large to square"):
            ask(f"SELECT {asked} AS s FROM t", epsilon=1)

    assert 0 == curator.budget.spent.share


@pytest.mark.parametrize("budget", [Budget(10), Budget(10, 1e-6)], ids=["pure", "gaussian"])
@pytest.mark.parametrize("epsilon", [1e-5, 1])
@pytest.mark.parametrize("asked", ["SUM(x)", "AVG(x)", "MEDIAN(x)", "STDDEV(x / 1e140)"])
def test_numbers_as_large_as_allowed_have_finite_intervals(
    asked: str, epsilon: float, budget: Budget
) -> None:
    """Up to the limit, values, intervals, and predicted errors are finite for any noise."""
    curator = Curator([TABLE], budget=budget)
    predicted = curator.preview(f"SELECT {asked} AS s FROM t", epsilon=epsilon).errors["s"]
    answer = curator.sql(f"SELECT {asked} AS s FROM t", epsilon=epsilon)
    ends = answer.interval_rows()[0]

    assert all(map(math.isfinite, (predicted or 0.0, answer.rows[0]["s"], *ends.values())))


@pytest.mark.parametrize("asked", ["AVG(x) * SUM(x)", "SUM(x) * 1e200 * AVG(x)"])
def test_products_beyond_the_doubles_are_null_without_a_warning(asked: str) -> None:
    """Arithmetic that overflows is NULL with an unbounded interval, without a warning."""
    answer = Curator([TABLE], budget=Budget(10)).sql(f"SELECT {asked} AS s FROM t", epsilon=1)
    ends = answer.interval_rows()[0]

    assert [{"s": None}] == answer.rows
    assert not any(map(math.isfinite, ends.values()))
