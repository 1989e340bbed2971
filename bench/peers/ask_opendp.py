"""Errors of opendp 0.16, combined as a careful user would who has no joint noise."""

import math
from functools import partial

import numpy as np
import opendp.prelude as dp
from bench.peers.errors import Floats, People, regret, repeat, report

DELTA = 1e-6


def _laplace(sensitivity: float, epsilon: float) -> dp.Measurement:
    """Return Laplace noise for a number with this sensitivity."""
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    return dp.m.make_laplace(*space, scale=sensitivity / epsilon)


def _mean(people: People) -> Floats:
    """Return errors of a mean from a count and a centered sum, each with half of epsilon."""
    x = people.values
    counting, adding = _laplace(1, 0.5), _laplace(50, 0.5)
    total = float((x - 50).sum())
    return repeat(lambda: 50 + adding(total) / counting(float(len(x))), x.mean())


def _variance(people: People) -> Floats:
    """Return errors from a count, a centered sum, and a centered sum of squares, a third each."""
    x = people.values
    u = x - 50
    counting, adding, squaring = _laplace(1, 1 / 3), _laplace(50, 1 / 3), _laplace(1_250, 1 / 3)

    def release() -> float:
        n = counting(float(len(x)))
        square = 1_250 + squaring(float((u**2 - 1_250).sum())) / n
        return float(n / (n - 1) * (square - (adding(float(u.sum())) / n) ** 2))

    return repeat(release, x.var(ddof=1))


def _quantile(people: People, level: float) -> Floats:
    """Return errors of its quantile among 10,000 candidates, evenly spaced on a log scale."""
    candidates = np.geomspace(1e-2, 10**6, 10_000).tolist()
    space = (
        dp.vector_domain(dp.atom_domain(T=float, nan=False)),
        dp.symmetric_distance(),
    )
    measure = dp.max_divergence()

    def make(scale: float) -> dp.Measurement:
        return dp.m.make_private_quantile(
            *space, measure, candidates=candidates, alpha=level, scale=scale
        )

    scale = dp.binary_search_param(make, d_in=1, d_out=1.0)
    one = make(scale)
    return np.concatenate(
        [repeat(partial(one, x.tolist()), np.quantile(x, level), times=6) for x in people.skewed]
    )


def _counts(_: People) -> Floats:
    """Return the noise of 100 counts at epsilon 1, where one person can be in all of them."""
    noise = dp.m.make_laplace(
        dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int), scale=100.0
    )
    return repeat(lambda: noise([0] * 100), 0, times=200)


def _counts_with_delta(_: People) -> Floats:
    """Return the noise of the same counts at (1, 1e-6)."""
    counts = dp.vector_domain(dp.atom_domain(T=int))

    def make(scale: float) -> dp.Measurement:
        gaussian = dp.m.make_gaussian(counts, dp.l2_distance(T=float), scale=scale)
        return dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(gaussian), delta=DELTA)

    noise = make(dp.binary_search_param(make, d_in=math.sqrt(100), d_out=(1.0, DELTA)))
    return repeat(lambda: noise([0] * 100), 0, times=200)


def _histogram(people: People) -> Floats:
    noise = dp.m.make_laplace(
        dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int), scale=1.0
    )
    counts = people.histogram.tolist()
    return repeat(lambda: noise(counts), people.histogram, times=100)


def _top(people: People) -> Floats:
    """Return regrets of its noisy maximum, declared to have monotonic scores."""
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.linf_distance(T=int, monotonic=True)

    def make(scale: float) -> dp.Measurement:
        return dp.m.make_noisy_max(*space, dp.max_divergence(), scale=scale)

    one = make(dp.binary_search_param(make, d_in=1, d_out=1.0))
    return regret(lambda counts: one(counts.tolist()), people.close)


if __name__ == "__main__":
    dp.enable_features("contrib", "idealized-numerics")
    report(
        {
            "mean": _mean,
            "variance": _variance,
            "median": lambda people: _quantile(people, 0.5),
            "p90": lambda people: _quantile(people, 0.9),
            "counts": _counts,
            "counts, delta": _counts_with_delta,
            "histogram": _histogram,
            "top": _top,
        }
    )
