"""Hypothesis tests that account for the noise: means, proportions, independence.

A test compares the released statistic with its distribution under the null hypothesis. That
distribution includes both sampling error and noise.
"""

import math
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

import numpy as np

from confide.declare import Bool, Float, Int, Table
from confide.errors import UnsupportedQuery, refusing
from confide.exact import Number, probability
from confide.lazy import lazy_module
from confide.ledger import Receipt
from confide.query import TableQuery, col, count
from confide.query import sum as total
from confide.release import Cost
from confide.statistics.arguments import NAME, Argument, ColumnName, TableName
from confide.statistics.estimate import (
    ChargedEstimate,
    EstimateContext,
    Floats,
    Form,
    NoisySums,
    read_sums,
)
from confide.statistics.families import Normal
from confide.statistics.formula import (
    ROWS,
    Numbers,
    count_values,
    declared_column,
    number_column,
)
from confide.statistics.likelihood import release_sums
from confide.statistics.replicas import sample_counts, thin
from confide.statistics.spec import StatisticSpec

if TYPE_CHECKING:
    from scipy import special
else:
    special = lazy_module("scipy.special")

__all__ = [
    "COMPARE_MEANS",
    "COMPARE_PROPORTIONS",
    "INDEPENDENCE",
    "Comparison",
    "ComparisonArguments",
    "Independence",
    "IndependenceArguments",
    "check_independence",
    "compare_means",
    "compare_proportions",
]

MAX_CELLS: Final = 400
MIN_DEVIATION: Final = 1e-12
HALVINGS: Final = 40
"""Bisection steps, which locate the end of an interval to within 1e-10 standard errors."""


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """The distribution of the error of a difference.

    ``deviation`` is the standard deviation of the sampling error, and ``noise`` a sample of the
    noise.
    """

    deviation: float
    noise: Floats

    @property
    def total_deviation(self) -> float:
        """The standard deviation of sampling and noise combined."""
        return float(np.hypot(self.deviation, self.noise.std()))

    def tail_probability(self, size: float) -> float:
        """Return the probability that the absolute error exceeds ``size``.

        Why: the sampling error is normal, so its part is exact for each point of the noise. These
             points are evenly spread over the distribution of the noise, so their mean is the
             probability.
        """
        unit = max(self.deviation, MIN_DEVIATION)
        above = special.ndtr((self.noise - size) / unit)
        below = special.ndtr((-size - self.noise) / unit)
        return float(min(1.0, (above + below).mean()))


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """The difference between two groups, with its p-value under the null hypothesis.

    ``spread`` is the error of the difference if the population is like the observed groups. For
    proportions, ``null_spread`` is the error if the two groups do not differ; for means, it is the
    same as ``spread``.

    Claim:   without a difference in the population, the p-value is below 0.05 in about 5% of
             releases, whatever the noise; the interval covers the population difference with
             about the requested confidence.
    Why:     the error of the difference is a sampling error, nearly normal with the sum of the two
             groups' variances, plus noise of known distribution. The p-value is the probability
             that both together reach the observed difference. The variance of a proportion depends
             on the proportion. The null hypothesis uses the proportion of both groups together, and
             the interval uses the proportion of each group.
    Source:  [FWS20]; docs/proofs/statistics.md.
    Checked: tests/statistics/test_hypothesis_tests.py.
    """

    title: str
    groups: tuple[str, str]
    values: tuple[float, float]
    spread: Spread
    null_spread: Spread
    cost: Cost
    receipt: Receipt
    reused: bool
    form: ClassVar[Form] = "one"
    edges: ClassVar[None] = None

    @property
    def names(self) -> tuple[str]:
        """The name of the difference."""
        return (" - ".join(self.groups),)

    @property
    def numbers(self) -> tuple[float]:
        """The difference, as a tuple."""
        return (self.value,)

    @property
    def standard_errors(self) -> tuple[float]:
        """The standard error, as a tuple."""
        return (self.standard_error,)

    @property
    def value(self) -> float:
        """The first group's value minus the second's."""
        return self.values[0] - self.values[1]

    @property
    def standard_error(self) -> float:
        """The standard error of the difference, from sampling and noise combined."""
        return self.spread.total_deviation

    @property
    def p_value(self) -> float:
        """The probability of a difference at least this large if the population has none."""
        return self.null_spread.tail_probability(abs(self.value))

    @refusing
    def interval(self, confidence: Number = 0.95) -> tuple[float, float]:
        """Return a confidence interval for the population difference."""
        miss = 1.0 - float(probability("confidence", confidence, zero=False))
        low, high = 0.0, 20.0 * max(self.standard_error, MIN_DEVIATION)
        for _ in range(HALVINGS):
            middle = (low + high) / 2.0
            low, high = (
                (middle, high) if self.spread.tail_probability(middle) > miss else (low, middle)
            )
        return self.value - high, self.value + high

    @refusing
    def intervals(self, confidence: Number = 0.95) -> list[tuple[float, float]]:
        """Return the interval, as a list."""
        return [self.interval(confidence)]

    def __str__(self) -> str:
        low, high = self.interval()
        first, second = self.groups
        return (
            f"{self.title}, {first} minus {second}: {self.value:.5g} [{low:.5g}, {high:.5g}], "
            f"p = {self.p_value:.3g}; cost {self.cost}"
        )

    def __repr__(self) -> str:
        return f"<{self}>"


