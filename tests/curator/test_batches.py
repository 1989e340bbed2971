"""Sets of queries that are planned together and charged once."""

from fractions import Fraction

import pandas as pd
import pytest

import confide as cf
from confide.execution.batch import Batch, plan_batch, square_error
from confide.loss import Share
from confide.plan import plan

COUNT = "SELECT COUNT(*) AS n FROM visits"
TOTAL = "SELECT ward, SUM(cost) AS total FROM visits GROUP BY ward"
MEAN = "SELECT AVG(cost) AS mean FROM visits"
BEST = "SELECT ward FROM visits GROUP BY ward ORDER BY COUNT(*) DESC LIMIT 1"
BUDGETS = [cf.Budget(epsilon=2), cf.Budget(epsilon=2, delta=1e-6)]


def make_curator(budget: cf.Budget) -> cf.Curator:
    frame = pd.DataFrame(
        {"patient": range(90), "ward": ["A", "B", "C"] * 30, "cost": [float(i) for i in range(90)]}
    )
    table = cf.Table(
        "visits",
        frame,
        unit="patient",
        columns={"ward": cf.Category(["A", "B", "C"]), "cost": cf.Float(0, 100)},
        max_rows_per_unit=1,
        max_groups_per_unit=1,
    )
    return cf.Curator([table], budget=budget)


@pytest.mark.parametrize("budget", BUDGETS, ids=["pure", "gaussian"])
def test_a_batch_is_answered_in_order_from_one_charge(budget: cf.Budget) -> None:
    """Answers come in the order of the queries, and one entry pays for all of them."""
    curator = make_curator(budget)

    first, second, third = curator.release([COUNT, TOTAL, MEAN], share="30%")

    assert [("n",), ("ward", "total"), ("mean",)] == [
        answer.columns for answer in (first, second, third)
    ]
    assert 1 == len(list(curator.ledger.entries()))
    assert Fraction(3, 10) == curator.budget.spent.share
    costs = [answer.cost.share for answer in (first, second, third)]
    assert Fraction(3, 10) - Fraction(1, 10**15) < sum(costs) <= Fraction(3, 10)


@pytest.mark.parametrize("budget", BUDGETS, ids=["pure", "gaussian"])
def test_the_same_batch_again_is_free_and_equal(budget: cf.Budget) -> None:
    """A repeated batch returns the same rows at no cost; fresh=True pays again."""
    curator = make_curator(budget)
    before = curator.release([COUNT, TOTAL], share="10%")

    again = curator.release([COUNT, TOTAL], share="20%")
    fresh = curator.release([COUNT, TOTAL], share="10%", fresh=True)

    assert [answer.rows for answer in before] == [answer.rows for answer in again]
    assert [Fraction(0)] * 2 == [answer.cost.share for answer in again]
    assert all(answer.reused for answer in again)
    assert not any(answer.reused for answer in fresh)
    assert Fraction(2, 10) == curator.budget.spent.share


def test_a_question_asked_twice_is_paid_once() -> None:
    """Equal queries in one batch share one plan and one answer."""
    curator = make_curator(BUDGETS[0])

    one, other = curator.release([COUNT, "select count(*) as n from visits"], share="10%")

    assert one.rows == other.rows
    assert Fraction(1, 10) == one.cost.share


@pytest.mark.parametrize("budget", BUDGETS, ids=["pure", "gaussian"])
@pytest.mark.parametrize("weights", [[1, 1], [10_000, 1], [1, 7]])
def test_the_batch_is_at_least_as_good_as_equal_shares(
    budget: cf.Budget, weights: list[int]
) -> None:
    """The weighted squared noise adds up to no more than with equal shares."""
    planner = make_curator(budget)._planner
    share = Share.floor("40%")
    queries = [planner.read(COUNT), planner.read(TOTAL)]

    def error(parts: list[Share]) -> float:
        plans = [planner.plan(query, part) for query, part in zip(queries, parts, strict=True)]
        errors = [square_error(plan) or 0.0 for plan in plans]
        return sum(weight * one for weight, one in zip(weights, errors, strict=True))

    planned = plan_batch(planner, Batch.of(queries, weights), share)
    equal = [Share(share.units // 2)] * 2

    assert error([part for part, _ in planned]) <= error(equal)
    assert error([part for part, _ in planned]) < error(equal) * 0.9 or weights == [10_000, 1]


def test_an_error_that_no_double_holds_gets_an_equal_share() -> None:
    """Sums whose squared values overflow are released, with equal shares."""
    columns = {"huge": cf.Float(0, 1e200)}
    table = cf.Table("t", pd.DataFrame({"huge": [1e100]}), unit=cf.ROW, columns=columns)
    curator = cf.Curator([table], budget=cf.Budget(1))
    asked = ["SELECT SUM(huge) AS s FROM t", "SELECT COUNT(*) AS n FROM t"]

    answers = curator.release(asked, share="1/2")

    assert [Fraction(1, 4)] * 2 == [answer.cost.share for answer in answers]


def test_too_large_an_answer_is_refused_before_it_is_charged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The number of values in an answer or in a whole batch is limited before any charge."""
    curator = make_curator(BUDGETS[0])
    monkeypatch.setattr(plan, "MAX_NUMBERS", 5)
    asked = "SELECT ward, SUM(cost) AS t, COUNT(*) AS n FROM visits GROUP BY ward"

    assert curator.preview(TOTAL, share="1%").errors
    for ask in (
        lambda: curator.preview(asked, share="1%"),
        lambda: curator.sql(asked, share="1%"),
        lambda: curator.release([TOTAL, TOTAL.replace("SUM", "AVG")], share="1%"),
    ):
        with pytest.raises(cf.UnsupportedQuery, match="An answer can have at most"):
            ask()
    assert 0 == curator.budget.spent.share


def test_a_batch_that_does_not_fit_spends_nothing() -> None:
    """A batch that exceeds the budget is refused as a whole."""
    curator = make_curator(BUDGETS[0])
    curator.release([COUNT], share="80%")

    with pytest.raises(cf.BudgetExceeded):
        curator.release([TOTAL, MEAN], share="30%")

    assert Fraction(8, 10) == curator.budget.spent.share


@pytest.mark.parametrize(
    ("questions", "weights", "said"),
    [
        ([], None, "1 to 1,000 queries"),
        ([COUNT], [1, 2], "one weight per query"),
        ([COUNT], [0], "weights"),
        ([BEST], None, "by itself"),
        (["SELECT nothing FROM visits"], None, "nothing"),
    ],
)
def test_a_wrong_batch_is_refused(
    questions: list[str], weights: list[int] | None, said: str
) -> None:
    """A batch that cannot be planned is refused with a reason and spends nothing."""
    curator = make_curator(BUDGETS[0])

    with pytest.raises(cf.ConfideError, match=said):
        curator.release(questions, weights=weights, share="10%")

    assert 0 == curator.budget.spent.share


def test_a_batch_needs_a_cost_and_not_an_error() -> None:
    """error= is refused for a batch, with the arguments to use instead."""
    with pytest.raises(cf.Refusal, match="`epsilon=` or `share=`"):
        make_curator(BUDGETS[0]).release([COUNT], error=5)  # type: ignore[call-arg]  # no such
