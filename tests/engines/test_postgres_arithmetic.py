"""Guarded arithmetic gives the doubles of IEEE 754 where PostgreSQL's own fails."""

import math
from collections.abc import Callable
from itertools import product
from typing import Any, Final

import duckdb
import pytest
from sqlglot import expressions as sql

from confide.engines.postgres import arithmetic
from confide.engines.sql.builders import Sql, column, number
from support.postgres import Postgres

MIN_DOUBLE: Final = 5e-324
SIZES: Final = (
    *(
        0.0,
        MIN_DOUBLE,
        2 * MIN_DOUBLE,
        3 * MIN_DOUBLE,
        2.2250738585072014e-308,
        1e-300,
        2.0**-538,
        2.0**-537,
    ),
    *(1.4 * 2.0**-537, 1e-150, 1e-100, 0.1, 0.5, 1 - 2.0**-53, 1.0, 1.5, 2.5, 3.0, 1e16),
    *(1e150, 1e154, 1.3e154, 2.0**537, 1e300, 8.98846567431158e307, 1.7976931348623157e308),
)
NUMBERS: Final = (*SIZES, *(-size for size in SIZES))
SAFE_MAX: Final = 1.7976931348623157e308 * (1 - 2.0**-49)


def rounded(operation: Callable[[float, float], float], x: float, y: float) -> float | None:
    """Return the rounded result of the operation on this machine, None if it is infinite."""
    value = operation(x, y)
    return value if math.isfinite(value) else None


OPERATIONS: Final[dict[str, tuple[Callable[..., Sql], Callable[[float, float], float]]]] = {
    "add": (arithmetic.add, lambda x, y: x + y),
    "subtract": (arithmetic.subtract, lambda x, y: x - y),
    "multiply": (arithmetic.multiply, lambda x, y: x * y),
    "divide": (arithmetic.divide, lambda x, y: x / y if y else math.nan),
}


def compute(postgres: Postgres, value: Sql) -> list[tuple[Any, ...]]:
    """Return a value for each pair of numbers."""
    with postgres.connect("postgres") as connection:
        connection.execute("CREATE TEMPORARY TABLE pairs (x float8, y float8)")
        with connection.cursor().copy("COPY pairs FROM STDIN") as copier:
            for pair in product((*NUMBERS, None), repeat=2):
                copier.write_row(pair)
        text = sql.select(column("x"), column("y"), value).from_("pairs").sql("postgres")
        return connection.execute(text.encode()).fetchall()


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("is_large", [False, True])
def test_operations_round_as_ieee_says(name: str, is_large: bool, postgres: Postgres) -> None:
    """For every pair of extreme numbers, the result is rounded, or NULL if it is infinite."""
    build, operation = OPERATIONS[name]
    x, y = column("x"), column("y")
    divisor: Sql = sql.Nullif(this=y, expression=number(0)) if name == "divide" else y
    dividend = sql.Case(ifs=[sql.If(this=sql.true(), true=x)]) if is_large else x
    wrong = []
    for first, second, actual in compute(postgres, build(dividend, divisor)):
        known = first is not None and second is not None
        expected = rounded(operation, first, second) if known else None
        if expected is not None and abs(expected) > SAFE_MAX and actual is None:
            continue  # NULL already, just below infinity
        if expected != actual:
            wrong.append((first, second, expected, actual))

    assert [] == wrong


@pytest.mark.parametrize("factor", [5e-324, -1e-323, 1e-300, 0.1, 0.6, 1.0, -2.5, 1e16, -1e300])
def test_products_with_literals_round_alike(factor: float, postgres: Postgres) -> None:
    """The short form for a literal gives the same doubles, down to the smallest."""
    value = arithmetic.multiply(column("x"), number(factor))
    wrong = [
        (x, x * factor, actual)
        for x, _, actual in compute(postgres, value)
        if x is not None and actual != rounded(lambda a, b: a * b, x, factor)
        if not (actual is None and abs(x * factor) > SAFE_MAX)
    ]

    assert [] == wrong


@pytest.mark.parametrize("digits", [0, 1, 2, 15, 308, 400, -1, -3, -18, -307, -400])
def test_halves_are_rounded_away_from_zero(digits: int, postgres: Postgres) -> None:
    """ROUND equals DuckDB's on every extreme number, except those just below infinity."""
    here = duckdb.connect()
    value = arithmetic.round_away(column("x"), digits)
    for x, _, actual in compute(postgres, value):
        if x is not None and abs(x) > SAFE_MAX:
            continue
        row = here.execute("SELECT ROUND(CAST(? AS DOUBLE), ?)", [x, digits]).fetchone()

        assert row is not None
        assert row[0] == actual, x


def test_functions_end_where_doubles_end(postgres: Postgres) -> None:
    """Exponentials and square roots are zero or NULL out of range, and never fail."""
    powers = {x: v for x, _, v in compute(postgres, arithmetic.exponential(column("x")))}
    roots = {x: v for x, _, v in compute(postgres, arithmetic.root(column("x")))}

    assert (None, 0.0, 1.0) == (powers[1e16], powers[-1e16], powers[0.0])
    assert math.isclose(math.exp(2.5), powers[2.5], rel_tol=1e-15)
    assert (None, 0.0, math.sqrt(2.5)) == (roots[-2.5], roots[0.0], roots[2.5])
