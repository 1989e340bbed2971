"""Timed answers of diffprivlib on NumPy arrays, called as its docs show."""

import warnings
from collections.abc import Callable

import numpy as np
from bench.peers.race import Rows, race
from diffprivlib import tools


def _open(rows: Rows) -> dict[str, Callable[[], object]]:
    every, ends = np.ones(len(rows.price), dtype=bool), (-0.5, 49.5)
    within = {"epsilon": 1, "bounds": (0, 500)}
    return {
        "count": lambda: tools.count_nonzero(every, epsilon=1),
        "sum": lambda: tools.sum(rows.price, **within),
        "mean": lambda: tools.mean(rows.price, **within),
        "median": lambda: tools.median(rows.items, epsilon=1, bounds=(0, 99)),
        "counts by region": lambda: tools.histogram(rows.region, epsilon=1, bins=50, range=ends),
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    race(_open)