@dataclass(frozen=True, slots=True, eq=False)
class Independence:
    """A chi-square test of independence that accounts for the noise.

    Claim:   for independent columns, the p-value is below 0.05 in about 5% of releases.
    Why:     the statistic is compared with its values on resampled tables of independent columns
             with the observed margins and fresh noise. The noise increases the statistic as much as
             these values.
    Source:  [GLRV16]; docs/proofs/statistics.md.
    Checked: tests/statistics/test_hypothesis_tests.py.
    """

    title: str
    statistic: float
    p_value: float
    counts: Floats
    cost: Cost
    receipt: Receipt
    reused: bool
    names: ClassVar[tuple[str]] = ("chi_square",)
    form: ClassVar[Form] = "one"
    edges: ClassVar[None] = None
    standard_error: ClassVar[None] = None

    @property
    def value(self) -> float:
        """The chi-square statistic, which has no standard error."""
        return self.statistic

    @property
    def numbers(self) -> tuple[float]:
        """The statistic, as a tuple."""
        return (self.statistic,)

    @property
    def standard_errors(self) -> tuple[float]:
        """An infinite standard error, because the statistic has none."""
        return (math.inf,)

    @refusing
    def interval(self, confidence: Number = 0.95) -> tuple[float, float]:
        """Return an unbounded interval, because the statistic has no population value."""
        probability("confidence", confidence, zero=False)
        return -math.inf, math.inf

    @refusing
    def intervals(self, confidence: Number = 0.95) -> list[tuple[float, float]]:
        """Return the interval, as a list."""
        return [self.interval(confidence)]

    def __str__(self) -> str:
        found = f"statistic {self.statistic:.4g}, p = {self.p_value:.3g}"
        return f"{self.title}: {found}; cost {self.cost}"

    def __repr__(self) -> str:
        return f"<{self}>"


@dataclass(frozen=True, slots=True)
class ComparisonArguments:
    """The arguments of `compare_means` and `compare_proportions`."""

    table: TableName
    column: ColumnName
    _: KW_ONLY
    by: Annotated[str, Argument("a column with two values, which define the groups", (NAME,))]


@dataclass(frozen=True, slots=True)
class IndependenceArguments:
    """The arguments of `independence`."""

    table: TableName
    first: Annotated[str, Argument("a column with few values", (NAME,))]
    second: Annotated[str, Argument("another column with few values", (NAME,))]


def compare_means(context: EstimateContext, arguments: ComparisonArguments) -> Comparison:
    """Return the difference between the means of a column in two groups.

    The released sums of each group are the count, then those of `Normal.terms`.
    """
    table, column, by = arguments.table, arguments.column, arguments.by
    numbers, group = _read_columns(context, table, column, by)
    model = Normal(numbers.scaled)
    rows = TableQuery(table).where(col(numbers.name).not_null(), col(group).not_null())
    sums = {f"s{i}": total(term) for i, term in enumerate(model.terms(numbers.term))}
    charged = release_sums(
        context, "compare means", rows.group_by(group).agg(**{ROWS: count(), **sums})
    )
    found = read_sums(charged.prepared, charged.noisy["steps"])
    sizes = np.maximum(found.values[:, 0], 1.0)
    solved = model.solve(found.values)
    scaled = (solved[:, 0] - numbers.scaled.center) / numbers.scaled.half
    noise = found.group_noise()
    # To first order, noise (a, b) in a group's count n and sum changes the mean m by (b - m a) / n.
    errors = (noise[:, :, 1] - scaled * noise[:, :, 0]) / sizes * numbers.scaled.half
    spread = _subtract_errors(solved[:, 1] ** 2 / sizes, errors)
    return _make_comparison(
        f"mean of {numbers.name}", found, solved[:, 0], (spread, spread), charged
    )


