"""Nonnegative counts, if the owner declares them."""

from pathlib import Path

import pandas as pd
import pytest

import confide as cf
from confide.declare import Column as Declared
from confide.declare.toml import parse_toml

COUNTS = "SELECT ward, COUNT(*) AS n, COUNT(DISTINCT patient) AS people FROM visits GROUP BY ward"
WARDS = [f"w{place}" for place in range(200)]


def ask(question: str, *, nonnegative: bool) -> cf.Answer:
    """Return the answer on an empty table, where half of all noisy counts are negative."""
    frame = pd.DataFrame(
        {"patient": pd.Series([], dtype="int64"), "ward": pd.Series([], dtype=str)}
    )
    columns: dict[str, Declared] = {"ward": cf.Category(WARDS), "cost": cf.Float(0, 1)}
    table = cf.Table(
        "visits",
        frame.assign(cost=pd.Series([], dtype="float64")),
        unit="patient",
        columns=columns,
        nonnegative=nonnegative,
    )
    return cf.Curator([table], budget=cf.Budget(1)).sql(question, share="1/2")


@pytest.mark.parametrize("nonnegative", [True, False])
def test_no_count_is_below_zero_if_the_owner_asks(nonnegative: bool) -> None:
    """Values and intervals stop at zero if declared; otherwise some of 200 groups go below.

    All 400 noisy counts of empty groups are nonnegative with probability below 1e-40.
    """
    answer = ask(COUNTS, nonnegative=nonnegative)
    values = [row[name] for row in answer.rows for name in ("n", "people")]
    ends = [end for row in answer.interval_rows() for end in row.values()]

    assert nonnegative == (min(values) >= 0)
    assert nonnegative == (min(ends) >= 0)


def test_sums_and_order_follow_the_counts_shown() -> None:
    """HAVING and arithmetic use the counts as shown."""
    shown = ask(
        "SELECT ward, 2 * COUNT(*) AS twice FROM visits GROUP BY ward HAVING COUNT(*) >= 0",
        nonnegative=True,
    )

    assert len(WARDS) == len(shown.rows)
    assert 0 == min(row["twice"] for row in shown.rows)


def test_a_file_can_ask_for_it(tmp_path: Path) -> None:
    """`nonnegative = true` in a table's section is read."""
    text = """
    [budget]
    epsilon = 1
    [tables.visits]
    source = "visits.csv"
    unit = "ROW"
    nonnegative = true
    [tables.visits.columns]
    age = { type = "int", low = 0, high = 9 }
    """

    assert parse_toml(text, name="confide.toml", folder=tmp_path).tables[0].nonnegative
