"""Code shared by all timed peers: read the rows, answer each query, and print the seconds.

It runs in a peer's own environment, where only NumPy is certain to be available. Each query runs
once to warm up and then a few times, or only once more if that took long. The median counts.
"""

import json
import statistics
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["Rows", "median_seconds", "race"]

TIMES: Final = 5
LONG: Final = 1.0
Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of the race, one array per column."""

    region: Array
    items: Array
    price: Array


def race(open_rows: Callable[[Rows], Mapping[str, Callable[[], object]]]) -> None:
    """Print as JSON the seconds of each query that this peer can answer.

    ``open_rows`` loads the rows, untimed, and returns a function for each query.
    """
    with np.load(Path(sys.argv[1])) as arrays:
        rows = Rows(**{name: arrays[name] for name in arrays.files})
    found = {}
    for name, ask in open_rows(rows).items():
        print(f"  {name}", file=sys.stderr, flush=True)
        found[name] = median_seconds(ask)
    print(json.dumps(found))


def median_seconds(ask: Callable[[], object]) -> float:
    """Return the median seconds of an answer."""
    times = 1 if _seconds(ask) > LONG else TIMES
    return statistics.median(_seconds(ask) for _ in range(times))


def _seconds(ask: Callable[[], object]) -> float:
    start = perf_counter()
    ask()
    return perf_counter() - start