def compare_proportions(context: EstimateContext, arguments: ComparisonArguments) -> Comparison:
    """Return the difference between the proportions of true values in two groups."""
    table, column, by = arguments.table, arguments.column, arguments.by
    numbers, group = _read_columns(context, table, column, by)
    if not numbers.is_binary:
        raise UnsupportedQuery(
            f"A proportion needs a column that is declared as Bool or Int(0, 1); got {column!r}."
        )
    rows = TableQuery(table).where(col(numbers.name).not_null(), col(group).not_null())
    query = rows.group_by(group, numbers.name).agg(**{ROWS: count()})
    charged = release_sums(context, "compare proportions", query)
    found = read_sums(charged.prepared, charged.noisy["steps"])
    counts = found.values[:, 0].reshape(2, 2)
    sizes = np.maximum(counts.sum(axis=1), 1.0)
    parts = np.clip(counts[:, 1] / sizes, 0.0, 1.0)
    pooled = counts[:, 1].sum() / sizes.sum()
    noise = found.group_noise()[:, :, 0].reshape(-1, 2, 2)

    def error_at(proportions: Floats, rows: Floats) -> Spread:
        """Return the error if the groups have these proportions, estimated from ``rows`` rows."""
        # Without at least one row of each value, the variance would be 0.
        edge = np.minimum(1.0 / rows, 0.5)
        inner = np.clip(proportions, edge, 1.0 - edge)
        errors = ((1.0 - inner) * noise[:, :, 1] - inner * noise[:, :, 0]) / sizes
        return _subtract_errors(inner * (1.0 - inner) / sizes, errors)

    spreads = error_at(parts, sizes), error_at(np.full(2, pooled), np.full(2, sizes.sum()))
    return _make_comparison(f"proportion of {numbers.name}", found, parts, spreads, charged)


def _subtract_errors(variances: Floats, errors: Floats) -> Spread:
    """Return the error of the difference between two groups.

    ``variances`` has the sampling variance of each group. ``errors`` has one row per noise point,
    and the resulting error of each group as a column.
    """
    return Spread(float(np.sqrt(variances.sum())), errors[:, 0] - errors[:, 1])


def _read_columns(
    context: EstimateContext, table: str, column: str, by: str
) -> tuple[Numbers, str]:
    """Return the compared column, and the name of the column ``by`` that defines the groups."""
    numbers = number_column(context, table, column)
    _, name, declared = declared_column(context, table, by)
    if count_values(declared) != 2:
        raise UnsupportedQuery(
            "Two groups are compared, so `by=` must be a Bool column, or a Category or Int column "
            f"with two values; got {by!r}."
        )
    if name == numbers.name:
        raise UnsupportedQuery(
            f"Column {name!r} cannot be compared by itself. Pass another column as `by=`."
        )
    return numbers, name


def _make_comparison(
    title: str,
    found: NoisySums,
    values: Floats,
    spreads: tuple[Spread, Spread],
    charged: ChargedEstimate[Any],
) -> Comparison:
    names = list(dict.fromkeys(str(group[0]) for group in found.groups))
    return Comparison(
        title,
        (names[0], names[1]),
        (float(values[0]), float(values[1])),
        *spreads,
        charged.cost,
        charged.receipt,
        charged.reused,
    )


