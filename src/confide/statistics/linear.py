"""Linear regression from noisy moments.

Least squares needs only the sums of products of pairs of columns. They are released once, with
noise, for columns scaled to [-1, 1]. `fit` in `regression` calls `fit_linear`.
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
    """The sums that a linear regression needs, and the matrix that they form.

    The columns are the constant, the explanatory columns, and the response. All but the constant
    are scaled to [-1, 1]. If the formula has no constant, scaling only divides, without a shift.
    """

    design: Design

    @property
    def scales(self) -> list[Scaled]:
        """The scales of the explanatory columns, then the scale of the response."""
        return [self._scale(column) for column in (*self.design.columns, self.design.response)]

    def _scale(self, column: Numbers) -> Scaled:
        if self.design.has_intercept:
            return column.scaled
        largest = max(abs(column.low), abs(column.high))
        return Scaled(-largest, largest)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The pairs of columns whose products are released, by their indices.

        The constant is not counted. Squares of columns that are always -1 or 1 are left out.
        """
        columns = (*self.design.columns, self.design.response)
        pairs = combinations_with_replacement(range(len(columns)), 2)
        return [(i, j) for i, j in pairs if i != j or not self._is_sign(columns[i])]

    def _is_sign(self, column: Numbers) -> bool:
        return self.design.has_intercept and column.is_binary

    def terms(self) -> list[Term]:
        """Return the terms to sum over the rows, in addition to the count."""
        columns = (*self.design.columns, self.design.response)
        scaled = [
            scale.term(column.term) for scale, column in zip(self.scales, columns, strict=True)
        ]
        return [*scaled, *multiply_terms(scaled, self.pairs)]

    def matrix(self, sums: Floats) -> Floats:
        """Return the symmetric matrix of the sums of all products of two columns.

        The last axis of ``sums`` has the count, then the sums of `terms`. A square x^2 was summed
        as 2 x^2 - 1. The first row and column of the matrix belong to the constant, if there is
        one.
        """
        size = len(self.design.columns) + 2
        matrix = np.zeros((*sums.shape[:-1], size, size))
        count = sums[..., 0]
        matrix[..., 0, 0] = count
        for index in range(1, size):
            matrix[..., 0, index] = matrix[..., index, 0] = sums[..., index]
            matrix[..., index, index] = count
        for index, (i, j) in enumerate(self.pairs):
            value = sums[..., size + index]
            value = (value + count) / 2.0 if i == j else value
            matrix[..., i + 1, j + 1] = matrix[..., j + 1, i + 1] = value
        return matrix if self.design.has_intercept else matrix[..., 1:, 1:]

    def penalty(self, ridge: float) -> Floats:
        """Return the matrix of a ridge penalty, which is 0 for the constant."""
        free = [0.0] if self.design.has_intercept else []
        return ridge * np.diag(free + [1.0] * len(self.design.columns))

    def unscale(self, scaled: Floats) -> Floats:
        """Return the coefficients of the unscaled columns from those of the scaled ones."""
        *inner, outer = self.scales
        halves = np.array([scale.half for scale in inner])
        first = 1 if self.design.has_intercept else 0
        slopes = scaled[..., first:] * outer.half / halves
        if not self.design.has_intercept:
            return np.asarray(slopes)
        centers = np.array([scale.center for scale in inner])
        start = outer.center + outer.half * scaled[..., 0] - (slopes * centers).sum(axis=-1)
        return np.concatenate([start[..., None], slopes], axis=-1)


def fit_linear(context: EstimateContext, table: str, design: Design, ridge: float) -> Estimate:
    """Return the coefficients of least squares with a ridge penalty, with standard errors.

    Law:     coefficients solved from sums of products within [-1, 1], plus the plan's noise.
    Claim:   costs the granted share. For many rows the error is that of least squares without
             noise.
    Why:     the sums are one release of totals, and solving is post-processing. Let X be the
             explanatory columns, y the response, and b the solution. To first order, noise E in
             X'X and e in X'y changes the solution by (X'X)^-1 (e - E b), which decreases like 1 / n
             for n rows; sampling error decreases like 1 / sqrt(n). Replicas include both errors
             without this approximation.
    Source:  [Wan18], [FWS20]; docs/proofs/statistics.md.
    Checked: tests/statistics/test_regression.py.
    """
    if design.response.low == design.response.high:
        raise UnsupportedQuery(
            f"The response {design.response.name!r} can have only one value, so there is nothing "
            "to explain. Choose another response, or declare wider bounds."
        )
    moments = Moments(design)
    query = plan_sums(table, design.names, moments.terms())
    charged: ChargedEstimate[Plan] = release_sums(context, "linear", query)
    sums = read_sums(charged.prepared, charged.noisy["steps"])
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
        charged,
        form="named",
    )


@dataclass(frozen=True, slots=True)
class Solution:
    """The coefficients ``scaled`` of the scaled columns, constant first, and their accuracy.

    ``matrix`` has the sums of products of explanatory columns. ``variance`` is the variance of the
    residuals of the scaled response, and ``floor`` is the result of `noise_level`.
    """

    scaled: Floats
    matrix: Floats
    variance: float
    floor: float


def noise_level(moments: Moments, variances: Floats) -> float:
    """Return a bound that the eigenvalues of the noise in the matrix of products rarely exceed.

    ``variances`` has the variance of each noisy sum.
    """
    size = len(moments.design.columns) + 1
    return float(np.sqrt(variances.max() * size))


def solve(matrix: Floats, rows: float, floor: float, penalty: Floats) -> Solution:
    """Return the regression of the last column on the others.

    ``matrix`` has the sums of products, and ``penalty`` is the result of `Moments.penalty`.
    Eigenvalues below ``floor`` may be noise alone and are raised to it. In the directions of their
    eigenvectors, coefficients would otherwise diverge.
    """
    inner, cross, square = matrix[:-1, :-1], matrix[:-1, -1], float(matrix[-1, -1])
    scaled: Floats = np.asarray(np.linalg.solve(lift_matrix(inner, floor) + penalty, cross))
    residual = square - 2.0 * scaled @ cross + scaled @ inner @ scaled
    variance = float(np.clip(residual / max(rows - len(inner), 1.0), 1e-12, 4.0))
    return Solution(scaled, inner, variance, floor)


def replicate(
    moments: Moments, sums: Floats, noise: Floats, solution: Solution, penalty: Floats
) -> Floats:
    """Return replicas of the coefficients of the scaled columns, one per row.

    ``sums`` are the released sums, and ``noise`` is a sample of their noise.
    """
    noisier = moments.matrix(sums + thin(noise))
    inner, cross = noisier[:, :-1, :-1], noisier[:, :-1, -1]
    size = len(solution.scaled)
    root = root_of(lift_matrix(solution.matrix, solution.floor) * solution.variance)
    cross = cross + spread_normals(size) @ root.T
    lifted = lift_matrix(inner, solution.floor) + penalty
    return np.asarray(np.linalg.solve(lifted, cross[..., None])[..., 0])
