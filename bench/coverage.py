"""Coverage of 95% intervals of families and regressions: the tables of docs/statistics-accuracy.md.

Each cell is the percentage of 2,000 samples whose interval at epsilon 1 covers the parameter, with
a standard error of 0.5. The beta distribution, joint distributions, 200 values, and logistic and
Poisson regression have 500 samples, with a standard error of 1. Sums of the sample get a draw of
the plan's own noise, as in tests/statistics/test_coverage.py, which runs the same check with fewer
samples. Rows of sample and aggregate have a cell for each epsilon of 0.1, 0.25, 0.5, 1, and 2, with
500 samples: the coverage, and the median and root mean square of the errors. Their data is skewed:
two thirds are 0, with declared bounds 0 to 60.

`.venv/bin/python bench/coverage.py` prints the rows of all tables as they appear in the docs, and
`bench/coverage.py gamma` prints those whose name contains the word.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from confide.declare import Category, Column, Float
from confide.engines.protocol import SealedBlocks
from confide.query import TableQuery, Term, col, count
from confide.statistics.families import LikelihoodModel, make_family
from confide.statistics.formula import Numbers, plan_sums, read_formula
from confide.statistics.likelihood import MultivariateNormal, solve_counts, solve_sums
from confide.statistics.linear import Moments, noise_level, replicate, solve
from confide.statistics.sample_and_aggregate import BlockRelease, Sampling

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support.entropy import SeededEntropy
from support.samples import BUDGETS, add_rows, ask, count_noise_of, curator_of, noise_of
from support.walks import draw_people, make_walker, place_truth

Floats = NDArray[np.float64]
SAMPLES: Final = 2_000
FEWER: Final = 500
SIZES: Final = (200, 2_000, 20_000)
LEVELS: Final = [0.025, 0.975]
LAWS: Final[dict[str, tuple[Any, tuple[float, float], tuple[float, ...]]]] = {
    "normal (50, 10; 0 to 100)": (stats.norm(50, 10), (0, 100), (50, 10)),
    "poisson (4; 0 to 20)": (stats.poisson(4), (0, 20), (4,)),
    "exponential (0.1; 0 to 150)": (stats.expon(scale=10), (0, 150), (0.1,)),
    "gamma (3, 5; 0 to 100)": (stats.gamma(3, scale=5), (0, 100), (3, 5)),
    "beta (2, 5; 0 to 1)": (stats.beta(2, 5), (0, 1), (2, 5)),
}
PARTS: Final = {
    "bernoulli (0.3)": (0.7, 0.3),
    "categorical (0.5, 0.3, 0.15, 0.05)": (0.5, 0.3, 0.15, 0.05),
}
MANY: Final = "categorical (0.5, and 0.5 / 199 each of 199, these on average)"
MANY_PARTS: Final = (0.5,) + (0.5 / 199,) * 199
JOINT: Final = "multivariate-normal (50, 20; 100, 30, 25; 0 to 100, 0 to 40)"
SLOPES: Final = np.array([5.0, 0.3, -2.0])
CURVED: Final = np.array([0.2, 0.6, -0.4, 0.3])
EPSILONS: Final = (0.1, 0.25, 0.5, 1.0, 2.0)
BLOCKS: Final = 318
"""The number of blocks that sample and aggregate uses for 6,366 rows."""

BLOCK_ROWS: Final = 20
COLUMNS: Final[dict[str, Column]] = {"a": Float(0, 100), "b": Float(-1, 1), "y": Float(-30, 70)}


@dataclass(frozen=True, slots=True)
class Trial:
    """A family with the true parameters of the rows that it is fitted to."""

    family: LikelihoodModel
    terms: tuple[Term, ...]
    columns: Mapping[str, Column]
    truth: tuple[float, ...]
    samples: int = SAMPLES

    def cover(self, name: str, draw: Callable[[], dict[str, Floats]]) -> Floats:
        """Return the coverage of each parameter in percent, over many samples."""
        ones = {column: [1.0] for column in self.columns}
        curator = curator_of(ones, self.columns, BUDGETS["pure"])
        query = plan_sums("people", list(self.columns), self.terms)
        noise = noise_of(curator, query, 1.0, self.samples, SeededEntropy("coverage", name))
        hits = np.zeros(len(self.truth))
        for drawn in noise.draws:
            sums = add_rows(self.terms, draw()) + drawn
            replicas = solve_sums(self.family, sums, noise.points)[1]
            low, high = np.quantile(replicas, LEVELS, axis=0)
            hits += (low <= self.truth) & (self.truth <= high)
        return np.asarray(100.0 * hits / self.samples)


def cover_family(name: str, rows: int, rng: np.random.Generator) -> Floats:
    """Return the coverage of each parameter of a distribution, in percent."""
    law, bounds, truth = LAWS[name]
    family = make_family(name.split(maxsplit=1)[0], *bounds)

    def draw() -> dict[str, Floats]:
        return {"x": law.rvs(rows, random_state=rng).astype(np.float64)}

    samples = FEWER if name.startswith("beta") else SAMPLES
    trial = Trial(family, tuple(family.terms(col("x"))), {"x": Float(*bounds)}, truth, samples)
    return trial.cover(f"{name} {rows}", draw)


def cover_joint(rows: int, rng: np.random.Generator) -> Floats:
    """Return the coverage of the means and covariances of two columns, in percent."""
    family = MultivariateNormal((Numbers("x", col("x"), 0, 100), Numbers("y", col("y"), 0, 40)))
    spread = [[100.0, 30.0], [30.0, 25.0]]

    def draw() -> dict[str, Floats]:
        x, y = rng.multivariate_normal([50.0, 20.0], spread, rows).T
        return {"x": x, "y": y}

    columns = {"x": Float(0, 100), "y": Float(0, 40)}
    truth = (50.0, 20.0, 100.0, 30.0, 25.0)
    trial = Trial(family, tuple(family.terms()), columns, truth, FEWER)
    return trial.cover(f"{JOINT} {rows}", draw)


def cover_parts(
    name: str, parts: Floats, rows: int, rng: np.random.Generator, samples: int = SAMPLES
) -> Floats:
    """Return the coverage of the probability of each value, in percent."""
    values = [str(place) for place in range(len(parts))]
    curator = curator_of({"v": ["0"]}, {"v": Category(values)}, BUDGETS["pure"])
    query = TableQuery("people").where(col("v").not_null()).group_by("v").agg(n=count())
    entropy = SeededEntropy("coverage", f"{name} {rows}")
    noise = count_noise_of(curator, query, 1.0, samples, entropy)
    hits = np.zeros(len(parts))
    for drawn in noise.draws:
        moved = solve_counts(rng.multinomial(rows, parts) + drawn, noise.points)[1]
        low, high = np.quantile(moved, LEVELS, axis=0)
        hits += (low <= parts) & (parts <= high)
    held = np.asarray(100.0 * hits / samples)
    return held[-1:] if len(parts) == 2 else held


def cover_values(name: str, rows: int, rng: np.random.Generator) -> Floats:
    """Return the coverage of each value; of many values, that of the large one and the others."""
    if name != MANY:
        return cover_parts(name, np.array(PARTS[name]), rows, rng)
    own = np.random.default_rng(2026)  # independent of which other rows are printed
    held = cover_parts(name, np.array(MANY_PARTS), rows, own, FEWER)
    return np.array([held[0], held[1:].mean()])


def cover_linear(accounting: str, rows: int, rng: np.random.Generator) -> Floats:
    """Return the coverage of the coefficients of y ~ a + b, in percent."""
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


def cover_generalised(family: str, rows: int) -> Floats:
    """Return the coverage of the coefficients of y ~ c0 + c1 + c2, in percent."""
    entropy = SeededEntropy("coverage", f"{family} {rows}")
    walker = make_walker(family, 3, entropy, replicas=999)
    hits = np.zeros(len(CURVED))
    for _ in range(FEWER):
        walk = walker.walk(draw_people(family, CURVED, rows, walker.rng))
        hits += place_truth(walk.replicate(), CURVED)
    return np.asarray(100.0 * hits / FEWER)


def average(rows: Floats) -> Floats:
    """Return the mean of each block."""
    return np.asarray(rows.mean(axis=-1))


def trim(rows: Floats) -> Floats:
    """Return the mean of each block without its lowest and highest tenths."""
    ordered, cut = np.sort(rows, axis=-1), rows.shape[-1] // 10
    return average(ordered[..., cut : rows.shape[-1] - cut])


def middle(rows: Floats) -> Floats:
    """Return the median of each block."""
    return np.asarray(np.median(rows, axis=-1))


def outer(rows: Floats) -> Floats:
    """Return the 0.9 quantile of each block."""
    return np.asarray(np.quantile(rows, 0.9, axis=-1))


def correct(estimator: Callable[[Floats], Floats]) -> Callable[[Floats], Floats]:
    """Return an estimator of blocks without the bias that is proportional to 1 / rows."""

    def corrected(rows: Floats) -> Floats:
        halves = estimator(rows[..., ::2]) + estimator(rows[..., 1::2])
        return np.asarray(2.0 * estimator(rows) - halves / 2.0)

    return corrected


def draw_skewed(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Return rows of which two thirds are 0 and the others have a long tail."""
    rows = np.where(rng.random(shape) < 0.68, 0.0, rng.lognormal(0.16, 1.12, shape))
    return np.minimum(rows, 57.6)


