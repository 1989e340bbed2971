"""Regression: intervals hold the coefficients, at the noise of a modest epsilon.

Linear cases draw sums and noise; logistic and Poisson cases draw 12 samples through the whole
curator. A case fails when the count of intervals that hold is improbable, at ALPHA, under every
rate of the range stated.
"""

from typing import Any, Final

import numpy as np
import pytest

from confide.curator import Curator
from confide.declare import Bool, Budget, Column, Float, Int
from confide.statistics.columns import plan_sums
from confide.statistics.formula import read_formula
from confide.statistics.linear import Moments, noise_level, replicate, solve
from support.entropy import SeededEntropy
from support.samples import BUDGETS, add_rows, ask, curator_of, is_within, noise_of

TRUTH: Final = np.array([5.0, 0.3, -2.0])
COLUMNS: Final[dict[str, Column]] = {"a": Float(0, 100), "b": Float(-1, 1), "y": Float(-30, 70)}
SAMPLES: Final = 400


def draw(rng: np.random.Generator, rows: int) -> dict[str, Any]:
    a, b = rng.uniform(0, 100, rows), rng.uniform(-1, 1, rows)
    return {"a": a, "b": b, "y": TRUTH[0] + TRUTH[1] * a + TRUTH[2] * b + rng.normal(0, 5, rows)}


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("accounting", "rows"),
    [("pure", 200), ("pure", 2_000), ("pure", 20_000), ("gaussian", 200), ("gaussian", 2_000)],
)
def test_linear_intervals_hold(accounting: str, rows: int, entropy: SeededEntropy) -> None:
    """At epsilon = 1, intervals hold each coefficient at a rate from 93.5 to 96.5 %."""
    curator = curator_of({name: [1.0] for name in COLUMNS}, COLUMNS, BUDGETS[accounting])
    design = read_formula(ask(curator, 1), "people", "y ~ a + b")
    moments = Moments(design)
    query = plan_sums("people", design.names, moments.terms())
    noise = noise_of(curator, query, 1.0, SAMPLES, entropy)
    rng = np.random.default_rng(int(entropy.words(1)[0]))
    floor, nothing = noise_level(moments, noise.variance), moments.penalty(0.0)
    hits = np.zeros(3, dtype=np.int64)
    for drawn in noise.draws:
        sums = add_rows(moments.terms(), draw(rng, rows)) + drawn
        solution = solve(moments.matrix(sums), float(sums[0]), floor, nothing)
        replicas = moments.unscale(replicate(moments, sums, noise.points, solution, nothing))
        low, high = np.quantile(replicas, [0.025, 0.975], axis=0)
        hits += (low <= TRUTH) & (TRUTH <= high)

    assert [True] * 3 == [is_within(int(hit), SAMPLES, 0.935, 0.965) for hit in hits]


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("family", ["logistic", "poisson"])
def test_generalised_intervals_hold(family: str, entropy: SeededEntropy) -> None:
    """At epsilon = 2 with 4,000 rows, intervals hold each coefficient at a rate from 90 to 99 %."""
    rng = np.random.default_rng(int(entropy.words(1)[0]))
    columns: dict[str, Column] = {
        "a": Float(-1, 1),
        "b": Float(-1, 1),
        "y": Bool(),
        "k": Int(0, 15),
    }
    truth = np.array([0.3, 1.0, -0.8])
    hits = np.zeros(3, dtype=np.int64)
    for _ in range(12):
        a, b = rng.uniform(-1, 1, (2, 4_000))
        eta = truth[0] + truth[1] * a + truth[2] * b
        data = {
            "a": a,
            "b": b,
            "y": rng.random(4_000) < 1.0 / (1.0 + np.exp(-eta)),
            "k": np.minimum(rng.poisson(np.exp(eta)), 15),
        }
        curator = curator_of(data, columns, Budget(4))
        response = "y" if family == "logistic" else "k"
        found = curator.fit("people", f"{response} ~ a + b", family=family, epsilon=2)
        ends = np.array(list(found.interval().values()))
        hits += (ends[:, 0] <= truth) & (truth <= ends[:, 1])

    assert [True] * 3 == [is_within(int(hit), 12, 0.90, 0.99) for hit in hits]


def test_a_ridge_shrinks(entropy: SeededEntropy) -> None:
    """A ridge makes slopes smaller, the more so the larger it is."""
    rng = np.random.default_rng(int(entropy.words(1)[0]))
    curator = curator_of(draw(rng, 500), COLUMNS, Budget(10**12))
    slopes = [
        abs(curator.fit("people", "y ~ a + b", ridge=ridge, epsilon=10**9, fresh=True).value["a"])
        for ridge in (0, 100, 10_000)
    ]

    assert slopes == sorted(slopes, reverse=True)
    assert slopes[2] < slopes[0] / 5


def test_noise_alone_does_not_run_away() -> None:
    """With three rows and epsilon 0.01, coefficients stay within bounds that noise cannot pass."""
    curator = curator_of(draw(np.random.default_rng(1), 3), COLUMNS, Budget(1))
    found = curator.fit("people", "y ~ a + b", epsilon=0.01)

    assert np.isfinite(list(found.value.values())).all()
    assert abs(found.value["a"]) < 1_000


def test_many_columns_are_not_too_deep() -> None:
    """Logistic regression on seven columns is planned, not refused as too deep."""
    names = [f"c{i}" for i in range(7)]
    rng = np.random.default_rng(2)
    data = {name: rng.uniform(-1, 1, 200) for name in names} | {"y": rng.random(200) < 0.5}
    columns: Any = {name: Float(-1, 1) for name in names} | {"y": Bool()}
    curator: Curator = curator_of(data, columns, Budget(100))
    found = curator.fit("people", f"y ~ {' + '.join(names)}", family="logistic", epsilon=50)

    assert ["Intercept", *names] == list(found.value)
