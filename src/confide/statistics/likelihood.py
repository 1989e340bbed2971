"""Maximum likelihood from noisy sums, of one column or a multivariate normal.

For these families the sums of a few terms say all that the rows say about the parameters, so noise
on the sums is noise once, whatever is computed from them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import combinations_with_replacement
from typing import Annotated, Final

import numpy as np

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
    FAMILY_LIST,
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


MOST_VALUES: Final = 1_000
"""Replicas of so many probabilities take a few hundred megabytes."""


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


def estimate_family(asked: EstimateContext, arguments: FamilyArguments) -> Estimate:
    """Return the parameters under which the rows are likeliest, with standard errors.

    Law:     parameters solved from a count and sums of terms within [-1, 1], plus the plan's noise.
    Claim:   costs what was granted. The error that the noise adds falls like 1 / n, that of the
             sample like 1 / sqrt(n): for many rows the estimate is as good as without noise.
    Why:     the sums are sufficient for the family, a release of totals through the plan, and the
             rest is post-processing.
    Source:  [Smi08], [FWS20]; docs/proofs/statistics.md.
    Checked: tests/statistics/test_coverage.py, tests/statistics/test_likelihood.py.
    """
    table, family, given = arguments.table, arguments.family, arguments.column
    columns = [given] if isinstance(given, str) else list(given)
    within = read_within(arguments.within)
    if family not in FAMILIES:
        raise UnsupportedQuery(f"there is no family {family!r}; {FAMILY_LIST}")
    if family in ("bernoulli", "categorical"):
        return _estimate_counts(asked, table, columns, family)
    if family == "multivariate-normal":
        return _estimate_joint(asked, table, columns, within)
    if len(columns) != 1:
        raise UnsupportedQuery(f"a {family} law is of one column, got {len(columns)}")
    numbers = number_column(asked, table, columns[0], within)
    law = make_family(family, numbers.low, numbers.high)
    query = plan_sums(table, [numbers.name], law.terms(numbers.term))
    paid = release_sums(asked, family, query)
    sums = read_sums(paid.prepared, paid.noisy["steps"])
    title = f"{family} law of {numbers.name}"
    solved, replicas = solve_sums(law, sums.values[0], sums.noise)
    return make_estimate(title, law.parameters, solved, replicas, paid, form="named")


def release_sums(asked: EstimateContext, kind: str, query: TableQuery) -> ChargedEstimate[Plan]:
    """Return the noisy totals of one question, paid for."""
    read: Query = asked.planner.read(query)
    return charge_and_release(
        asked,
        {"estimate": kind, "query": canonical(read)},
        lambda share: asked.plan(read, share),
        lambda plan, hold: {"steps": release_totals(asked.executor, plan, hold)},
    )


def solve_sums(law: LikelihoodModel, sums: Floats, noise: Floats) -> tuple[Floats, Floats]:
    """Return the likeliest parameters, and what they could as well have been."""
    solved = law.solve(sums)
    covariance = law.covariance(solved) * max(float(sums[0]), 1.0)
    return solved, law.solve(move_sums(sums, noise, covariance))


def _estimate_joint(
    asked: EstimateContext, table: str, columns: Sequence[str], within: ClipRange
) -> Estimate:
    if len(set(columns)) < 2 or len(set(columns)) < len(columns):
        raise UnsupportedQuery("a multivariate normal law is of two or more different columns")
    numbers = [number_column(asked, table, name, within) for name in columns]
    law = MultivariateNormal(tuple(numbers))
    query = plan_sums(table, [one.name for one in numbers], law.terms())
    paid = release_sums(asked, "multivariate-normal", query)
    sums = read_sums(paid.prepared, paid.noisy["steps"])
    solved, replicas = solve_sums(law, sums.values[0], sums.noise)
    title = f"normal law of {', '.join(one.name for one in numbers)}"
    return make_estimate(title, law.parameters, solved, replicas, paid, form="named")


def _estimate_counts(
    asked: EstimateContext, table: str, columns: Sequence[str], family: str
) -> Estimate:
    """Return the probability of each value, from a noisy count for each."""
    if len(columns) != 1:
        raise UnsupportedQuery(f"a {family} law is of one column, got {len(columns)}")
    _, name, declared = declared_column(asked, table, columns[0])
    is_binary, values = declared in (Bool(), Int(0, 1)), count_values(declared)
    if values is None or (family == "bernoulli" and not is_binary):
        wanted = "Bool or Int(0, 1)" if family == "bernoulli" else "Category, Bool or a short Int"
        raise UnsupportedQuery(f"a {family} law needs a column declared as {wanted}")
    if not 1 <= values <= MOST_VALUES:
        raise UnsupportedQuery(
            f"a categorical law is of 1 to {MOST_VALUES:,} values, and column {name!r} may have "
            f"{values:,}; ask for counts by SQL, or declare fewer"
        )
    query = TableQuery(table).where(col(name).not_null()).group_by(name).agg(**{ROWS: count()})
    paid = release_sums(asked, family, query)
    sums = read_sums(paid.prepared, paid.noisy["steps"])
    parts, moved = solve_counts(sums.values[:, 0], sums.group_noise()[:, :, 0])
    if family == "bernoulli":
        title = f"probability of {name}"
        return make_estimate(title, ("p",), parts[1:], moved[:, 1:], paid, form="named")
    names = tuple(str(group[0]) for group in sums.groups)
    return make_estimate(f"law of {name}", names, parts, moved, paid, form="named")


def solve_counts(counts: Floats, noise: Floats) -> tuple[Floats, Floats]:
    """Return the parts of a whole nearest to noisy counts, and what they could as well have been.

    Claim:   the middle 95 % of replicas hold the probability of a value with about 95 %, however
             many values there are and however few rows one of them has.
    Why:     a noisy count less p times the noisy number of rows has mean zero under p, as counts
             below zero stay in that number: cut off, the noise of many empty values would add to
             the whole and shrink all parts alike. With noise z moved as it may have been, the part
             found is (count + z) / (rows + sum of z), and `sample_parts` moves it as sampling may
             have. So a replica is below p as often as noise and sampling under p make the count
             larger than it is: quantiles of replicas are the ends of a test of p. In a move that
             leaves less than one row nothing is known: every other such replica is 0, and 1.
             Where there is one value alone, its part is 1 whatever was counted.
    Source:  [Fie54], [Wil27]; docs/proofs/statistics.md.
    Checked: tests/statistics/test_coverage.py, tests/statistics/test_likelihood.py.
    """
    moves = thin(noise)
    if len(counts) == 1:
        return np.ones(1), np.ones_like(moves)
    rows = counts.sum() + moves.sum(axis=1, keepdims=True)
    kept = np.maximum(rows, 1.0)
    unknown = np.arange(len(moves))[:, None] % 2.0
    replicas = np.where(rows < 1.0, unknown, sample_parts((counts + moves) / kept, kept))
    return project(counts / max(float(counts.sum()), 1.0)), replicas


def _audit(table: Table) -> FamilyArguments | None:
    """Return a normal distribution of the first column of numbers."""
    numbers = table.names_of(Int, Float)
    return FamilyArguments(table.name, numbers[0], family="normal") if numbers else None


EXPONENTIAL_FAMILY: Final = StatisticSpec(
    name="exponential_family",
    arguments=FamilyArguments,
    estimate=estimate_family,
    summary="the distribution of a family that fits best, with standard errors and intervals",
    details=(
        "Families are normal, poisson, exponential, gamma, beta, bernoulli, categorical and, for a "
        "list of columns, multivariate-normal."
    ),
    audit=_audit,
    trial="a normal law",
)
