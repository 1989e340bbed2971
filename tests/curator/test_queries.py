"""With almost no noise, answers equal DuckDB's on the same data, clipped and limited.

The data is one survey, and tables built by hand with every awkward value. For an empty group, SQL
returns NULL but confide cannot, since emptiness is private: a sum is then 0, and a mean is anywhere
in its range.
"""

import math
from collections.abc import Sequence
from datetime import date
from typing import Final

import duckdb
import pytest

from confide.declare import ROW, Bool, Category, Column, Date, Float, Int, Text
from support.datasets import nhanes
from support.noiseless import (
    BUDGETS,
    World,
    ask_oracle,
    compare,
    find_insensitive,
    is_near,
    make_world,
    open_world,
)


def visits() -> World:
    """Return several visits per person, within the limits."""
    rows = [
        {
            "pid": person,
            "cost": (person * 37 + visit * 11) % 97 + 0.25 * visit,
            "age": float(20 + person % 60),
            "ward": "ABCD"[(person + visit) % 4],
            "day": date(2020, 1 + (person + visit) % 12, 1 + person % 28),
            "urgent": None if person % 7 == 0 else visit % 2 == 0,
            "note": f"{person % 3}",
        }
        for person in range(300)
        for visit in range(1 + person % 4)
    ]
    columns: dict[str, Column] = {
        "cost": Float(0, 80),
        "age": Int(25, 70),
        "ward": Category(["A", "B", "C", "E"]),
        "day": Date("2020-02-01", "2020-10-31"),
        "urgent": Bool(),
        "note": Text(),
    }
    return make_world(rows, columns, max_rows_per_unit=4)


ODD: Final = (
    *(None, 0.0, -0.0, 5e-324, 1.5, -2.5, 1e300, -1e300, math.inf, -math.inf, math.nan, 7.0, 3.0),
)


def odd() -> World:
    """Return every awkward value, and keys beyond ASCII."""
    keys = ("naïve", "e\u0301", "é", "👩\u200d🚀", "it's", "", "B", None)
    rows = [
        {
            "pid": place,
            "x": value,
            "k": keys[place % 8],
            "n": value,
            "b": (True, False, None)[place % 3],
        }
        for place, value in enumerate(ODD * 9)
    ]
    rows += [{**rows[0], "pid": None, "x": 5.0}]
    columns: dict[str, Column] = {
        "x": Float(-10, 10),
        "n": Int(-100, 1_000),
        "k": Category([key for key in keys if key is not None]),
        "b": Bool(),
    }
    return make_world(rows, columns)


def one_row() -> World:
    """Return a single person."""
    return make_world([{"pid": 1, "x": 3.5, "k": "a"}], {"x": Float(0, 9), "k": AB})


def empty() -> World:
    """Return a table without rows."""
    return make_world([], {"x": Float(0, 9), "k": AB})


def loners() -> World:
    """Return a table in which every row is another person, some of them equal."""
    rows = [{"x": float(place % 5), "k": "ab"[place % 2]} for place in range(50)]
    return make_world(rows, {"x": Float(0, 3), "k": AB}, unit=ROW)


def vast() -> World:
    """Return values near the limits of what can be declared, most of them negative."""
    rows = [{"pid": place, "x": -1e12 * place, "n": -(2.0**50) + place} for place in range(40)]
    columns: dict[str, Column] = {"x": Float(-3e13, 1e12), "n": Int(-(2**50), 2**50)}
    return make_world(rows, columns)


