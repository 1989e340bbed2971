"""Generated SQL is cached, and reused only for the same query."""

from functools import partial
from typing import Final

import pyarrow as pa
import pytest

from confide.curator import Curator
from confide.declare import Budget, Float, Int, Table
from confide.engines.sql import engine
from confide.engines.sql.engine import StatementCache
from confide.loss import Share
from confide.plan import Plan
from confide.query.sql import read_sql

SHARE: Final = Share.floor("1/100")
ALIKE: Final = (
    "SELECT SUM(age + 1) AS x FROM visits",
    "SELECT SUM(age + 1.0) AS x FROM visits",
    "SELECT SUM(age + 2) AS x FROM visits",
    "SELECT SUM(age) AS x FROM visits",
    "SELECT AVG(age) AS x FROM visits",
    "SELECT SUM(cost) AS x FROM visits",
    "SELECT SUM(age) AS x FROM visits WHERE age > 1",
    "SELECT SUM(age) FILTER (WHERE age > 1) AS x, COUNT(*) AS n FROM visits",
    "SELECT age, SUM(cost) AS x FROM visits GROUP BY age",
)


@pytest.fixture
def curator() -> Curator:
    """Return a curator of a small table."""
    rows = pa.table({"pid": [1, 1, 2], "age": [3, 4, 5], "cost": [0.5, 1.5, 2.5]})
    table = Table(
        "visits",
        rows,
        unit="pid",
        columns={"age": Int(0, 9), "cost": Float(0, 9)},
        max_rows_per_unit=2,
    )
    return Curator([table], budget=Budget(1))


def plan_of(curator: Curator, text: str, share: Share = SHARE) -> Plan:
    return curator._planner.plan(read_sql(text, curator.names), share)


def test_each_query_has_its_own_statement(curator: Curator) -> None:
    """Queries that differ in one literal or type have different statements."""
    kept = StatementCache()
    texts = [
        kept.find(plan_of(curator, text).measurement, None, partial(str, text)) for text in ALIKE
    ]

    assert list(ALIKE) == texts


def test_a_statement_is_reused_at_another_price(curator: Curator) -> None:
    """A statement is generated once, since its price is not part of it."""
    kept = StatementCache()
    first, second = (
        kept.find(
            plan_of(curator, ALIKE[0], Share.floor(share)).measurement, None, partial(str, share)
        )
        for share in ("1/100", "1/50")
    )

    assert first == second == "1/100"


def test_only_the_latest_statements_are_kept(
    curator: Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Past the maximum number of statements, the least recently used one is dropped."""
    monkeypatch.setattr(engine, "MAX_CACHED_STATEMENTS", 2)
    kept, plans = StatementCache(), [plan_of(curator, text) for text in ALIKE[:3]]
    for place in (0, 1, 0, 2):
        kept.find(plans[place].measurement, None, lambda: "old")
    found = [
        kept.find(plan.measurement, None, lambda: "new") for plan in (plans[0], plans[2], plans[1])
    ]

    assert ["old", "old", "new"] == found
