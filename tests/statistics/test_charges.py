"""Every statistic is charged once, before it reads, and a repeat is free."""

import json
from collections.abc import Callable
from typing import Any, Final
from unittest.mock import patch

import numpy as np
import pytest
from scipy import special

from confide.curator import Curator
from confide.declare import Bool, Budget, Category, Column, Float, Int
from confide.engines import Sealed
from confide.errors import BadArgument, BudgetExceeded, Refusal, UnsupportedQuery
from confide.execution.planner import Planner
from confide.ledger import Hold
from confide.loss import Share
from confide.plan import Measurement, Plan
from confide.query import TableQuery, col, count
from confide.release.unseal import unseal
from confide.statistics.estimate import read_sums
from confide.statistics.formula import plan_sums
from support.auditor import audit
from support.entropy import SeededEntropy
from support.samples import BUDGETS, curator_of, noise_of, plan_of

COLUMNS: Final[dict[str, Column]] = {
    "x": Float(0, 100),
    "age": Int(0, 120),
    "y": Bool(),
    "g": Bool(),
    "ward": Category(["A", "B", "C"]),
}


def ask_blocks(curator: Curator, bounds: Any, **want: Any) -> Any:
    """Return an estimate by a registered estimator, whose answers are reused by name."""
    if "average" not in curator.estimators:
        curator.register_estimator("average", np.mean, columns=["x"], bounds=bounds)
    return curator.sample_and_aggregate("people", "average", **want)


STATISTICS: Final[dict[str, Callable[..., Any]]] = {
    "density": lambda c, **w: c.density("people", "x", **w),
    "density-bins": lambda c, **w: c.density("people", "x", bins=8, **w),
    "quantiles": lambda c, **w: c.quantiles("people", "x", [0.25, 0.5, 0.75], **w),
    "mean": lambda c, **w: c.mean("people", "x", **w),
    "mean-private": lambda c, **w: c.mean("people", "x", bounds="private", **w),
    "variance": lambda c, **w: c.variance("people", "x", **w),
    "covariance": lambda c, **w: c.covariance("people", ["x", "age"], **w),
    "normal": lambda c, **w: c.exponential_family("people", "x", family="normal", **w),
    "gamma": lambda c, **w: c.exponential_family("people", "x", family="gamma", **w),
    "bernoulli": lambda c, **w: c.exponential_family("people", "y", family="bernoulli", **w),
    "categorical": lambda c, **w: c.exponential_family("people", "ward", family="categorical", **w),
    "joint": lambda c, **w: c.exponential_family(
        "people", ["x", "age"], family="multivariate-normal", **w
    ),
    "linear": lambda c, **w: c.fit("people", "x ~ age + y + ward", **w),
    "logistic": lambda c, **w: c.fit("people", "y ~ x", family="logistic", **w),
    "poisson": lambda c, **w: c.fit("people", "age ~ x", family="poisson", **w),
    "blocks": lambda c, **w: ask_blocks(c, [(0, 100)], **w),
    "blocks-mean": lambda c, **w: ask_blocks(c, [(0, 100)], method="mean", blocks=20, **w),
    "blocks-median": lambda c, **w: ask_blocks(c, "column", method="median", blocks=20, **w),
    "compare-means": lambda c, **w: c.compare_means("people", "x", by="g", **w),
    "compare-proportions": lambda c, **w: c.compare_proportions("people", "y", by="g", **w),
    "independence": lambda c, **w: c.independence("people", "ward", "g", **w),
}


def make_people(rows: int, kind: str = "plain") -> dict[str, Any]:
    """Return columns of ``rows`` people: random, constant, or all missing."""
    if kind == "constant":
        same = {"x": 50.0, "age": 40, "y": True, "g": True, "ward": "A"}
        return {name: [value] * rows for name, value in same.items()}
    if kind == "missing":
        return {name: [None] * rows for name in COLUMNS}
    rng = np.random.default_rng(rows)
    return {
        "x": rng.gamma(3.0, 5.0, rows),
        "age": rng.integers(0, 100, rows),
        "y": rng.random(rows) < 0.3,
        "g": rng.random(rows) < 0.5,
        "ward": rng.choice(["A", "B", "C"], rows),
    }


def show(found: Any) -> list[Any]:
    """Return the numbers of a statistic that an analyst can see."""
    parts = [getattr(found, name, None) for name in ("value", "standard_error", "p_value")]
    shown: list[Any] = json.loads(json.dumps(parts, default=lambda array: array.tolist()))
    return shown