AB: Final = Category(["a", "b"])
WORLDS: Final = {
    maker.__name__: maker for maker in (nhanes, visits, odd, one_row, empty, loners, vast)
}
QUESTIONS: Final[dict[str, Sequence[str]]] = {
    "nhanes": (
        "SELECT COUNT(*) AS n FROM t",
        "SELECT COUNT(sleep_hours) AS n, COUNT(DISTINCT pid) AS u FROM t",
        "SELECT COUNT(DISTINCT pid) AS n FROM t WHERE age >= 65",
        "SELECT SUM(age) AS s, AVG(age) AS m, VAR_SAMP(age) AS v, STDDEV(age) AS d FROM t",
        "SELECT SUM(weight_kg) AS s FROM t",
        "SELECT AVG(weight_kg) AS m, AVG(systolic) AS p, AVG(cholesterol) AS c FROM t",
        "SELECT VARIANCE(cholesterol) AS v, STDDEV(sleep_hours) AS d FROM t",
        "SELECT sex, COUNT(*) AS n FROM t GROUP BY sex",
        "SELECT sex, AVG(weight_kg) AS m, STDDEV(weight_kg) AS d FROM t GROUP BY sex",
        "SELECT health, COUNT(*) AS n, SUM(sleep_hours) AS s FROM t GROUP BY health",
        "SELECT health, sex, COUNT(*) AS n, AVG(age) AS m FROM t GROUP BY health, sex",
        "SELECT age, COUNT(*) AS n FROM t GROUP BY age",
        "SELECT insured, COUNT(*) AS n FROM t GROUP BY insured",
        "SELECT COUNT(*) FILTER (WHERE ever_smoked) AS n, COUNT(*) AS a FROM t",
        "SELECT AVG(systolic) FILTER (WHERE age > 50) AS m FROM t",
        "SELECT sex, SUM(age) FILTER (WHERE NOT insured) AS s FROM t GROUP BY sex",
        "SELECT SUM(weight_kg) / COUNT(weight_kg) AS m FROM t",
        "SELECT 100 * COUNT(*) FILTER (WHERE ever_smoked) / COUNT(ever_smoked) AS p FROM t",
        "SELECT sex, AVG(systolic) - AVG(age) AS d FROM t GROUP BY sex",
        "SELECT COUNT(*) AS n FROM t WHERE weight_kg BETWEEN 60 AND 80.5 AND sex = 'Male'",
        "SELECT COUNT(*) AS n FROM t WHERE health IN ('Good', 'Fair') OR age < 10",
        "SELECT COUNT(*) AS n FROM t WHERE health IS NULL",
        "SELECT COUNT(*) AS n FROM t WHERE health LIKE '%oo%'",
        "SELECT COUNT(*) AS n FROM t WHERE NOT (ever_smoked AND insured)",
        "SELECT AVG(CASE WHEN systolic > 140 THEN 1 ELSE 0 END) AS p FROM t",
        "SELECT SUM(CASE WHEN sex = 'Male' THEN weight_kg ELSE -1 END) AS s FROM t",
        "SELECT AVG(weight_kg * 2.2 + 1) AS m FROM t",
        "SELECT AVG(age * age) AS m FROM t",
        "SELECT AVG(ABS(systolic - 120)) AS m FROM t",
        "SELECT AVG(SQRT(weight_kg)) AS a, AVG(LN(weight_kg)) AS b, SUM(EXP(age / 70)) AS c FROM t",
        "SELECT SUM(ROUND(weight_kg, 1)) AS a, SUM(FLOOR(sleep_hours)) AS b FROM t",
        "SELECT SUM(CEIL(sleep_hours)) AS a, SUM(age % 7) AS b FROM t",
        "SELECT AVG(COALESCE(sleep_hours, 7)) AS m FROM t",
        "SELECT SUM(LEAST(systolic, 120)) AS a, SUM(GREATEST(age, 18)) AS b FROM t",
        "SELECT FLOOR(age / 10) AS decade, COUNT(*) AS n FROM t GROUP BY decade",
        "SELECT age >= 65 AS old, COUNT(*) AS n, AVG(systolic) AS m FROM t GROUP BY old",
        "SELECT CASE WHEN age < 18 THEN 'a' ELSE 'b' END AS g, COUNT(*) AS n FROM t GROUP BY g",
        "SELECT COALESCE(health, 'unasked') AS h, COUNT(*) AS n FROM t GROUP BY h",
        "SELECT sex, health, AVG(cholesterol) AS m FROM t WHERE age > 30 GROUP BY sex, health",
        "SELECT SUM(weight_kg / (systolic / 100)) AS s FROM t",
    ),
    "visits": (
        "SELECT COUNT(*) AS n, COUNT(DISTINCT pid) AS u FROM t",
        "SELECT ward, COUNT(*) AS n, COUNT(DISTINCT pid) AS u FROM t GROUP BY ward",
        "SELECT ward, AVG(cost) AS m, SUM(cost) AS s, VAR_SAMP(cost) AS v FROM t GROUP BY ward",
        "SELECT MONTH(day) AS m, COUNT(*) AS n FROM t GROUP BY m",
        "SELECT QUARTER(day) AS q, SUM(cost) AS s FROM t GROUP BY q",
        "SELECT EXTRACT(YEAR FROM day) AS y, COUNT(*) AS n FROM t GROUP BY y",
        "SELECT DAYOFWEEK(day) AS w, COUNT(*) AS n FROM t GROUP BY w",
        "SELECT DATE_TRUNC('month', day) AS m, COUNT(*) AS n FROM t GROUP BY m",
        "SELECT day, COUNT(*) AS n FROM t GROUP BY day",
        "SELECT COUNT(*) AS n FROM t WHERE day >= DATE '2020-06-01'",
        "SELECT COUNT(*) AS n FROM t WHERE day BETWEEN '2020-03-01' AND '2020-04-30'",
        "SELECT urgent, ward, AVG(cost) AS m FROM t GROUP BY urgent, ward",
        "SELECT SUM(cost) FILTER (WHERE urgent) AS a, SUM(cost) AS b FROM t",
        "SELECT COUNT(*) AS n FROM t WHERE UPPER(ward) = 'A' AND LENGTH(note) = 1",
        "SELECT AVG(CAST(note AS INT) % 3) AS m FROM t WHERE SUBSTR(note, 1, 1) = '2'",
        "SELECT AVG(LEAST(GREATEST(CAST(note AS DOUBLE), 0), 5)) AS m FROM t",
        "SELECT SUM(age * cost) AS s FROM t",
        "SELECT STDDEV(cost - age) AS d FROM t",
        "SELECT ward, STDDEV(LEAST(GREATEST(cost / 10 - age / 7, -5), 5) * "
        "LEAST(GREATEST(age - cost, -30), 30) + cost / 100) AS d FROM t GROUP BY ward",
        "SELECT AVG(YEAR(day)) AS y, AVG(DAY(day)) AS d FROM t",
        "SELECT ward, COUNT(*) AS n FROM t WHERE cost > 1000 GROUP BY ward",
        "SELECT SUM(CAST(urgent AS INT)) AS n, COUNT(urgent) AS c FROM t",
        "SELECT NULLIF(ward, 'A') AS w, COUNT(*) AS n FROM t GROUP BY w",
        "SELECT IF(cost > 40, 'dear', 'cheap') AS c, COUNT(*) AS n FROM t GROUP BY c",
        "SELECT ward, MONTH(day) AS m, SUM(cost) AS s FROM t GROUP BY ward, m",
    ),
    "odd": (
        "SELECT COUNT(*) AS n, COUNT(x) AS c, COUNT(n) AS i, COUNT(DISTINCT pid) AS u FROM t",
        "SELECT SUM(x) AS s, AVG(x) AS m, VAR_SAMP(x) AS v FROM t",
        "SELECT SUM(n) AS s, AVG(n) AS m, STDDEV(n) AS d FROM t",
        "SELECT k, COUNT(*) AS n, COUNT(x) AS c FROM t GROUP BY k",
        "SELECT k, AVG(x) AS m, SUM(n) AS s FROM t GROUP BY k",
        "SELECT b, COUNT(*) AS n FROM t GROUP BY b",
        "SELECT k, b, SUM(x) AS s FROM t GROUP BY k, b",
        "SELECT COUNT(*) AS n FROM t WHERE x > 0",
        "SELECT COUNT(*) AS n FROM t WHERE k = 'it''s' OR k = ''",
        "SELECT COUNT(*) AS n FROM t WHERE x = n",
        "SELECT SUM(-x) AS s, SUM(x * x) AS q FROM t",
        "SELECT COUNT(*) AS n FROM t WHERE k LIKE '%\u0301'",
        "SELECT SUM(LENGTH(k)) AS s FROM t",
    ),
    "one_row": (
        "SELECT COUNT(*) AS n, SUM(x) AS s, AVG(x) AS m FROM t",
        "SELECT k, COUNT(*) AS n, SUM(x) AS s FROM t GROUP BY k",
        "SELECT VAR_SAMP(x) AS v FROM t",
    ),
    "empty": (
        "SELECT COUNT(*) AS n, COUNT(DISTINCT pid) AS u, SUM(x) AS s FROM t",
        "SELECT AVG(x) AS m, VAR_SAMP(x) AS v FROM t",
        "SELECT k, COUNT(*) AS n, AVG(x) AS m FROM t GROUP BY k",
    ),
    "loners": (
        "SELECT COUNT(*) AS n, SUM(x) AS s, AVG(x) AS m, VAR_SAMP(x) AS v FROM t",
        "SELECT k, COUNT(*) AS n, AVG(x) AS m FROM t GROUP BY k",
        "SELECT COUNT(*) AS n FROM t WHERE x >= 3",
    ),
    "vast": (
        "SELECT COUNT(*) AS n, SUM(x) AS s, AVG(x) AS m FROM t",
        "SELECT SUM(n) AS s, AVG(n) AS m FROM t",
        "SELECT STDDEV(x) AS d FROM t",
    ),
}
SORTED: Final = (
    "SELECT ward, COUNT(*) AS n FROM t GROUP BY ward HAVING COUNT(*) > 0 ORDER BY n DESC, ward",
    "SELECT ward, SUM(cost) AS s FROM t GROUP BY ward HAVING SUM(cost) > 1 ORDER BY 2",
    "SELECT MONTH(day) AS m, COUNT(*) AS n FROM t GROUP BY m HAVING n > 30 ORDER BY m DESC LIMIT 3",
    "SELECT age, AVG(cost) AS m FROM t GROUP BY age HAVING COUNT(*) > 5 ORDER BY age LIMIT 10",
    "SELECT ward, COUNT(*) AS n FROM t GROUP BY ward HAVING ward <> 'B' AND n > 0 ORDER BY ward",
    "SELECT ward, ROUND(AVG(cost), 1) AS r FROM t GROUP BY 1 HAVING COUNT(*) > 0 ORDER BY -r",
    "SELECT ward, IF(COUNT(*) > 160, 1, 0) AS c FROM t GROUP BY 1 HAVING COUNT(*) > 0 ORDER BY 1",
)
CASES: Final = [(world, text) for world, texts in QUESTIONS.items() for text in texts]


