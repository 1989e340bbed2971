"""Tests that account for the noise: means, proportions, independence.

A test compares what was released with what could be released if there were no difference, where
both the sample and the noise make differences of their own.
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

MOST_CELLS: Final = 400
LEAST: Final = 1e-12
HALVINGS: Final = 40
"""After these the end of an interval is known to a part in 10^10 of a standard error."""


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """How far off a difference may be: by sampling of this deviation, and by this noise."""

    deviation: float
    noise: Floats

    @property
    def both(self) -> float:
        """The deviation of sampling and noise together."""
        return float(np.hypot(self.deviation, self.noise.std()))

    def exceed(self, reach: float) -> float:
        """Return the chance of an error beyond ``reach``, either way.

        Why: the normal part is integrated, the noise averaged over evenly spread points of its law.
        """
        unit = max(self.deviation, LEAST)
        above = special.ndtr((self.noise - reach) / unit)
        below = special.ndtr((-reach - self.noise) / unit)
        return float(min(1.0, (above + below).mean()))


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """The difference of two groups, with its p-value under no difference.

    ``spread`` is that of the difference in a population like the groups found, ``null_spread`` in
    one where the groups do not differ.

    Claim:   without a difference in the population, the p-value is below 0.05 in about 5 % of
             releases, whatever the noise; the interval holds the population's difference with
             about the confidence asked for.
    Why:     the difference is off by sampling, nearly normal with the variance of its two parts,
             and by noise of known law. The p-value is the chance that both together reach as far
             as the difference found. Parts of a whole vary with the part itself: two that are alike
             by the part of both groups together, two that differ each by its own.
    Source:  [FWS20]; docs/proofs/statistics.md.
    Checked: tests/statistics/test_hypotheses.py.
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
        """What the difference is of."""
        return (" - ".join(self.groups),)

    @property
    def numbers(self) -> tuple[float]:
        """The difference alone."""
        return (self.value,)

    @property
    def standard_errors(self) -> tuple[float]:
        """The standard error alone."""
        return (self.standard_error,)

    @property
    def value(self) -> float:
        """The first group's value less the second's."""
        return self.values[0] - self.values[1]

    @property
    def standard_error(self) -> float:
        """The deviation of the difference, over sampling and noise together."""
        return self.spread.both

    @property
    def p_value(self) -> float:
        """The chance of such a difference, either way, if there is none in the population."""
        return self.null_spread.exceed(abs(self.value))

    @refusing
    def interval(self, confidence: Number = 0.95) -> tuple[float, float]:
        """Return an interval for the population's difference."""
        miss = 1.0 - float(probability("confidence", confidence, zero=False))
        low, high = 0.0, 20.0 * max(self.standard_error, LEAST)
        for _ in range(HALVINGS):
            middle = (low + high) / 2.0
            low, high = (middle, high) if self.spread.exceed(middle) > miss else (low, middle)
        return self.value - high, self.value + high

    @refusing
    def intervals(self, confidence: Number = 0.95) -> list[tuple[float, float]]:
        """Return the interval alone."""
        return [self.interval(confidence)]

    def __str__(self) -> str:
        low, high = self.interval()
        first, second = self.groups
        return (
            f"{self.title}, {first} less {second}: {self.value:.5g} [{low:.5g}, {high:.5g}], "
            f"p = {self.p_value:.3g}; cost {self.cost}"
        )

    def __repr__(self) -> str:
        return f"<{self}>"