@pytest.mark.parametrize("accounting", BUDGETS)
@pytest.mark.parametrize("name", STATISTICS)
def test_a_statistic_is_charged_once_before_it_reads(name: str, accounting: str) -> None:
    """The ledger has exactly one entry, of the requested share, before the first reading."""
    curator = curator_of(make_people(300), COLUMNS, Budget(20, 0 if accounting == "pure" else 1e-6))
    seen: list[Share] = []
    run, blocks = curator._engine.run, curator._engine.run_blocks

    def watched(reader: Any) -> Any:
        def read(*arguments: Any) -> Any:
            seen.append(curator.ledger.filter.spent)
            return reader(*arguments)

        return read

    curator._engine.run = watched(run)  # type: ignore[method-assign]
    curator._engine.run_blocks = watched(blocks)  # type: ignore[method-assign]
    found = STATISTICS[name](curator, share="1/4")

    assert seen
    assert {Share.floor("1/4")} == set(seen)
    assert Share.floor("1/4") == curator.ledger.filter.spent
    assert 0.25 == float(found.cost.share)
    curator.ledger.verify()


@pytest.mark.parametrize("name", STATISTICS)
def test_asking_again_is_free_and_the_same(name: str) -> None:
    """A repeat costs nothing, reads nothing, and returns the same numbers."""
    curator = curator_of(make_people(300), COLUMNS, Budget(20))
    first = STATISTICS[name](curator, epsilon=1)
    curator._engine.run = None  # type: ignore[method-assign, assignment]
    curator._engine.run_blocks = None  # type: ignore[method-assign, assignment]
    again = STATISTICS[name](curator, epsilon=1)

    assert (False, True) == (first.reused, again.reused)
    assert 0 == again.cost.share
    assert show(first) == show(again)


@pytest.mark.parametrize("name", STATISTICS)
def test_past_the_budget_nothing_is_read(name: str) -> None:
    """A statistic that costs more than the remaining budget is refused before any row is read."""
    curator = curator_of(make_people(50), COLUMNS, Budget(2))
    curator.sql("SELECT COUNT(*) AS n FROM people", share="9/10")
    curator._engine.run = None  # type: ignore[method-assign, assignment]
    curator._engine.run_blocks = None  # type: ignore[method-assign, assignment]
    with pytest.raises(BudgetExceeded):
        STATISTICS[name](curator, share="1/2")

    assert 1 == len(list(curator.ledger.entries()))


@pytest.mark.parametrize("kind", ["constant", "missing"])
@pytest.mark.parametrize("name", STATISTICS)
def test_odd_data_make_finite_numbers(name: str, kind: str) -> None:
    """Constant and empty columns give finite numbers, and no error."""
    curator = curator_of(make_people(60, kind), COLUMNS, Budget(20))
    shown = show(STATISTICS[name](curator, epsilon=1))

    assert np.isfinite(np.concatenate([np.ravel(_numbers(part)) for part in shown])).all()


def _numbers(part: Any) -> list[float]:
    match part:
        case None:
            return []
        case dict():
            return [float(value) for value in part.values()]
        case list():
            return [float(value) for value in part]
        case _:
            return [float(part)]


@pytest.mark.parametrize("name", STATISTICS)
def test_costs_are_validated(name: str) -> None:
    """A missing cost, two costs, and `error=` are refused, and nothing is spent."""
    curator = curator_of(make_people(20), COLUMNS, Budget(20))
    for want in ({}, {"epsilon": 1, "share": "1/2"}):
        with pytest.raises(BadArgument, match="exactly one"):
            STATISTICS[name](curator, **want)
    with pytest.raises(UnsupportedQuery, match="depends on the data"):
        STATISTICS[name](curator, error=1)

    assert 0 == curator.budget.spent.share


