"""Estimates by diffprivlib for the samples of `bench/models.py`."""

import json
import sys
import warnings

import numpy as np
from bench.peers.errors import Floats
from diffprivlib import models, tools


def find_slopes(x: Floats, y: Floats) -> list[float]:
    """Return the intercept and slopes of its logistic regression."""
    norm = float(np.sqrt(x.shape[1]))
    found = models.LogisticRegression(epsilon=1, data_norm=norm, C=1.0, max_iter=1_000)
    found.fit(x, y)
    return [*np.atleast_1d(found.intercept_).tolist(), *found.coef_.ravel().tolist()]


def find_line(pair: Floats) -> list[float]:
    """Return the intercept and slope of its linear regression on one column."""
    a, b = pair
    found = models.LinearRegression(epsilon=1, bounds_X=(-1, 1), bounds_y=(-1, 1))
    found.fit(a[:, None], b)
    return [float(np.ravel(found.intercept_)[0]), float(np.ravel(found.coef_)[0])]


def find_covariances(pair: Floats) -> list[float]:
    """Return variance, covariance, and variance from all of its principal components."""
    found = models.PCA(2, epsilon=1, data_norm=float(np.sqrt(2)), bounds=(-1, 1))
    found.fit(pair.T)
    matrix = found.get_covariance()
    return [float(matrix[0, 0]), float(matrix[0, 1]), float(matrix[1, 1])]


def main() -> None:
    """Print the estimates as JSON, with one list per sample."""
    warnings.simplefilter("ignore")
    drawn = np.load(sys.argv[1])
    bins, epsilon = int(drawn["bins"]), float(drawn["epsilon"])
    heights = [
        tools.histogram(v, epsilon=epsilon, bins=bins, range=(0, 100), density=True)[0].tolist()
        for v in drawn["v"]
    ]
    found = {
        "logistic": [find_slopes(x, y) for x, y in zip(drawn["x"], drawn["y"], strict=True)],
        "line": [find_line(pair) for pair in drawn["pair"]],
        "covariance": [find_covariances(pair) for pair in drawn["pair"]],
        "density": heights,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
