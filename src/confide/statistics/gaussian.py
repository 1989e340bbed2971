"""The normal law of several columns at once: means and covariances."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np

from confide.query import Term
from confide.statistics.columns import Numbers
from confide.statistics.families import divide, pad
from confide.statistics.reading import Floats

__all__ = ["MultivariateNormal", "fill_matrix", "lift_matrix", "multiply_terms"]

TINY = 1e-6


def multiply_terms(scaled: list[Term], pairs: Iterable[tuple[int, int]]) -> list[Term]:
    """Return the products of these pairs of scaled terms, and 2 z^2 - 1 of one with itself.

    All lie within [-1, 1], so one row moves every sum by at most 1; a square as it is would lie
    within [0, 1], and have twice the noise that it needs.
    """
    return [
        (2.0 * scaled[i] * scaled[i] - 1.0 if i == j else scaled[i] * scaled[j]).clip(-1.0, 1.0)
        for i, j in pairs
    ]


@dataclass(frozen=True, slots=True)
class MultivariateNormal:
    """Means and covariances of several columns.

    Sums are those of the scaled columns and of their products; see `multiply_terms`.
    """

    columns: tuple[Numbers, ...]

    @property
    def parameters(self) -> tuple[str, ...]:
        names = [column.name for column in self.columns]
        means = [f"mean({name})" for name in names]
        pairs = combinations_with_replacement(names, 2)
        return (*means, *(f"cov({one}, {other})" for one, other in pairs))

    def terms(self) -> list[Term]:
        """Return what is added up over the rows, besides their number."""
        scaled = [column.scaled.term(column.term) for column in self.columns]
        pairs = combinations_with_replacement(range(len(scaled)), 2)
        return [*scaled, *multiply_terms(scaled, pairs)]

    def solve(self, sums: Floats) -> Floats:
        """Return means and covariances; the covariance has no direction below zero."""
        size = len(self.columns)
        means = np.clip(divide(sums), -1.0, 1.0)
        centre, products = means[..., :size], means[..., size:]
        first, second = np.triu_indices(size)
        products = np.where(first == second, (products + 1.0) / 2.0, products)  # of 2 z^2 - 1
        matrix = fill_matrix(products, size) - centre[..., :, None] * centre[..., None, :]
        matrix = lift_matrix(matrix, TINY**2)
        halves = np.array([column.scaled.half for column in self.columns])
        middles = np.array([column.scaled.centre for column in self.columns])
        matrix = matrix * np.outer(halves, halves)
        return np.concatenate([middles + halves * centre, matrix[..., first, second]], axis=-1)

    def covariance(self, parameters: Floats) -> Floats:
        """Return the covariance of a row's terms if the rows are normal.

        Why: products of four centred normal numbers have the mean c_ik c_jl + c_il c_jk; a product
             of two that are not centred is m_i m_j + m_i d_j + m_j d_i + d_i d_j.
        """
        size = len(self.columns)
        halves = np.array([column.scaled.half for column in self.columns])
        middles = np.array([column.scaled.centre for column in self.columns])
        mean = (parameters[:size] - middles) / halves
        first, second = np.triu_indices(size)
        spread = fill_matrix(parameters[size:], size) / np.outer(halves, halves)
        factor = np.where(first == second, 2.0, 1.0)
        mixed = (mean[first] * spread[:, second] + mean[second] * spread[:, first]) * factor
        pairs = (
            spread[np.ix_(first, first)] * spread[np.ix_(second, second)]
            + spread[np.ix_(first, second)] * spread[np.ix_(second, first)]
            + np.outer(mean[first], mean[first]) * spread[np.ix_(second, second)]
            + np.outer(mean[first], mean[second]) * spread[np.ix_(second, first)]
            + np.outer(mean[second], mean[first]) * spread[np.ix_(first, second)]
            + np.outer(mean[second], mean[second]) * spread[np.ix_(first, first)]
        ) * np.outer(factor, factor)
        return pad(np.block([[spread, mixed], [mixed.T, pairs]]))


def fill_matrix(products: Floats, size: int) -> Floats:
    """Return symmetric matrices from their rows, each from the diagonal on, one after the other."""
    first, second = np.triu_indices(size)
    matrix = np.zeros((*products.shape[:-1], size, size))
    matrix[..., first, second] = products
    matrix[..., second, first] = products
    return matrix


def lift_matrix(matrix: Floats, least: float) -> Floats:
    """Return the nearest symmetric matrices without eigenvalues below ``least``."""
    values, vectors = np.linalg.eigh(matrix)
    lifted: Floats = (vectors * np.maximum(values, least)[..., None, :]) @ np.swapaxes(
        vectors, -1, -2
    )
    return lifted
