"""Tables at the limits of what can be declared give DuckDB's answers."""

import math
from collections.abc import Callable
from datetime import date
from typing import Final

import pyarrow as pa
import pytest

from confide.curator import Curator
from confide.declare import ROW, Bool, Budget, Category, Column, Date, Float, Int, PublicTable, Text
from support.noiseless import (
    BUDGETS,
    Opened,
    World,
    compare,
    find_insensitive,
    make_world,
    open_world,
)

KEYS: Final = ("Zoë", "Zoe\u0308", "ЖЖ", "日本", "👩\u200d🚀", " a", "a ", "A", "ß", 'it\'s "so"')


def twins() -> World:
    """Return people whose rows are all equal."""
    rows = [
        {"pid": person, "x": 2.5, "k": "ab"[person % 2], "same": 3.0}
        for person in range(100)
        for _ in range(1 + person % 3)
    ]
    columns: dict[str, Column] = {
        "x": Float(0, 4),
        "k": Category(["a", "b", "c"]),
        "same": Float(-0.7, -0.7),
    }
    return make_world(rows, columns, max_rows_per_unit=3)


def blanks() -> World:
    """Return columns with some or all values missing, and NULL as a listed key."""
    rows = [
        {
            "pid": person,
            "x": None,
            "y": None if person % 2 else float(person),
            "z": math.nan if person % 3 else math.inf,
            "k": (None, "a", "b", "other")[person % 4],
            "b": None,
        }
        for person in range(80)
    ]
    columns: dict[str, Column] = {
        "x": Float(-1, 1),
        "y": Int(10, 60),
        "z": Float(-5, 5),
        "k": Category(["a", "b", None]),
        "b": Bool(),
    }
    return make_world(rows, columns)


def tongues() -> World:
    """Return keys and people beyond ASCII, with many people per key."""
    rows = [
        {"pid": f"{person}-ñ", "k": KEYS[person % len(KEYS)], "x": float(person % 7)}
        for person in range(600)
    ]
    columns: dict[str, Column] = {"k": Category(list(KEYS)), "x": Float(0, 7)}
    return make_world(rows, columns, unit_type=pa.string())


def giants() -> World:
    """Return the largest integers, and floats far below zero."""
    rows = [
        {"pid": person, "n": float((-1) ** (person % 3) * (2**53 - person)), "far": -1e15 - person}
        for person in range(50)
    ]
    columns: dict[str, Column] = {"n": Int(-(2**53), 2**53), "far": Float(-2e15, -1e15)}
    return make_world(rows, columns)


def fringes() -> World:
    """Return the smallest numbers, dates at the limits of the calendar, and a constant column."""
    days = (date(1, 1, 1), date(1600, 2, 29), date(1970, 1, 1), date(2100, 2, 28), date.max)
    rows = [
        {"pid": person, "tiny": person * 1e-300, "day": days[person % 5], "same": 7.0}
        for person in range(50)
    ]
    columns: dict[str, Column] = {
        "tiny": Float(0, 1e-299),
        "day": Date(date.min, date.max),
        "same": Int(7, 7),
    }
    return make_world(rows, columns)


def pennies() -> World:
    """Return prices on a declared grid of 0.01, to which each row is rounded."""
    rows = [{"price": round(0.01 * (place * 7 % 1_000), 2), "n": place % 3} for place in range(900)]
    columns: dict[str, Column] = {"price": Float(0, 10, step=0.01), "n": Int(0, 2)}
    return make_world(rows, columns, unit=ROW)


