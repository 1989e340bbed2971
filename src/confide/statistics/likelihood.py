"""Maximum likelihood from noisy sums, for one column or a multivariate normal distribution.

In exponential families the sums of a few terms are sufficient statistics. So noise is added once,
to the sums, and everything else is computed from them. `families` has the families of one column.
"""

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import combinations_with_replacement
from typing import Annotated, Final

import numpy as np
from numpy.typing import NDArray

from confide.declare import Bool, Float, Int, Table
from confide.errors import UnsupportedQuery
from confide.plan import Plan
from confide.query import Query, TableQuery, Term, canonical, col, count
from confide.statistics.arguments import (
    NAME,
    Argument,
    JsonList,
    TableName,
    Within,
)
from confide.statistics.density import project
from confide.statistics.estimate import (
    ChargedEstimate,
    Estimate,
    EstimateContext,
    Floats,
    charge_and_release,
    make_estimate,
    read_sums,
    release_totals,
)
from confide.statistics.families import (
    FAMILIES,
    FAMILY_NAMES,
    LikelihoodModel,
    divide,
    make_family,
    pad,
)
from confide.statistics.formula import (
    ROWS,
    ClipRange,
    Numbers,
    count_values,
    declared_column,
    number_column,
    plan_sums,
    read_within,
)
from confide.statistics.replicas import move_sums, sample_parts, thin
from confide.statistics.spec import StatisticSpec

__all__ = [
    "EXPONENTIAL_FAMILY",
    "FamilyArguments",
    "MultivariateNormal",
    "estimate_family",
    "fill_matrix",
    "lift_matrix",
    "multiply_terms",
    "release_sums",
    "solve_counts",
    "solve_sums",
]

MIN_SCALE = 1e-6


def multiply_terms(scaled: list[Term], pairs: Iterable[tuple[int, int]]) -> list[Term]:
    """Return the products of these pairs of scaled terms, with 2 z^2 - 1 instead of a square z^2.

    All lie within [-1, 1], so one row changes every sum by at most 1. A plain square would use only
    half of that range, [0, 1], for the same noise.
    """
    return [
        (2.0 * scaled[i] * scaled[i] - 1.0 if i == j else scaled[i] * scaled[j]).clip(-1.0, 1.0)
        for i, j in pairs
    ]


