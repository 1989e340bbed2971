"""How often 95 % intervals of families and regressions hold: the tables of docs/statistics.md.

Each cell is the part, in percent, of 1,000 samples whose interval at epsilon 1 held the parameter;
its own error is 0.7. Sums of the sample get a draw of the plan's own noise, as in
tests/statistics/test_coverage.py, which checks the same with fewer samples in every run.
`.venv/bin/python bench/coverage.py` prints both tables as they stand in the document.
"""

import sys
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from confide.declare import Column, Float
from confide.query import col
from confide.statistics.columns import plan_sums
from confide.statistics.families import make_family
from confide.statistics.formula import read_formula
from confide.statistics.likelihood import solve_sums
from confide.statistics.linear import Moments, noise_level, replicate, solve

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support.entropy import SeededEntropy
from support.samples import BUDGETS, add_rows, ask, curator_of, noise_of

Floats = NDArray[np.float64]
SAMPLES: Final = 1_000
SIZES: Final = (200, 2_000, 20_000)
LEVELS: Final = [0.025, 0.975]
LAWS: Final[dict[str, tuple[Any, tuple[float, float], tuple[float, ...]]]] = {
    "normal (50, 10; 0 to 100)": (stats.norm(50, 10), (0, 100), (50, 10)),
    "poisson (4; 0 to 20)": (stats.poisson(4), (0, 20), (4,)),
    "exponential (0.1; 0 to 150)": (stats.expon(scale=10), (0, 150), (0.1,)),
    "gamma (3, 5; 0 to 100)": (stats.gamma(3, scale=5), (0, 100), (3, 5)),
    "beta (2, 5; 0 to 1)": (stats.beta(2, 5), (0, 1), (2, 5)),
}
SLOPES: Final = np.array([5.0, 0.3, -2.0])
COLUMNS: Final[dict[str, Column]] = {"a": Float(0, 100), "b": Float(-1, 1), "y": Float(-30, 70)}


def cover_family(name: str, rows: int, rng: np.random.Generator) -> Floats:
    """Return how often intervals hold each parameter of a law, in percent."""
    law, bounds, truth = LAWS[name]
    family = make_family(name.split(maxsplit=1)[0], *bounds)
    curator = curator_of({"x": [1.0]}, {"x": Float(*bounds)}, BUDGETS["pure"])
    terms, entropy = family.terms(col("x")), SeededEntropy("coverage", f"{name} {rows}")
    noise = noise_of(curator, plan_sums("people", ["x"], terms), 1.0, SAMPLES, entropy)
    hits = np.zeros(len(truth))
    for drawn in noise.draws:
        sample = {"x": law.rvs(rows, random_state=rng).astype(np.float64)}
        replicas = solve_sums(family, add_rows(terms, sample) + drawn, noise.points)[1]
        low, high = np.quantile(replicas, LEVELS, axis=0)
        hits += (low <= truth) & (truth <= high)
    return np.asarray(100.0 * hits / SAMPLES)


def cover_linear(accounting: str, rows: int, rng: np.random.Generator) -> Floats:
    """Return how often intervals hold the coefficients of y ~ a + b, in percent."""
    curator = curator_of({name: [1.0] for name in COLUMNS}, COLUMNS, BUDGETS[accounting])
    design = read_formula(ask(curator, 1), "people", "y ~ a + b")
    moments, entropy = Moments(design), SeededEntropy("coverage", f"{accounting} {rows}")
    query = plan_sums("people", design.names, moments.terms())
    noise = noise_of(curator, query, 1.0, SAMPLES, entropy)
    floor, nothing = noise_level(moments, noise.variance), moments.penalty(0.0)
    hits = np.zeros(len(SLOPES))
    for drawn in noise.draws:
        a, b = rng.uniform(0, 100, rows), rng.uniform(-1, 1, rows)
        y = SLOPES @ [np.ones(rows), a, b] + rng.normal(0, 5, rows)
        sums = add_rows(moments.terms(), {"a": a, "b": b, "y": y}) + drawn
        solution = solve(moments.matrix(sums), float(sums[0]), floor, nothing)
        replicas = moments.unscale(replicate(moments, sums, noise.points, solution, nothing))
        low, high = np.quantile(replicas, LEVELS, axis=0)
        hits += (low <= SLOPES) & (SLOPES <= high)
    return np.asarray(100.0 * hits / SAMPLES)


def show(first: str, found: list[Floats]) -> None:
    """Print a line of a table."""
    cells = (", ".join(f"{value:.1f}" for value in each) for each in found)
    print(f"| {first} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Print both tables, or the lines whose names hold the word given."""
    rng, word = np.random.default_rng(2026), " ".join(sys.argv[1:])
    for name in LAWS:
        if word in name:
            show(name, [cover_family(name, rows, rng) for rows in SIZES])
    for accounting in BUDGETS:
        if word in f"linear {accounting}":
            show(f"linear, {accounting}", [cover_linear(accounting, rows, rng) for rows in SIZES])


if __name__ == "__main__":
    main()
