"""diffprivlib, by the functions that its documents show; the number of people is public there."""

import warnings
from functools import partial
from typing import Any

import numpy as np
from bench.peers.errors import Data, Floats, regret, repeat, report
from diffprivlib import mechanisms, models, tools


def _mean(data: Data) -> Floats:
    x = data.values
    return repeat(lambda: tools.mean(x, epsilon=1, bounds=(0, 100)), x.mean())


def _variance(data: Data) -> Floats:
    x = data.values
    return repeat(lambda: tools.var(x, epsilon=1, bounds=(0, 100)), x.var(ddof=1))


def _quantile(data: Data, level: float) -> Floats:
    quantile = partial(tools.quantile, quant=level, epsilon=1, bounds=(0, 10**6))
    errors = [repeat(partial(quantile, x), np.quantile(x, level), times=10) for x in data.skewed]
    return np.concatenate(errors)


def _histogram(data: Data) -> Floats:
    ends = (-0.5, 999.5)

    def release() -> Floats:
        found: Floats = tools.histogram(data.bins, epsilon=1, bins=1_000, range=ends)[0]
        return found

    return repeat(release, data.histogram, times=50)


def _counts(_: Data) -> Floats:
    """Return errors of 100 counts with a hundredth of epsilon each."""
    one = mechanisms.Geometric(epsilon=0.01, sensitivity=1)
    return repeat(lambda: [one.randomise(0) for _ in range(100)], 0, times=100)


def _top(data: Data) -> Floats:
    def release(counts: Any) -> int:
        utility = counts.tolist()
        flip = mechanisms.PermuteAndFlip(epsilon=1, sensitivity=1, utility=utility, monotonic=True)
        return int(flip.randomise())

    return regret(release, data.close)


def _regression(data: Data) -> Floats:
    """Return errors of slopes and intercept, with the same bounds as ours."""
    design = np.column_stack([np.ones(len(data.outcome)), data.features])
    truth = np.linalg.lstsq(design, data.outcome, rcond=None)[0]

    def release() -> Floats:
        found = models.LinearRegression(epsilon=1, bounds_X=(-1, 1), bounds_y=(-1, 1))
        found.fit(data.features, data.outcome)
        return np.concatenate([np.atleast_1d(found.intercept_), found.coef_.ravel()])

    return repeat(release, truth, times=300)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    report(
        {
            "mean": _mean,
            "variance": _variance,
            "median": lambda data: _quantile(data, 0.5),
            "p90": lambda data: _quantile(data, 0.9),
            "histogram": _histogram,
            "counts": _counts,
            "top": _top,
            "regression": _regression,
        }
    )
