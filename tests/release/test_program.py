"""Arithmetic on keys and statistics works as in DuckDB: NULL propagates, and nothing raises."""

import math
from typing import Any

import duckdb
import pandas as pd
import pytest

import confide as cf
from confide.curator import Curator
from confide.declare import Column

TRUTHS = ("TRUE", "FALSE", "NULL")
ROWS = pd.DataFrame(
    {
        "who": range(24),
        "word": ["7", "x", None] * 8,
        "size": [0, 1, 2, 3] * 6,
        "flag": [True, True, False, False] * 6,
        "level": [0.5, 1.5, 2.5] * 8,
    }
)


@pytest.fixture(scope="module")
def curator() -> Curator:
    """Return a curator whose counts are exact except with probability below 1e-100."""
    columns: dict[str, Column] = {
        "word": cf.Text(),
        "size": cf.Int(0, 3),
        "flag": cf.Bool(),
        "level": cf.Float(0, 4),
    }
    table = cf.Table("people", ROWS, unit="who", columns=columns)
    return cf.Curator([table], budget=cf.Budget(1e12, 1e-6))


def ask_both(curator: Curator, text: str) -> tuple[list[Any], list[Any]]:
    """Return the rows that DuckDB returns, and ours, both sorted as text."""
    with duckdb.connect() as plain:
        plain.register("people", ROWS)
        found = plain.execute(text)
        names = [column[0] for column in found.description or ()]
        expected = [dict(zip(names, row, strict=True)) for row in found.fetchall()]
    answer = curator.sql(text, epsilon=1e9)
    # Every answer can be drawn, printed, and given error bars.
    answer.interval_rows()
    str(answer)
    return sorted(expected, key=repr), sorted(answer.rows, key=repr)


@pytest.mark.parametrize(
    "condition",
    [
        "word < 'z'",
        "word <> 'x'",
        "NOT word = 'x'",
        "NOT (word <> 'x' AND COUNT(*) > 3)",
        "word = 'x' OR COUNT(*) > 3",
        "word = 'x' OR NULL",
        "word = NULL",
        "CASE WHEN word >= 'x' THEN FALSE ELSE TRUE END",
        "word IN ('x', 'y')",
        "NOT word IN ('x', 'y')",
        "word IS NULL",
        "word IS NOT NULL AND COUNT(*) IN (7, 8)",
        "COALESCE(word, 'x') = 'x'",
    ],
)
def test_null_keys_are_neither_equal_nor_unequal(curator: Curator, condition: str) -> None:
    """HAVING drops a group whose condition is NULL, and ORDER BY accepts NULL."""
    text = f"SELECT word, COUNT(*) AS n FROM people GROUP BY word HAVING {condition}"
    expected, found = ask_both(curator, text)

    assert expected == found


@pytest.mark.parametrize("first", TRUTHS)
@pytest.mark.parametrize("second", TRUTHS)
def test_logic_is_three_valued(curator: Curator, first: str, second: str) -> None:
    """AND, OR, and NOT follow three-valued logic."""
    expected, found = ask_both(
        curator,
        f"SELECT {first} AND {second} AS both, {first} OR {second} AS one, NOT {first} AS other, "
        "COUNT(*) AS n FROM people",
    )

    assert expected == found


def test_numeric_keys_are_numbers(curator: Curator) -> None:
    """Numeric keys are divided, rounded, and compared as numbers; division by zero is NULL."""
    expected, found = ask_both(
        curator,
        "SELECT size, COUNT(*) / NULLIF(size, 0) AS a, ROUND(size / 2) AS b, "
        "COALESCE(NULLIF(size, 0), 9) AS f, COALESCE(COUNT(*), 0) AS g, COALESCE(COUNT(*)) AS h, "
        "GREATEST(size, 1) AS c, CASE WHEN size > 1 THEN size END AS d, 10 - size AS e "
        "FROM people GROUP BY size",
    )
    answer = curator.sql("SELECT size, COUNT(*) / size AS a FROM people GROUP BY size", epsilon=1e9)

    assert expected == found
    assert [None, 6.0, 3.0, 2.0] == [row["a"] for row in answer.rows]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("ROUND(COUNT(*) / 7, NULL)", None),
        ("ROUND(COUNT(*) / 7, 2)", 3.43),
        ("ROUND(COUNT(*), -1)", 20),
        ("SQRT(COUNT(*) - 25)", None),
        ("EXP(700) * EXP(COUNT(*) * 30)", None),
        ("FLOOR(EXP(700) * EXP(COUNT(*) * 30))", None),
        ("LN(COUNT(*) - 1000000)", None),
        ("COUNT(*) / (COUNT(*) - COUNT(*))", None),
    ],
)
def test_arithmetic_is_total(curator: Curator, expression: str, expected: float | None) -> None:
    """An undefined or overflowing value is NULL with a NaN interval, and nothing is raised."""
    answer = curator.sql(f"SELECT {expression} AS x FROM people", epsilon=1e9)
    (row,), (ends,) = answer.rows, answer.interval_rows()

    if expected is None:
        assert row["x"] is None
        assert all(map(math.isnan, ends.values()))
    else:
        assert math.isclose(expected, row["x"], abs_tol=1e-9)


def test_bad_casts_are_null(curator: Curator) -> None:
    """A string that is not a number casts to NULL."""
    text = "SELECT word, CAST(word AS DOUBLE) AS x FROM people GROUP BY word"
    found = {row["word"]: row["x"] for row in curator.sql(text, epsilon=1e9).rows}

    assert {"7": 7.0, "x": None, None: None} == found


def test_answers_without_rows_keep_their_columns(curator: Curator) -> None:
    """If HAVING drops all rows, every form of the answer still has its columns."""
    text = "SELECT flag, COUNT(*) AS n FROM people GROUP BY flag HAVING COUNT(*) > 1000000"
    answer = curator.sql(text, epsilon=1e9)

    assert ["flag", "n"] == answer.to_arrow().column_names
    assert ["flag", "n"] == list(answer.to_pandas().columns) == answer.to_polars().columns
    assert ["flag", "n_low", "n_high"] == list(answer.intervals().columns)


@pytest.mark.parametrize("form", ["to_arrow", "to_pandas", "to_polars"])
def test_sums_beyond_64_bits_have_every_form(form: str) -> None:
    """A sum past 2^63 is the same number in Arrow, pandas, and Polars."""
    rows = pd.DataFrame({"n": [2**53] * 3_000})
    table = cf.Table("t", rows, unit=cf.ROW, columns={"n": cf.Int(0, 2**53)})
    curator = cf.Curator([table], budget=cf.Budget(1e10))
    answer = curator.sql("SELECT SUM(n) AS s FROM t", epsilon=1e9)

    assert answer.rows[0]["s"] > 2**63
    cell = getattr(answer, form)()["s"][0]
    assert answer.rows[0]["s"] == int(cell.as_py() if form == "to_arrow" else cell)
