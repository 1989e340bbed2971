"""Errors of PipelineDP, from the per-partition computations of its engine."""

from typing import Any

import pipeline_dp
from bench.peers.errors import Floats, People, repeat, report
from pipeline_dp import dp_computations

DELTA = 1e-6


def _parameters() -> Any:
    return dp_computations.ScalarNoiseParams(
        eps=1.0,
        delta=0,
        min_value=0,
        max_value=100,
        min_sum_per_partition=None,
        max_sum_per_partition=None,
        max_partitions_contributed=1,
        max_contributions_per_partition=1,
        noise_kind=pipeline_dp.NoiseKind.LAPLACE,
    )


def _moments(people: People) -> tuple[int, float, float]:
    u = people.values - 50
    return len(u), float(u.sum()), float((u**2).sum())


def _mean(people: People) -> Floats:
    """Return errors of its mean from a count and a centered sum, each with half of epsilon."""
    count, total, _ = _moments(people)
    halves = [_spec("LAPLACE", 0.5, 0.0) for _ in range(2)]
    sides = [dp_computations.Sensitivities(l0=1, linf=side) for side in (1, 50)]
    one = dp_computations.create_mean_mechanism(50, halves[0], sides[0], halves[1], sides[1])
    return repeat(lambda: one.compute_mean(count, total)[2], people.values.mean())


def _variance(people: People) -> Floats:
    parameters, moments = _parameters(), _moments(people)
    truth = people.values.var(ddof=1)
    return repeat(lambda: dp_computations.compute_dp_var(*moments, parameters)[3], truth)


def _spec(kind: str, epsilon: float, delta: float) -> Any:
    kinds = pipeline_dp.aggregate_params.MechanismType
    spec = pipeline_dp.budget_accounting.MechanismSpec(getattr(kinds, kind))
    spec.set_eps_delta(epsilon, delta)
    return spec


def _noise(kind: str, delta: float, cells: int) -> Any:
    """Return noise at epsilon 1 for counts, where one person can be in ``cells`` of them."""
    sensitivities = dp_computations.Sensitivities(l0=cells, linf=1)
    return dp_computations.create_additive_mechanism(_spec(kind, 1.0, delta), sensitivities)


def _counts(kind: str, delta: float) -> Floats:
    """Return errors of 100 counts, where one person can be in all of them."""
    one = _noise(kind, delta, 100)
    return repeat(lambda: [one.add_noise(0) for _ in range(100)], 0, times=100)


def _histogram(people: People) -> Floats:
    one, counts = _noise("LAPLACE", 0.0, 1), people.histogram.tolist()
    return repeat(lambda: [one.add_noise(c) for c in counts], people.histogram, times=100)


if __name__ == "__main__":
    report(
        {
            "mean": _mean,
            "variance": _variance,
            "counts": lambda _: _counts("LAPLACE", 0.0),
            "counts, delta": lambda _: _counts("GAUSSIAN", DELTA),
            "histogram": _histogram,
        }
    )
