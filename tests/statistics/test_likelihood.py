"""Distribution families: terms stay within [-1, 1], and solving never fails."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from confide.curator import Curator
from confide.declare import ROW, Budget, Category, Float, Int, Table, Text
from confide.declare import Column as Declared
from confide.errors import UnsupportedQuery
from confide.query import TableQuery, col, count
from confide.statistics.families import make_family
from confide.statistics.likelihood import solve_counts
from confide.statistics.replicas import POINTS, sample_counts
from support.samples import ask, curator_of, granted, value_of

NAMES = ("normal", "poisson", "exponential", "gamma", "beta")


@given(
    x=st.lists(st.floats(0, 1), min_size=1, max_size=20),
    name=st.sampled_from(NAMES),
)
def test_terms_lie_within_one(x: list[float], name: str) -> None:
    """Every term of every row lies in [-1, 1], including at the ends of the range."""
    family = make_family(name, 0.0, 1.0)
    for term in family.terms(col("x")):
        values = value_of(term, {"x": np.array(x)})

        assert (np.abs(values) <= 1).all()


@given(sums=st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3), name=st.sampled_from(NAMES))
def test_any_sums_have_a_solution(sums: list[float], name: str) -> None:
    """For any noisy sums, the parameters and their covariance are finite."""
    family = make_family(name, 0.0, 1.0)
    wanted = np.array(sums[: 1 + len(family.terms(col("x")))])
    solved = family.solve(wanted)

    assert np.isfinite(solved).all()
    assert np.isfinite(family.covariance(solved)).all()


def test_tighter_bounds_may_be_given() -> None:
    """``within`` clips to a subset of the declared range and reduces the noise."""
    x = np.linspace(40, 60, 1_000)
    curator = curator_of({"x": x}, {"x": Float(0, 10_000)}, Budget(100))
    wide = curator.exponential_family("people", "x", family="normal", epsilon=1)
    tight = curator.exponential_family("people", "x", family="normal", within=(0, 100), epsilon=1)

    assert 10 * tight.standard_error["mean"] < wide.standard_error["mean"]
    assert 50 == pytest.approx(tight.value["mean"], abs=3)


def test_an_estimate_shows_itself() -> None:
    """The string, HTML, DataFrame, and chart show every parameter with its interval."""
    curator = curator_of({"x": np.linspace(40, 60, 100)}, {"x": Float(0, 100)}, Budget(100))
    found = curator.exponential_family("people", "x", family="normal", epsilon=1)

    assert "mean: " in str(found)
    assert "stddev" in found._repr_html_()
    assert ["mean", "stddev"] == list(found.to_pandas().index)
    assert 2 == len(found.plot().spec["data"]["values"])
    low, high = found.interval(0.5)["mean"]
    wider = found.interval(0.99)["mean"]
    assert wider[0] <= low <= found.value["mean"] <= high <= wider[1]


def test_undeclared_groups_are_refused_before_any_charge() -> None:
    """A sum by undeclared groups is refused, because revealing them would cost delta."""
    data = pa.table({"n": [1, 2, 3], "note": ["a", "b", "c"]})
    columns: dict[str, Declared] = {"n": Int(0, 200_000), "note": Text()}
    table = Table("people", data, unit=ROW, columns=columns)
    curator = Curator([table], budget=Budget(1, 1e-6))
    context = ask(curator, 0.1)
    for name in columns:
        query = context.planner.read(TableQuery("people").group_by(name).agg(rows=count()))
        with pytest.raises(UnsupportedQuery, match="need declared group keys"):
            context.plan(query, granted(context))

    with pytest.raises(UnsupportedQuery, match="supports 1 to 1,000 values"):
        curator.exponential_family("people", "n", family="categorical", share="1/10")

    assert 0 == curator.budget.spent.share


def test_a_thousand_probabilities_are_answered() -> None:
    """A column with 1,000 values is accepted; one with 1,001 is refused before the charge."""
    names = [f"v{place}" for place in range(1_001)]
    columns: dict[str, Declared] = {"most": Category(names[:-1]), "more": Category(names)}
    data = {"most": ["v1", "v2"], "more": ["v1", "v2"]}
    curator = curator_of(data, columns, Budget(10))
    found = curator.exponential_family("people", "most", family="categorical", epsilon=1)
    with pytest.raises(UnsupportedQuery, match="or declare fewer"):
        curator.exponential_family("people", "more", family="categorical", epsilon=1)

    assert 1_000 == len(found.value)
    assert 1 == len(list(curator.ledger.entries()))


def test_a_declared_null_is_no_value() -> None:
    """Rows without a value are excluded, so NULL has no probability even if it is declared."""
    data = {"ward": ["A", "B", None, None] * 50}
    curator = curator_of(data, {"ward": Category(["A", "B", None])}, Budget(10**7))
    found = curator.exponential_family("people", "ward", family="categorical", epsilon=10**6)

    assert {"A": 0.5, "B": 0.5} == pytest.approx(found.value)


@given(
    counts=st.lists(st.floats(-1e18, 1e18) | st.integers(-9, 99), min_size=1, max_size=9),
    reach=st.floats(0, 1e18),
)
def test_any_counts_have_parts(counts: list[float], reach: float) -> None:
    """For any noisy counts, probabilities add up to 1 and replicas lie within [0, 1]."""
    noise = reach * np.linspace(-1.0, 1.0, 64 * len(counts)).reshape(64, -1)
    parts, replicas = solve_counts(np.array(counts, dtype=np.float64), noise)

    assert (parts >= 0.0).all()
    assert 1.0 == pytest.approx(parts.sum())
    assert ((replicas >= 0.0) & (replicas <= 1.0)).all()


def test_counts_below_zero_stay_in_the_sum() -> None:
    """Probabilities are the projection of counts / sum, with negative counts kept in the sum."""
    parts = solve_counts(np.array([50.0, 60.0, -10.0, 0.0]), np.zeros((POINTS, 4)))[0]

    assert [0.45, 0.55, 0.0, 0.0] == pytest.approx(parts)


@pytest.mark.parametrize("counts", [(0, 100), (3, 97), (40, 60), (1_000, 1_000)])
def test_parts_without_noise_have_the_interval_of_wilson(counts: tuple[int, int]) -> None:
    """Without noise, the quantiles of replicas are the ends of Wilson's interval."""
    replicas = solve_counts(np.array(counts, dtype=np.float64), np.zeros((POINTS, 2)))[1]
    tested = stats.binomtest(counts[0], sum(counts)).proportion_ci(0.95, method="wilson")
    found = np.quantile(replicas[:, 0], [0.025, 0.975])

    assert [tested.low, tested.high] == pytest.approx(found, rel=0.01, abs=1e-9)


