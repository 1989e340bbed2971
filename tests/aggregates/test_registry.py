"""A registered aggregate is read, planned, released, and explained without further code.

The tests register the correlation of two columns, over needs that the planner supports.
"""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from confide.aggregates import AGGREGATES, AggregateFunction, Pattern, function_of, make_aggregate
from confide.aggregates.needs import (
    CountRows,
    Ends,
    Floats,
    Need,
    ReleasedColumns,
    SumProducts,
    SumValues,
)
from confide.aggregates.registry import list_spellings, numeric_kind, register
from confide.audit.query_cases import make_queries
from confide.curator import Curator
from confide.declare import Budget, Category, Float, Int, Kind, Table
from confide.errors import UnsupportedQuery
from confide.expressions.construct import conjunction, make_call
from confide.expressions.functions import Function
from confide.expressions.terms import AggregateTerm, Term, aggregate_term
from confide.expressions.tree import AggregateCall, Column, Expression
from confide.query import TableQuery, canonical, col
from confide.query.sql import read_sql
from support.agents import call, tools_of
from support.service import open_house

ROWS = 400
EPSILON = 1e9


class Correlation(AggregateFunction):
    """The correlation of two columns, over the rows where neither is NULL."""

    name: ClassVar[str] = "CORR"
    patterns: ClassVar[tuple[Pattern, ...]] = (Pattern("CORR(x, y)"),)
    summary: ClassVar[str] = "correlation of x and y"

    def result_kind(self, arguments: Sequence[Expression]) -> Kind:
        numeric_kind(arguments)
        return Kind.FLOAT

    def needs(self, call: AggregateCall, siblings: Collection[AggregateCall]) -> tuple[Need, ...]:
        x, y = call.arguments
        known = [make_call(Function.NOT, make_call(Function.IS_NULL, one)) for one in (x, y)]
        where = conjunction([*known, *([] if call.where is None else [call.where])])
        return (
            CountRows(None, where),
            *(SumValues(one, where) for one in (x, y)),
            *(SumProducts(one, other, where) for one, other in ((x, x), (y, y), (x, y))),
        )

    def estimate(self, call: AggregateCall, columns: ReleasedColumns) -> Floats:
        rows = np.maximum(columns.count(0), 1.0)
        x, y = (columns.sum(place).mean(rows) - columns.sum(place).center for place in (1, 2))
        xx, yy, xy = (columns.sum(place).mean(rows) for place in (3, 4, 5))
        spread = np.sqrt(np.maximum((xx - x**2) * (yy - y**2), 1e-300))
        return np.clip((xy - x * y) / spread, -1.0, 1.0)

    def interval(
        self,
        call: AggregateCall,
        columns: ReleasedColumns,
        noise: ReleasedColumns,
        confidence: float,
    ) -> Ends:
        found = self.estimate(call, columns)
        return np.full_like(found, -1.0), np.ones_like(found)

    def explain(self, call: AggregateCall) -> str:
        return "follows from noisy sums of values, squares and products, and a noisy count"


def corr(x: Term | str, y: Term | str) -> AggregateTerm:
    """Return the correlation of two columns or terms."""
    return aggregate_term(Correlation.name, x, y)


@pytest.fixture
def frame() -> pa.Table:
    """Return rows of two related columns, some of them NULL."""
    rng = np.random.default_rng(31)
    x = rng.integers(0, 101, ROWS)
    y = np.clip(x / 10 + rng.normal(0, 2, ROWS), -20, 30).round(3)
    holes = rng.random((2, ROWS)) < 0.1
    return pa.table(
        {
            "pid": np.arange(ROWS),
            "x": pa.array(x, mask=holes[0]),
            "y": pa.array(y, mask=holes[1]),
            "ward": rng.choice(["A", "B"], ROWS),
        }
    )


@pytest.fixture
def _registered() -> Iterator[None]:
    """Register the correlation for as long as a test runs."""
    register(Correlation)
    try:
        yield
    finally:
        del AGGREGATES[Correlation.name]


@pytest.fixture
def curator(frame: pa.Table, _registered: None) -> Curator:
    """Yield a curator of these rows while the correlation is registered."""
    table = Table(
        "t",
        frame,
        unit="pid",
        columns={"x": Int(0, 100), "y": Float(-20, 30), "ward": Category(["A", "B"])},
        unique=True,
    )
    return Curator([table], budget=Budget(1e12))


OF_UNITS = "SELECT AVG(r) AS m FROM (SELECT pid, CORR(x, y) AS r FROM t GROUP BY pid)"
CALLS = [
    "CORR(x, y)",
    "CORR(y, x)",
    "CORR(x, x)",
    "CORR(x * 2, y - x)",
    "CORR(x, y) FILTER (WHERE x > 20)",
    "CORR(x, y) FILTER (WHERE ward = 'A')",
]


@pytest.mark.parametrize("text", CALLS)
@pytest.mark.parametrize("beside", ["COUNT(*)", "AVG(x)", "VAR_SAMP(y)"])
def test_sql_answers_a_registered_aggregate(
    curator: Curator, frame: pa.Table, text: str, beside: str
) -> None:
    """With little noise, the SQL answer is DuckDB's, alone and with other aggregates."""
    (expected,) = duckdb.execute(f"SELECT {text} FROM frame").fetchall()

    for asked in (f"SELECT {text} AS r FROM t", f"SELECT {text} AS r, {beside} AS other FROM t"):
        assert expected[0] == pytest.approx(
            curator.sql(asked, epsilon=EPSILON).rows[0]["r"], abs=1e-5
        )