@pytest.mark.parametrize("accounting", BUDGETS)
@pytest.mark.parametrize(
    ("name", "text"), CASES, ids=[f"{name}-{i}" for i, (name, _) in enumerate(CASES)]
)
def test_answers_without_noise_are_those_of_sql(name: str, text: str, accounting: str) -> None:
    """Each cell equals DuckDB's, and an error of 1% would be detected; missing groups are empty."""
    opened = open_world(WORLDS[name], accounting)

    assert [] == compare(opened, text)
    assert [] == find_insensitive(opened, text)


@pytest.mark.parametrize("accounting", BUDGETS)
@pytest.mark.parametrize("off", ["0.99 *", "1.01 *", "0 *", "1 +"])
def test_errors_of_one_percent_are_detected(off: str, accounting: str) -> None:
    """An error of 1% in any count, sum, mean, or standard deviation is detected."""
    opened = open_world(visits, accounting)
    numbers = ("COUNT(*)", "SUM(cost)", "AVG(cost)", "STDDEV(cost)")
    asked = "SELECT ward, {} FROM t WHERE ward <> 'E' GROUP BY ward"
    text = asked.format(", ".join(f"{number} AS s{i}" for i, number in enumerate(numbers)))
    other = asked.format(", ".join(f"{off} {number} AS s{i}" for i, number in enumerate(numbers)))

    assert [] == compare(opened, text)
    assert len(numbers) * len("ABC") == len(compare(opened, text, other))


