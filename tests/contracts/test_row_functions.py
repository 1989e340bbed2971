"""Functions of one row give, on every engine, the values of DuckDB's own functions."""

import math
from collections.abc import Callable
from typing import Any, Final

import duckdb
import pytest

from confide.declare import Column, Float, Int, Text
from confide.engines import SqlEngine
from confide.engines.sql.builders import UNIT, column, label, select, table
from confide.engines.sql.expressions import Emitter
from confide.query.sql import read_sql
from support.noiseless import World, make_world
from support.places import PLACES, Pairing, Place, find_place, pair_world

TEXTS: Final = (
    *(
        "",
        " ",
        "a",
        "A",
        "aXa",
        "xxaxx",
        " a b ",
        "\u00a0a\u3000",
        "\ta\t",
        "a-b-c",
        "-",
        "--",
        "aaaaa",
    ),
    *("é", "e\u0301", "👩‍🚀x", "\U00010400", "ß", "\u0130", "%_\\", "it's", '"', "$1\\1", "\u200b"),
    *("x" * 9_998 + "yz", "a-" * 700, "NULL", "0", "-1.5", None),
)


MAX_DOUBLE: Final = 1.7976931348623157e308
REALS: Final = (
    *(0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, -3.0, 1.5, 8.0, 10.0, 1e-3, 100.0, 1.0 + 2e-16),
    *(5e-324, -5e-324, 1e-300, 1e300, -1e300, 1.7e308, 2.0**53, 709.5, -745.0, 1023.0, None),
)


@pytest.fixture(scope="session", params=PLACES)
def place(request: pytest.FixtureRequest) -> Place:
    """Return a place for the rows of each engine, in turn."""
    return find_place(request.param, request)


def texts() -> World:
    """Return all pairs of the first strings, and the others alone."""
    rows = [
        {"t": one, "u": TEXTS[(place * 7 + shift) % len(TEXTS)], "n": place - 5}
        for place, one in enumerate(TEXTS)
        for shift in range(3)
    ]
    columns: dict[str, Column] = {"t": Text(), "u": Text()}
    numbered = [{"pid": pid, **row} for pid, row in enumerate(rows)]
    return make_world(numbered, columns)


TEXT_CASES: Final = (
    *("t || u", "t || '-' || u || 1.5", "CONCAT(t, u, 1, TRUE)", "CONCAT_WS(', ', t, u, 'x')"),
    *("LEFT(t, 0)", "LEFT(t, 2)", "RIGHT(t, 0)", "RIGHT(t, 2)", "RIGHT(t, 99999)"),
    *(
        "TRIM(t)",
        "LTRIM(t)",
        "RTRIM(t)",
        "TRIM(t, 'x a')",
        "TRIM(LEADING 'x' FROM t)",
        "TRIM(t, '')",
    ),
    *("RTRIM(t, '\\')", "REPLACE(t, 'a', '')", "REPLACE(t, 'aa', 'b')", "REPLACE(t, '\\', '$1')"),
    *("SPLIT_PART(t, '-', 1)", "SPLIT_PART(t, '-', 3)", "SPLIT_PART(t, 'aa', 2)"),
    *("SPLIT_PART(t, '.', 1)", "SPLIT_PART(t, '\\', 2)", "SPLIT_PART(t, '-', 1000)"),
    *("POSITION('x' IN t)", "STRPOS(t, 'a-')", "INSTR(t, '\\')", "STRPOS(t, 'é')"),
    *("STARTS_WITH(t, 'a')", "STARTS_WITH(t, '')", "ENDS_WITH(t, 'xx')", "CONTAINS(t, '-b')"),
    *("t ILIKE 'A%'", "t NOT ILIKE '%\u0130%'", "LENGTH(t || t)", "t || NULL"),
)


@pytest.mark.parametrize("asked", TEXT_CASES)
def test_functions_of_strings_have_the_values_of_duckdb(asked: str, place: Place) -> None:
    """Every string function gives DuckDB's own value for every odd string."""
    compare(texts, asked, place)


def numbers() -> World:
    """Return all pairs of odd numbers, of integers and floats."""
    wholes = (*range(-9, 10), 2**53, -(2**53), 10**15)
    rows = [{"x": x, "y": y} for x in REALS for y in REALS]
    for place, row in enumerate(rows):
        row |= {"n": wholes[place % len(wholes)], "m": wholes[place // 7 % len(wholes)]}
    columns: dict[str, Column] = {
        **{name: Float(-MAX_DOUBLE, MAX_DOUBLE) for name in ("x", "y")},
        **{name: Int(-(2**53), 2**53) for name in ("n", "m")},
    }
    numbered = [{"pid": pid, **row} for pid, row in enumerate(rows)]
    return make_world(numbered, columns)


NUMBER_CASES: Final = (
    *("POWER(x, 2)", "POWER(x, y)", "POWER(x, -1)", "POWER(2, y)", "POWER(x, 0.5)", "n ** 3"),
    *("POW(n, m)", "POWER(x, 0)", "LOG2(x)", "LOG10(x)", "LOG(x)", "LOG(2, x)", "LOG(3, x)"),
    *("SIGN(x)", "SIGN(n)", "SIN(x)", "COS(x)", "TAN(x)", "ASIN(x)", "ACOS(x)", "ATAN(x)"),
    *("ATAN2(ABS(x), ABS(y))", "ATAN2(n, m)", "RADIANS(x)", "DEGREES(x)", "x * PI()", "COT(n)"),
    *("n // 10", "n // NULLIF(m, 0)", "TRUNC(LEAST(GREATEST(x, -1e9), 1e9))", "TRUNC(n)"),
)


@pytest.mark.parametrize("asked", NUMBER_CASES)
def test_functions_of_numbers_have_the_values_of_duckdb(asked: str, place: Place) -> None:
    """Every function of numbers gives DuckDB's own value, or NULL where that is not finite."""
    compare(numbers, asked, place)


def compare(world: Callable[[], World], asked: str, place: Place) -> None:
    """Check that an engine's value of an expression is DuckDB's own in every row."""
    pair = pair_world(world, place)
    expected, actual = own_values(world, asked), engine_values(pair, asked)
    differing = {
        row: (value, actual[row])
        for row, value in expected.items()
        if not is_same(value, actual[row])
    }

    assert {} == differing


def own_values(world: Callable[[], World], asked: str) -> dict[Any, Any]:
    """Return the values that DuckDB gives for the analyst's own text, with NULL for NaN."""
    rows = world().plain["t"]  # noqa: F841  # DuckDB finds it by its name
    return dict(duckdb.execute(f"SELECT pid, {asked} FROM rows").fetchall())


def engine_values(pair: Pairing, asked: str) -> dict[Any, Any]:
    """Return the values that an engine gives for confide's tree of an expression."""
    query = read_sql(f"SELECT COUNT(*) AS n FROM t GROUP BY {asked}", pair.curator.names)
    ranges = pair.plan("SELECT COUNT(*) AS n FROM t").measurement.ranges
    value = Emitter(ranges).emit(query.keys[0])
    shown = [label(column(UNIT), "u"), label(value, "v")]
    engine: SqlEngine = pair.there
    with engine._session():
        return dict(engine._rows(engine._write(select(shown, table("t", "t1")))))


def is_same(expected: Any, actual: Any) -> bool:
    """Return whether two values are equal, up to the last bits of a double."""
    if isinstance(expected, float):
        if not math.isfinite(expected):
            return actual is None
        return actual is not None and math.isclose(expected, actual, rel_tol=1e-13, abs_tol=1e-300)
    return bool(expected == actual)
