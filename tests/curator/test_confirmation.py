"""The spending guard: a query above the owner's limit needs confirmation, and no other does."""

import inspect
import pickle
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest

import confide as cf
from confide.client.http import status_of
from confide.engines import DuckDB
from confide.errors import BadDeclaration
from confide.ledger import SqlLedger
from support.guard import DEFAULT

TOTAL: Final = "SELECT COUNT(*) AS n FROM visits"
OLD: Final = "SELECT COUNT(*) AS n FROM visits WHERE age >= 60"

METHODS: Final[dict[str, Callable[..., Any]]] = {
    "sql": lambda c, **w: c.sql(TOTAL, **w),
    "ask": lambda c, **w: c.table("visits").agg(n=cf.count()).ask(**w),
    "choose": lambda c, **w: c.choose(["all", "old"], {"all": TOTAL, "old": OLD}, **w),
    "release": lambda c, **w: c.release([TOTAL, OLD], **w),
    "watch": lambda c, **w: c.watch(10, **w),
    "durable_watch": lambda c, **w: c.durable_watch(10, **w),
    "density": lambda c, **w: c.density("visits", "age", **w),
    "quantiles": lambda c, **w: c.quantiles("visits", "age", 0.5, **w),
    "mean": lambda c, **w: c.mean("visits", "age", **w),
    "variance": lambda c, **w: c.variance("visits", "age", **w),
    "covariance": lambda c, **w: c.covariance("visits", ["age", "stay"], **w),
    "exponential_family": lambda c, **w: c.exponential_family(
        "visits", "age", family="normal", **w
    ),
    "fit": lambda c, **w: c.fit("visits", "stay ~ age", **w),
    "compare_means": lambda c, **w: c.compare_means("visits", "age", by="ill", **w),
    "compare_proportions": lambda c, **w: c.compare_proportions("visits", "ill", by="odd", **w),
    "independence": lambda c, **w: c.independence("visits", "ill", "odd", **w),
    "sample_and_aggregate": lambda c, **w: c.sample_and_aggregate(
        "visits", np.median, columns=["age"], bounds="column", **w
    ),
    "estimate": lambda c, **w: c.estimate("mean", "visits", column="age", **w),
}
"""One call of each method that charges the budget."""


def open_curator(
    budget: cf.Budget | None = None, ledger: Path | None = None, **given: Any
) -> cf.Curator:
    rows = range(600)
    table = pa.table(
        {
            "pid": [*rows],
            "age": [row % 90 for row in rows],
            "stay": [row % 7 for row in rows],
            "ill": [row % 3 == 0 for row in rows],
            "odd": [row % 2 == 0 for row in rows],
        }
    )
    numbers, flags = (
        {"age": cf.Int(0, 99), "stay": cf.Int(0, 9)},
        {"ill": cf.Bool(), "odd": cf.Bool()},
    )
    visits = cf.Table("visits", table, unit="pid", columns={**numbers, **flags})
    budget = cf.Budget(1, 1e-6) if budget is None else budget
    return cf.Curator([visits], budget=budget, ledger=ledger, **given)


def spent(curator: cf.Curator) -> Fraction:
    return curator.budget.spent.share


@pytest.mark.usefixtures("spending_guard")
@pytest.mark.parametrize("method", METHODS)
def test_every_charging_method_is_guarded(method: str) -> None:
    """Above 20%, each method refuses without a charge, and confirming pays; at 20% it just pays."""
    ask, curator = METHODS[method], open_curator()
    with pytest.raises(cf.ConfirmationRequired) as refused:
        ask(curator, share="20.1%")

    assert Fraction(201, 1_000) == refused.value.cost.share
    assert Fraction(1, 5) == refused.value.limit
    assert 0 == spent(curator)
    ask(curator, share="20.1%", confirm=True)
    ask(open_curator(), share="20%")
    assert Fraction(201, 1_000) == spent(curator)


def test_every_public_method_that_takes_a_price_is_listed() -> None:
    """The list above is complete: it has every method of a curator that accepts ``confirm``."""
    methods = {
        name
        for name in dir(cf.Curator)
        if not name.startswith("_") and "confirm" in _parameters(getattr(cf.Curator, name))
    }

    assert methods == METHODS.keys()
    priced = {
        name
        for name in dir(cf.Curator)
        if not name.startswith("_") and "epsilon" in _parameters(getattr(cf.Curator, name))
    }
    assert {"preview", "explain"} == priced - methods


def _parameters(method: Any) -> set[str]:
    return set(inspect.signature(method).parameters) if callable(method) else set()


@pytest.mark.usefixtures("spending_guard")
def test_the_refusal_says_what_to_do() -> None:
    """The refusal has a code, a status, the price and the limit in percent, and the remedy."""
    with pytest.raises(cf.Refusal) as refused:
        open_curator().sql(TOTAL, share="89%")

    assert ("confirmation-required", 422) == (refused.value.code, status_of(refused.value))
    assert "89" in str(refused.value)
    assert "20" in str(refused.value)
    assert "confirm=True" in str(refused.value)


