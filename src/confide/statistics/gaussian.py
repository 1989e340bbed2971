"""The normal law of several columns at once: means and covariances."""

from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np

from confide.query import Term
from confide.statistics.columns import Numbers
from confide.statistics.families import divide, pad
from confide.statistics.reading import Floats

__all__ = ["MultivariateNormal", "product_terms"]

TINY = 1e-6


def product_terms(scaled: list[Term]) -> list[Term]:
    """Return the products of every two scaled terms, and 2 z^2 - 1 of each with itself."""
    places = combinations_with_replacement(range(len(scaled)), 2)
    return [
        (2.0 * scaled[i] * scaled[i] - 1.0 if i == j else scaled[i] * scaled[j]).clip(-1.0, 1.0)
        for i, j in places
    ]


@dataclass(frozen=True, slots=True)
class MultivariateNormal:
    """Means and covariances of several columns.

    Sums are those of the scaled columns and of their products; see `product_terms`.
    """

    columns: tuple[Numbers, ...]

    @property
    def parameters(self) -> tuple[str, ...]:
        names = [column.name for column in self.columns]
        means = [f"mean({name})" for name in names]
        pairs = combinations_with_replacement(names, 2)
        return (*means, *(f"cov({one}, {other})" for one, other in pairs))

    def terms(self, value: Term | None = None) -> list[Term]:
        """Return what is added up; the columns are known, so ``value`` is not needed."""
        del value
        scaled = [column.scaled.term(column.term) for column in self.columns]
        return [*scaled, *product_terms(scaled)]

    def solve(self, sums: Floats) -> Floats:
        """Return means and covariances; the covariance has no direction below zero."""
        size = len(self.columns)
        means = np.clip(divide(sums), -1.0, 1.0)
        centre, products = means[..., :size], means[..., size:]
        matrix = fill_matrix(products, size) - centre[..., :, None] * centre[..., None, :]
        matrix = lift_matrix(matrix, TINY**2)
        halves = np.array([column.scaled.half for column in self.columns])
        middles = np.array([column.scaled.centre for column in self.columns])
        matrix = matrix * np.outer(halves, halves)
        pairs = np.triu_indices(size)
        return np.concatenate([middles + halves * centre, matrix[..., pairs[0], pairs[1]]], axis=-1)

    def covariance(self, parameters: Floats) -> Floats:
        """Return the covariance of a row's terms if the rows are normal.

        Why: products of four centred normal numbers have the mean c_ik c_jl + c_il c_jk; a product
             of two that are not centred is m_i m_j + m_i d_j + m_j d_i + d_i d_j.
        """
        size = len(self.columns)
        halves = np.array([column.scaled.half for column in self.columns])
        middles = np.array([column.scaled.centre for column in self.columns])
        mean = (parameters[:size] - middles) / halves
        spread = np.zeros((size, size))
        first, second = np.triu_indices(size)
        spread[first, second] = spread[second, first] = parameters[size:]
        spread /= np.outer(halves, halves)
        factor = np.where(first == second, 2.0, 1.0)
        mixed = (mean[first] * spread[:, second] + mean[second] * spread[:, first]) * factor
        outer = np.ix_
        pairs = (
            spread[outer(first, first)] * spread[outer(second, second)]
            + spread[outer(first, second)] * spread[outer(second, first)]
            + np.outer(mean[first], mean[first]) * spread[outer(second, second)]
            + np.outer(mean[first], mean[second]) * spread[outer(second, first)]
            + np.outer(mean[second], mean[first]) * spread[outer(first, second)]
            + np.outer(mean[second], mean[second]) * spread[outer(first, first)]
        ) * np.outer(factor, factor)
        return pad(np.block([[spread, mixed], [mixed.T, pairs]]))


def fill_matrix(products: Floats, size: int) -> Floats:
    """Return means of `product_terms` as symmetric matrices of mean products."""
    first, second = np.triu_indices(size)
    values = np.where(first == second, (products + 1.0) / 2.0, products)
    matrix = np.zeros((*products.shape[:-1], size, size))
    matrix[..., first, second] = values
    matrix[..., second, first] = values
    return matrix


def lift_matrix(matrix: Floats, least: float) -> Floats:
    """Return the nearest symmetric matrices without eigenvalues below ``least``."""
    values, vectors = np.linalg.eigh(matrix)
    lifted: Floats = (vectors * np.maximum(values, least)[..., None, :]) @ np.swapaxes(
        vectors, -1, -2
    )
    return lifted
