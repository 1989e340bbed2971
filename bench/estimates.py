"""Accuracy of private statistics: results for docs/statistics-accuracy.md and its charts.

Every result compares a private estimate with the same estimate without noise, on invented rows. Two
targets are checked at the end. The efficiency of sample and aggregate approaches 1 as the number of
rows grows. From epsilon = n^(-1/3) on, a histogram has at most 1.1 times the error of the same
histogram without noise, for each distribution and number of rows.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import stats

from confide.curator import Curator
from confide.declare import Budget, Column, Float, Table

Floats = NDArray[np.float64]
FIGURES: Final = Path(__file__).parents[1] / "docs" / "pictures" / "statistics-figures.json"
RUNS: Final = 10


def declare(columns: dict[str, tuple[Floats, Column]]) -> Curator:
    """Return a curator of invented rows, one per person, with a budget for any number of runs."""
    size = len(next(iter(columns.values()))[0])
    data = {"pid": np.arange(size), **{name: values for name, (values, _) in columns.items()}}
    kinds = {name: kind for name, (_, kind) in columns.items()}
    table = Table("people", pa.table(data), unit="pid", columns=kinds, unique=True)
    return Curator([table], budget=Budget(10**6))


def measure_density(rng: np.random.Generator) -> list[dict[str, Any]]:
    """Return the L2 error of private histograms relative to one without noise.

    The latter has the power of two of bins closest to 1.72 n^(1/3), which is optimal for the normal
    distribution and nearly optimal for the other.
    """
    laws: dict[str, Any] = {
        "normal": stats.truncnorm(-3, 3, 50, 50 / 3),
        "beta (2, 5)": stats.beta(2, 5, scale=100),
    }
    found = []
    for name, law in laws.items():
        for rows in (1_000, 10_000, 100_000):
            for factor in (1.0, 3.3, 10.0):
                epsilon = factor * rows ** (-1 / 3)
                plain, same, chosen = _measure_histograms(law, rows, epsilon, rng)
                found.append(
                    {
                        "law": name,
                        "rows": rows,
                        "factor": factor,
                        "epsilon": epsilon,
                        "without noise": plain,
                        "same bins": same / plain,
                        "chosen bins": chosen / plain,
                    }
                )
                print(found[-1], flush=True)
    return found


def _measure_histograms(
    law: Any, rows: int, epsilon: float, rng: np.random.Generator
) -> tuple[float, float, float]:
    """Return L2 errors of a histogram without noise, with noise, and with privately chosen bins."""
    grid = np.linspace(0, 100, 2**14 + 1)[:-1] + 50 / 2**14
    bins, truth = 2 ** round(np.log2(1.72 * rows ** (1 / 3))), law.pdf(grid)
    found: list[list[float]] = []
    for _ in range((60 if rows == 1_000 else 3) * RUNS):
        x = law.rvs(rows, random_state=rng)
        curator = declare({"x": (x, Float(0, 100))})
        exact = np.histogram(x, bins=bins, range=(0, 100), density=True)[0]
        same = curator.density("people", "x", bins=int(bins), epsilon=epsilon)
        free = curator.density("people", "x", epsilon=epsilon)
        heights = [exact[(grid / 100 * bins).astype(int)], same.pdf(grid), free.pdf(grid)]
        found.append([_distance(each, truth) for each in heights])
    plain, with_noise, chosen = np.sqrt(np.mean(found, axis=0))
    return float(plain), float(with_noise), float(chosen)


def _distance(found: Floats, truth: Floats) -> float:
    return float(np.mean((found - truth) ** 2) * 100)


def measure_blocks(rng: np.random.Generator) -> list[dict[str, Any]]:
    """Return the squared error of sample and aggregate relative to the one without noise."""
    found = []
    for epsilon in (0.5, 2.0):
        for rows in (4_000, 16_000, 64_000, 256_000):
            private, plain = [], []
            for _ in range(4 * RUNS):
                x = rng.gamma(2.0, 1.0, rows)
                curator = declare({"x": (x, Float(0, 50))})
                estimate = curator.sample_and_aggregate(
                    "people",
                    _rate,
                    columns=["x"],
                    bounds=[(0, 2)],
                    corrected=True,
                    epsilon=epsilon,
                )
                private.append((estimate.value - 0.5) ** 2)
                plain.append((1.0 / x.mean() - 0.5) ** 2)
            # Without noise the squared error is 1 / (8 n); only the difference is measured.
            ratio = float(1.0 + 8.0 * rows * (np.mean(private) - np.mean(plain)))
            scale = epsilon * rows**0.25
            found.append({"epsilon": epsilon, "rows": rows, "scale": scale, "ratio": ratio})
            print(found[-1], flush=True)
    return found


def _rate(block: Any) -> float:
    return float(1.0 / np.mean(block["x"]))


def measure_regression(rng: np.random.Generator) -> list[dict[str, Any]]:
    """Return the error of linear coefficients at epsilon 1, and that of least squares."""
    found = []
    truth = np.array([0.1, 0.5, -0.3])
    for rows in (1_000, 10_000, 100_000):
        private, plain = [], []
        for _ in range(RUNS):
            x = rng.uniform(-1, 1, (rows, 3))
            y = x @ truth + rng.normal(0, 0.2, rows)
            columns = {f"c{i}": (x[:, i], Float(-1, 1)) for i in range(3)}
            curator = declare({**columns, "y": (y, Float(-2, 2))})
            estimate = curator.fit("people", "y ~ c0 + c1 + c2", epsilon=1)
            private.append((np.array(list(estimate.value.values()))[1:] - truth) ** 2)
            least = np.linalg.lstsq(np.column_stack([np.ones(rows), x]), y, rcond=None)[0]
            plain.append((least[1:] - truth) ** 2)
        errors = [float(np.sqrt(np.mean(each))) for each in (private, plain)]
        found.append({"rows": rows, "private": errors[0], "least squares": errors[1]})
        print(found[-1], flush=True)
    return found


def measure_quantiles(rng: np.random.Generator) -> list[dict[str, Any]]:
    """Return the mean rank error of five quantiles released together at epsilon 1."""
    levels = np.array([0.1, 0.25, 0.5, 0.75, 0.9])
    laws: dict[str, Callable[[int], Floats]] = {
        "uniform": lambda n: rng.uniform(0, 100, n),
        "lognormal": lambda n: rng.lognormal(3, 1, n),
        "bimodal": lambda n: np.where(
            rng.random(n) < 0.5, rng.normal(20, 2, n), rng.normal(80, 2, n)
        ),
        "loose bounds": lambda n: rng.normal(50, 5, n),
    }
    found = []
    for name, law in laws.items():
        high = 10**6 if name == "loose bounds" else 1_000
        missed = []
        for _ in range(RUNS):
            x = law(10_000)
            curator = declare({"x": (x, Float(0, high))})
            values = curator.quantiles("people", "x", list(levels), epsilon=1).value
            missed.append(np.abs(np.mean(x[:, None] <= values, axis=0) - levels) * 10_000)
        found.append({"law": name, "rows missed": float(np.mean(missed))})
        print(found[-1], flush=True)
    return found


def measure_medians(rng: np.random.Generator) -> list[dict[str, Any]]:
    """Return mean absolute errors of a median at epsilon 1: chosen by rank, and with added noise.

    The noise is scaled to the smooth sensitivity of the median at the rows themselves. Its density
    is proportional to 1 / (1 + z^4), which is epsilon-private with both of its parameters at
    epsilon / 10 (Nissim, Raskhodnikova, and Smith, 2007). Our method also pays for an interval.
    """
    laws: dict[str, tuple[Callable[[int], Floats], float]] = {
        "uniform": (lambda n: rng.uniform(0, 100, n), 100),
        "lognormal": (lambda n: rng.lognormal(3, 1, n), 1_000),
        "bimodal": (
            lambda n: np.where(rng.random(n) < 0.4, rng.normal(20, 2, n), rng.normal(80, 2, n)),
            100,
        ),
        "discrete": (lambda n: rng.poisson(3.5, n).astype(np.float64), 100),
        "loose bounds": (lambda n: rng.normal(50, 5, n), 10**6),
    }
    tails = np.linspace(-200, 200, 400_001)
    levels = np.cumsum(1.0 / (1.0 + tails**4))
    found = []
    for name, (law, high) in laws.items():
        chosen, added = [], []
        for _ in range(RUNS):
            x = np.clip(law(10_001), 0, high)
            curator, exact = declare({"x": (x, Float(0, high))}), float(np.median(x))
            answers = [
                curator.sql("SELECT MEDIAN(x) AS m FROM people", epsilon=1, fresh=True).rows[0]["m"]
                for _ in range(20)
            ]
            noise = np.interp(rng.random(20) * levels[-1], levels, tails)
            chosen.append(np.abs(np.array(answers) - exact))
            added.append(np.abs(noise) * 10.0 * smooth_sensitivity(x, 0.1, high))
        found.append({"law": name, "ours": _mean(chosen), "smooth": _mean(added)})
        print(found[-1], flush=True)
    return found


def smooth_sensitivity(x: Floats, beta: float, high: float) -> float:
    """Return the smooth sensitivity of the median.

    It is the maximum over k of e^(-beta k) times the largest change that one row can cause after k
    other rows have changed.
    """
    middle = len(x) // 2
    padded = np.concatenate([np.zeros(len(x)), np.sort(x), np.full(len(x), high)])
    found = 0.0
    for k in range(min(400, middle)):
        above = padded[len(x) + middle : len(x) + middle + k + 2]
        below = padded[len(x) + middle - k - 1 : len(x) + middle + 1]
        found = max(found, float(np.exp(-beta * k) * (above - below).max()))
    return found


def _mean(errors: list[Floats]) -> float:
    return float(np.mean(errors))


PARTS: Final = {
    "density": measure_density,
    "blocks": measure_blocks,
    "regression": measure_regression,
    "quantiles": measure_quantiles,
    "medians": measure_medians,
}


def find_missed_targets(found: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Return the targets that were missed."""
    missed = [
        f"{row['law']}, {row['rows']:,} rows, epsilon {row['factor']} n^(-1/3): a histogram is "
        f"{row['same bins']:.2f} times as far off as without noise, and 1.1 is promised"
        for row in found.get("density", [])
        if row["same bins"] > 1.1
    ]
    for epsilon in (0.5, 2.0):
        rows = [row["ratio"] for row in found.get("blocks", []) if row["epsilon"] == epsilon]
        if rows and rows[-1] > rows[0]:
            missed.append(f"sample and aggregate at epsilon {epsilon} is no better with more rows")
    return missed


def main() -> None:
    """Measure all parts, or those named, and store the results for the charts."""
    wanted = sys.argv[1:] or list(PARTS)
    kept = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    for name in wanted:
        kept[name] = PARTS[name](np.random.default_rng(2026))
    FIGURES.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    missed = find_missed_targets({name: kept[name] for name in wanted})
    if missed:
        sys.exit("\n".join(f"missed: {line}" for line in missed))


if __name__ == "__main__":
    main()
