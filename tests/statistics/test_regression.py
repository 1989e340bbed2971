"""Regression: intervals cover the coefficients, with the noise of a modest epsilon.

Cases draw rows and the plans' noise, without an engine; test_exactness.py and test_reading.py use
full curators. A case fails if the number of covering intervals is improbable, at ALPHA, under every
rate in the stated range.
"""

from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray

from confide.curator import Curator
from confide.declare import Bool, Budget, Category, Column, Float, Int
from confide.errors import UnsupportedQuery
from confide.statistics.formula import plan_sums, read_formula
from confide.statistics.linear import Moments, noise_level, replicate, solve
from support.entropy import SeededEntropy
from support.samples import BUDGETS, add_rows, ask, curator_of, is_within, noise_of
from support.walks import draw_people, make_walker, place_truth

TRUTH: Final = np.array([5.0, 0.3, -2.0])
COLUMNS: Final[dict[str, Column]] = {"a": Float(0, 100), "b": Float(-1, 1), "y": Float(-30, 70)}
SAMPLES: Final = 400
CURVED: Final = np.array([0.2, 0.6, -0.4])


def draw(rng: np.random.Generator, rows: int) -> dict[str, Any]:
    a, b = rng.uniform(0, 100, rows), rng.uniform(-1, 1, rows)
    return {"a": a, "b": b, "y": TRUTH[0] + TRUTH[1] * a + TRUTH[2] * b + rng.normal(0, 5, rows)}


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("accounting", "rows"),
    [("pure", 200), ("pure", 2_000), ("pure", 20_000), ("gaussian", 200), ("gaussian", 2_000)],
)
def test_linear_intervals_hold(accounting: str, rows: int, entropy: SeededEntropy) -> None:
    """At epsilon = 1, intervals cover each coefficient at a rate from 93.5 to 96.5%."""
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
@pytest.mark.parametrize(
    ("family", "rows"),
    [("logistic", 2_000), ("logistic", 20_000), ("poisson", 20_000)],
)
def test_generalised_intervals_hold(family: str, rows: int, entropy: SeededEntropy) -> None:
    """At epsilon = 1, intervals cover each coefficient at a rate from 93.5 to 96.5%."""
    hits, _ = count_held(family, rows, 200, entropy)

    assert [True] * 3 == [is_within(int(hit), 200, 0.935, 0.965) for hit in hits]


@pytest.mark.slow
@pytest.mark.statistical
def test_intervals_of_few_rows_are_not_too_narrow(entropy: SeededEntropy) -> None:
    """With 200 rows at epsilon = 1, where noise hides the curvature, coverage is at least 93.5%."""
    hits, _ = count_held("logistic", 200, 200, entropy)

    assert [True] * 3 == [is_within(int(hit), 200, 0.935, 1.0) for hit in hits]


@pytest.mark.slow
@pytest.mark.statistical
def test_narrow_intervals_would_be_noticed(entropy: SeededEntropy) -> None:
    """Intervals of 3,000 Poisson regressions cover in 93.5 to 96.5%; a fifth narrower, they fail.

    The narrower intervals cover in 88% of all cases. For one coefficient, that is 3.5 standard
    deviations below the bound, and it is enough that one of three fails.
    """
    hits, fewer = count_held("poisson", 2_000, 3_000, entropy)

    assert [True] * 3 == [is_within(int(hit), 3_000, 0.935, 0.965) for hit in hits]
    assert not all(is_within(int(hit), 3_000, 0.935, 0.965) for hit in fewer)


