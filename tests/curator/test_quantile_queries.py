"""Without noise, a quantile lies between the two rows that QUANTILE_CONT interpolates.

If both rows have the same value, as is common among integers, it is that value. Otherwise it can be
anywhere between them, since a quantile is chosen rather than computed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pytest

from support.datasets import nafld, nhanes, randhie, tpch
from support.noiseless import BUDGETS, World, ask_oracle, open_world

CELL: Final = 2.0**-16
"""The maximum width of a cell of candidates, relative to the column's range, on these data."""

ROW_AT: Final = "LIST_SORT(LIST({x}))[CAST({end}({level} * (COUNT({x}) - 1)) AS INT) + 1]"


@dataclass(frozen=True, slots=True)
class Question:
    """A quantile of an expression, grouped by at most one key; ``wide`` is the range of a float.

    Quantiles skip NULL, and so do the two rows that they lie between.
    """

    maker: Callable[[], World]
    source: str
    x: str
    level: float
    key: str = "1"
    wide: float = 0.0

    def sql(self) -> str:
        """Return the query in SQL."""
        shown = {0.5: f"MEDIAN({self.x})"}.get(self.level, f"QUANTILE_CONT({self.x}, {self.level})")
        grouped = "" if self.key == "1" else f" GROUP BY {self.key}"
        keys = "" if self.key == "1" else f"{self.key} AS k, "
        return f"SELECT {keys}{shown} AS q FROM {self.source}{grouped}"

    def bounds(self) -> str:
        """Return the query for the rows below and above the quantile."""
        known = f"(SELECT * FROM {self.source}) WHERE {self.x} IS NOT NULL"
        low, high = (
            ROW_AT.format(x=self.x, end=end, level=self.level) for end in ("FLOOR", "CEIL")
        )
        return f"SELECT {self.key} AS k, {low} AS low, {high} AS high FROM {known} GROUP BY k"


PER_PERSON: Final = "(SELECT zper, SUM(visits) AS t FROM years GROUP BY zper)"
QUESTIONS: Final = (
    Question(nhanes, "t", "age", 0.5),
    Question(nhanes, "t", "systolic", 0.9, key="sex"),
    Question(nhanes, "t", "sleep_hours", 0.25),
    Question(nhanes, "t", "weight_kg", 0.5, key="health", wide=130),
    Question(nhanes, "t", "cholesterol - systolic", 0.5),
    Question(randhie, "years", "visits", 0.5, key="year"),
    Question(randhie, "years", "visits", 0.99),
    Question(randhie, "years", "outpatient", 0.75, key="site", wide=1_000),
    Question(randhie, PER_PERSON, "t", 0.9),
    Question(nafld, "patients", "age", 0.1, key="male"),
    Question(nafld, "patients", "bmi", 0.5, key="status", wide=45),
    Question(nafld, "labs", "value", 0.5, key="test", wide=400),
    Question(nafld, "labs JOIN patients USING (id)", "age", 0.5, key="test"),
    Question(tpch, "customer", "c_acctbal", 0.5, key="c_mktsegment", wide=11_000),
    Question(tpch, "lineitem", "l_quantity", 0.5, key="l_shipmode"),
    Question(tpch, "orders", "o_totalprice", 0.95, key="o_orderstatus", wide=600_000),
)


@pytest.mark.parametrize("accounting", BUDGETS)
@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.sql()[:60])
def test_quantiles_lie_where_duckdb_finds_them(question: Question, accounting: str) -> None:
    """Each quantile lies between the rows around its rank, up to less than 1% of them."""
    opened = open_world(question.maker, accounting)
    rows = opened.curator.sql(question.sql(), epsilon=opened.epsilon).rows
    found = {row.get("k", 1): row["q"] for row in rows}
    slack = question.wide * CELL + 1e-9
    expected = [row for row in ask_oracle(opened.oracle, question.bounds()) if row["k"] is not None]

    assert expected
    for row in expected:
        assert row["low"] - slack <= found[row["k"]] <= row["high"] + slack
        assert not row["low"] or slack < 0.01 * abs(row["low"])
