"""Ranges of functions of numbers: they contain every value that DuckDB computes."""

import math
from typing import Final

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from confide.declare import Kind
from confide.engines.sql.expressions import Emitter
from confide.expressions.construct import make_literal
from confide.expressions.functions import Function
from confide.expressions.shorthands import Shorthand, build_call
from confide.expressions.tree import Column, Expression
from confide.plan.range_analysis import UNBOUNDED, Range, range_of
from support.entropy import SeededEntropy

F = Function
INTERVALS: Final = 60
POINTS: Final = 25
X, Y = (Column("p", name, Kind.FLOAT) for name in "xy")
ANY: Final = {("p", name): UNBOUNDED for name in "xy"}
CASES: Final[dict[str, Expression]] = {
    **{
        function: build_call(function, X)
        for function in (
            *(F.LOG2, F.LOG10, F.SIGN, F.SIN, F.COS, F.TAN, F.ASIN, F.ACOS, F.ATAN),
            *(Shorthand.TRUNC, Shorthand.COT, Shorthand.RADIANS),
        )
    },
    "power": build_call(F.POWER, X, Y),
    **{
        f"power {exponent}": build_call(F.POWER, X, make_literal(exponent))
        for exponent in (-3, -2, -1, 0, 1, 2, 3, 0.5, 300)
    },
    "exponential": build_call(F.POWER, make_literal(2), X),
    "atan2": build_call(F.ATAN2, X, Y),
    "quotient": build_call(F.DIVIDE, X, Y),
    "nested": build_call(F.ADD, build_call(F.MULTIPLY, build_call(F.DIVIDE, X, Y), X), Y),
    "difference": build_call(F.SUBTRACT, Y, build_call(F.DIVIDE, X, Y)),
}


def draw_interval(rng: np.random.Generator) -> tuple[float, float]:
    """Return the ends of an interval, which often touches or surrounds 0 or 1."""
    size = 10.0 ** rng.uniform(-3, 4)
    ends = [*rng.uniform(-size, size, 2), 0.0, 1.0, -1.0, round(rng.uniform(-5, 5))]
    low, high = sorted(rng.choice(ends, 2))
    return float(low), float(high)


@pytest.mark.parametrize("name", CASES)
def test_every_value_lies_in_its_range(name: str, entropy: SeededEntropy) -> None:
    """For columns in random intervals, DuckDB's value is in the inferred range, or NULL."""
    rng = np.random.default_rng(int(entropy.words(1)[0]))
    rows = []
    for _ in range(INTERVALS):
        ends = [draw_interval(rng) for _ in "xy"]
        columns = {key: Range(*end) for key, end in zip(ANY, ends, strict=True)}
        found = range_of(CASES[name], columns)
        points = (np.concatenate([end, rng.uniform(*end, POINTS)]) for end in ends)
        x, y = (each.ravel().tolist() for each in np.meshgrid(*points))
        rows += [(*pair, found.low, found.high) for pair in zip(x, y, strict=True)]
    columns_ = dict(zip(("x", "y", "low", "high"), map(list, zip(*rows, strict=True)), strict=True))
    p = pa.table(columns_)  # noqa: F841  # DuckDB finds it by its name
    value = Emitter(ANY).emit(CASES[name]).sql("duckdb")
    outside = duckdb.execute(f"SELECT * FROM p WHERE NOT ({value} BETWEEN low AND high)")

    assert [] == outside.fetchall()


@pytest.mark.parametrize(
    ("low", "high", "expression"),
    [
        (0.0, math.inf, build_call(F.DIVIDE, X, Y)),
        (0.0, 700.0, build_call(F.LEAST, build_call(F.DIVIDE, X, Y), make_literal(700.0))),
        (
            0.0,
            70.0,
            build_call(
                F.MULTIPLY,
                build_call(F.LEAST, build_call(F.DIVIDE, X, Y), make_literal(7)),
                make_literal(10.0),
            ),
        ),
        (0.0, 5.0, build_call(F.DIVIDE, X, build_call(F.GREATEST, Y, make_literal(1)))),
        (-1, 1, build_call(F.SIGN, build_call(F.SUBTRACT, X, Y))),
    ],
)
def test_ratios_have_the_bounds_of_their_signs(
    low: float, high: float, expression: Expression
) -> None:
    """A ratio of numbers from 0 on is at least 0, also where the divisor may be 0."""
    columns = {("p", "x"): Range(0.0, 5.0), ("p", "y"): Range(0.0, 9.0)}

    assert (low, high) == (range_of(expression, columns).low, range_of(expression, columns).high)
