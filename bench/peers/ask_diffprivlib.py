"""Errors of diffprivlib, called as its docs show; the number of people is public there."""

import warnings
from functools import partial
from typing import Any

import numpy as np
from bench.peers.errors import Floats, People, regret, repeat, report
from diffprivlib import mechanisms, models, tools


def _mean(people: People) -> Floats:
    x = people.values
    return repeat(lambda: tools.mean(x, epsilon=1, bounds=(0, 100)), x.mean())


def _variance(people: People) -> Floats:
    x = people.values
    return repeat(lambda: tools.var(x, epsilon=1, bounds=(0, 100)), x.var(ddof=1))


def _quantile(people: People, level: float) -> Floats:
    quantile = partial(tools.quantile, quant=level, epsilon=1, bounds=(0, 10**6))
    errors = [repeat(partial(quantile, x), np.quantile(x, level), times=10) for x in people.skewed]
    return np.concatenate(errors)


def _histogram(people: People) -> Floats:
    ends = (-0.5, 999.5)

    def release() -> Floats:
        found: Floats = tools.histogram(people.bins, epsilon=1, bins=1_000, range=ends)[0]
        return found

    return repeat(release, people.histogram, times=100)


def _counts(_: People) -> Floats:
    """Return errors of 100 counts with a hundredth of epsilon each."""
    one = mechanisms.Geometric(epsilon=0.01, sensitivity=1)
    return repeat(lambda: [one.randomise(0) for _ in range(100)], 0, times=100)


def _top(people: People) -> Floats:
    def release(counts: Any) -> int:
        utility = counts.tolist()
        flip = mechanisms.PermuteAndFlip(epsilon=1, sensitivity=1, utility=utility, monotonic=True)
        return int(flip.randomise())

    return regret(release, people.close)


def _regression(people: People) -> Floats:
    """Return errors of slopes and intercept, with the same bounds as ours."""
    design = np.column_stack([np.ones(len(people.outcome)), people.features])
    truth = np.linalg.lstsq(design, people.outcome, rcond=None)[0]

    def release() -> Floats:
        found = models.LinearRegression(epsilon=1, bounds_X=(-1, 1), bounds_y=(-1, 1))
        found.fit(people.features, people.outcome)
        return np.concatenate([np.atleast_1d(found.intercept_), found.coef_.ravel()])

    return repeat(release, truth, times=300)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    report(
        {
            "mean": _mean,
            "variance": _variance,
            "median": lambda people: _quantile(people, 0.5),
            "p90": lambda people: _quantile(people, 0.9),
            "histogram": _histogram,
            "counts": _counts,
            "top": _top,
            "regression": _regression,
        }
    )