def test_python_answers_a_registered_aggregate(curator: Curator, frame: pa.Table) -> None:
    """A term of its name has DuckDB's answers by group, and equals the SQL query."""
    expected = duckdb.execute(
        "SELECT ward, CORR(x, y) FROM frame WHERE x > 5 GROUP BY 1"
    ).fetchall()
    query = TableQuery("t").where(col("x") > 5).group_by("ward").agg(r=corr("x", "y"))
    text = "SELECT ward, CORR(x, y) AS r FROM t WHERE x > 5 GROUP BY ward"

    found = {row["ward"]: row["r"] for row in curator.sql(text, epsilon=EPSILON).rows}

    assert dict(expected) == pytest.approx(found, abs=1e-5)
    assert canonical(read_sql(text, curator.names)) == canonical(query.build(curator.names))


@pytest.mark.usefixtures("_registered")
def test_servers_and_agents_answer_a_registered_aggregate(tmp_path: Path) -> None:
    """HTTP answers it with its own interval, and an agent gets the same answer again, for free."""
    asked = {"sql": "SELECT CORR(age, age * age) AS r FROM visits", "share": "10%"}
    with open_house(tmp_path) as house:
        answer = house.post("/v1/query", asked).json()
        (again,) = call(tools_of(house), ("ask", asked))
        spent = house.get("/v1/budget").json()["spent"]["share"]

    assert -1 <= answer["rows"][0]["r"] <= 1
    assert [{"r_low": -1.0, "r_high": 1.0}] == answer["intervals"]
    assert (answer["rows"], True) == tuple(again.structured_content[n] for n in ("rows", "reused"))
    assert "1/10" == spent


def test_a_registered_aggregate_is_part_of_a_computed_column(curator: Curator) -> None:
    """Arithmetic, HAVING, and ORDER BY support it, and its interval is propagated."""
    text = "SELECT ward, 2 * CORR(x, y) AS r FROM t GROUP BY ward HAVING CORR(x, y) > -1 ORDER BY r"
    answer = curator.sql(text, epsilon=EPSILON)

    assert 2 == len(answer.rows)
    assert [{"r_low": -2.0, "r_high": 2.0}] * 2 == answer.interval_rows(0.95)


def test_a_registered_aggregate_is_written_and_explained(curator: Curator) -> None:
    """Canonical SQL parses back, the explanation has both ranges, and messages list it."""
    text = "select corr(x, y + 1) filter (where ward = 'A') as r from t"
    written = canonical(read_sql(text, curator.names))

    assert "SELECT CORR(t1.x, t1.y + 1) FILTER (WHERE t1.ward = 'A') AS r FROM t AS t1" == written
    assert written == canonical(read_sql(written, curator.names))
    sentences = str(curator.explain(text, epsilon=1))
    assert (
        "products, and a noisy count; values of x are clipped to the range from 0 to 100"
        in sentences
    )
    assert "; values of y + 1 are clipped to the range from -19 to 31" in sentences
    with pytest.raises(UnsupportedQuery, match=r"STDDEV, CORR\(x, y\), MEDIAN"):
        curator.sql("SELECT MIN(x) FROM t", epsilon=1)
    with pytest.raises(
        UnsupportedQuery, match="per-unit subquery supports only COUNT, SUM, and AVG"
    ):
        curator.sql(OF_UNITS, epsilon=1)
    with pytest.raises(UnsupportedQuery, match="needs numbers"):
        curator.sql("SELECT CORR(x, ward) AS r FROM t", epsilon=1)


def test_a_registered_aggregate_is_audited(curator: Curator) -> None:
    """The audit of a declaration queries it, in valid SQL."""
    (table,) = curator.catalog.private.values()
    asked = [text for text in make_queries([table]) if "CORR" in text]

    assert ['SELECT CORR("x", "y") AS a FROM "t"'] == asked
    assert 1 == len(curator.sql(asked[0], epsilon=1).rows)


def test_the_order_of_needs_is_fixed() -> None:
    """The needs of each aggregate are in the order in which stored answers list their totals."""
    x = Column("t1", "x", Kind.INT)
    calls = {name: make_aggregate(name, x) for name in AGGREGATES}
    needs = {
        name: [type(need).__name__ for need in function_of(call).needs(call, [call])]
        for name, call in calls.items()
    }

    assert {
        "COUNT": ["CountRows"],
        "COUNT_UNITS": ["CountUnits"],
        "SUM": ["SumValues"],
        "AVG": ["CountRows", "SumValues"],
        "VAR_SAMP": ["SumValues", "CountRows", "SumProducts"],
        "STDDEV": ["SumValues", "CountRows", "SumProducts"],
        "QUANTILE_CONT": ["ChooseQuantiles"],
    } == needs
    shared = function_of(calls["SUM"]).needs(calls["SUM"], list(calls.values()))
    assert ["CountRows", "SumValues"] == [type(need).__name__ for need in shared]


def test_a_name_is_registered_once() -> None:
    """Registering a second aggregate of one name, or one without a method, fails."""
    with pytest.raises(ValueError, match="named COUNT already"):
        register(type("Again", (Correlation,), {"name": "COUNT"}))
    with pytest.raises(TypeError, match="abstract"):
        register(type("Unfinished", (AggregateFunction,), {"name": "UNFINISHED"}))
    assert "UNFINISHED" not in AGGREGATES


def test_messages_list_every_spelling() -> None:
    """Messages list every aggregate, by name alone if it always takes one x."""
    assert list_spellings() == (
        "COUNT(*), COUNT(x), COUNT(DISTINCT unit), SUM, AVG, VAR_SAMP, STDDEV, MEDIAN, "
        "QUANTILE_CONT(x, q), and PERCENTILE_CONT(q) WITHIN GROUP (ORDER BY x)"
    )
