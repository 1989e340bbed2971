"""What every peer does: read the data, release each statistic many times, print the errors.

Runs in a peer's own environment, where NumPy is all that can be counted on.
"""

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["Data", "regret", "repeat", "report"]

RELEASES: Final = 10_000
Floats = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Data:
    """The data of every row of the benchmark; what each array holds is said in bench/utility.py."""

    values: Floats
    skewed: Floats
    bins: Floats
    close: Floats
    features: Floats
    outcome: Floats

    @property
    def histogram(self) -> NDArray[np.int64]:
        """How many people are in each of the 1,000 bins."""
        return np.bincount(self.bins.astype(int), minlength=1_000)


Measure = Callable[[Data], Floats]


def repeat(release: Callable[[], Any], truth: Any, times: int = RELEASES) -> Floats:
    """Return the errors of many releases of the same statistic."""
    return np.array([np.asarray(release(), dtype=float) - truth for _ in range(times)]).ravel()


def regret(release: Callable[[NDArray[np.int64]], int], samples: Floats) -> Floats:
    """Return roots of how far choices fall short, so that their mean square is the mean regret.

    Squares of regrets would be ruled by a few bad choices in thousands. ``release`` chooses one of
    1,000 counts.
    """
    regrets = []
    for sample in samples:
        counts = np.bincount(sample, minlength=1_000)
        regrets += [counts.max() - counts[release(counts)] for _ in range(200)]
    return np.asarray(np.sqrt(regrets))


def report(measures: Mapping[str, Measure]) -> None:
    """Print as JSON the root mean square error of each row that this peer can answer."""
    with np.load(Path(sys.argv[1])) as arrays:
        data = Data(**{name: arrays[name] for name in arrays.files})
    found = {}
    for name, measure in measures.items():
        print(f"  {name}", file=sys.stderr, flush=True)
        found[name] = float(np.sqrt(np.mean(np.square(measure(data)))))
    print(json.dumps(found))
