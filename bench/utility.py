"""How far off answers are at equal privacy: confide against the best of four other libraries.

Every row is one statistic of 10,000 people at epsilon 1 (and delta 1e-6 where it says so), under
add-remove neighbours, released many times; the figure is the root mean square distance from the
statistic of the same rows without noise. confide answers through a curator, in SQL, and pays for
intervals which the others do not give. Peers run in environments of their own (`make peers`, and
`make oracle` for opendp) on the same rows. Promised, within one run: no row is worse than the best
peer, and those with joint noise are better by what is written beside them. Beside our figure stands
its standard error, from 20 parts of all releases in order; peers print no such thing.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table as Screen

from confide.curator import Curator
from confide.declare import ROW, Bool, Budget, Column, Float, Int, Table
from confide.release import Answer

ROOT: Final = Path(__file__).parents[1]

PEOPLE: Final = 10_000
SAMPLES: Final = 100
CLOSE_SAMPLES: Final = 20
PARTS: Final = 20
SEED: Final = 2026
PEERS: Final = {
    "opendp": "CONFIDE_ORACLE_PYTHON",
    "diffprivlib": "CONFIDE_PEERS_PYTHON",
    "pipelinedp": "CONFIDE_PEERS_PYTHON",
    "smartnoise": "CONFIDE_PEERS_PYTHON",
}
HOMES: Final = {"CONFIDE_ORACLE_PYTHON": ".venv-oracle", "CONFIDE_PEERS_PYTHON": ".venv-peers"}
Floats = NDArray[Any]
console = Console(width=None if sys.stdout.isatty() else 160)


@dataclass(frozen=True, slots=True)
class People:
    """The same invented people for everyone.

    values:   100 * Beta(2.6, 5.8): between the bounds 0 and 100, mean 31, deviation 15.
    skewed:   100 samples of lognormal(3.65, 1.3), bounds 0 and 10^6; median 38, 90 % point 204.
    bins:     a bin of 1,000 for each person, bin r with a chance in proportion to 1 / r.
    close:    20 samples of a bin of 1,000 for each person, all as likely: the fullest is in doubt.
    features: two columns, even between -1 and 1.
    outcome:  0.1 + 0.5 a - 0.3 b and normal noise of deviation 0.1, clipped to [-1, 1].
    """

    values: Floats
    skewed: Floats
    bins: Floats
    close: Floats
    features: Floats
    outcome: Floats


def draw_people() -> People:
    """Return the people, the same in every run."""
    rng = np.random.default_rng(SEED)
    chances = 1 / np.arange(1, 1_001)
    features = rng.uniform(-1, 1, (PEOPLE, 2))
    outcome = 0.1 + features @ [0.5, -0.3] + rng.normal(0, 0.1, PEOPLE)
    return People(
        values=100 * rng.beta(2.6, 5.8, PEOPLE),
        skewed=rng.lognormal(3.65, 1.3, (SAMPLES, PEOPLE)),
        bins=rng.choice(1_000, PEOPLE, p=chances / chances.sum()),
        close=rng.integers(0, 1_000, (CLOSE_SAMPLES, PEOPLE)),
        features=features,
        outcome=np.clip(outcome, -1, 1),
    )


def open_curator(rows: dict[str, Any], columns: dict[str, Column], delta: float = 0) -> Curator:
    """Return a curator with a budget for any number of answers at epsilon 1."""
    table = Table("t", pa.table(rows), unit=ROW, columns=columns)
    return Curator([table], budget=Budget(1e6, delta))


def ask(curator: Curator, text: str, column: str, times: int) -> Floats:
    """Return one column of many fresh answers, a row for each answer."""
    answers = (curator.sql(text, epsilon=1, fresh=True) for _ in range(times))
    return np.array([[row[column] for row in answer.rows] for answer in answers], dtype=float)


def ask_copies(people: People, statistic: str, truth: float, copies: int = 100) -> Floats:
    """Return the errors of a statistic of the values, released for many copies of them at once.

    Each row is in one copy only, so each copy's answer costs epsilon 1 and has its own noise.
    """
    rows = {
        "copy": np.repeat(np.arange(copies), PEOPLE),
        "x": np.tile(people.values, copies),
    }
    curator = open_curator(rows, {"copy": Int(0, copies - 1), "x": Float(0, 100)})
    text = f"SELECT copy, {statistic} AS y FROM t GROUP BY copy"
    return ask(curator, text, "y", 100) - truth


def ask_mean(people: People) -> Floats:
    """Return errors of AVG."""
    return ask_copies(people, "AVG(x)", float(people.values.mean()))


def ask_variance(people: People) -> Floats:
    """Return errors of VAR_SAMP."""
    return ask_copies(people, "VAR_SAMP(x)", float(people.values.var(ddof=1)))


def ask_quantile(people: People, level: float) -> Floats:
    """Return errors of QUANTILE_CONT over all samples."""
    text = f"SELECT QUANTILE_CONT(x, {level}) AS y FROM t"
    errors = []
    for sample in people.skewed:
        curator = open_curator({"x": sample}, {"x": Float(0, 10**6)})
        errors.append(ask(curator, text, "y", 10) - np.quantile(sample, level))
    return np.concatenate(errors)


def ask_counts(delta: float) -> Floats:
    """Return errors of 100 counts asked at once, of which one person may be in all."""
    copies, each = 50, PEOPLE // 50
    names = [f"c{place}" for place in range(100)]
    rows: dict[str, Any] = dict.fromkeys(names, np.ones(PEOPLE, dtype=bool))
    rows["copy"] = np.repeat(np.arange(copies), each)
    columns: dict[str, Column] = {name: Bool() for name in names}
    curator = open_curator(rows, {**columns, "copy": Int(0, copies - 1)}, delta)
    counts = ", ".join(f"COUNT(*) FILTER (WHERE {name}) AS n{name}" for name in names)
    answers = (
        curator.sql(f"SELECT copy, {counts} FROM t GROUP BY copy", epsilon=1, fresh=True)
        for _ in range(10)
    )
    found = [[row[f"n{name}"] for name in names] for answer in answers for row in answer.rows]
    return np.array(found, dtype=float) - each


def ask_bins(people: People, read: Callable[[Answer], list[dict[str, Any]]]) -> Floats:
    """Return errors of many noisy histograms of 1,000 bins, read off their answers."""
    curator = open_curator({"bin": people.bins}, {"bin": Int(0, 999)})
    text = "SELECT bin, COUNT(*) AS n FROM t GROUP BY bin ORDER BY bin"
    answers = (curator.sql(text, epsilon=1, fresh=True) for _ in range(50))
    found = np.array([[row["n"] for row in read(answer)] for answer in answers], dtype=float)
    return np.asarray(found - np.bincount(people.bins, minlength=1_000))


def ask_histogram(people: People) -> Floats:
    """Return errors of counts by bin as they are released: without bias, some below zero."""
    return ask_bins(people, lambda answer: answer.rows)


def ask_likely_histogram(people: People) -> Floats:
    """Return errors of the likely counts, which the same answers give at no cost."""
    return ask_bins(people, Answer.likely_rows)


def ask_top(people: People) -> Floats:
    """Return roots of how far the chosen bin's count falls short: their mean square is its mean."""
    text = "SELECT bin FROM t GROUP BY bin ORDER BY COUNT(*) DESC LIMIT 1"
    regrets = []
    for sample in people.close:
        counts = np.bincount(sample, minlength=1_000)
        curator = open_curator({"bin": sample}, {"bin": Int(0, 999)})
        regrets.append(counts.max() - counts[ask(curator, text, "bin", 100).astype(int)])
    return np.asarray(np.sqrt(regrets))


