"""Errors of answers at equal privacy, compared with the best of four other libraries.

Every row is one statistic of 10,000 people at epsilon 1 (and delta 1e-6 if it says so), under
add-remove, released many times. Its figure is the root mean square distance from the statistic of
the same rows without noise. confide answers through a curator, in SQL, and pays for intervals that
the others do not give. Peers run in their own environments (`make peers`, and `make oracle` for
opendp) on the same rows.

The targets hold within one run: no row is worse than the best peer, and those with joint noise are
better by the stated factor. Our figure and the ratio have standard errors, from 20 parts of all
releases. A target is missed if the ratio exceeds it by more than two standard errors. Aims are
target errors for the same people. Name rows to measure only those: `bench/utility.py median p90`.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table as Screen

from confide.curator import Curator
from confide.declare import ROW, Bool, Budget, Column, Float, Int, Table
from confide.release import Answer

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench._libraries import ERRING
from bench.peers.errors import Floats, People, Spread

PEOPLE: Final = 10_000
SAMPLES: Final = 100
CLOSE_SAMPLES: Final = 20
SEED: Final = 2026
BRIEF: Final = 5
"""The divisor of the number of releases for `compare.py`."""

MISSED: Final = "[bold]NO[/bold]"
console = Console(width=None if sys.stdout.isatty() else 160)


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
    """Return one column of many fresh answers, with one row per answer."""
    answers = (curator.sql(text, epsilon=1, fresh=True) for _ in range(times))
    return np.array([[row[column] for row in answer.rows] for answer in answers], dtype=float)


def ask_moment(people: People, thin: int, statistic: str, truth: float) -> Floats:
    """Return the errors of a mean or variance, released for many copies of the values at once.

    Each row is in one copy only, so each copy's answer costs epsilon 1 and has its own noise.
    """
    copies = 100
    rows = {
        "copy": np.repeat(np.arange(copies), PEOPLE),
        "x": np.tile(people.values, copies),
    }
    curator = open_curator(rows, {"copy": Int(0, copies - 1), "x": Float(0, 100)})
    text = f"SELECT copy, {statistic} AS y FROM t GROUP BY copy"
    return ask(curator, text, "y", 400 // thin) - truth


def ask_mean(people: People, thin: int) -> Floats:
    """Return errors of AVG."""
    return ask_moment(people, thin, "AVG(x)", float(people.values.mean()))


def ask_variance(people: People, thin: int) -> Floats:
    """Return errors of VAR_SAMP."""
    return ask_moment(people, thin, "VAR_SAMP(x)", float(people.values.var(ddof=1)))


def ask_quantile(people: People, thin: int, level: float) -> Floats:
    """Return errors of QUANTILE_CONT over all samples."""
    text = f"SELECT QUANTILE_CONT(x, {level}) AS y FROM t"
    errors = []
    for sample in people.skewed:
        curator = open_curator({"x": sample}, {"x": Float(0, 10**6)})
        errors.append(ask(curator, text, "y", 20 // thin) - np.quantile(sample, level))
    return np.concatenate(errors)


def ask_counts(_: People, thin: int, delta: float) -> Floats:
    """Return errors of 100 counts released together, where one person can be in all of them."""
    copies, each = 50, PEOPLE // 50
    names = [f"c{place}" for place in range(100)]
    rows: dict[str, Any] = dict.fromkeys(names, np.ones(PEOPLE, dtype=bool))
    rows["copy"] = np.repeat(np.arange(copies), each)
    columns: dict[str, Column] = {name: Bool() for name in names}
    curator = open_curator(rows, {**columns, "copy": Int(0, copies - 1)}, delta)
    counts = ", ".join(f"COUNT(*) FILTER (WHERE {name}) AS n{name}" for name in names)
    answers = (
        curator.sql(f"SELECT copy, {counts} FROM t GROUP BY copy", epsilon=1, fresh=True)
        for _ in range(20 // thin)
    )
    found = [[row[f"n{name}"] for name in names] for answer in answers for row in answer.rows]
    return np.array(found, dtype=float) - each


def ask_bins(people: People, thin: int, read: Callable[[Answer], list[dict[str, Any]]]) -> Floats:
    """Return errors of many noisy histograms of 1,000 bins, as read by ``read``."""
    curator = open_curator({"bin": people.bins}, {"bin": Int(0, 999)})
    text = "SELECT bin, COUNT(*) AS n FROM t GROUP BY bin ORDER BY bin"
    answers = (curator.sql(text, epsilon=1, fresh=True) for _ in range(100 // thin))
    found = np.array([[row["n"] for row in read(answer)] for answer in answers], dtype=float)
    return np.asarray(found - np.bincount(people.bins, minlength=1_000))


def ask_histogram(people: People, thin: int) -> Floats:
    """Return errors of counts by bin as released: unbiased, and sometimes negative."""
    return ask_bins(people, thin, lambda answer: answer.rows)


def ask_likely_histogram(people: People, thin: int) -> Floats:
    """Return errors of the likely counts, which the same answers give at no cost."""
    return ask_bins(people, thin, Answer.likely_rows)


def ask_top(people: People, thin: int) -> Floats:
    """Return the square roots of regrets of chosen bins, whose mean square is the mean regret."""
    text = "SELECT bin FROM t GROUP BY bin ORDER BY COUNT(*) DESC LIMIT 1"
    regrets = []
    for sample in people.close:
        counts = np.bincount(sample, minlength=1_000)
        curator = open_curator({"bin": sample}, {"bin": Int(0, 999)})
        regrets.append(counts.max() - counts[ask(curator, text, "bin", 100 // thin).astype(int)])
    return np.asarray(np.sqrt(regrets))


def ask_regression(people: People, thin: int) -> Floats:
    """Return errors of the intercept and both slopes of a linear regression."""
    names = ("a", "b", "y")
    rows = dict(zip(names, [*people.features.T, people.outcome], strict=True))
    curator = open_curator(rows, {name: Float(-1, 1) for name in names})
    design = np.column_stack([np.ones(PEOPLE), people.features])
    truth = np.linalg.lstsq(design, people.outcome, rcond=None)[0]
    errors = []
    for _ in range(300 // thin):
        found = curator.fit("t", "y ~ a + b", family="linear", fresh=True, epsilon=1).value
        errors.append([found["Intercept"], found["a"], found["b"]] - truth)
    return np.array(errors)


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table: its name for peers, its target ratio, and its target error.

    ask:     the errors of all releases, or of one in every ``thin``.
    promise: the maximum ratio to the best peer's error.
    """

    name: str
    peers: str
    ask: Callable[[People, int], Floats]
    promise: float | None = 1.0
    aim: float | None = None


