"""Functions of one row give, on every engine, the values of DuckDB's own functions."""

import math
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from typing import Any, Final

import duckdb
import pytest

from confide.declare import Column, Date, Float, Int, Text
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


ODD_DAYS: Final = (
    *(date(1, 1, 1), date(1, 1, 31), date(4, 2, 29), date(9, 12, 31), date(99, 12, 31)),
    *(date(1582, 10, 10), date(1900, 2, 28), date(1969, 12, 31), date(1970, 1, 1)),
    *(date(2000, 2, 29), date(2000, 12, 31), date(2001, 1, 1), date(2020, 1, 31)),
    *(date(9990, 6, 15), date(9999, 1, 1), date(9999, 12, 31), None),
)
ODD_COUNTS: Final = (
    *(0, 1, -1, 4, 13, -25, 400, -4_000, 20_000, 99_999, -99_999, 3_652_058, -3_652_058),
    *(3_652_059, 10**9, -(10**9), 2**53, -(2**53), None),
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


def days() -> World:
    """Return pairs of days, among them all ends of weeks and years around 2020."""
    near = [date(2018, 12, 25) + timedelta(days) for days in range(1_200) if days % 11 < 3]
    listed = [*ODD_DAYS, *near]
    rows = [
        {"d": one, "e": ODD_DAYS[place % len(ODD_DAYS)], "n": ODD_COUNTS[place % len(ODD_COUNTS)]}
        for place, one in enumerate(listed * 2)
    ]
    columns: dict[str, Column] = {
        **{name: Date("0001-01-01", "9999-12-31") for name in ("d", "e")},
        "n": Int(-(2**53), 2**53),
    }
    numbered = [{"pid": pid, **row} for pid, row in enumerate(rows)]
    return make_world(numbered, columns)


PARTS: Final = (
    *("week", "isoyear", "doy", "isodow", "yearweek", "decade", "century", "millennium", "epoch"),
)
SPANS: Final = ("day", "week", "month", "quarter", "year", "isoyear", "decade", "century")
DAY_CASES: Final = (
    *(f"EXTRACT({part} FROM d)" for part in PARTS),
    *(f"DATE_TRUNC('{span}', d)" for span in SPANS),
    *(f"DATE_DIFF('{span}', e, d)" for span in SPANS),
    *("GREATEST(d, e)", "LEAST(d, DATE '2020-05-05')", "d - e", "DAYNAME(d)", "MONTHNAME(d)"),
    *("STRFTIME(d, '%Y-%m')", "STRFTIME(d, '%a %d. %b %y, %j, %u %w %G-W%V %-m/%-d %H:%M:%S %%')"),
)
MOVES: Final = (
    *("d + 7", "d - 400", "d + INTERVAL 1 MONTH", "d - INTERVAL 1 YEAR", "d + INTERVAL 3 DECADE"),
    *("LAST_DAY(LEAST(d, DATE '9999-11-11'))", "d + INTERVAL 5 WEEK"),
)
ODD_MOVES: Final = ("d + n", "d + INTERVAL (n) MONTH", "d - INTERVAL (n) YEAR")


@pytest.mark.parametrize("asked", DAY_CASES)
def test_functions_of_dates_have_the_values_of_duckdb(asked: str, place: Place) -> None:
    """Every function of dates gives DuckDB's own value for every odd date."""
    compare(days, asked, place)


@pytest.mark.parametrize("asked", MOVES)
def test_moved_dates_are_those_of_duckdb(asked: str, place: Place) -> None:
    """A date moved by a fixed interval is DuckDB's, or NULL outside years 1 to 9999."""
    compare(days, asked, place, f"CASE WHEN YEAR({asked}) BETWEEN 1 AND 9999 THEN {asked} END")


@pytest.mark.parametrize("asked", ODD_MOVES)
def test_dates_can_be_moved_by_any_number(asked: str, place: Place) -> None:
    """No number of days or months makes an engine fail; far dates are NULL."""
    small = "ABS(n) < 1e5"
    reference = asked.replace("d + n", "d + n::INT").replace("(n)", "(n::INT)")
    expected = f"CASE WHEN {small} AND YEAR({reference}) BETWEEN 1 AND 9999 THEN {reference} END"

    compare(days, asked, place, expected)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("MAKE_DATE(YEAR(d), MONTH(d), DAY(d))", "d"),
        ("MAKE_DATE(YEAR(d), 2, 30)", "NULL"),
        ("MAKE_DATE(YEAR(d), 13, 1)", "NULL"),
        (
            "MAKE_DATE(n, 2, 29)",
            "CASE n WHEN 4 THEN DATE '0004-02-29' WHEN 400 THEN DATE '0400-02-29' END",
        ),
    ],
)
def test_dates_are_made_of_numbers(asked: str, expected: str, place: Place) -> None:
    """A date is made of a year, a month, and a day, or is NULL if there is none."""
    compare(days, asked, place, expected)


def compare(
    world: Callable[[], World], asked: str, place: Place, reference: str | None = None
) -> None:
    """Check that an engine's value of an expression is DuckDB's own in every row."""
    pair = pair_world(world, place)
    expected, actual = own_values(world, reference or asked), engine_values(pair, asked)
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
    if isinstance(expected, str) and "(BC)" in expected:
        return actual is None
    if isinstance(expected, datetime):
        return bool(expected == datetime.combine(actual, time.min))
    if isinstance(expected, float):
        if not math.isfinite(expected):
            return actual is None
        return actual is not None and math.isclose(expected, actual, rel_tol=1e-13, abs_tol=1e-300)
    return bool(expected == actual)