Estimates = Callable[[Floats], Floats]
POOLED: Final[dict[str, tuple[Estimates, Estimates, str, int]]] = {
    "mean, window": (average, correct(average), "window", 60),
    "mean, window, declared 0 to 6,000": (average, correct(average), "window", 6_000),
    "mean, mean": (average, correct(average), "mean", 60),
    "trimmed mean, window": (trim, correct(trim), "window", 60),
    "trimmed mean, window, corrected=False": (trim, trim, "window", 60),
    "0.9 quantile, window": (outer, correct(outer), "window", 60),
    "0.9 quantile, window, corrected=False": (outer, outer, "window", 60),
    "median, window": (middle, correct(middle), "window", 60),
    "median, median": (middle, correct(middle), "median", 60),
}
"""For each row: the estimator, its version for blocks, the method, and the declared upper bound."""


def cover_blocks(name: str, epsilon: float, rng: np.random.Generator) -> Floats:
    """Return the coverage of the population's value in percent, and two errors."""
    estimator, function, method, high = POOLED[name]
    truth = float(estimator(draw_skewed(np.random.default_rng(1), (4_000_000,))))
    asked = ask(curator_of({"x": [1.0]}, {"x": Float(0, high)}, BUDGETS["pure"]), epsilon)
    sampling = Sampling.of(
        asked,
        name,
        np.mean,  # never called: the results of blocks are drawn
        "people",
        columns=["x"],
        bounds="column",
        blocks=BLOCKS,
        method=method,
    )
    release = BlockRelease(asked, sampling, np.mean)
    shares = release.prepare(asked.planner.pricing.share_for_cost(asked.price))
    found = np.empty((FEWER, 3))
    for run in range(FEWER):
        results = function(draw_skewed(rng, (BLOCKS, BLOCK_ROWS)))
        noisy = release.aggregate(SealedBlocks(results[:, None]), shares[1], BLOCKS)
        numbers, replicas = release.read(shares, noisy)
        ends = np.quantile(replicas[:, 0], LEVELS)
        found[run] = numbers[0], min(ends[0], numbers[0]), max(ends[1], numbers[0])
    hits = (found[:, 1] <= truth) & (truth <= found[:, 2])
    errors = np.abs(found[:, 0] - truth)
    return np.array([100.0 * hits.mean(), np.median(errors), np.sqrt(np.mean(errors**2))])


