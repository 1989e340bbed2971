"""Extreme queries are answered or refused; none fails after it was charged."""

from fractions import Fraction
from typing import Final

import pyarrow as pa
import pytest

from confide.curator import Curator
from confide.declare import Budget, Category, Column, Float, Int, Table, Text
from confide.engines.sql.statements import write_statement
from confide.errors import Refusal

FRAME: Final = pa.table(
    {
        "pid": [1, 1, 2, 3],
        "age": [5, 6, 7, 8],
        "five": [5, 5, 5, 5],
        "cost": [1.0, 2.0, 3.0, None],
        "tall": [1e9, 1e9 + 0.5, 1e9 + 1, 0.0],
        "ward": ["A", "B", "A", None],
        "note": ["a", "b", "c", "12"],
    }
)
COLUMNS: Final[dict[str, Column]] = {
    "age": Int(0, 120),
    "five": Int(5, 5),
    "cost": Float(0, 10),
    "tall": Float(1e9, 1e9 + 1),
    "ward": Category(["A", "B", "C"]),
    "note": Text(),
}
QUESTIONS: Final = {
    "constant mean": "SELECT AVG(five) AS a FROM t",
    "constant variance": "SELECT VAR_SAMP(five) AS a FROM t",
    "zero": "SELECT SUM(0 * age) AS a FROM t",
    "round by 400 places": "SELECT SUM(ROUND(age, -400)) AS a FROM t",
    "round by a billion places": "SELECT SUM(ROUND(age, -999999999)) AS a FROM t",
    "round to a billion places": "SELECT SUM(ROUND(cost, 5000000000)) AS a FROM t",
    "round an answer": "SELECT ROUND(COUNT(*), 400) AS a FROM t",
    "far substring": "SELECT COUNT(*) AS a FROM t WHERE SUBSTR(note, 9999999999) = 'a'",
    "long substring": "SELECT COUNT(*) AS a FROM t WHERE SUBSTR(note, 1, 999999999999999999) = 'a'",
    "text of an answer": "SELECT CASE WHEN COUNT(*) > 2 THEN 'big' ELSE 'small' END AS a FROM t",
    "text or NULL": "SELECT CASE WHEN COUNT(*) > 200 THEN 'big' END AS a FROM t",
    "condition on a key": "SELECT COUNT(*) AS n, ward = 'A' AS a FROM t GROUP BY ward",
    "far from zero": "SELECT SUM(tall) AS a FROM t",
    "very far from zero": "SELECT SUM(age + 1000000000000000000) AS a FROM t",
    "very small": "SELECT SUM(cost * 1e-310) AS a FROM t",
    "variance of the very large": "SELECT VAR_SAMP(age * 1e200) AS a FROM t",
    "nested roots": f"SELECT COUNT(*) AS a FROM t WHERE {'SQRT(' * 16}age{')' * 16} > 0",
    "nested divisions": f"SELECT COUNT(*) AS a FROM t WHERE age{' / age' * 8} > 0",
}
MAX_LENGTH: Final = 500_000
BUDGETS: Final = {"pure": Budget(2), "gaussian": Budget(2, 1e-6)}


@pytest.mark.parametrize("accounting", BUDGETS)
@pytest.mark.parametrize("text", QUESTIONS.values(), ids=QUESTIONS)
def test_edges_are_answered_or_refused(text: str, accounting: str) -> None:
    """The answer has values and intervals, from a statement of bounded size; a refusal is free."""
    table = Table("t", FRAME, unit="pid", columns=COLUMNS, max_rows_per_unit=3)
    curator = Curator([table], budget=BUDGETS[accounting])
    try:
        answer = curator.sql(text, share="1/10")
    except Refusal:
        assert 0 == curator.budget.spent.share
    else:
        assert len(answer.rows) == len(answer.interval_rows(Fraction(9, 10)))
        assert "nan" not in [row.get("a") for row in answer.rows]
        assert len(write_statement(answer.plan.measurement, "salt").sql("duckdb")) < MAX_LENGTH


@pytest.mark.parametrize("accounting", BUDGETS)
@pytest.mark.parametrize("error", [1e12, 1e17, 1e200])
def test_any_error_is_cheap_enough(error: float, accounting: str) -> None:
    """However large the error, an answer within it is found at almost no cost."""
    table = Table("t", FRAME, unit="pid", columns=COLUMNS, max_rows_per_unit=3)
    curator = Curator([table], budget=BUDGETS[accounting])
    before = curator.preview("SELECT COUNT(*) AS n FROM t", error=error)

    assert before.errors["n"] is not None
    assert before.errors["n"] <= error
    assert 0 < before.cost.share < Fraction(1, 10**9)
