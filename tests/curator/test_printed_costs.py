"""Printed costs, budgets, and previews."""

import pandas as pd
import pytest

import confide as cf

COUNT = "SELECT COUNT(*) AS n FROM visits"
MEAN = "SELECT AVG(age) AS m FROM visits"


def open_curator(budget: cf.Budget, *, rows: int = 1_000) -> cf.Curator:
    frame = pd.DataFrame({"pid": range(rows), "age": [75] * rows})
    table = cf.Table("visits", frame, unit="pid", columns={"age": cf.Int(0, 100)})
    return cf.Curator([table], budget=budget)


def test_previews_and_answers_print_the_same_cost() -> None:
    """A cost is printed in percent, with the same digits in a preview and in an answer."""
    curator = open_curator(cf.Budget(3))
    preview, answer = curator.preview(COUNT, epsilon=0.1), curator.sql(COUNT, epsilon=0.1)

    assert "3.34% of the budget (epsilon 0.1)" == str(answer.cost)
    assert "This query would cost 3.34% of the budget (epsilon 0.1)." in str(preview)
    assert repr(answer).endswith("cost 3.34% of the budget (epsilon 0.1)")


def test_a_preview_estimates_how_many_such_queries_are_left() -> None:
    """The number of queries is the remaining share divided by the cost, rounded down."""
    curator = open_curator(cf.Budget(1))
    curator.sql(COUNT, share="55%", confirm=True)

    for share, printed in (
        ("20%", "About 2 such queries left (45% of the budget left)."),
        ("45%", "About 1 such query left (45% of the budget left)."),
        ("46%", "About 0 such queries left (45% of the budget left)."),
    ):
        preview = curator.preview(MEAN, share=share)

        assert printed in str(preview)


def test_the_remaining_budget_of_a_preview_is_the_callers_own() -> None:
    """An analyst's preview shows what is left of the analyst's limit."""
    frame = pd.DataFrame({"pid": [1], "age": [75]})
    table = cf.Table("visits", frame, unit="pid", columns={"age": cf.Int(0, 100)})
    limits = cf.Limits(analysts={"ana": "10%"})
    curator = cf.Curator([table], budget=cf.Budget(1), limits=limits)

    preview = curator.as_analyst("ana").preview(COUNT, share="5%")

    assert 2 == preview.affordable
    assert "(10% of the budget left)" in str(preview)


@pytest.mark.parametrize("budget", [cf.Budget(10), cf.Budget(10, delta=1e-6)], ids=str)
def test_a_preview_of_a_mean_states_its_error_for_a_group_size(budget: cf.Budget) -> None:
    """For a group of 1,000 rows with a mean in the upper half, the error is about as predicted."""
    curator = open_curator(budget)
    preview = curator.preview(MEAN, epsilon=1)
    (ends,) = curator.sql(MEAN, epsilon=1).interval_rows()

    assert preview.errors == {"m": None}
    assert (ends["m_high"] - ends["m_low"]) / 2 == pytest.approx(preview.group_errors["m"], rel=0.1)
    assert f"m about ±{preview.group_errors['m']:.4g} for a group of 1,000 rows" in str(preview)


def test_the_budget_explains_epsilons_that_do_not_add_up() -> None:
    """Under Gaussian accounting, the printed budget says why epsilons do not add up."""
    for budget, is_explained in ((cf.Budget(2), False), (cf.Budget(2, delta=1e-6), True)):
        curator = open_curator(budget)
        assert "do not add up" not in str(curator.budget)
        curator.sql(COUNT, epsilon=0.1)

        assert is_explained == ("The epsilons do not add up" in str(curator.budget))
        assert "of the budget left" in str(curator.budget)