def ask_regression(people: People) -> Floats:
    """Return errors of the intercept and both slopes of a linear regression."""
    names = ("a", "b", "y")
    rows = dict(zip(names, [*people.features.T, people.outcome], strict=True))
    curator = open_curator(rows, {name: Float(-1, 1) for name in names})
    design = np.column_stack([np.ones(PEOPLE), people.features])
    truth = np.linalg.lstsq(design, people.outcome, rcond=None)[0]
    errors = []
    for _ in range(100):
        found = curator.fit("t", "y ~ a + b", family="linear", fresh=True, epsilon=1).value
        errors.append([found["Intercept"], found["a"], found["b"]] - truth)
    return np.array(errors)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: which of the peers' rows it is compared with, and what is promised."""

    name: str
    peers: str
    ask: Callable[[People], Floats]
    promise: float | None = 1.0


# Ratios near 1 are between equal laws; a few hundredths are the chance of so many releases.
ROWS: Final = (
    Row("mean, bounds 0..100", "mean", ask_mean, 0.8),
    Row("variance, bounds 0..100", "variance", ask_variance, 0.7),
    Row("median, bounds 0..10^6", "median", lambda people: ask_quantile(people, 0.5)),
    Row("90 % point, bounds 0..10^6", "p90", lambda people: ask_quantile(people, 0.9)),
    Row("100 counts", "counts", lambda _: ask_counts(0), 0.45),
    Row("100 counts, delta 1e-6", "counts, delta", lambda _: ask_counts(1e-6), 1.03),
    Row("histogram of 1,000 bins", "histogram", ask_histogram, None),
    Row("the same, likely counts", "histogram", ask_likely_histogram, 0.96),
    Row("fullest of 1,000 bins (root mean regret)", "top", ask_top, 1.1),
    Row("linear regression, 3 terms", "regression", ask_regression, 0.35),
)


