"""Linear regression from noisy moments.

Everything that least squares needs to know of the rows are sums of products of two columns. They
are released once, with noise, in a scale in which every column lies in [-1, 1].
"""

from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np

from confide.errors import UnsupportedQuery
from confide.plan import Plan
from confide.query import Term
from confide.statistics.estimate import (
    ChargedEstimate,
    Estimate,
    EstimateContext,
    Floats,
    make_estimate,
    read_sums,
)
from confide.statistics.families import Scaled
from confide.statistics.formula import Design, Numbers, plan_sums
from confide.statistics.likelihood import lift_matrix, multiply_terms, release_sums
from confide.statistics.replicas import root_of, spread_normals, thin

__all__ = ["Moments", "fit_linear", "noise_level", "replicate", "solve"]


@dataclass(frozen=True, slots=True)
class Moments:
    """Which sums a regression needs, and how they make a matrix.

    The columns are the constant, those that explain, and the response last; all but the constant
    are scaled to [-1, 1]. Without a constant in the formula they are only divided, not moved.
    """

    design: Design

    @property
    def scales(self) -> list[Scaled]:
        return [self._scale(column) for column in (*self.design.columns, self.design.response)]

    def _scale(self, column: Numbers) -> Scaled:
        if self.design.has_intercept:
            return column.scaled
        largest = max(abs(column.low), abs(column.high))
        return Scaled(-largest, largest)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The products that are released: not the squares of columns that are always -1 or 1."""
        columns = (*self.design.columns, self.design.response)
        every = combinations_with_replacement(range(len(columns)), 2)
        return [(i, j) for i, j in every if i != j or not self._is_sign(columns[i])]

    def _is_sign(self, column: Numbers) -> bool:
        return self.design.has_intercept and column.is_binary

    def terms(self) -> list[Term]:
        """Return what is added up over the rows, besides their number."""
        columns = (*self.design.columns, self.design.response)
        scaled = [
            scale.term(column.term) for scale, column in zip(self.scales, columns, strict=True)
        ]
        return [*scaled, *multiply_terms(scaled, self.pairs)]

    def matrix(self, sums: Floats) -> Floats:
        """Return the symmetric matrices of the sums of all products; a constant comes first."""
        size = len(self.design.columns) + 2
        matrix = np.zeros((*sums.shape[:-1], size, size))
        count = sums[..., 0]
        matrix[..., 0, 0] = count
        for place in range(1, size):
            matrix[..., 0, place] = matrix[..., place, 0] = sums[..., place]
            matrix[..., place, place] = count
        for place, (i, j) in enumerate(self.pairs):
            value = sums[..., size + place]
            value = (value + count) / 2.0 if i == j else value
            matrix[..., i + 1, j + 1] = matrix[..., j + 1, i + 1] = value
        return matrix if self.design.has_intercept else matrix[..., 1:, 1:]

    def penalty(self, ridge: float) -> Floats:
        """Return what a ridge adds to the matrix: nothing to the constant."""
        free = [0.0] if self.design.has_intercept else []
        return ridge * np.diag(free + [1.0] * len(self.design.columns))

    def unscale(self, scaled: Floats) -> Floats:
        """Return coefficients of the columns themselves from those of the scaled ones."""
        *inner, outer = self.scales
        halves = np.array([scale.half for scale in inner])
        first = 1 if self.design.has_intercept else 0
        slopes = scaled[..., first:] * outer.half / halves
        if not self.design.has_intercept:
            return np.asarray(slopes)
        centres = np.array([scale.centre for scale in inner])
        start = outer.centre + outer.half * scaled[..., 0] - (slopes * centres).sum(axis=-1)
        return np.concatenate([start[..., None], slopes], axis=-1)


def fit_linear(asked: EstimateContext, table: str, design: Design, ridge: float) -> Estimate:
    """Return the coefficients of least squares with a ridge, with standard errors.

    Law:     coefficients solved from sums of products within [-1, 1], plus the plan's noise.
    Claim:   costs what was granted; for many rows the error is that of least squares without noise.
    Why:     the sums are one release of totals, and solving is post-processing. Noise E and e in
             the sums moves the solution by (X'X)^-1 (e - E b) to first order, which falls like
             1 / n, sampling like 1 / sqrt(n); the replicas do both without the first order.
    Source:  [Wan18], [FWS20]; docs/proofs/statistics.md.
    Checked: tests/statistics/test_regression.py.
    """
    if design.response.low == design.response.high:
        raise UnsupportedQuery(f"{design.response.name!r} has one value only; nothing explains it")
    moments = Moments(design)
    query = plan_sums(table, design.names, moments.terms())
    paid: ChargedEstimate[Plan] = release_sums(asked, "linear", query)
    sums = read_sums(paid.prepared, paid.noisy["steps"])
    found, penalty = sums.values[0], moments.penalty(ridge)
    floor = noise_level(moments, sums.variance)
    solution = solve(moments.matrix(found), float(found[0]), floor, penalty)
    replicas = replicate(moments, found, sums.noise, solution, penalty)
    title = f"linear regression {design.text}"
    return make_estimate(
        title,
        design.labels,
        moments.unscale(solution.scaled),
        moments.unscale(replicas),
        paid,
        form="named",
    )


@dataclass(frozen=True, slots=True)
class Solution:
    """Coefficients of the scaled columns, the constant first, and what they were solved from."""

    scaled: Floats
    matrix: Floats
    variance: float
    floor: float


def noise_level(moments: Moments, variances: Floats) -> float:
    """Return a size that noise alone hardly gives to an eigenvalue of the matrix of products."""
    size = len(moments.design.columns) + 1
    return float(np.sqrt(variances.max() * size))


def solve(matrix: Floats, rows: float, floor: float, penalty: Floats) -> Solution:
    """Return the coefficients of the last column on the others.

    Eigenvalues that noise may have made up are lifted to the size of the noise, which shrinks the
    coefficients in their direction instead of letting them run away.
    """
    inner, cross, square = matrix[:-1, :-1], matrix[:-1, -1], float(matrix[-1, -1])
    scaled: Floats = np.asarray(np.linalg.solve(lift_matrix(inner, floor) + penalty, cross))
    left = square - 2.0 * scaled @ cross + scaled @ inner @ scaled
    variance = float(np.clip(left / max(rows - len(inner), 1.0), 1e-12, 4.0))
    return Solution(scaled, inner, variance, floor)


def replicate(
    moments: Moments, sums: Floats, noise: Floats, solution: Solution, penalty: Floats
) -> Floats:
    """Return what the coefficients could as well have been, in the scale of the sums."""
    moved = moments.matrix(sums + thin(noise))
    inner, cross = moved[:, :-1, :-1], moved[:, :-1, -1]
    size = len(solution.scaled)
    spread = root_of(lift_matrix(solution.matrix, solution.floor) * solution.variance)
    cross = cross + spread_normals(size) @ spread.T
    lifted = lift_matrix(inner, solution.floor) + penalty
    return np.asarray(np.linalg.solve(lifted, cross[..., None])[..., 0])