QUESTIONS: Final[dict[Callable[[], World], tuple[str, ...]]] = {
    twins: (
        "SELECT COUNT(*) AS n, COUNT(DISTINCT pid) AS u, SUM(x) AS s, AVG(x) AS m FROM t",
        "SELECT k, COUNT(*) AS n, SUM(x) AS s, COUNT(DISTINCT pid) AS u FROM t GROUP BY k",
        "SELECT VAR_SAMP(x) AS v, COUNT(x) AS c FROM t WHERE k = 'a'",
        "SELECT SUM(same) AS s, AVG(same) AS m, VAR_SAMP(same) AS v FROM t",
        "SELECT SUM(2.5) AS s, AVG(0.3) AS m, SUM(CASE WHEN k = 'a' THEN -1.75 END) AS t FROM t",
        "SELECT c, COUNT(*) AS n FROM (SELECT pid, COUNT(*) AS c FROM t GROUP BY pid) GROUP BY c",
        "SELECT SUM(s) AS s FROM (SELECT pid, SUM(x) AS s FROM t WHERE k = 'b' GROUP BY pid)",
    ),
    blanks: (
        "SELECT COUNT(*) AS n, COUNT(x) AS a, COUNT(y) AS b, COUNT(z) AS c FROM t",
        "SELECT SUM(x) AS s, COUNT(b) AS c FROM t",
        "SELECT SUM(y) AS s, AVG(y) AS m, SUM(z) AS t, AVG(z) AS q FROM t",
        "SELECT k, COUNT(*) AS n, SUM(y) AS s FROM t GROUP BY k",
        "SELECT k IS NULL AS none, COUNT(*) AS n FROM t GROUP BY none",
        "SELECT COUNT(*) AS n FROM t WHERE x IS NULL AND NOT y IS NULL",
        "SELECT COUNT(*) AS n FROM t WHERE x > 0 OR x <= 0 OR b OR NOT b",
        "SELECT COUNT(*) FILTER (WHERE y > 30) AS n, COUNT(*) FILTER (WHERE NOT y > 9) AS o FROM t",
        "SELECT SUM(COALESCE(x, y, 1)) AS s, COUNT(COALESCE(x, z)) AS c FROM t",
        "SELECT SUM(CASE WHEN b THEN 1 ELSE 2 END) AS s, SUM(CASE WHEN y > 30 THEN y END) AS t "
        "FROM t",
        "SELECT COUNT(x + y) AS a, COUNT(NULLIF(y, 20)) AS b, COUNT(y / NULLIF(z, 5)) AS c FROM t",
    ),
    tongues: (
        "SELECT k, COUNT(*) AS n, AVG(x) AS m FROM t GROUP BY k",
        "SELECT COUNT(*) AS n FROM t WHERE k = '日本' OR k LIKE 'Zo_'",
        "SELECT LENGTH(k) AS l, COUNT(*) AS n FROM t GROUP BY l",
        "SELECT COUNT(*) AS n FROM t WHERE UPPER(k) = 'A' AND k IN ('a', 'A', 'ß')",
        "SELECT SUM(LEAST(LENGTH(SUBSTR(k, 2, 2)), 2)) AS s, COUNT(DISTINCT pid) AS u FROM t",
        'SELECT k = \' a\' AS "größe", COUNT(*) AS "n ≥ 0" FROM t GROUP BY "größe"',
    ),
    giants: (
        "SELECT SUM(n) AS s, COUNT(n) AS c FROM t",
        "SELECT SUM(far) AS s, AVG(far) AS m FROM t",
        "SELECT n > 0 AS up, COUNT(*) AS c FROM t GROUP BY up",
        "SELECT COUNT(*) AS c FROM t WHERE n % 2 = 0 AND ABS(n) > 9007199254740960",
    ),
    fringes: (
        "SELECT SUM(same) AS t, AVG(same) AS m, VAR_SAMP(same) AS v FROM t",
        "SELECT SUM(tiny * 1e300) AS s, AVG(tiny * 1e299) AS m FROM t",
        "SELECT EXTRACT(YEAR FROM day) AS y, COUNT(*) AS n FROM t GROUP BY y",
        "SELECT AVG(MONTH(day)) AS m, SUM(DAY(day)) AS s, AVG(QUARTER(day)) AS q FROM t",
        "SELECT COUNT(*) AS n FROM t WHERE day < DATE '1600-03-01' OR day = '9999-12-31'",
    ),
    pennies: (
        "SELECT SUM(price) AS s, AVG(price) AS m, COUNT(*) AS n FROM t",
        "SELECT n, SUM(price) AS s, VAR_SAMP(price) AS v FROM t GROUP BY n",
        "SELECT FLOOR(price) AS f, COUNT(*) AS c, SUM(price * n) AS s FROM t GROUP BY f",
        "SELECT CEIL(price / 2.5) AS f, COUNT(*) AS c FROM t GROUP BY f",
        "SELECT SUM(ROUND(price)) AS r, SUM(FLOOR(price * 100)) AS f FROM t WHERE price <> 0.29",
    ),
}
CASES: Final = [(maker, text) for maker, texts in QUESTIONS.items() for text in texts]


@pytest.mark.parametrize("accounting", BUDGETS)
@pytest.mark.parametrize(("maker", "text"), CASES, ids=lambda value: getattr(value, "__name__", ""))
def test_awkward_tables_are_answered_as_by_duckdb(
    maker: Callable[[], World], text: str, accounting: str
) -> None:
    """Each cell equals DuckDB's for every table, and an error of 1% would be detected."""
    opened = open_world(maker, accounting)

    assert [] == compare(opened, text)
    assert [] == find_insensitive(opened, text)


def earned() -> World:
    """Return undeclared strings, each shared by fifty people."""
    rows = [
        {"pid": person, "k": KEYS[person % 10], "b": person % 4 == 0, "x": float(person % 9)}
        for person in range(500)
    ]
    columns: dict[str, Column] = {"k": Text(), "b": Bool(), "x": Float(0, 9)}
    return make_world(rows, columns)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k, COUNT(*) AS n, AVG(x) AS m FROM t GROUP BY k",
        "SELECT LOWER(k) AS l, COUNT(*) AS n FROM t GROUP BY l",
        "SELECT SUBSTR(k, 1, 1) AS c, b, SUM(x) AS s FROM t GROUP BY c, b",
        "SELECT k, name, COUNT(*) AS n FROM t JOIN names ON k = word GROUP BY k, name",
        "SELECT name, COUNT(*) AS n, SUM(size * x) AS s FROM t JOIN names ON k = word GROUP BY 1",
        "SELECT COUNT(*) AS n, COUNT(size) AS c FROM t LEFT JOIN names ON k = word",
    ],
)
def test_shared_strings_are_answered_as_by_duckdb(text: str) -> None:
    """All keys that enough people share are released with DuckDB's values, and can be joined."""
    world = earned()
    names = pa.table({"word": list(KEYS[:6]), "name": list("uvwuvw"), "size": [1, 2, 3, 4, 5, 6]})
    tables = (*world.tables, PublicTable("names", names))
    oracle = open_world(earned, "gaussian").oracle
    oracle.register("names", names)
    # Enough for these numbers, without making partition selection slow.
    opened = Opened(world, Curator(tables, budget=Budget(1e12, 1e-6)), oracle, 1e9)

    assert [] == compare(opened, text)
    assert [] == find_insensitive(opened, text)
