"""Accuracy of five columns of one query: a count, a sum, a mean, a spread, and a quantile.

`SELECT ward, COUNT(*), SUM(cost), AVG(cost), STDDEV(cost), QUANTILE_CONT(cost, 0.9) ... GROUP BY
ward` at epsilon 1, where a unit has five rows in three wards and costs are lognormal within 0 and
5,000. For each column and group size it prints the median and the root mean square of the relative
errors, how often 95% intervals cover the noise-free value, and their median width relative to that
value. Each answer has 60 groups, all of the same size.

`.venv/bin/python bench/groups.py` prints both tables; `bench/compare.py REV groups` compares errors
with those of another revision.
"""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table as Screen

import confide as cf

GROUPS: Final = 60
SIZES: Final = (600, 2_000, 10_000)
ANSWERS: Final = 20
BRIEF: Final = 4
UNIT_ROWS: Final = 5
UNIT_GROUPS: Final = 3
HIGH: Final = 5_000
COLUMNS: Final = ("n", "total", "mean", "sd", "p90")
TEXT: Final = (
    "SELECT ward, COUNT(*) AS n, SUM(cost) AS total, AVG(cost) AS mean, STDDEV(cost) AS sd, "
    "QUANTILE_CONT(cost, 0.9) AS p90 FROM t GROUP BY ward ORDER BY ward"
)

Floats = NDArray[np.float64]


def draw_rows(size: int) -> tuple[pa.Table, Floats]:
    """Return rows of which contribution bounding drops none, and the five columns of each group."""
    rng = np.random.default_rng(size)
    # Unit i has its rows in wards i, i, i + 1, i + 1, and i + 2, so all wards have the same size.
    units = np.arange(GROUPS * size // UNIT_ROWS)
    wards = ((units[:, None] + [0, 0, 1, 1, 2]) % GROUPS).ravel()
    costs = np.clip(rng.lognormal(6.0, 0.8, wards.size), 0, HIGH)
    rows = pa.table({"unit": np.repeat(units, UNIT_ROWS), "ward": wards, "cost": costs})
    groups = [costs[wards == ward] for ward in range(GROUPS)]
    truth = [
        [one.size, one.sum(), one.mean(), one.std(ddof=1), np.quantile(one, 0.9)] for one in groups
    ]
    return rows, np.array(truth)


def ask(size: int, answers: int) -> tuple[Floats, NDArray[np.bool_], Floats]:
    """Return relative errors, whether intervals cover, and relative widths, column by column."""
    rows, truth = draw_rows(size)
    columns: dict[str, Any] = {"ward": cf.Int(0, GROUPS - 1), "cost": cf.Float(0, HIGH)}
    table = cf.Table(
        "t",
        rows,
        unit="unit",
        columns=columns,
        max_rows_per_unit=UNIT_ROWS,
        max_groups_per_unit=UNIT_GROUPS,
    )
    curator = cf.Curator([table], budget=cf.Budget(1e6))
    found = []
    for _ in range(answers):
        answer = curator.sql(TEXT, epsilon=1, fresh=True)
        ends = answer.intervals(0.95)
        value, low, high = (
            np.column_stack([frame[f"{name}{end}"] for name in COLUMNS]).astype(float)
            for frame, end in ((answer.to_pandas(), ""), (ends, "_low"), (ends, "_high"))
        )
        covers = (low <= truth) & (truth <= high)
        found.append((np.nan_to_num(value / truth) - 1, covers, (high - low) / truth))
    errors, covers, widths = (np.concatenate(part) for part in zip(*found, strict=True))
    return errors, covers, widths


def measure_error(size: int, place: int) -> float:
    """Return the root mean square of one column's relative errors."""
    return float(np.sqrt(np.square(ask(size, BRIEF)[0][:, place]).mean()))


def figures() -> Iterator[tuple[str, Callable[[], float]]]:
    """Yield the errors that `compare.py` compares."""
    for size in SIZES:
        for place, name in enumerate(COLUMNS):
            yield f"{name}, groups of {size:,}", partial(measure_error, size, place)


def main() -> None:
    """Print a table for each group size."""
    console = Console(width=None if sys.stdout.isatty() else 120)
    for size in SIZES:
        errors, covers, widths = ask(size, ANSWERS)
        screen = Screen(
            *("column", "median error", "root mean square", "coverage", "median width"),
            title=f"groups of {size:,} rows",
        )
        for place, name in enumerate(COLUMNS):
            cells = np.median(np.abs(errors[:, place])), np.sqrt(np.mean(errors[:, place] ** 2))
            wide = np.median(widths[:, place])
            shown = (*cells, covers[:, place].mean(), wide)
            screen.add_row(name, *(f"{100 * one:.1f}%" for one in shown))
        console.print(screen)


if __name__ == "__main__":
    main()
