"""Estimates by opendp 0.16 for the samples of `bench/models.py`: its line, and noisy sums."""

import json
import sys

import numpy as np
import opendp.prelude as dp
from bench.peers.errors import Floats


def add_noise(numbers: Floats, epsilon: float, largest: float) -> Floats:
    """Return numbers with Laplace noise; a row changes them by ``largest`` in the l1 norm."""
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l1_distance(T=float)
    noise = dp.m.make_laplace(*space, scale=largest / epsilon)
    return np.array(noise(numbers.tolist()))


def find_covariances(pair: Floats) -> list[float]:
    """Return variance, covariance, and variance from six noisy sums, at epsilon 1."""
    a, b = pair
    halves = [2 * a * a - 1, a * b, 2 * b * b - 1]
    sums = np.array([float(len(a)), *(float(each.sum()) for each in (a, b, *halves))])
    n, *means = add_noise(sums, 1.0, 6.0)
    first, second, *products = np.array(means) / n
    squares = (products[0] + 1) / 2, products[1], (products[2] + 1) / 2
    return [
        float(squares[0] - first**2),
        float(squares[1] - first * second),
        float(squares[2] - second**2),
    ]


def make_line(scale: float) -> dp.sklearn.linear_model.LinearRegression:
    """Return its regression on one column, among a thousand candidates."""
    return dp.sklearn.linear_model.LinearRegression(
        dp.max_divergence(),
        x_bounds=[(-1.0, 1.0)],
        y_bounds=(-1.0, 1.0),
        scale=scale,
        candidates_count=1_000,
    )


def main() -> None:
    """Print the estimates as JSON, with one list per sample."""
    dp.enable_features("contrib", "idealized-numerics", "honest-but-curious")
    drawn = np.load(sys.argv[1])
    bins, epsilon = int(drawn["bins"]), float(drawn["epsilon"])
    scale = dp.binary_search_param(lambda s: make_line(s).measurement, d_in=1, d_out=1.0)
    lines, heights = [], []
    for a, b in drawn["pair"]:
        found = make_line(scale).fit(a[:, None], b)
        lines.append([float(found.intercept_), float(np.ravel(found.coef_)[0])])
    for v in drawn["v"]:
        counts = np.histogram(v, bins=bins, range=(0, 100))[0].astype(float)
        noisy = np.maximum(add_noise(counts, epsilon, 1.0), 0)
        heights.append((noisy / noisy.sum() * bins / 100).tolist())
    covariances = [find_covariances(pair) for pair in drawn["pair"]]
    print(json.dumps({"line": lines, "covariance": covariances, "density": heights}))


if __name__ == "__main__":
    main()