def ask_peers(people: People) -> dict[str, dict[str, float]]:
    """Return each peer's errors, row by row, from its own environment."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "people.npz"
        np.savez(path, **asdict(people))
        for peer, variable in PEERS.items():
            home = os.environ.get(variable, str(ROOT / HOMES[variable] / "bin" / "python"))
            if not Path(home).exists():
                sys.exit(f"{peer} is not at {home}; run `make peers`")
            with console.status(f"asking {peer}"):
                command = [home, "-m", f"bench.peers.ask_{peer}", str(path)]
                done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True)
            found[peer] = json.loads(done.stdout)
    return found


def find_error(errors: Floats) -> tuple[float, float]:
    """Return the root mean square of errors, and its standard error.

    Parts hold whole releases or samples, whose errors may depend on each other.
    """
    parts = np.array([np.mean(np.square(part)) for part in np.array_split(errors, PARTS)])
    root = float(np.sqrt(np.mean(np.square(errors))))
    return root, float(parts.std(ddof=1) / np.sqrt(PARTS) / (2 * root))


def show(people: People, peers: dict[str, dict[str, float]]) -> list[str]:
    """Print every row and return the names of those that miss their promise."""
    screen = Screen(
        "root mean square error", "confide ± s.e.", *PEERS, "ratio to best", "promise", "kept"
    )
    missed = []
    for row in ROWS:
        with console.status(f"asking confide: {row.name}"):
            own, chance = find_error(row.ask(people))
        others = {peer: found.get(row.peers) for peer, found in peers.items()}
        ratio = own / min(error for error in others.values() if error is not None)
        kept = row.promise is None or ratio <= row.promise
        missed += [] if kept else [row.name]
        screen.add_row(
            row.name,
            f"{own:.4g} ± {chance:.2g}",
            *("" if error is None else f"{error:.4g}" for error in others.values()),
            f"{ratio:.3f}",
            "" if row.promise is None else f"at most {row.promise}",
            "" if row.promise is None else ("yes" if kept else "[bold]NO[/bold]"),
        )
    console.print(screen)
    return missed


if __name__ == "__main__":
    everyone = draw_people()
    missed = show(everyone, ask_peers(everyone))
    if missed:
        sys.exit(f"missed: {', '.join(missed)}")
