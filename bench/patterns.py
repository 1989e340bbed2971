"""A timing attack that uses LIKE to detect one person's row.

One of 1,000 people has a long text. Each run times one query over the data with that person and two
over the data without, in random order. AUC is the probability that the run with the person took
longer: 0.5 reveals nothing. The control compares the data without the person with itself. A pattern
with eleven wildcards must not exceed one without any by more than three standard errors: what is
left is the time that any reading of the text takes.
"""

import random
import sys
from time import perf_counter
from typing import Final

import pandas as pd
from rich.console import Console
from rich.table import Table as Grid
from scipy import stats

import confide as cf

RUNS: Final = 200
WARM_UP: Final = 10
PEOPLE: Final = 1_000
LENGTH: Final = 20_000
PATTERNS: Final = {"no wildcard but %": "%bb%", "eleven wildcards": f"%{'_' * 11}b%"}


def open_people(texts: list[str]) -> cf.Curator:
    """Return a curator over people with one text each."""
    frame = pd.DataFrame({"who": range(len(texts)), "t": texts})
    table = cf.Table("p", frame, unit="who", columns={"t": cf.Text()}, unique=True)
    return cf.Curator([table], budget=cf.Budget(1e9))


def time_query(curator: cf.Curator, pattern: str) -> float:
    """Return the seconds that a query with this pattern takes."""
    start = perf_counter()
    curator.sql(f"SELECT COUNT(*) AS n FROM p WHERE t LIKE '{pattern}'", epsilon=1, fresh=True)
    return perf_counter() - start


def measure(sides: list[cf.Curator], pattern: str) -> list[float]:
    """Return the AUC of each side against the last one; all take turns in random order."""
    times: list[list[float]] = [[] for _ in sides]
    for run in range(RUNS + WARM_UP):
        for place in random.sample(range(len(sides)), len(sides)):
            spent = time_query(sides[place], pattern)
            if run >= WARM_UP:
                times[place].append(spent)
    last = times.pop()
    return [float(stats.mannwhitneyu(some, last).statistic) / RUNS**2 for some in times]


def main() -> None:
    """Print the AUC of each pattern and of its control."""
    texts = ["abc"] * PEOPLE
    worlds = (["a" * LENGTH, *texts[1:]], texts, texts)
    error = ((2 * RUNS + 1) / (12 * RUNS**2)) ** 0.5
    grid, found = Grid("pattern", "AUC", "control", "standard error"), []
    for name, pattern in PATTERNS.items():
        attack, control = measure([open_people(world) for world in worlds], pattern)
        grid.add_row(name, f"{attack:.3f}", f"{control:.3f}", f"{error:.3f}")
        found.append(attack)
    Console().print(grid)
    if found[1] - found[0] > 3 * 2**0.5 * error:
        sys.exit("missed: wildcards make the time reveal more than reading the text does")


if __name__ == "__main__":
    main()