@dataclass(frozen=True, slots=True, eq=False)
class Independence:
    """Whether two columns have to do with each other: a chi-square test that counts the noise.

    Claim:   for independent columns the p-value is below 0.05 in about 5 % of releases.
    Why:     the statistic is compared with itself on tables that have the margins found, sampled
             and noised anew, so noise makes both larger alike.
    Source:  [GLRV16]; docs/proofs/statistics.md.
    Checked: tests/statistics/test_hypotheses.py.
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
        """The statistic; it has no standard error."""
        return self.statistic

    @property
    def numbers(self) -> tuple[float]:
        """The statistic alone."""
        return (self.statistic,)

    @property
    def standard_errors(self) -> tuple[float]:
        """An infinite standard error, which stands for none."""
        return (math.inf,)

    @refusing
    def interval(self, confidence: Number = 0.95) -> tuple[float, float]:
        """Return an interval without ends: what the statistic is in the population is not known."""
        probability("confidence", confidence, zero=False)
        return -math.inf, math.inf

    @refusing
    def intervals(self, confidence: Number = 0.95) -> list[tuple[float, float]]:
        """Return the interval alone."""
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
    by: Annotated[str, Argument("a column of two groups", (NAME,))]


@dataclass(frozen=True, slots=True)
class IndependenceArguments:
    """The arguments of `independence`."""

    table: TableName
    first: Annotated[str, Argument("a column of few values", (NAME,))]
    second: Annotated[str, Argument("another column of few values", (NAME,))]


def compare_means(asked: EstimateContext, arguments: ComparisonArguments) -> Comparison:
    """Return how the means of a column differ between two groups."""
    table, column, by = arguments.table, arguments.column, arguments.by
    numbers, group = _read_sides(asked, table, column, by)
    law = Normal(numbers.scaled)
    rows = TableQuery(table).where(col(numbers.name).not_null(), col(group).not_null())
    sums = {f"s{i}": total(term) for i, term in enumerate(law.terms(numbers.term))}
    paid = release_sums(asked, "compare means", rows.group_by(group).agg(**{ROWS: count(), **sums}))
    found = read_sums(paid.prepared, paid.noisy["steps"])
    sizes = np.maximum(found.values[:, 0], 1.0)
    solved = law.solve(found.values)
    scaled = (solved[:, 0] - numbers.scaled.center) / numbers.scaled.half
    noise = found.group_noise()
    moved = (noise[:, :, 1] - scaled * noise[:, :, 0]) / sizes * numbers.scaled.half
    spread = _add_spreads(solved[:, 1] ** 2 / sizes, moved)
    return _compare(f"mean of {numbers.name}", found, solved[:, 0], (spread, spread), paid)


def compare_proportions(asked: EstimateContext, arguments: ComparisonArguments) -> Comparison:
    """Return how the part of rows in which a column is true differs between two groups."""
    table, column, by = arguments.table, arguments.column, arguments.by
    numbers, group = _read_sides(asked, table, column, by)
    if not numbers.is_binary:
        raise UnsupportedQuery(f"a proportion is of a Bool or Int(0, 1) column, not {column!r}")
    rows = TableQuery(table).where(col(numbers.name).not_null(), col(group).not_null())
    query = rows.group_by(group, numbers.name).agg(**{ROWS: count()})
    paid = release_sums(asked, "compare proportions", query)
    found = read_sums(paid.prepared, paid.noisy["steps"])
    counts = found.values[:, 0].reshape(2, 2)
    sizes = np.maximum(counts.sum(axis=1), 1.0)
    parts = np.clip(counts[:, 1] / sizes, 0.0, 1.0)
    pooled = counts[:, 1].sum() / sizes.sum()
    noise = found.group_noise()[:, :, 0].reshape(-1, 2, 2)

    def spread_of(each: Floats, rows: Floats) -> Spread:
        # A part that was found to be none, or all, may well be off by a row.
        edge = np.minimum(1.0 / rows, 0.5)
        kept = np.clip(each, edge, 1.0 - edge)
        moved = ((1.0 - kept) * noise[:, :, 1] - kept * noise[:, :, 0]) / sizes
        return _add_spreads(kept * (1.0 - kept) / sizes, moved)

    spreads = spread_of(parts, sizes), spread_of(np.full(2, pooled), np.full(2, sizes.sum()))
    return _compare(f"proportion of {numbers.name}", found, parts, spreads, paid)


def _add_spreads(variances: Floats, moved: Floats) -> Spread:
    """Return the spread of a difference, from variances and moves by noise of both groups."""
    return Spread(float(np.sqrt(variances.sum())), moved[:, 0] - moved[:, 1])


def _read_sides(asked: EstimateContext, table: str, column: str, by: str) -> tuple[Numbers, str]:
    """Return the column that is compared, and the name of the one that makes two groups."""
    numbers = number_column(asked, table, column)
    _, name, declared = declared_column(asked, table, by)
    if count_values(declared) != 2:
        raise UnsupportedQuery(
            "two groups are compared, so by= must be a Bool, or a Category or Int of two values, "
            f"which {by!r} is not; name another column, or declare it so"
        )
    if name == numbers.name:
        raise UnsupportedQuery(f"{name!r} cannot be compared by itself; name another column in by=")
    return numbers, name


def _compare(
    title: str,
    found: NoisySums,
    values: Floats,
    spreads: tuple[Spread, Spread],
    paid: ChargedEstimate[Any],
) -> Comparison:
    names = list(dict.fromkeys(str(group[0]) for group in found.groups))
    return Comparison(
        title,
        (names[0], names[1]),
        (float(values[0]), float(values[1])),
        *spreads,
        paid.cost,
        paid.receipt,
        paid.reused,
    )


def check_independence(asked: EstimateContext, arguments: IndependenceArguments) -> Independence:
    """Return whether two columns of few values are independent of each other."""
    table, columns = arguments.table, (arguments.first, arguments.second)
    read = [_read_values(asked, table, column) for column in columns]
    names, shape = [name for name, _ in read], (read[0][1], read[1][1])
    if names[0] == names[1]:
        raise UnsupportedQuery("independence is of two different columns")
    if min(shape) < 2 or shape[0] * shape[1] > MOST_CELLS:
        raise UnsupportedQuery(f"a table has at least 2 x 2 and at most {MOST_CELLS} cells")
    rows = TableQuery(table).where(*(col(name).not_null() for name in names))
    paid = release_sums(asked, "independence", rows.group_by(*names).agg(**{ROWS: count()}))
    sums = read_sums(paid.prepared, paid.noisy["steps"])
    counts = sums.values[:, 0].reshape(shape)
    statistic = float(_chi_square(counts))
    replicas = _chi_square(_null_tables(counts, sums.group_noise()[:, :, 0]))
    beyond = float((1 + np.count_nonzero(replicas >= statistic)) / (len(replicas) + 1))
    title = f"independence of {names[0]} and {names[1]}"
    return Independence(title, statistic, beyond, counts, paid.cost, paid.receipt, paid.reused)


def _read_values(asked: EstimateContext, table: str, column: str) -> tuple[str, int]:
    """Return a column of few values, and how many they are."""
    _, name, declared = declared_column(asked, table, column)
    values = count_values(declared)
    if values is None:
        raise UnsupportedQuery(
            f"independence is of Category, Bool or short Int columns, not {name!r}"
        )
    return name, values


def _margins(counts: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the size of tables, and the parts of their rows and columns."""
    down = np.maximum(counts.sum(axis=-1), 0.5)
    across = np.maximum(counts.sum(axis=-2), 0.5)
    size = np.maximum(counts.sum(axis=(-1, -2)), 1.0)
    return (
        size,
        down / down.sum(axis=-1, keepdims=True),
        across / across.sum(axis=-1, keepdims=True),
    )