def check_independence(context: EstimateContext, arguments: IndependenceArguments) -> Independence:
    """Return a test of whether two columns with few values are independent."""
    table, columns = arguments.table, (arguments.first, arguments.second)
    read = [_read_values(context, table, column) for column in columns]
    names, shape = [name for name, _ in read], (read[0][1], read[1][1])
    if names[0] == names[1]:
        raise UnsupportedQuery(
            f"A test of independence needs two different columns; got {names[0]!r} twice."
        )
    if min(shape) < 2 or shape[0] * shape[1] > MAX_CELLS:
        raise UnsupportedQuery(
            f"A test of independence needs at least 2 x 2 and at most {MAX_CELLS} cells; got "
            f"{shape[0]} x {shape[1]}."
        )
    rows = TableQuery(table).where(*(col(name).not_null() for name in names))
    charged = release_sums(context, "independence", rows.group_by(*names).agg(**{ROWS: count()}))
    sums = read_sums(charged.prepared, charged.noisy["steps"])
    counts = sums.values[:, 0].reshape(shape)
    statistic = float(_chi_square(counts))
    replicas = _chi_square(_null_tables(counts, sums.group_noise()[:, :, 0]))
    beyond = float((1 + np.count_nonzero(replicas >= statistic)) / (len(replicas) + 1))
    title = f"independence of {names[0]} and {names[1]}"
    return Independence(
        title, statistic, beyond, counts, charged.cost, charged.receipt, charged.reused
    )


def _read_values(context: EstimateContext, table: str, column: str) -> tuple[str, int]:
    """Return the name of a column with few values, and the number of values."""
    _, name, declared = declared_column(context, table, column)
    values = count_values(declared)
    if values is None:
        raise UnsupportedQuery(
            "A test of independence needs columns that are declared as Category, Bool, or Int; got "
            f"{name!r}."
        )
    return name, values


def _margins(counts: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the totals of tables of counts, and the proportions of their rows and columns.

    The last two axes of ``counts`` are those of a table.
    """
    rows = np.maximum(counts.sum(axis=-1), 0.5)
    columns = np.maximum(counts.sum(axis=-2), 0.5)
    total_count = np.maximum(counts.sum(axis=(-1, -2)), 1.0)
    return (
        total_count,
        rows / rows.sum(axis=-1, keepdims=True),
        columns / columns.sum(axis=-1, keepdims=True),
    )


def _chi_square(counts: Floats) -> Floats:
    """Return the chi-square statistic of each table, with expected counts of at least 1."""
    size, rows, columns = _margins(counts)
    expected = size[..., None, None] * rows[..., :, None] * columns[..., None, :]
    expected = np.maximum(expected, 1.0)
    return np.asarray(((counts - expected) ** 2 / expected).sum(axis=(-1, -2)))


def _null_tables(counts: Floats, noise: Floats) -> Floats:
    """Return noisy samples of tables whose two columns are independent, with observed margins.

    ``noise`` has one noise point per row and one cell per column. The result has one table per
    noise point, with the cells arranged like ``counts``.
    """
    size, rows, columns = _margins(counts)
    parts = np.outer(rows, columns).ravel()
    sampled = sample_counts(parts, float(size))
    tables: Floats = (float(size) * parts + sampled + thin(noise)).reshape(-1, *counts.shape)
    return tables


def _audit_means(table: Table) -> ComparisonArguments | None:
    """Return arguments that compare the first numeric column by the first Boolean column."""
    numbers, flags = table.names_of(Int, Float), table.names_of(Bool)
    if not numbers or not flags:
        return None
    return ComparisonArguments(table.name, numbers[0], by=flags[0])


def _audit_proportions(table: Table) -> ComparisonArguments | None:
    """Return arguments that compare the last Boolean column by the first."""
    flags = table.names_of(Bool)
    return ComparisonArguments(table.name, flags[-1], by=flags[0]) if flags else None


def _audit_independence(table: Table) -> IndependenceArguments | None:
    """Return arguments with the first and last Boolean columns."""
    flags = table.names_of(Bool)
    return IndependenceArguments(table.name, flags[0], flags[-1]) if flags else None


COMPARE_MEANS: Final = StatisticSpec(
    name="compare_means",
    arguments=ComparisonArguments,
    estimate=compare_means,
    summary="the difference between a column's means in two groups, with a p-value",
    audit=_audit_means,
    trial="of two groups",
)
COMPARE_PROPORTIONS: Final = StatisticSpec(
    name="compare_proportions",
    arguments=ComparisonArguments,
    estimate=compare_proportions,
    summary="the difference between two groups' proportions of true values, with a p-value",
    audit=_audit_proportions,
    trial="of two groups",
)
INDEPENDENCE: Final = StatisticSpec(
    name="independence",
    arguments=IndependenceArguments,
    estimate=check_independence,
    summary="a chi-square test of whether two columns are independent, with a p-value",
    audit=_audit_independence,
    trial="of two columns",
)