ROWS: Final = (
    Row("mean, bounds 0..100", "mean", ask_mean, 0.76, 0.0107),
    Row("variance, bounds 0..100", "variance", ask_variance, 0.62, 0.69),
    Row("median, bounds 0..10^6", "median", partial(ask_quantile, level=0.5), 1.0, 0.0154),
    Row("90% quantile, bounds 0..10^6", "p90", partial(ask_quantile, level=0.9), 1.0, 0.325),
    Row("100 counts", "counts", partial(ask_counts, delta=0), 0.42, 58.6),
    Row("100 counts, delta 1e-6", "counts, delta", partial(ask_counts, delta=1e-6), 1.0, 42.2),
    Row("histogram of 1,000 bins", "histogram", ask_histogram, None),
    Row("the same, likely counts", "histogram", ask_likely_histogram, 0.94, 1.16),
    Row("fullest of 1,000 bins (root mean regret)", "top", ask_top, 1.0, 0.969),
    Row("linear regression, 3 terms", "regression", ask_regression, 0.25),
)
NAMES: Final = list(dict.fromkeys(row.peers for row in ROWS))


@dataclass(frozen=True, slots=True)
class Line:
    """Measurements of one row: our errors, and those of each peer that can answer it."""

    row: Row
    own: Spread
    peers: dict[str, Spread]

    @property
    def best(self) -> str:
        """The peer with the smallest error."""
        return min(self.peers, key=lambda peer: self.peers[peer].root)

    @property
    def ratio(self) -> tuple[float, float]:
        """The ratio of our error to the best peer's, and its standard error."""
        return self.own.over(self.peers[self.best])

    def is_above(self, most: float) -> bool:
        """Return whether the ratio exceeds a bound by more than chance explains."""
        ratio, chance = self.ratio
        return ratio - 2 * chance > most

    @property
    def verdict(self) -> str:
        """Whether the target is met, or an empty string without a target."""
        if self.row.promise is None:
            return ""
        if self.ratio[0] <= self.row.promise:
            return "yes"
        return MISSED if self.is_above(self.row.promise) else "within chance"

    def cells(self) -> list[str]:
        """Return a row of the table."""
        shown = {peer: f"{errors.root:.4g}" for peer, errors in self.peers.items()}
        shown[self.best] = f"[bold]{shown[self.best]}[/bold]"
        ratio, chance = self.ratio
        return [
            self.row.name,
            f"{self.own.root:.4g} ± {self.own.chance:.2g}",
            *(shown.get(peer, "") for peer in ERRING),
            f"{ratio:.3f} ± {chance:.3f}",
            "" if self.row.promise is None else f"at most {self.row.promise}",
            self.verdict,
            "" if self.row.aim is None else f"{self.row.aim:.4g}",
        ]


