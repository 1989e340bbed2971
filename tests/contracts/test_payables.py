"""The contract of every payable: charged before rows are read, stored, and found again.

To test a new kind, add a line to `KINDS`.
"""

import json
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pytest

import confide as cf
from confide.engines import DuckDB
from confide.errors import Fault, UnsupportedQuery
from confide.execution.batch import Batch, ChoosePayable, ReleasePayable
from confide.execution.executor import QueryOptions
from confide.execution.planner import Planner
from confide.execution.pricing import Price
from confide.loss import Share
from confide.query import split_query
from confide.release.payable import Payable
from confide.statistics.estimate import EstimateContext, StatisticPayable, release_totals

COUNT: Final = "SELECT COUNT(*) AS n, MEDIAN(age) AS m FROM visits GROUP BY ward"
TOP: Final = "SELECT ward FROM visits GROUP BY ward ORDER BY COUNT(*) DESC LIMIT 1"
SCORE: Final = "SELECT COUNT(*) FROM visits"
PRICE: Final = Price(share="1%")


def planner(curator: cf.Curator) -> Planner:
    """Return the planner of a curator."""
    return curator._planner


def make_statistic(curator: cf.Curator) -> StatisticPayable[Any]:
    """Return a statistic that releases one total."""
    asked = EstimateContext(curator._executor, PRICE, QueryOptions())
    query = planner(curator).read("SELECT COUNT(*) AS n FROM visits")
    return StatisticPayable(
        {"estimate": "count"},
        lambda share: asked.plan(query, share),
        lambda plan, hold: {"steps": release_totals(curator._executor, plan, hold)},
        readings=1,
    )


KINDS: Final[dict[str, Callable[[cf.Curator], Payable[Any]]]] = {
    "query": lambda curator: planner(curator).payable(split_query(planner(curator).read(COUNT))),
    "top keys": lambda curator: planner(curator).payable(split_query(planner(curator).read(TOP))),
    "release": lambda curator: ReleasePayable(
        planner(curator), Batch.of([planner(curator).read(COUNT)], None)
    ),
    "choose": lambda curator: ChoosePayable(
        planner(curator), {name: planner(curator).read(SCORE) for name in ("a", "b")}
    ),
    "statistic": make_statistic,
}
GRIDDED: Final = sorted(KINDS.keys() - {"choose"})
"""Kinds whose stored answers depend on their noise grid."""


@pytest.fixture
def curator() -> cf.Curator:
    """Return a curator of a small table."""
    rows = pa.table({"pid": range(60), "age": [30] * 60, "ward": ["A", "B", "B"] * 20})
    table = cf.Table(
        "visits",
        rows,
        unit="pid",
        columns={"age": cf.Int(0, 99), "ward": cf.Category(["A", "B"])},
        unique=True,
    )
    return cf.Curator([table], budget=cf.Budget(10, 1e-6))


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_read_after_the_charge(
    kind: str, curator: cf.Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole share is spent when the engine is first called, and nothing before."""
    spent = []
    run = DuckDB.run

    def watched(*given: Any) -> Any:
        spent.append(curator.budget.spent.share)
        return run(*given)

    monkeypatch.setattr(DuckDB, "run", watched)
    payable = KINDS[kind](curator)
    payable.at(Share.floor("1%"))
    assert [] == spent
    assert not curator.budget.spent.share

    curator._executor.execute(payable, PRICE, QueryOptions())
    assert {Share.floor("1%").fraction} == set(spent)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_stored_is_found_again(kind: str, curator: cf.Curator) -> None:
    """A repeated operation returns the stored answer for free, and JSON preserves it."""
    payable, options = KINDS[kind](curator), QueryOptions()
    plan, noisy, first = curator._executor.execute(payable, PRICE, options)
    _, again, second = curator._executor.execute(KINDS[kind](curator), PRICE, options)

    assert noisy == again
    assert first.receipt == second.receipt
    assert second.reused
    assert not second.cost.share
    assert noisy == plan.decode(json.loads(json.dumps(first.payload)))


@pytest.mark.parametrize("kind", KINDS)
def test_a_charge_that_a_crash_left_is_resumed(
    kind: str, curator: cf.Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failed reading, the same key pays nothing more and gets its answer."""
    options, payable = QueryOptions(key="k"), KINDS[kind](curator)
    with monkeypatch.context() as broken:
        broken.setattr(DuckDB, "run", fail)
        with pytest.raises(Fault):
            curator._executor.execute(payable, PRICE, options)
    before = curator.budget.spent.share
    curator._executor.execute(payable, PRICE, options)

    assert Share.floor("1%").fraction == before == curator.budget.spent.share


def fail(*_: Any) -> None:
    """Raise a Fault, as an engine does."""
    raise Fault("power cut")


@pytest.mark.parametrize("kind", GRIDDED)
def test_an_answer_on_another_grid_is_refused(kind: str, curator: cf.Curator) -> None:
    """Stored numbers are refused under another noise grid than the one they were written on."""
    plan, _, settlement = curator._executor.execute(KINDS[kind](curator), PRICE, QueryOptions())
    other = {**settlement.payload, "sizes": ["1/7"]}

    with pytest.raises(UnsupportedQuery, match="with other noise"):
        plan.decode(other)