def _chi_square(counts: Floats) -> Floats:
    size, down, across = _margins(counts)
    expected = size[..., None, None] * down[..., :, None] * across[..., None, :]
    expected = np.maximum(expected, 1.0)
    return np.asarray(((counts - expected) ** 2 / expected).sum(axis=(-1, -2)))


def _null_tables(counts: Floats, noise: Floats) -> Floats:
    """Return tables of independent columns with these margins, sampled and noised."""
    size, down, across = _margins(counts)
    parts = np.outer(down, across).ravel()
    sampled = sample_counts(parts, float(size))
    tables: Floats = (float(size) * parts + sampled + thin(noise)).reshape(-1, *counts.shape)
    return tables


def _audit_means(table: Table) -> ComparisonArguments | None:
    """Return the first column of numbers, by the first column of flags."""
    numbers, flags = table.names_of(Int, Float), table.names_of(Bool)
    if not numbers or not flags:
        return None
    return ComparisonArguments(table.name, numbers[0], by=flags[0])


def _audit_proportions(table: Table) -> ComparisonArguments | None:
    """Return the last column of flags, by the first."""
    flags = table.names_of(Bool)
    return ComparisonArguments(table.name, flags[-1], by=flags[0]) if flags else None


def _audit_independence(table: Table) -> IndependenceArguments | None:
    """Return the first and the last column of flags."""
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
    summary="the difference in how often a column is true in two groups, with a p-value",
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