@pytest.mark.parametrize(
    "ask",
    [
        lambda c: c.density("people", "ward", epsilon=1),
        lambda c: c.density("people", "nobody", epsilon=1),
        lambda c: c.density("persons", "x", epsilon=1),
        lambda c: c.density("people", "x", within=(200, 300), epsilon=1),
        lambda c: c.density("people", "y", epsilon=1),
        lambda c: c.exponential_family("people", "x", family="cauchy", epsilon=1),
        lambda c: c.exponential_family("people", "ward", family="normal", epsilon=1),
        lambda c: c.exponential_family("people", "x", family="beta", epsilon=1),
        lambda c: c.exponential_family("people", "x", family="bernoulli", epsilon=1),
        lambda c: c.exponential_family("people", ["x"], family="multivariate-normal", epsilon=1),
        lambda c: c.fit("people", "x", epsilon=1),
        lambda c: c.fit("people", "x ~ pid", epsilon=1),
        lambda c: c.fit("people", "x ~ age; DROP TABLE people", epsilon=1),
        lambda c: c.fit("people", "x ~ x + age", epsilon=1),
        lambda c: c.fit("people", "x ~ age:x", epsilon=1),
        lambda c: c.compare_means("people", "y", by="y", epsilon=1),
        lambda c: c.compare_proportions("people", "y", by="y", epsilon=1),
        lambda c: c.fit("people", "ward ~ x", epsilon=1),
        lambda c: c.fit("people", "x ~ age", family="logistic", epsilon=1),
        lambda c: c.fit("people", "x ~ age", family="probit", epsilon=1),
        lambda c: c.fit("people", "y ~ x", family="logistic", ridge=1, epsilon=1),
        lambda c: c.fit("people", "x ~", epsilon=1),
        lambda c: c.fit("people", "x ~ age +", epsilon=1),
        lambda c: c.fit("people", "x ~ age + + y", epsilon=1),
        lambda c: c.fit("people", f"x ~ {':'.join(['ward'] * 150)}", epsilon=1),
        lambda c: c.fit("people", f"x ~ {'*'.join(['age'] * 150)}", epsilon=1),
        lambda c: c.fit("people", "x ~ ward:ward:ward:ward + ward", epsilon=1),
        lambda c: c.compare_means("people", "x", by="ward", epsilon=1),
        lambda c: c.compare_proportions("people", "x", by="g", epsilon=1),
        lambda c: c.independence("people", "g", "g", epsilon=1),
        lambda c: c.independence("people", "x", "g", epsilon=1),
        lambda c: c.sample_and_aggregate("people", "unheard", epsilon=1),
        lambda c: ask_blocks(c, [(0, 100)], columns=["x"], epsilon=1),
        lambda c: c.as_analyst("ana").sample_and_aggregate(
            "people", np.mean, columns=["x"], bounds="column", epsilon=1
        ),
    ],
)
def test_unsupported_requests_are_refused(ask: Callable[[Curator], Any]) -> None:
    """An unsupported request is refused with advice; nothing is read, spent, or recorded."""
    curator = curator_of(make_people(20), COLUMNS, Budget(20))
    curator._engine.run = None  # type: ignore[method-assign, assignment]
    with pytest.raises(Refusal):
        ask(curator)

    assert [] == list(curator.ledger.entries())


@pytest.mark.parametrize(
    "ask",
    [
        lambda c: c.density("people", "x", bins=0, epsilon=1),
        lambda c: c.density("people", "x", bins=2.5, epsilon=1),
        lambda c: c.density("people", "x", within=(3,), epsilon=1),
        lambda c: c.mean("people", "x", bounds="tight", epsilon=1),
        lambda c: c.variance("people", "x", bounds=(3, 1), epsilon=1),
        lambda c: c.quantiles("people", "x", [0.5, 1.0], epsilon=1),
        lambda c: c.quantiles("people", "x", [], epsilon=1),
        lambda c: c.sample_and_aggregate(
            "people", np.mean, columns=["x"], bounds="column", blocks=3, epsilon=1
        ),
        lambda c: c.sample_and_aggregate("people", np.mean, columns=[], bounds="column", epsilon=1),
        lambda c: c.sample_and_aggregate(
            "people", np.mean, columns=["x"], bounds="columns", epsilon=1
        ),
        lambda c: c.sample_and_aggregate(
            "people", np.mean, columns=["x"], bounds=[(3, 1)], epsilon=1
        ),
        lambda c: c.sample_and_aggregate(
            "people", np.mean, columns=["x"], bounds="column", method="mode", epsilon=1
        ),
        lambda c: c.sample_and_aggregate("people", 7, columns=["x"], bounds="column", epsilon=1),
        lambda c: c.fit("people", "x ~ age", ridge=-1, epsilon=1),
    ],
)
def test_bad_arguments_are_named(ask: Callable[[Curator], Any]) -> None:
    """An error names the malformed argument; nothing is read or spent."""
    curator = curator_of(make_people(20), COLUMNS, Budget(20))
    with pytest.raises(BadArgument, match=r"must|needs"):
        ask(curator)

    assert 0 == curator.budget.spent.share


@pytest.mark.parametrize("accounting", BUDGETS)
@pytest.mark.statistical
def test_stated_variances_are_those_of_the_noise(accounting: str, entropy: SeededEntropy) -> None:
    """Over 20,000 draws, the variance is within 10% of the stated one: at least 7 standard errors.

    The variance of the evenly spread points is within 5%.
    """
    curator = curator_of({"x": [1.0]}, {"x": Float(0, 100)}, BUDGETS[accounting])
    noise = noise_of(curator, plan_sums("people", ["x"], [col("x")]), 0.5, 20_000, entropy)

    assert np.allclose(noise.variance, noise.draws.var(axis=0), rtol=0.1)
    assert np.allclose(noise.variance, noise.points.var(axis=0), rtol=0.05)


Reading = tuple[Plan, dict[Any, tuple[int, ...]], dict[Any, tuple[int, ...]]]