def show_pooled(word: str, rng: np.random.Generator) -> None:
    """Print the rows of sample and aggregate whose names contain a word."""
    for name in POOLED:
        if word in f"blocks: {name}":
            found = [cover_blocks(name, epsilon, rng) for epsilon in EPSILONS]
            cells = (f"{held:.1f}; {middle:.3g}, {square:.3g}" for held, middle, square in found)
            print(f"| {name} | {' | '.join(cells)} |", flush=True)


def show(first: str, found: list[Floats]) -> None:
    """Print one row of a table."""
    cells = (", ".join(f"{value:.1f}" for value in each) for each in found)
    print(f"| {first} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Print the rows of all tables, or those whose names contain the given word."""
    rng, word = np.random.default_rng(2026), " ".join(sys.argv[1:])
    for name in LAWS:
        if word in name:
            show(name, [cover_family(name, rows, rng) for rows in SIZES])
    for name in (*PARTS, MANY):
        if word in name:
            show(name, [cover_values(name, rows, rng) for rows in SIZES])
    if word in JOINT:
        show(JOINT, [cover_joint(rows, rng) for rows in SIZES])
    for accounting in BUDGETS:
        if word in f"linear {accounting}":
            show(f"linear, {accounting}", [cover_linear(accounting, rows, rng) for rows in SIZES])
    for family in ("logistic", "poisson"):
        if word in f"{family} regression":
            show(family, [cover_generalised(family, rows) for rows in SIZES])
    show_pooled(word, rng)


if __name__ == "__main__":
    main()