@dataclass(frozen=True, slots=True)
class MultivariateNormal:
    """A multivariate normal distribution of several columns.

    The sums are the count, then those of the scaled columns and of `multiply_terms` for all pairs.
    """

    columns: tuple[Numbers, ...]

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the means, then those of the covariances."""
        names = [column.name for column in self.columns]
        means = [f"mean({name})" for name in names]
        pairs = combinations_with_replacement(names, 2)
        return (*means, *(f"cov({one}, {other})" for one, other in pairs))

    def terms(self) -> list[Term]:
        """Return the terms to sum over the rows, in addition to the count."""
        scaled = [column.scaled.term(column.term) for column in self.columns]
        pairs = combinations_with_replacement(range(len(scaled)), 2)
        return [*scaled, *multiply_terms(scaled, pairs)]

    def solve(self, sums: Floats) -> Floats:
        """Return means and covariances; the covariance matrix is positive definite."""
        size = len(self.columns)
        means = np.clip(divide(sums), -1.0, 1.0)
        center, products = means[..., :size], means[..., size:]
        first, second = np.triu_indices(size)
        products = np.where(first == second, (products + 1.0) / 2.0, products)  # from 2 z^2 - 1
        matrix = fill_matrix(products, size) - center[..., :, None] * center[..., None, :]
        matrix = lift_matrix(matrix, MIN_SCALE**2)
        halves = np.array([column.scaled.half for column in self.columns])
        middles = np.array([column.scaled.center for column in self.columns])
        matrix = matrix * np.outer(halves, halves)
        return np.concatenate([middles + halves * center, matrix[..., first, second]], axis=-1)

    def covariance(self, parameters: Floats) -> Floats:
        """Return the covariance of one row's count and terms if rows are normal.

        Why: write scaled column i as m_i + d_i, with its mean m_i, and let c_ij be the covariance
             of columns i and j. Their product is m_i m_j + m_i d_j + m_j d_i + d_i d_j. The
             covariance of d_i d_j and d_k d_l is c_ik c_jl + c_il c_jk.
        """
        size = len(self.columns)
        halves = np.array([column.scaled.half for column in self.columns])
        middles = np.array([column.scaled.center for column in self.columns])
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
    """Return symmetric matrices from their upper triangles, given row by row."""
    first, second = np.triu_indices(size)
    matrix = np.zeros((*products.shape[:-1], size, size))
    matrix[..., first, second] = products
    matrix[..., second, first] = products
    return matrix


def lift_matrix(matrix: Floats, least: float) -> Floats:
    """Return the nearest symmetric matrices whose eigenvalues are all at least ``least``."""
    if matrix.ndim == 2:
        return _lift(matrix, least)
    # Eigenvalues take far longer than elimination, and few matrices of a stack need them.
    lifted, is_low = matrix.copy(), ~_has_greater_eigenvalues(matrix, least)
    if is_low.any():
        lifted[is_low] = _lift(matrix[is_low], least)
    return lifted


def _lift(matrix: Floats, least: float) -> Floats:
    values, vectors = np.linalg.eigh(matrix)
    lifted: Floats = (vectors * np.maximum(values, least)[..., None, :]) @ np.swapaxes(
        vectors, -1, -2
    )
    return lifted


def _has_greater_eigenvalues(matrices: Floats, least: float) -> NDArray[np.bool_]:
    """Return a mask of the symmetric matrices with all eigenvalues greater than ``least``.

    Why: these are the matrices for which all pivots of Gaussian elimination are positive after
         ``least`` is subtracted from the diagonal. Rounding errors matter only if an eigenvalue is
         nearly ``least``, and then lifting hardly changes the matrix.
    """
    rest = matrices - least * np.eye(matrices.shape[-1])
    found = np.ones(matrices.shape[:-2], dtype=np.bool_)
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(matrices.shape[-1]):
            column, pivot = rest[..., 1:, 0], rest[..., 0, 0]
            found &= pivot > 0.0
            scaled = column / np.where(found, pivot, 1.0)[..., None]
            rest = rest[..., 1:, 1:] - scaled[..., :, None] * column[..., None, :]
    return found


MAX_VALUES: Final = 1_000
"""Maximum number of estimated probabilities; their replicas take a few hundred megabytes."""


@dataclass(frozen=True, slots=True)
class FamilyArguments:
    """The arguments of `exponential_family`."""

    table: TableName
    column: Annotated[
        str | Sequence[str],
        Argument("one column, or several for multivariate-normal", (NAME, JsonList(NAME, 1, 100))),
    ]
    _: KW_ONLY
    family: Annotated[
        str, Argument("a family of distributions, such as normal or poisson", (NAME,))
    ]
    within: Within = None


def estimate_family(context: EstimateContext, arguments: FamilyArguments) -> Estimate:
    """Return the maximum likelihood parameters of a family, with standard errors.

    Law:     parameters solved from a count and sums of terms within [-1, 1], plus the plan's noise.
             For bernoulli and categorical, they are solved from a noisy count of each value.
    Claim:   costs the granted share. For n rows, the error from noise decreases like 1 / n, and the
             sampling error like 1 / sqrt(n). So for many rows the estimate is as accurate as
             without noise.
    Why:     the sums are sufficient statistics of the family. They are one release of totals, and
             the rest is post-processing.
    Source:  [Smi08], [FWS20]; docs/proofs/statistics.md.
    Checked: tests/statistics/test_coverage.py, tests/statistics/test_likelihood.py.
    """
    table, family, given = arguments.table, arguments.family, arguments.column
    columns = [given] if isinstance(given, str) else list(given)
    within = read_within(arguments.within)
    if family not in FAMILIES:
        raise UnsupportedQuery(f"Unknown family {family!r}. Choose one of {FAMILY_NAMES}.")
    if family in ("bernoulli", "categorical"):
        return _estimate_counts(context, table, columns, family)
    if family == "multivariate-normal":
        return _estimate_joint(context, table, columns, within)
    if len(columns) != 1:
        raise UnsupportedQuery(
            f"The family {family!r} needs exactly one column; got {len(columns)}."
        )
    numbers = number_column(context, table, columns[0], within)
    model = make_family(family, numbers.low, numbers.high)
    query = plan_sums(table, [numbers.name], model.terms(numbers.term))
    charged = release_sums(context, family, query)
    sums = read_sums(charged.prepared, charged.noisy["steps"])
    title = f"{family} distribution of {numbers.name}"
    solved, replicas = solve_sums(model, sums.values[0], sums.noise)
    return make_estimate(title, model.parameters, solved, replicas, charged, form="named")


def release_sums(context: EstimateContext, kind: str, query: TableQuery) -> ChargedEstimate[Plan]:
    """Charge for a query and return its noisy totals; ``kind`` names the statistic."""
    read: Query = context.planner.read(query)
    return charge_and_release(
        context,
        {"estimate": kind, "query": canonical(read)},
        lambda share: context.plan(read, share),
        lambda plan, hold: {"steps": release_totals(context.executor, plan, hold)},
    )


def solve_sums(model: LikelihoodModel, sums: Floats, noise: Floats) -> tuple[Floats, Floats]:
    """Return the maximum likelihood parameters, and their replicas, one per row.

    ``sums`` are a count and sums of the model's terms, and ``noise`` is a sample of their noise.
    """
    solved = model.solve(sums)
    covariance = model.covariance(solved) * max(float(sums[0]), 1.0)
    return solved, model.solve(move_sums(sums, noise, covariance))


def _estimate_joint(
    context: EstimateContext, table: str, columns: Sequence[str], within: ClipRange
) -> Estimate:
    if len(set(columns)) < 2 or len(set(columns)) < len(columns):
        raise UnsupportedQuery(
            "The family 'multivariate-normal' needs at least two columns, all different; got "
            f"{len(columns)}, of which {len(set(columns))} are different."
        )
    numbers = [number_column(context, table, name, within) for name in columns]
    model = MultivariateNormal(tuple(numbers))
    query = plan_sums(table, [one.name for one in numbers], model.terms())
    charged = release_sums(context, "multivariate-normal", query)
    sums = read_sums(charged.prepared, charged.noisy["steps"])
    solved, replicas = solve_sums(model, sums.values[0], sums.noise)
    title = f"normal distribution of {', '.join(one.name for one in numbers)}"
    return make_estimate(title, model.parameters, solved, replicas, charged, form="named")


def _estimate_counts(
    context: EstimateContext, table: str, columns: Sequence[str], family: str
) -> Estimate:
    """Return the probabilities of a column's values, from a noisy count of each value."""
    if len(columns) != 1:
        raise UnsupportedQuery(
            f"The family {family!r} needs exactly one column; got {len(columns)}."
        )
    _, name, declared = declared_column(context, table, columns[0])
    is_binary, values = declared in (Bool(), Int(0, 1)), count_values(declared)
    if values is None or (family == "bernoulli" and not is_binary):
        wanted = "Bool or Int(0, 1)" if family == "bernoulli" else "Category, Bool, or Int"
        raise UnsupportedQuery(
            f"The family {family!r} needs a column that is declared as {wanted}; got {name!r}."
        )
    if not 1 <= values <= MAX_VALUES:
        raise UnsupportedQuery(
            f"The family 'categorical' supports 1 to {MAX_VALUES:,} values, and column {name!r} "
            f"can have {values:,}. Count the values with SQL, or declare fewer."
        )
    query = TableQuery(table).where(col(name).not_null()).group_by(name).agg(**{ROWS: count()})
    charged = release_sums(context, family, query)
    sums = read_sums(charged.prepared, charged.noisy["steps"])
    parts, moved = solve_counts(sums.values[:, 0], sums.group_noise()[:, :, 0])
    if family == "bernoulli":
        title = f"probability of {name}"
        return make_estimate(title, ("p",), parts[1:], moved[:, 1:], charged, form="named")
    names = tuple(str(group[0]) for group in sums.groups)
    return make_estimate(f"distribution of {name}", names, parts, moved, charged, form="named")