def count_held(
    family: str, rows: int, count: int, entropy: SeededEntropy
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the number of covering intervals per coefficient, as they are and a fifth narrower."""
    walker = make_walker(family, 2, entropy, replicas=199)
    held, narrow = np.zeros((2, len(CURVED)), dtype=np.int64)
    for _ in range(count):
        replicas = walker.walk(draw_people(family, CURVED, rows, walker.rng)).replicate()
        held += place_truth(replicas, CURVED)
        narrow += place_truth(replicas, CURVED, narrowed=0.8)
    return held, narrow


def test_a_ridge_shrinks(entropy: SeededEntropy) -> None:
    """A larger ridge shrinks the slopes more."""
    rng = np.random.default_rng(int(entropy.words(1)[0]))
    curator = curator_of(draw(rng, 500), COLUMNS, Budget(10**12))
    slopes = [
        abs(curator.fit("people", "y ~ a + b", ridge=ridge, epsilon=10**9, fresh=True).value["a"])
        for ridge in (0, 100, 10_000)
    ]

    assert slopes == sorted(slopes, reverse=True)
    assert slopes[2] < slopes[0] / 5


@pytest.mark.parametrize(
    ("formula", "names"),
    [
        ("y ~ a + b", ["Intercept", "a", "b"]),
        ("y ~ a:b - 1", ["a:b"]),
        ("y ~ 0 + b*a", ["b", "a", "b:a"]),
        ("y ~ a*b*g", ["Intercept", "a", "b", "g", "a:b", "a:g", "b:g", "a:b:g"]),
        ("y ~ ward + a:ward", ["Intercept", "ward[C]", "a:ward[C]"]),
        ("y ~ code", ["Intercept", "code[2]", "code[4]"]),
        ("y ~ 1", ["Intercept"]),
    ],
)
def test_formulas_define_coefficients(formula: str, names: list[str]) -> None:
    """Sums, products, star products, and the intercept become named coefficients."""
    columns: dict[str, Column] = {**COLUMNS, "g": Int(0, 1), "ward": Category(["B", None, "C"])}
    columns["code"] = Category([1, 2, None, 4])
    curator = curator_of({name: [None] for name in columns}, columns, Budget(1))

    assert tuple(names) == read_formula(ask(curator, 1), "people", formula).labels


def test_products_are_counted_before_they_are_made() -> None:
    """A product of four factors of 299 columns is refused before it is expanded."""
    columns: dict[str, Column] = {"y": Float(0, 1), "w": Category([f"w{i}" for i in range(300)])}
    curator = curator_of({name: [None] for name in columns}, columns, Budget(1))
    with pytest.raises(UnsupportedQuery, match="got 7,992,538,801"):
        read_formula(ask(curator, 1), "people", "y ~ w:w:w:w")


@pytest.mark.parametrize("kind", [Bool(), Int(0, 1)])
def test_a_column_of_two_values_has_no_square_of_its_own(kind: Column) -> None:
    """The square of a column with values -1 and 1 is the count, so no noise is spent on it."""
    curator = curator_of({name: [None] for name in "gy"}, {"g": kind, "y": Float(0, 1)}, Budget(1))
    design = read_formula(ask(curator, 1), "people", "y ~ g")

    assert [(0, 1), (1, 1)] == Moments(design).pairs


def test_noise_alone_does_not_run_away() -> None:
    """With three rows and epsilon 0.01, coefficients stay bounded."""
    curator = curator_of(draw(np.random.default_rng(1), 3), COLUMNS, Budget(1))
    found = curator.fit("people", "y ~ a + b", epsilon=0.01)

    assert np.isfinite(list(found.value.values())).all()
    assert abs(found.value["a"]) < 1_000


def test_many_columns_are_not_too_deep() -> None:
    """Logistic regression on seven columns is not refused as too deeply nested."""
    names = [f"c{i}" for i in range(7)]
    rng = np.random.default_rng(2)
    data = {name: rng.uniform(-1, 1, 200) for name in names} | {"y": rng.random(200) < 0.5}
    columns: Any = {name: Float(-1, 1) for name in names} | {"y": Bool()}
    curator: Curator = curator_of(data, columns, Budget(100))
    found = curator.fit("people", f"y ~ {' + '.join(names)}", family="logistic", epsilon=50)

    assert ["Intercept", *names] == list(found.value)