@pytest.mark.usefixtures("spending_guard")
@pytest.mark.parametrize("price", [{"epsilon": 0.9}, {"error": 10}, {"share": 0.5}])
def test_the_guard_depends_on_the_price_alone(
    price: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However the price is given, the guard refuses before a row is read."""
    monkeypatch.setattr(DuckDB, "run", None)
    with pytest.raises(cf.ConfirmationRequired):
        open_curator().sql(TOTAL, **price)


@pytest.mark.usefixtures("spending_guard")
def test_previews_and_stored_answers_need_no_confirmation() -> None:
    """A preview states the limit in a note; a stored answer is free at any price."""
    curator = open_curator()
    assert "needs confirmation" in str(curator.preview(TOTAL, share="50%"))
    assert "confirmation" not in str(curator.preview(TOTAL, share="20%"))
    curator.explain(TOTAL, share="50%")
    curator.sql(TOTAL, share="50%", confirm=True)

    assert curator.sql(TOTAL, share="90%").reused
    assert "confirmation" not in str(curator.preview(TOTAL, share="45%"))
    with pytest.raises(cf.ConfirmationRequired):
        curator.sql(TOTAL, share="45%", fresh=True)


@pytest.mark.usefixtures("spending_guard")
def test_a_resumed_charge_needs_no_confirmation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A charge that a crash left pending is resumed by its key without another confirmation."""
    curator = open_curator(ledger=tmp_path / "ledger.db")
    with monkeypatch.context() as patch:
        patch.setattr(SqlLedger, "commit", _crash)
        with pytest.raises(KeyboardInterrupt):
            curator.sql(TOTAL, share="50%", key="once", confirm=True)
    answer = curator.sql(TOTAL, share="50%", key="once")

    assert Fraction(1, 2) == answer.cost.share == spent(curator)


def _crash(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.usefixtures("spending_guard")
def test_a_charge_that_cannot_fit_is_not_to_be_confirmed() -> None:
    """If the budget or a limit does not cover the cost, the refusal says so at once."""
    limits = cf.Limits(analysts={"ana": "30%"})
    curator = open_curator(limits=limits)
    with pytest.raises(cf.BudgetExceeded, match="only 30"):
        curator.as_analyst("ana").sql(TOTAL, share="50%")
    curator.sql(TOTAL, share="60%", confirm=True)
    with pytest.raises(cf.BudgetExceeded):
        curator.sql(OLD, share="50%")


@pytest.mark.usefixtures("spending_guard")
def test_the_owner_sets_the_limit() -> None:
    """The budget's limit holds for all, an analyst's own limit replaces it, and 1 turns it off."""
    limits = cf.Limits(analysts={"ana": cf.Limit("50%", max_share_per_query="1%"), "ben": "50%"})
    strict = open_curator(cf.Budget(1, max_share_per_query="2%"), limits=limits)
    off = open_curator(cf.Budget(1, max_share_per_query=1))

    strict.as_analyst("ben").sql(TOTAL, share="2%")
    with pytest.raises(cf.ConfirmationRequired):
        strict.as_analyst("ben").sql(OLD, share="2.1%")
    with pytest.raises(cf.ConfirmationRequired):
        strict.as_analyst("ana").sql(TOTAL, share="1.1%")
    off.sql(TOTAL, share=1)
    assert 1 == spent(off)


@pytest.mark.usefixtures("spending_guard")
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7])
def test_equal_shares_always_fit(count: int) -> None:
    """For every k, k requests with share 1/k fit; above the limit they need confirmation."""
    curator = open_curator()
    for _ in range(count):
        curator.sql(TOTAL, share=Fraction(1, count), fresh=True, confirm=count < 5)
    with pytest.raises(cf.BudgetExceeded):
        curator.sql(TOTAL, share=Fraction(1, 1_000), fresh=True)


@pytest.mark.usefixtures("spending_guard")
def test_a_holdout_session_in_a_curator_is_guarded(tmp_path: Path) -> None:
    """Opening an expensive session needs confirmation; resuming it does not."""
    values = np.tile([0.0, 1.0], 500)
    terms: dict[str, Any] = {"queries": 100, "overfits": 5, "epsilon": 1, "method": "thresholdout"}
    curator = open_curator(cf.Budget(2), tmp_path / "ledger.db", neighbours="replace")
    with pytest.raises(cf.ConfirmationRequired):
        cf.Holdout(1_000, 1_000, curator=curator, **terms)
    assert 0 == spent(curator)
    cf.Holdout(1_000, 1_000, curator=curator, confirm=True, **terms)
    again = cf.Holdout(1_000, 1_000, curator=curator, **terms)

    assert Fraction(1, 2) == spent(curator)
    again.ask(values, values)


@pytest.mark.usefixtures("spending_guard")
@pytest.mark.parametrize("given", [0, 1.5, "0%", "much", None])
def test_a_limit_that_is_not_a_share_is_refused(given: Any) -> None:
    """The limit is a share above 0 and at most 1."""
    with pytest.raises(BadDeclaration, match="max_share_per_query"):
        cf.Budget(1, max_share_per_query=given)


def test_the_default_of_users_is_a_fifth() -> None:
    """A budget that declares no limit gets 20%, and copies keep what was declared."""
    limit = pickle.loads(pickle.dumps(cf.Limit("50%", max_share_per_query="1%")))
    budget = pickle.loads(pickle.dumps(cf.Budget(1, max_share_per_query="3%")))

    assert "20%" == DEFAULT
    assert Fraction(1, 100) == limit.max_share_per_query.fraction
    assert Fraction(3, 100) == budget.max_share_per_query
    with pytest.raises(BadDeclaration, match="planning"):
        cf.Limits(purposes={"planning": cf.Limit("50%", max_share_per_query="1%")})
    with pytest.raises(cf.BadArgument, match="confirm"):
        open_curator().sql(TOTAL, share="1%", confirm=1)  # type: ignore[arg-type]