@pytest.mark.parametrize("total", [-20, 0, 20])
def test_counts_below_the_noise_give_full_intervals(total: int) -> None:
    """If the count may be pure noise, intervals extend from 0 to 1."""
    noise = np.random.default_rng(1).laplace(0.0, 100.0, (POINTS, 4))
    replicas = solve_counts(np.array([total, 9.0, -4.0, -5.0]), noise)[1]

    assert ([0.0] * 4, [1.0] * 4) == tuple(np.quantile(replicas, [0.025, 0.975], axis=0).tolist())


def test_empty_values_take_nothing_from_the_others() -> None:
    """Among 1,000 values, the only one with rows (5,000 of them) gets a probability near 1.

    The noise of 999 empty values has standard deviation 43, so a correct rule is off by 225 rows,
    5.2 times that, once in ten million runs. Clipped at zero, that noise would add 425 rows.
    """
    values = [f"v{place}" for place in range(1_000)]
    curator = curator_of({"v": ["v7"] * 5_000}, {"v": Category(values)}, Budget(1))
    found = curator.exponential_family("people", "v", family="categorical", epsilon=1)
    ends = found.interval()

    assert found.value["v7"] > 0.955
    assert 1.0 == pytest.approx(sum(found.value.values()))
    assert all(low <= found.value[name] <= high for name, (low, high) in ends.items())


def test_the_only_value_is_certain() -> None:
    """A single declared value has probability 1 and the interval [1, 1], even without rows."""
    for rows in (["A"] * 50, ["A"], [None]):
        curator = curator_of({"ward": rows}, {"ward": Category(["A"])}, Budget(1))
        found = curator.exponential_family("people", "ward", family="categorical", epsilon=1)

        assert {"A": 1.0} == found.value
        assert {"A": (1.0, 1.0)} == found.interval() == found.interval(0.5)
        assert "1" in str(found)


def test_samples_of_counts_have_the_covariances_of_a_multinomial_law() -> None:
    """Evenly spread samples of 100 rows have variances n p (1 - p) and covariances -n p q."""
    parts = np.array([0.5, 0.3, 0.2])
    drawn = sample_counts(parts, 100.0)
    wanted = 100.0 * (np.diag(parts) - np.outer(parts, parts))

    assert (POINTS, 3) == drawn.shape
    assert np.cov(drawn.T) == pytest.approx(wanted, abs=0.5)
    assert drawn.sum(axis=1) == pytest.approx(0.0, abs=1e-9)
