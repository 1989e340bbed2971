"""Hypothesis tests keep their level under noise: under the null, 5% of p-values are below 0.05."""

from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray

from confide.declare import Bool, Budget, Category, Column, Float
from confide.errors import BadArgument, UnsupportedQuery
from confide.execution.pricing import ZERO_COST, Price
from confide.ledger import Receipt
from confide.loss import Share
from confide.plan import Plan
from confide.statistics import hypothesis_tests
from confide.statistics.estimate import ChargedEstimate
from support.entropy import SeededEntropy
from support.samples import ask, curator_of, is_within

Floats = NDArray[np.float64]
RELEASES: Final = 1_000
COLUMNS: Final[dict[str, Column]] = {
    "x": Float(0, 100),
    "y": Bool(),
    "g": Bool(),
    "ward": Category(["A", "B", "C"]),
}
RECEIPT: Final = Receipt(0, Share(0), "")


def release_at(monkeypatch: pytest.MonkeyPatch, exact: Any, entropy: SeededEntropy) -> None:
    """Patch releases to use the sums by group in ``exact``, with the plan's own noise."""
    plans: dict[str, Plan] = {}

    def release(context: Any, kind: str, query: Any) -> ChargedEstimate[Plan]:
        if kind not in plans:
            share = context.planner.pricing.share_for_cost(Price.of({"epsilon": 1}))
            plans[kind] = context.planner.plan(context.planner.read(query), share)
        plan = plans[kind]
        sums: Floats = exact()
        units = [float(t.grid.step) if t.grid else 1.0 for t in plan.totals]
        sizes = np.array([float(size) for size in plan.noise.steps]) * np.array(units)
        drawn = plan.noise.law.draw(len(sums), entropy)
        steps = np.rint(sums / sizes).astype(np.int64) + drawn
        return ChargedEstimate(plan, {"steps": steps.tolist()}, ZERO_COST, RECEIPT, reused=False)

    monkeypatch.setattr(hypothesis_tests, "release_sums", release)


def count_rejections(test: Any) -> int:
    return sum(test().p_value < 0.05 for _ in range(RELEASES))


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("rows", [200, 2_000])
@pytest.mark.parametrize("name", ["means", "proportions", "independence"])
def test_the_level_is_kept(
    name: str, rows: int, monkeypatch: pytest.MonkeyPatch, entropy: SeededEntropy
) -> None:
    """At epsilon 1, 1,000 releases fit a rate of p-values below 0.05 from 4 to 6%."""
    rng = np.random.default_rng(int(entropy.words(1)[0]))
    curator = curator_of({n: [None] for n in COLUMNS}, COLUMNS, Budget(100))
    context = ask(curator, 1)
    x_by_g = hypothesis_tests.ComparisonArguments("people", "x", by="g")
    y_by_g = hypothesis_tests.ComparisonArguments("people", "y", by="g")
    both = hypothesis_tests.IndependenceArguments("people", "ward", "g")

    def group_sums() -> Floats:
        z = rng.normal(0.0, 0.2, (2, rows // 2)).clip(-1, 1)
        return np.stack([np.full(2, rows // 2), z.sum(axis=1), (2 * z**2 - 1).sum(axis=1)], axis=1)

    def pairs() -> Floats:
        hits = rng.binomial(rows // 2, 0.3, 2)
        return np.stack([rows // 2 - hits, hits], axis=1).reshape(4, 1).astype(float)

    def table() -> Floats:
        parts = np.outer([0.5, 0.3, 0.2], [0.6, 0.4]).ravel()
        return rng.multinomial(rows, parts).reshape(6, 1).astype(float)

    cases: dict[str, tuple[Any, Any]] = {
        "means": (group_sums, lambda: hypothesis_tests.compare_means(context, x_by_g)),
        "proportions": (
            pairs,
            lambda: hypothesis_tests.compare_proportions(context, y_by_g),
        ),
        "independence": (
            table,
            lambda: hypothesis_tests.check_independence(context, both),
        ),
    }
    exact, test = cases[name]
    release_at(monkeypatch, exact, entropy)

    assert is_within(count_rejections(test), RELEASES, 0.04, 0.06)


def test_proportions_that_differ_have_spreads_of_their_own() -> None:
    """Without noise, the interval uses each group's own variance.

    A proportion of 0.5 of 100 rows and one of 0.01 of 10,000 differ by 0.49. A pooled proportion
    would give a fifth of their standard deviation.
    """
    g = np.repeat([False, True], [100, 10_000])
    y = np.concatenate([np.arange(100) < 50, np.arange(10_000) < 100])
    curator = curator_of({"g": g, "y": y}, {"g": Bool(), "y": Bool()}, Budget(10**10))
    found = curator.compare_proportions("people", "y", by="g", epsilon=10**9)
    deviation = np.sqrt(0.5 * 0.5 / 100 + 0.01 * 0.99 / 10_000)
    low, high = found.interval(0.9)

    assert 0.49 == pytest.approx(found.value)
    assert deviation == pytest.approx(found.standard_error, rel=1e-6)
    assert 1.644854 * deviation == pytest.approx((high - low) / 2, rel=1e-3)


def test_a_confidence_is_a_probability() -> None:
    """A string, 1, and more are refused by name, as for other intervals."""
    data = {"x": [1.0, 2.0], "g": [True, False]}
    curator = curator_of(data, {"x": Float(0, 100), "g": Bool()}, Budget(1))
    found = curator.compare_means("people", "x", by="g", epsilon=1)
    for confidence in ("95%", 1, 95):
        with pytest.raises(BadArgument, match="`confidence` must"):
            found.interval(confidence)


def test_a_declared_null_is_no_group() -> None:
    """Two groups plus a declared NULL can be compared; one group plus NULL cannot."""
    data = {"x": [10.0, 30.0, 70.0] * 40, "ward": ["A", "B", None] * 40, "g": ["A", "A", None] * 40}
    columns: dict[str, Column] = {
        "x": Float(0, 100),
        "ward": Category(["A", None, "B"]),
        "g": Category(["A", None]),
    }
    curator = curator_of(data, columns, Budget(10**7))
    found = curator.compare_means("people", "x", by="ward", epsilon=10**6)
    with pytest.raises(UnsupportedQuery, match="Two groups"):
        curator.compare_means("people", "x", by="g", epsilon=1)

    assert ("A", "B") == found.groups
    assert -20 == pytest.approx(found.value, abs=0.01)


def test_a_difference_is_found(entropy: SeededEntropy) -> None:
    """With 2,000 rows at epsilon 1, a difference of half a standard deviation is significant."""
    rng = np.random.default_rng(int(entropy.words(1)[0]))
    g = rng.random(2_000) < 0.5
    ward = np.where(rng.random(2_000) < np.where(g, 0.7, 0.4), "A", "B")
    data = {
        "x": rng.normal(50 + 5 * g, 10),
        "y": rng.random(2_000) < 0.3 + 0.2 * g,
        "g": g,
        "ward": ward,
    }
    curator = curator_of(data, COLUMNS, Budget(10))
    means = curator.compare_means("people", "x", by="g", epsilon=1)
    parts = curator.compare_proportions("people", "y", by="g", epsilon=1)
    joint = curator.independence("people", "ward", "g", epsilon=1)
    low, high = means.interval()

    assert max(means.p_value, parts.p_value, joint.p_value) < 0.01
    assert low <= means.value <= high < 0
    assert "p = " in str(means) + str(joint)
