"""Edge cases that once revealed a row without noise."""

from fractions import Fraction
from typing import Any

import pandas as pd
import pytest

import confide as cf
from confide.ledger import QueryIdentity
from confide.loss import Share
from confide.query.sql import read_sql
from confide.release.unseal import unseal

LARGE_BUDGET = cf.Budget(10**9, 1e-9)


def make(
    rows: dict[str, list[Any]], columns: dict[str, Any], budget: cf.Budget = LARGE_BUDGET
) -> cf.Curator:
    frame = pd.DataFrame({"who": range(len(next(iter(rows.values())))), **rows})
    table = cf.Table("p", frame, unit="who", columns=columns)
    return cf.Curator([table], budget=budget)


def totals(curator: cf.Curator, text: str) -> dict[Any, tuple[int, ...]]:
    """Return the exact totals of an answer, which only a test may read."""
    query = read_sql(text, curator.names)
    share = Share.floor("1%")
    plan = curator._planner.plan(query, share)
    hold = curator.ledger.reserve(QueryIdentity(text, "", ""), share)
    return unseal(curator._engine.run(plan.measurement, hold)).groups


def test_a_tiny_share_is_refused_before_noise_outgrows_its_range() -> None:
    """No share, however small, buys noise whose clipping would reveal the total."""
    curator = make({"x": [1] * 50}, {"x": cf.Int(0, 9)}, cf.Budget(1))

    with pytest.raises(cf.UnsupportedQuery, match="larger epsilon"):
        curator.sql("SELECT COUNT(*) AS n, SUM(x) AS s FROM p", share=Fraction(1, 10**18) * 4)
    assert 0 == curator.budget.spent.share


@pytest.mark.parametrize(
    "text",
    [
        "SELECT SUM(1e19) AS s FROM p WHERE name = 'bob'",
        "SELECT SUM(x + 10000000.0) AS s FROM p WHERE name = 'bob'",
        "SELECT SUM(x + 10000000.0) FILTER (WHERE name = 'bob') AS s FROM p",
        "SELECT COUNT(*) AS n FROM p WHERE name = 'bob' AND SUBSTR(name, 99999999999) = 'x'",
        "SELECT COUNT(*) AS n FROM p WHERE SUBSTR(name, 1, 99999999999) = 'bob'",
        "SELECT COUNT(*) AS n FROM p WHERE DATE_TRUNC('year', CAST(d AS DATE)) IS NULL",
        "SELECT COUNT(*) AS n FROM p WHERE DATE_TRUNC('month', CAST(d AS DATE)) IS NULL",
    ],
)
def test_no_value_makes_a_question_fail(text: str) -> None:
    """A row that would make an engine fail is answered like any other."""
    columns = {"x": cf.Float(0, 1), "name": cf.Text(), "d": cf.Text()}
    odd = make({"x": [0.5], "name": ["bob"], "d": ["5877642-06-26 (BC)"]}, columns)
    even = make({"x": [0.5], "name": ["eve"], "d": ["2020-02-02"]}, columns)

    assert 1 == len(odd.sql(text, epsilon=1).rows) == len(even.sql(text, epsilon=1).rows)


def test_large_sums_are_exact_enough_on_their_coarser_grid() -> None:
    """A sum far from zero keeps about 16 digits."""
    curator = make({"x": [0.25, 0.75]}, {"x": cf.Float(0, 1)}, cf.Budget(10**15))

    found = curator.sql("SELECT SUM(x + 10000000.0) AS s FROM p", epsilon=10**14).rows[0]["s"]

    assert 20000001.0 == pytest.approx(found, abs=1e-2)


