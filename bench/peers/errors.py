"""Code shared by all peers: read the people, repeat each release, and print the errors.

It runs in a peer's own environment, where only NumPy is certain to be available.
"""

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["Floats", "People", "Spread", "regret", "repeat", "report"]

RELEASES: Final = 10_000
PARTS: Final = 20
Floats = NDArray[Any]


@dataclass(frozen=True, slots=True)
class People:
    """Invented people, the same for every library.

    values:   100 * Beta(2.6, 5.8): between the bounds 0 and 100, mean 31, standard deviation 15.
    skewed:   100 samples of lognormal(3.65, 1.3), bounds 0 and 10^6; median 38, 90th percentile
    204. bins:     a bin of 1,000 for each person, bin r with probability proportional to 1 / r.
    close:    20 samples of a bin of 1,000 for each person, all equally likely, so the largest is
    uncertain. features: two columns, uniform between -1 and 1. outcome:  0.1 + 0.5 a - 0.3 b and
    normal noise of standard deviation 0.1, clipped to [-1, 1].
    """

    values: Floats
    skewed: Floats
    bins: Floats
    close: Floats
    features: Floats
    outcome: Floats

    @property
    def histogram(self) -> NDArray[np.int64]:
        """The number of people in each of the 1,000 bins."""
        return np.bincount(self.bins.astype(int), minlength=1_000)


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean squared errors of consecutive parts of all releases.

    A part contains whole releases or samples, whose errors may depend on each other. The same part
    contains the same samples for every library.
    """

    squares: tuple[float, ...]

    @classmethod
    def of(cls, errors: Floats) -> "Spread":
        """Return the parts of errors, whose first axis is the release."""
        return cls(tuple(np.square(errors).reshape(PARTS, -1).mean(axis=1).tolist()))

    @property
    def root(self) -> float:
        """The root mean square of all errors."""
        return float(np.sqrt(np.mean(self.squares)))

    @property
    def chance(self) -> float:
        """The standard error of the root, from that of the mean square by the delta method."""
        return float(np.std(self.squares, ddof=1) / np.sqrt(PARTS) / (2 * self.root))

    def over(self, other: "Spread") -> tuple[float, float]:
        """Return the ratio of both roots, and its standard error by the jackknife over parts.

        Leaving the same part out of both accounts for what they share, such as a sample with wide
        gaps.
        """
        own, others = np.array(self.squares), np.array(other.squares)
        without = np.sqrt((own.sum() - own) / (others.sum() - others))
        return self.root / other.root, float(np.sqrt((PARTS - 1) * without.var()))


Measure = Callable[[People], Floats]


def repeat(release: Callable[[], Any], truth: Any, times: int = RELEASES) -> Floats:
    """Return the errors of many releases of the same statistic."""
    return np.array([np.asarray(release(), dtype=float) - truth for _ in range(times)])


def regret(release: Callable[[NDArray[np.int64]], int], samples: Floats) -> Floats:
    """Return the square roots of regrets, whose mean square is the mean regret.

    Squares of regrets would be dominated by a few bad choices in thousands. ``release`` chooses one
    of 1,000 counts.
    """
    regrets = []
    for sample in samples:
        counts = np.bincount(sample, minlength=1_000)
        regrets += [counts.max() - counts[release(counts)] for _ in range(200)]
    return np.asarray(np.sqrt(regrets))


def report(measures: Mapping[str, Measure]) -> None:
    """Print as JSON the squares of each requested row that this peer can answer."""
    path, *wanted = sys.argv[1:]
    with np.load(Path(path)) as arrays:
        people = People(**{name: arrays[name] for name in arrays.files})
    found = {}
    for name in [name for name in measures if name in wanted]:
        print(f"  {name}", file=sys.stderr, flush=True)
        found[name] = Spread.of(measures[name](people)).squares
    print(json.dumps(found))
