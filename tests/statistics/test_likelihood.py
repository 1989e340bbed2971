"""Families: what is added up stays within [-1, 1], and solving never fails."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from confide.curator import Curator
from confide.declare import ROW, Budget, Category, Float, Int, Table, Text
from confide.declare import Column as Declared
from confide.errors import UnsupportedQuery
from confide.query import TableQuery, col, count
from confide.statistics.families import make_family
from confide.statistics.replicas import POINTS, sample_counts
from support.samples import ask, curator_of, value_of

NAMES = ("normal", "poisson", "exponential", "gamma", "beta")


@given(
    x=st.lists(st.floats(0, 1), min_size=1, max_size=20),
    name=st.sampled_from(NAMES),
)
def test_terms_lie_within_one(x: list[float], name: str) -> None:
    """Every term of every row lies in [-1, 1], also at the ends of the range."""
    family = make_family(name, 0.0, 1.0)
    for term in family.terms(col("x")):
        values = value_of(term, {"x": np.array(x)})

        assert (np.abs(values) <= 1).all()


@given(sums=st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3), name=st.sampled_from(NAMES))
def test_any_sums_have_a_solution(sums: list[float], name: str) -> None:
    """Whatever noise made of the sums, the parameters and their covariance are finite."""
    family = make_family(name, 0.0, 1.0)
    wanted = np.array(sums[: 1 + len(family.terms(col("x")))])
    solved = family.solve(wanted)

    assert np.isfinite(solved).all()
    assert np.isfinite(family.covariance(solved)).all()


def test_tighter_bounds_may_be_given() -> None:
    """``within`` clips to a part of the declared range, and makes the noise smaller."""
    x = np.linspace(40, 60, 1_000)
    curator = curator_of({"x": x}, {"x": Float(0, 10_000)}, Budget(100))
    wide = curator.exponential_family("people", "x", family="normal", epsilon=1)
    tight = curator.exponential_family("people", "x", family="normal", within=(0, 100), epsilon=1)

    assert 10 * tight.standard_error["mean"] < wide.standard_error["mean"]
    assert 50 == pytest.approx(tight.value["mean"], abs=3)


def test_an_estimate_shows_itself() -> None:
    """Text, table, frame and chart name every parameter with its interval."""
    curator = curator_of({"x": np.linspace(40, 60, 100)}, {"x": Float(0, 100)}, Budget(100))
    found = curator.exponential_family("people", "x", family="normal", epsilon=1)

    assert "mean: " in str(found)
    assert "stddev" in found._repr_html_()
    assert ["mean", "stddev"] == list(found.to_pandas().index)
    assert 2 == len(found.plot().spec["data"]["values"])
    low, high = found.interval(0.5)["mean"]
    wider = found.interval(0.99)["mean"]
    assert wider[0] <= low <= found.value["mean"] <= high <= wider[1]


def test_groups_that_nobody_declared_are_refused_before_any_charge() -> None:
    """A sum by groups that nobody declared is refused: naming them would take delta."""
    data = pa.table({"n": [1, 2, 3], "note": ["a", "b", "c"]})
    columns: dict[str, Declared] = {"n": Int(0, 200_000), "note": Text()}
    table = Table("people", data, unit=ROW, columns=columns)
    curator = Curator([table], budget=Budget(1, 1e-6))
    asked = ask(curator, 0.1)
    for name in columns:
        query = asked.desk.read(TableQuery("people").group_by(name).agg(rows=count()))
        with pytest.raises(UnsupportedQuery, match="known beforehand"):
            asked.plan(query, asked.grant())

    with pytest.raises(UnsupportedQuery, match="1 to 1,000 values"):
        curator.exponential_family("people", "n", family="categorical", share="1/10")

    assert 0 == curator.budget.spent.share


def test_a_thousand_probabilities_are_answered() -> None:
    """A law of 1,000 values is answered; one of 1,001 is refused before the charge."""
    names = [f"v{place}" for place in range(1_001)]
    columns: dict[str, Declared] = {"most": Category(names[:-1]), "more": Category(names)}
    data = {"most": ["v1", "v2"], "more": ["v1", "v2"]}
    curator = curator_of(data, columns, Budget(10))
    found = curator.exponential_family("people", "most", family="categorical", epsilon=1)
    with pytest.raises(UnsupportedQuery, match="declare fewer"):
        curator.exponential_family("people", "more", family="categorical", epsilon=1)

    assert 1_000 == len(found.value)
    assert 1 == len(list(curator.ledger.entries()))


def test_a_declared_null_is_no_value() -> None:
    """Rows without a value are left out, so NULL has no probability even where it is declared."""
    data = {"ward": ["A", "B", None, None] * 50}
    curator = curator_of(data, {"ward": Category(["A", "B", None])}, Budget(10**7))
    found = curator.exponential_family("people", "ward", family="categorical", epsilon=10**6)

    assert {"A": 0.5, "B": 0.5} == pytest.approx(found.value)


def test_samples_of_counts_have_the_covariances_of_a_multinomial_law() -> None:
    """Evenly spread samples of 100 rows in three parts vary by n p (1 - p), and with -n p q."""
    parts = np.array([0.5, 0.3, 0.2])
    drawn = sample_counts(parts, 100.0)
    wanted = 100.0 * (np.diag(parts) - np.outer(parts, parts))

    assert (POINTS, 3) == drawn.shape
    assert np.cov(drawn.T) == pytest.approx(wanted, abs=0.5)
    assert drawn.sum(axis=1) == pytest.approx(0.0, abs=1e-9)