@pytest.mark.parametrize("odd", ["infinity", "-infinity", "5877642-06-26 (BC)", "99999-01-01"])
def test_a_day_outside_the_calendar_touches_no_other_group(odd: str) -> None:
    """Adding a unit with a date beyond year 9999 changes no total by more than that unit."""
    days = ["9999-12-31"] * 30 + ["0001-01-01"] * 20
    question = "SELECT CAST(d AS DATE) AS day, COUNT(*) AS n FROM p GROUP BY CAST(d AS DATE)"

    before = totals(make({"d": days}, {"d": cf.Text()}), question)
    after = totals(make({"d": [*days, odd]}, {"d": cf.Text()}), question)

    assert {30, 20} == {group[0] for group in before.values()}
    moved = {key: after.get(key, (0,))[0] - before.get(key, (0,))[0] for key in {*before, *after}}
    assert 1 == sum(map(abs, moved.values()))


def test_a_join_that_compares_in_another_type_is_limited() -> None:
    """A row matches at most one partner if partners differ only beyond double precision."""
    near = pd.DataFrame({"y": [2**62 + k for k in range(-100, 101)]})
    frame = pd.DataFrame({"who": [1], "x": [float(2**62)]})
    table = cf.Table("p", frame, unit="who", columns={"x": cf.Float(0, 2**62)}, unique=True)
    curator = cf.Curator([table, cf.PublicTable("q", near)], budget=LARGE_BUDGET)

    found = totals(curator, "SELECT COUNT(*) AS n FROM p JOIN q ON p.x = q.y")

    assert {(): (1,)} == found


def test_both_zeros_are_one_key() -> None:
    """Rows with 0.0 and rows with -0.0 have the same key."""
    question = "SELECT x, COUNT(*) AS n FROM p GROUP BY x"
    columns = {"x": cf.Float(-1, 1), "t": cf.Text()}
    for rows in ([0.0] * 50, [-0.0] + [0.0] * 49):
        curator = make({"x": rows, "t": ["a"] * 50}, columns)

        shown = [str(row["x"]) for row in curator.sql(question, epsilon=10**6).rows]

        assert ["0.0"] == shown


def test_each_row_stays_within_its_grid() -> None:
    """A row never adds more than the plan allows, for any declared step."""
    column = cf.Float(10**15, 10**15 + 1, step="0.001")
    curator = make({"x": [10.0**15 + 1]}, {"x": column})
    query = read_sql("SELECT SUM(x) AS s FROM p", curator.names)
    plan = curator._planner.plan(query, Share.floor("1%"))

    ((added,),) = totals(curator, "SELECT SUM(x) AS s FROM p").values()

    assert added <= plan.totals[0].per_row


def test_units_are_found_in_upper_and_lower_case() -> None:
    """Units of two tables are compared in one type, in any case of their column names."""
    first = pd.DataFrame({"u": [1, 2], "x": [1, 1]})
    second = pd.DataFrame({"u": ["1", "01", "bob"], "y": [1, 1, 1]})
    tables = [
        cf.Table("a", first, unit="U", columns={"x": cf.Int(0, 1)}, unique=True),
        cf.Table("b", second, unit="U", columns={"y": cf.Int(0, 1)}, unique=True),
    ]
    curator = cf.Curator(tables, budget=LARGE_BUDGET)

    assert {(): (1,)} == totals(curator, "SELECT COUNT(*) AS n FROM a JOIN b ON a.U = b.U")


def test_a_missing_unit_column_is_a_bad_declaration() -> None:
    """A unit column that the source lacks is named in a BadDeclaration when the data is opened."""
    table = cf.Table("p", pd.DataFrame({"x": [1]}), unit="who", columns={"x": cf.Int(0, 1)})

    with pytest.raises(cf.BadDeclaration, match="'who'"):
        cf.Curator([table], budget=LARGE_BUDGET)


def test_a_mean_lies_within_its_interval_however_narrow() -> None:
    """An interval narrower than the search grid still contains its own estimate."""
    curator = make({"x": list(range(80)) * 20}, {"x": cf.Int(0, 80)})
    answer = curator.sql("SELECT AVG(x) AS m FROM p", epsilon=10**5)
    ends = answer.interval_rows()[0]

    assert ends["m_low"] <= answer.rows[0]["m"] <= ends["m_high"]
    assert ends["m_high"] - ends["m_low"] < 0.01