def read_neighbours(name: str, people: dict[str, Any], person: int) -> list[Reading]:
    """Return each plan of a statistic, with its exact totals on neighboring datasets."""
    kept = [i for i in range(len(people["x"])) if i != person]
    fewer = {column: np.asarray(values)[kept] for column, values in people.items()}
    without = curator_of(fewer, COLUMNS, Budget(20))
    curator = curator_of(people, COLUMNS, Budget(20))
    run, calibrate, plans, seen = curator._engine.run, Planner.calibrate, {}, []

    def calibrated(planner: Planner, measurement: Measurement, share: Share) -> Plan:
        plan = plans[measurement.text] = calibrate(planner, measurement, share)
        return plan

    def watched(measurement: Measurement, hold: Hold) -> Sealed:
        sealed = run(measurement, hold)
        other = unseal(without._engine.run(measurement, Hold(0, Share.floor("1/2")))).groups
        seen.append((plans[measurement.text], dict(unseal(sealed).groups), dict(other)))
        return sealed

    curator._engine.run = watched  # type: ignore[method-assign]
    with patch.object(Planner, "calibrate", calibrated):
        STATISTICS[name](curator, epsilon=1)
    return seen


TOTALLED: Final = [name for name in STATISTICS if "blocks" not in name]


@pytest.mark.parametrize("name", TOTALLED)
def test_one_person_moves_totals_within_their_sides(name: str, entropy: SeededEntropy) -> None:
    """Removing a person changes each total of each reading by at most one row."""
    seed = int(entropy.words(1)[0])
    people = make_people(3 + seed % 5)
    readings = read_neighbours(name, people, seed % 3)

    assert readings
    for plan, whole, other in readings:
        nothing = (0,) * len(plan.totals)
        moved = [
            [abs(a - b) for a, b in zip(whole.get(g, nothing), other.get(g, nothing), strict=True)]
            for g in whole.keys() | other.keys()
        ]
        sides = [total.per_row for total in plan.totals]

        assert all(m <= s for group in moved for m, s in zip(group, sides, strict=True))
        assert sum(any(group) for group in moved) <= 1


@pytest.mark.statistical
@pytest.mark.parametrize("name", TOTALLED)
def test_an_auditor_finds_no_more_than_was_paid(name: str, entropy: SeededEntropy) -> None:
    """8,000 releases of each reading, with and without a person, reveal no epsilon above 1.

    The audited statistic is the projection of a release on the direction of that person's change.
    """
    for plan, whole, other in read_neighbours(name, make_people(4), 0):
        nothing = (0,) * len(plan.totals)
        sides = np.array([float(total.per_row) for total in plan.totals])
        moves = [
            np.subtract(whole.get(g, nothing), other.get(g, nothing)).astype(np.float64) / sides
            for g in whole.keys() | other.keys()
        ]
        move = max(moves, key=lambda each: float(np.abs(each).sum()), default=np.zeros(0))
        if not move.any():
            continue
        sizes = np.array([float(size) for size in plan.noise.steps]) / sides
        drawn = plan.noise.law.draw(16_000, entropy) * sizes @ np.sign(move)
        left, right = drawn[:8_000] + np.abs(move).sum(), drawn[8_000:]
        cut = len(move) / 2.0

        assert audit(left > cut, right > cut) <= 1


@pytest.mark.parametrize("accounting", BUDGETS)
@pytest.mark.parametrize("groups", [200, 1_000])
def test_noise_of_many_groups_adds_up_as_if_independent(groups: int, accounting: str) -> None:
    """Sums of many groups' noise have the moments and quantiles of a normal distribution."""
    values = Category([str(place) for place in range(groups)])
    curator = curator_of({"v": ["0"]}, {"v": values}, BUDGETS[accounting])
    plan = plan_of(curator, TableQuery("people").group_by("v").agg(n=count()), 1.0)
    found = read_sums(plan, [[0]] * groups)
    whole = found.group_noise()[:, :, 0].sum(axis=1) / np.sqrt(groups * found.variance[0])

    assert 1.0 == pytest.approx(whole.std(), rel=0.02)
    levels = [0.005, 0.025, 0.25, 0.75, 0.975, 0.995]
    assert special.ndtri(levels) == pytest.approx(np.quantile(whole, levels), rel=0.05, abs=0.05)


def test_read_sums_wants_counts_and_sums() -> None:
    """read_sums raises TypeError for an aggregate that is not a count or a sum."""
    curator = curator_of(make_people(20), COLUMNS, Budget(20))
    query = curator._planner.read("SELECT AVG(x) AS a FROM people")
    plan = curator._planner.plan(query, Share.floor("1/10"))
    with pytest.raises(TypeError, match="counts and plain sums"):
        read_sums(plan, [[0, 0]])
