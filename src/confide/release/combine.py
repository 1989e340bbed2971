"""Combination of several answers to one query, which costs nothing; see `Answer.combined`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from confide.errors import UnsupportedQuery
from confide.plan import Plan
from confide.release.noise import NoisyMeasurement
from confide.release.noise_sample import noise_sample

__all__ = ["CombinedMeasurement", "combine", "noise_of"]

Floats = NDArray[np.float64]
MIN_VARIANCE: Final = 1e-12
"""Smaller variances count as this one, so that answers without noise have equal weights."""


@dataclass(frozen=True, slots=True, eq=False)
class CombinedMeasurement(NoisyMeasurement):
    """Totals that are weighted means of noisy totals, with a sample of their noise.

    ``table`` holds the totals, one row per group. ``noise`` is the same weighted mean of noise
    samples, one row per point; see `noise_sample`.
    """

    table: Floats = field(default_factory=lambda: np.empty((0, 0)))
    noise: Floats = field(default_factory=lambda: np.empty((0, 0)))

    def values(self, plan: Plan) -> Floats:  # noqa: ARG002  # totals have their own units already
        """Return the totals in their own units, one row per group."""
        return self.table


def noise_of(totals: NoisyMeasurement, plan: Plan) -> Floats:
    """Return a sample of the noise in these totals: one row per point, one column per total."""
    return totals.noise if isinstance(totals, CombinedMeasurement) else noise_sample(plan)


def combine(parts: Sequence[tuple[Plan, NoisyMeasurement]]) -> CombinedMeasurement:
    """Return the means of several answers to one query, weighted by inverse variance.

    ``parts`` holds the plan and the released values of each answer. Only groups that are in every
    answer are included.

    Law:     each total is sum_i w_i x_i with w_i = (1 / v_i) / sum_j (1 / v_j), where x_i is its
             noisy value in answer i, and v_i the variance of the noise there.
    Claim:   if each answer is unbiased, so is the result. Its variance is 1 / sum_i (1 / v_i), the
             minimum over weights that add up to 1. It costs nothing.
    Why:     the answers have independent noise around the same total, and the weights depend only
             on the declarations, the query, and the shares. Computing from released values is
             post-processing.
    Source:  [DR14] Proposition 2.1 for post-processing.
    Checked: tests/curator/test_combined_answers.py.
    """
    plans = [plan for plan, _ in parts]
    if not parts or any(plan.quantiles or not plan.totals for plan in plans):
        raise UnsupportedQuery(
            "Only counts, sums, and values computed from them can be combined. Medians, quantiles, "
            "and selected keys cannot be combined."
        )
    group_sets = [set(totals.groups) for _, totals in parts]
    groups = tuple(
        group for group in parts[-1][1].groups if all(group in known for known in group_sets)
    )
    noises = [_shuffle(noise_sample(plan), index) for index, plan in enumerate(plans)]
    precisions = np.array([1.0 / np.maximum(noise.var(axis=0), MIN_VARIANCE) for noise in noises])
    weights = precisions / precisions.sum(axis=0)
    tables = np.array([_rows(plan, totals, groups) for plan, totals in parts])
    return CombinedMeasurement(
        groups,
        ((),) * len(groups),
        table=np.einsum("it,igt->gt", weights, tables),
        noise=np.einsum("it,ipt->pt", weights, np.array(noises)),
    )


def _rows(plan: Plan, totals: NoisyMeasurement, groups: tuple[object, ...]) -> Floats:
    """Return the totals of these groups, one row per group."""
    indices = {group: index for index, group in enumerate(totals.groups)}
    rows: Floats = totals.values(plan)[[indices[group] for group in groups]]  # type: ignore[index]
    return rows


def _shuffle(noise: Floats, index: int) -> Floats:
    """Return the points of a noise sample in an order that differs for each answer's ``index``.

    Then the noise of different answers, taken at the same point, looks independent.
    """
    if index == 0:
        return noise
    root = np.sqrt(float(4 * index + 2) ** 2 + 1.0)  # never an integer
    shuffled: Floats = noise[np.argsort((np.arange(len(noise)) ** 2 * root) % 1.0)]
    return shuffled