def ask_peers(people: People, names: list[str]) -> dict[str, dict[str, Spread]]:
    """Return each peer's errors, row by row, from its own environment."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "people.npz"
        np.savez(path, **asdict(people))
        for peer, library in ERRING.items():
            with console.status(f"asking {peer}"):
                try:
                    told = library.run("-m", f"bench.peers.ask_{peer}", str(path), *names)
                except OSError:
                    sys.exit(f"{peer} is not at {library.python}; run `make oracle peers`")
            found[peer] = {name: Spread(tuple(s)) for name, s in json.loads(told).items()}
    return found


def measure(names: list[str]) -> list[Line]:
    """Return the measurements of the rows with these names."""
    people = draw_people()
    peers = ask_peers(people, names)
    lines = []
    for row in (row for row in ROWS if row.peers in names):
        with console.status(f"asking confide: {row.name}"):
            own = Spread.of(row.ask(people, 1))
        theirs = {peer: found[row.peers] for peer, found in peers.items() if row.peers in found}
        lines.append(Line(row, own, theirs))
    return lines


def figures() -> Iterator[tuple[str, Callable[[], float]]]:
    """Yield the figures for `compare.py`: our own errors, with fewer releases."""
    people = draw_people()
    for row in ROWS:
        yield row.name, partial(measure_briefly, row, people)


def measure_briefly(row: Row, people: People) -> float:
    """Return the root mean square error of a row's first releases."""
    return float(np.sqrt(np.square(row.ask(people, BRIEF)).mean()))


def main() -> None:
    """Print the requested rows, and fail if a target is missed."""
    parser = argparse.ArgumentParser(description="errors at equal privacy beside other libraries")
    parser.add_argument("names", nargs="*", metavar="row", help=", ".join(NAMES))
    wanted = parser.parse_args().names
    unknown = set(wanted) - set(NAMES)
    if unknown:
        parser.error(f"no row named {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    screen = Screen(
        *("root mean square error", "confide ± s.e.", *ERRING, "ratio to best ± s.e."),
        *("promise", "kept", "aim"),
    )
    lines = measure(wanted or NAMES)
    for line in lines:
        screen.add_row(*line.cells())
    console.print(screen)
    missed = [line.row.name for line in lines if line.verdict == MISSED]
    if missed:
        sys.exit(f"missed: {', '.join(missed)}")


if __name__ == "__main__":
    main()
