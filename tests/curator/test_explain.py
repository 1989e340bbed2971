"""Explanations of a query, in sentences."""

import pandas as pd
import pytest

import confide as cf
from confide.declare import Column as Declared

BUDGET = cf.Budget(epsilon=2, delta=1e-6)
COLUMNS: dict[str, Declared] = {
    "ward": cf.Category(["A", "B", "C"]),
    "cost": cf.Float(0, 5_000),
    "note": cf.Text(),
    "day": cf.Date("2020-01-01", "2020-12-31"),
}


def make_curator(rows: int, budget: cf.Budget = BUDGET) -> cf.Curator:
    frame = pd.DataFrame(
        {
            "patient": range(rows),
            "ward": pd.Series(["A"] * rows, dtype="str"),
            "cost": [7.0] * rows,
            "note": pd.Series(["secret"] * rows, dtype="str"),
            "day": pd.to_datetime(["2020-02-01"] * rows),
        }
    )
    public = pd.DataFrame({"code": ["A"], "floor": [1]})
    table = cf.Table("visits", frame, unit="patient", columns=COLUMNS, max_rows_per_unit=4)
    return cf.Curator([table, cf.PublicTable("floors", public)], budget=budget)


SAID = {
    "SELECT COUNT(*) AS n FROM visits": ["a unit is one patient", "at most 4 rows", "n ±"],
    "SELECT ward, AVG(cost) AS m FROM visits WHERE cost > 1 GROUP BY ward": [
        "where cost > 1",
        "every ward that the declaration allows, 3 groups",
        "range from 0 to 5,000",
        "for a group of 1,000 rows: m about ±",
    ],
    "SELECT note, SUM(cost) AS s FROM visits GROUP BY note": ["undeclared", "the total"],
    "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward HAVING COUNT(*) > 1 ORDER BY n LIMIT 1": [
        "HAVING, ORDER BY, and LIMIT apply to the noisy answer"
    ],
    "SELECT ward FROM visits GROUP BY ward ORDER BY COUNT(*) DESC LIMIT 1": [
        "selects 1 of 3 declared keys",
        "releases no counts",
    ],
    "SELECT AVG(t) FROM (SELECT patient, SUM(cost) AS t FROM visits GROUP BY patient)": [
        "one row per unit of visits",
        "at most 4 rows. If it has more",
        "range from 0 to 20,000",
    ],
    "SELECT floor, COUNT(*) FROM visits JOIN floors ON ward = code GROUP BY floor": [
        "joined with the public table floors"
    ],
    "SELECT COUNT(DISTINCT patient), VARIANCE(cost) FROM visits": [
        "count of units",
        "squares",
        "totals",
    ],
}


@pytest.mark.parametrize("question", SAID)
@pytest.mark.parametrize("budget", [BUDGET, cf.Budget(2)], ids=["gaussian", "pure"])
def test_sentences_explain_the_plan(question: str, budget: cf.Budget) -> None:
    """Limits, keys, ranges, noise, and cost are all explained, and nothing is spent."""
    curator = make_curator(3, budget)
    if "note" in question and not budget.delta:
        with pytest.raises(cf.Refusal):
            curator.explain(question, epsilon=0.2)
        return

    text = str(curator.explain(question, epsilon=0.2))

    assert [] == [words for words in SAID[question] if words not in text]
    assert "It costs" in text
    assert 0 == curator.budget.spent.share


def test_sentences_do_not_depend_on_rows() -> None:
    """Two tables with different rows have the same explanation."""
    for question in SAID:
        one, other = (make_curator(rows).explain(question, share="1%") for rows in (0, 50))

        assert one == other
        assert "secret" not in str(one)


def test_one_row_counts() -> None:
    """The sentence about a limit of one row uses the singular."""
    frame = pd.DataFrame({"patient": [1, 1], "cost": [7.0, 8.0]})
    columns: dict[str, Declared] = {"cost": cf.Float(0, 5_000)}
    table = cf.Table("visits", frame, unit="patient", columns=columns)
    curator = cf.Curator([table], budget=BUDGET)

    assert "at most 1 row. If it has more" in str(
        curator.explain("SELECT COUNT(*) AS n FROM visits", epsilon=0.2)
    )