@pytest.mark.parametrize("accounting", BUDGETS)
def test_missing_groups_are_detected(accounting: str) -> None:
    """A group that DuckDB finds must be answered, unless its key is a column that is NULL."""
    opened = open_world(visits, accounting)
    text = "SELECT ward, COUNT(*) AS n FROM t GROUP BY ward"
    other = "SELECT CASE WHEN ward = 'A' THEN 'D' ELSE ward END AS ward, COUNT(*) AS n FROM t"

    assert [] == compare(opened, text)
    assert "('D',): missing" in compare(opened, text, f"{other} GROUP BY 1")


@pytest.mark.parametrize("name", ["nhanes", "visits", "odd", "loners"])
def test_the_bounds_do_clip(name: str) -> None:
    """Without clipping, DuckDB gives other sums, so the comparison has power."""
    opened = open_world(WORLDS[name], "pure")
    column = {"nhanes": "weight_kg", "visits": "cost"}.get(name, "x")
    raw = duckdb.connect()
    raw.register("t", opened.world.tables[0].source)
    text = f"SELECT SUM({column}) AS s FROM t"

    assert not is_near(ask_oracle(opened.oracle, text)[0]["s"], ask_oracle(raw, text)[0]["s"], 1.0)


@pytest.mark.parametrize("text", SORTED)
def test_having_order_and_limit_are_those_of_sql(text: str) -> None:
    """Rows are filtered, sorted, and limited as in DuckDB if no group is empty."""
    opened = open_world(visits, "pure")
    expected = ask_oracle(opened.oracle, text)
    actual = opened.curator.sql(text, epsilon=1e9).rows
    key = next(iter(expected[0]))
    expected = [row for row in expected if row[key] is not None]

    assert [row[key] for row in expected] == [row[key] for row in actual]
    for wanted, row in zip(expected, actual, strict=True):
        assert all(is_near(wanted[name], row[name], 1e-4) for name in wanted)