def solve_counts(counts: Floats, noise: Floats) -> tuple[Floats, Floats]:
    """Return the probabilities nearest to noisy counts, and their replicas.

    ``counts`` has one count per value. ``noise`` has one noise point per row and one value per
    column, and the replicas are arranged in the same way.

    Claim:   the central 95% of replicas cover the probability of a value with approximately 95%
             probability, for any number of values and for values with few rows.
    Why:     let p be a value's true probability. Its noisy count minus p times the noisy number of
             rows has mean zero, because negative counts are included in that number. If they were
             clipped, the noise of many empty values would increase the number of rows and shrink
             all fractions. A replica with noise z is (count + z) / (rows + sum of z), which
             `sample_parts` varies by a sampling error. So a replica is below p as often as noise
             and sampling under p give a larger count than the released one. Therefore quantiles of
             the replicas are the ends of the interval that inverts a test of p. If noise leaves
             less than one row, any probability is possible, and such replicas alternate between 0
             and 1. If there is only one value, its probability is 1 for every count.
    Source:  [Fie54], [Wil27]; docs/proofs/statistics.md.
    Checked: tests/statistics/test_coverage.py, tests/statistics/test_likelihood.py.
    """
    sample = thin(noise)
    if len(counts) == 1:
        return np.ones(1), np.ones_like(sample)
    rows = counts.sum() + sample.sum(axis=1, keepdims=True)
    kept = np.maximum(rows, 1.0)
    unknown = np.arange(len(sample))[:, None] % 2.0
    replicas = np.where(rows < 1.0, unknown, sample_parts((counts + sample) / kept, kept))
    return project(counts / max(float(counts.sum()), 1.0)), replicas


def _audit(table: Table) -> FamilyArguments | None:
    """Return arguments for a normal distribution of the first numeric column."""
    numbers = table.names_of(Int, Float)
    return FamilyArguments(table.name, numbers[0], family="normal") if numbers else None


EXPONENTIAL_FAMILY: Final = StatisticSpec(
    name="exponential_family",
    arguments=FamilyArguments,
    estimate=estimate_family,
    summary="the best-fitting distribution of a family, with standard errors and intervals",
    details=(
        "Families are normal, poisson, exponential, gamma, beta, bernoulli, categorical, and, for "
        "a list of columns, multivariate-normal."
    ),
    audit=_audit,
    trial="a normal distribution",
)
