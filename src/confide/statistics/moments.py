"""Mean, variance and covariance."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import Annotated, Any, Final

import numpy as np

from confide.declare import Float, Int, Table
from confide.errors import BadDeclaration, UnsupportedQuery
from confide.ledger import Hold
from confide.loss import Share
from confide.plan import Plan
from confide.plan.quantiles import plan_quantile_tree
from confide.query import Query, TableQuery, Term, canonical, col, count, quantile
from confide.release.quantiles import choose_quantiles
from confide.statistics.arguments import (
    NAME,
    PRIVATE,
    Argument,
    Bounds,
    ColumnName,
    JsonList,
    TableName,
)
from confide.statistics.estimate import (
    ChargedEstimate,
    Estimate,
    EstimateContext,
    Floats,
    charge_and_release,
    make_estimate,
    read_sums,
    release_totals,
    split_share,
)
from confide.statistics.families import Normal, Scaled, divide, pad
from confide.statistics.formula import ClipRange, Numbers, number_column, plan_sums, read_within
from confide.statistics.likelihood import MultivariateNormal, solve_sums
from confide.statistics.replicas import move_sums
from confide.statistics.spec import StatisticSpec

__all__ = [
    "COVARIANCE",
    "MEAN",
    "VARIANCE",
    "CovarianceArguments",
    "MeanEstimator",
    "MomentArguments",
    "VarianceEstimator",
    "estimate_covariance",
    "estimate_mean",
    "estimate_variance",
]

BOUNDS_PART: Final = Fraction(1, 3)
COUNT_PART: Final = Fraction(1, 5)
TAILS: Final = (Fraction(1, 10), Fraction(9, 10))

Window = tuple[float, float]


@dataclass(frozen=True, slots=True)
class MomentArguments:
    """The arguments of `mean` and `variance`."""

    table: TableName
    column: ColumnName
    _: KW_ONLY
    bounds: Bounds = None


@dataclass(frozen=True, slots=True)
class CovarianceArguments:
    """The arguments of `covariance`."""

    table: TableName
    columns: Annotated[Sequence[str], Argument("two or more columns", (JsonList(NAME, 1, 100),))]
    _: KW_ONLY
    bounds: Bounds = None


@dataclass(frozen=True, slots=True)
class MeanEstimator:
    """The mean of any law, from the sums of z and 2 z^2 - 1.

    A mean varies from sample to sample by the variance of the rows, whatever their law: that of a
    normal one with the same variance does.
    """

    x: Scaled

    def terms(self, value: Term) -> list[Term]:
        """Return the scaled value and its square; both from -1 to 1."""
        return Normal(self.x).terms(value)

    def estimate(self, sums: Floats, noise: Floats) -> tuple[Floats, Floats]:
        """Return the mean and the deviation, and what they could as well have been."""
        return solve_sums(Normal(self.x), sums, noise)


@dataclass(frozen=True, slots=True)
class VarianceEstimator:
    """The variance of any law, from the sums of z, 2 z^2 - 1, z^3 and 2 z^4 - 1.

    Third and fourth powers say how much a variance varies from sample to sample.
    """

    x: Scaled

    def terms(self, value: Term) -> list[Term]:
        """Return powers of the scaled value; even ones from -1 to 1 like the others."""
        z = self.x.term(value)
        square = (z * z).clip(0.0, 1.0)
        even = [(2.0 * square - 1.0).clip(-1.0, 1.0), (2.0 * square * square - 1.0).clip(-1.0, 1.0)]
        return [z, even[0], (z * square).clip(-1.0, 1.0), even[1]]

    def estimate(self, sums: Floats, noise: Floats) -> tuple[Floats, Floats]:
        """Return the variance, and what it could as well have been."""
        covariance = self._covariance(sums) * max(float(sums[0]), 1.0)
        return self._solve(sums), self._solve(move_sums(sums, noise, covariance))

    def _solve(self, sums: Floats) -> Floats:
        """Return the sample variance."""
        means, rows = np.clip(divide(sums), -1.0, 1.0), np.maximum(sums[..., :1], 2.0)
        square = (means[..., 1:2] + 1.0) / 2.0 - means[..., :1] ** 2
        return np.clip(square * rows / (rows - 1.0), 0.0, 1.0) * self.x.half**2

    def _covariance(self, sums: Floats) -> Floats:
        """Return the covariance of one row's (1, z, 2 z^2 - 1), from the noisy powers themselves.

        The other powers say this only, and stay as they are: they vary by nothing here.
        """
        means = np.clip(divide(sums), -1.0, 1.0)
        z, square = means[0], (means[1] + 1.0) / 2.0
        third, fourth = means[2], (means[3] + 1.0) / 2.0
        mixed = 2.0 * (third - z * square)
        spread = np.array([[square - z**2, mixed], [mixed, 4.0 * (fourth - square**2)]])
        return pad(np.pad(spread, ((0, 2), (0, 2))))


def estimate_mean(asked: EstimateContext, arguments: MomentArguments) -> Estimate:
    """Return the mean of a column; see `_estimate_moment`."""
    return _estimate_moment(asked, arguments, "mean", MeanEstimator)


def estimate_variance(asked: EstimateContext, arguments: MomentArguments) -> Estimate:
    """Return the variance of a column; see `_estimate_moment`."""
    return _estimate_moment(asked, arguments, "variance", VarianceEstimator)


def _estimate_moment(
    asked: EstimateContext,
    arguments: MomentArguments,
    what: str,
    law: type[MeanEstimator] | type[VarianceEstimator],
) -> Estimate:
    """Return the mean or the variance of a column, with its standard error.

    Law:     a count and sums of powers within [-1, 1] plus the plan's noise; bounds that are found
             privately take a third of the cost: two quantiles by `QuantileTree`, with as
             much again on either side.
    Claim:   costs what was granted.
    Why:     sums are one release of totals; bounds are another, and the sums are made within what
             it showed.
    Source:  [Smi11], [KV18]; docs/proofs/statistics.md.
    Checked: tests/statistics/test_moments.py.
    """

    def terms(numbers: tuple[Numbers, ...]) -> list[Term]:
        return law(numbers[0].scaled).terms(numbers[0].term)

    columns = (arguments.column,)
    finder = _Finder(asked, arguments.table, columns, terms, arguments.bounds)
    paid = finder.pay(what)
    numbers = finder.numbers(paid.noisy["windows"])[0]
    plan = finder.plan(paid.prepared.shares[-1], paid.noisy["windows"])
    sums = read_sums(plan, paid.noisy["steps"])
    solved, replicas = law(numbers.scaled).estimate(sums.values[0], sums.noise)
    return make_estimate(f"{what} of {numbers.name}", (what,), solved[:1], replicas[:, :1], paid)


def estimate_covariance(asked: EstimateContext, arguments: CovarianceArguments) -> Estimate:
    """Return variances and covariances of columns, as of a normal law; see `_estimate_moment`."""
    columns = list(arguments.columns)
    if len(set(columns)) < 2 or len(set(columns)) < len(columns):
        raise UnsupportedQuery("a covariance is of two or more different columns")

    def terms(numbers: tuple[Numbers, ...]) -> list[Term]:
        return MultivariateNormal(numbers).terms()

    finder = _Finder(asked, arguments.table, tuple(columns), terms, arguments.bounds)
    paid = finder.pay("covariance")
    numbers = finder.numbers(paid.noisy["windows"])
    law = MultivariateNormal(numbers)
    plan = finder.plan(paid.prepared.shares[-1], paid.noisy["windows"])
    sums = read_sums(plan, paid.noisy["steps"])
    solved, replicas = solve_sums(law, sums.values[0], sums.noise)
    first = len(columns)
    title = f"covariances of {', '.join(one.name for one in numbers)}"
    return make_estimate(
        title, law.parameters[first:], solved[first:], replicas[:, first:], paid, form="named"
    )


def _read_bounds(bounds: Bounds) -> ClipRange:
    if isinstance(bounds, str) and bounds != PRIVATE:
        raise BadDeclaration(
            f"bounds must be two numbers (low, high), {PRIVATE!r} or None, got {bounds!r}"
        )
    return None if isinstance(bounds, str) else read_within(bounds, "bounds")


@dataclass(frozen=True, slots=True)
class _PreparedMoments:
    """What each reading costs, that of the sums last, and their plan within the widest bounds."""

    shares: tuple[Share, ...]
    plan: Plan


class _Finder:
    """Bounds as declared or given, or found first; then the sums within them."""

    def __init__(
        self,
        asked: EstimateContext,
        table: str,
        columns: tuple[str, ...],
        terms: Callable[[tuple[Numbers, ...]], list[Term]],
        bounds: Bounds,
    ) -> None:
        self.asked, self.table, self.private = asked, table, bounds == PRIVATE
        within = _read_bounds(bounds)
        self.columns = [number_column(asked, table, name, within) for name in columns]
        self.terms = terms

    def pay(self, what: str) -> ChargedEstimate[_PreparedMoments]:
        """Return the released sums, and the windows within which they were made."""
        whole = [(one.low, one.high) for one in self.columns]
        named = {"estimate": what, "query": canonical(self._query(whole)), "private": self.private}
        return charge_and_release(
            self.asked, named, self._prepare, self._release, readings=1 + 2 * len(whole)
        )

    def numbers(self, windows: Sequence[Sequence[float]]) -> tuple[Numbers, ...]:
        """Return the columns within their windows."""
        return tuple(
            Numbers(one.name, one.term.clip(low, high), low, high)
            for one, (low, high) in zip(self.columns, windows, strict=True)
        )

    def plan(self, share: Share, windows: Sequence[Sequence[float]]) -> Plan:
        """Return the plan of the sums within these windows."""
        return self.asked.plan(self._query(windows), share)

    def _query(self, windows: Sequence[Sequence[float]]) -> Query:
        names = [one.name for one in self.columns]
        return self.asked.planner.read(
            plan_sums(self.table, names, self.terms(self.numbers(windows)))
        )

    def _prepare(self, share: Share) -> _PreparedMoments:
        whole = [(one.low, one.high) for one in self.columns]
        shares: tuple[Share, ...] = (share,)
        if self.private:
            each = [BOUNDS_PART / len(whole)] * len(whole)
            shares = split_share(share, (*each, 1 - BOUNDS_PART))
            for one, part in zip(self.columns, shares, strict=False):
                self._cells(one, part)  # refused before the charge
        return _PreparedMoments(shares, self.plan(shares[-1], whole))

    def _release(self, prepared: _PreparedMoments, hold: Hold) -> dict[str, Any]:
        windows = [[one.low, one.high] for one in self.columns]
        if self.private:
            parts = zip(self.columns, prepared.shares, strict=False)
            windows = [list(self._find(one, part, hold)) for one, part in parts]
        plan = self.plan(prepared.shares[-1], windows)
        return {"windows": windows, "steps": release_totals(self.asked.executor, plan, hold)}

    def _cells(self, one: Numbers, share: Share) -> tuple[Plan, Plan, Share]:
        """Return how rows are counted in all and by cell, and what is left for choices."""
        rows, planner = TableQuery(self.table).where(col(one.name).not_null()), self.asked.planner
        few, rest = split_share(share, (COUNT_PART, 1 - COUNT_PART))
        counted = planner.plan(planner.read(rows.agg(n=count())), few)
        median = rows.agg(q=quantile(one.term, Fraction(1, 2)))
        celled = planner.plan(planner.read(median), rest)
        return counted, celled, rest

    def _find(self, one: Numbers, share: Share, hold: Hold) -> Window:
        """Return where nearly all values lie, from two quantiles."""
        executor = self.asked.executor
        counted, celled, rest = self._cells(one, share)
        rows, part = celled.contribution.rows, executor.planner.loss(rest)
        tree = plan_quantile_tree(len(TAILS), rows, executor.planner.neighbours, part)
        size = round(
            float(read_sums(counted, release_totals(executor, counted, hold)).values[0, 0])
        )
        cells, sealed = celled.histograms[0].cells, executor.engine.run(celled.measurement, hold)
        chosen = choose_quantiles(sealed, cells, tree, TAILS, executor.entropy, size=max(1, size))
        low, high = (float(end) for end in cells.middle(np.array(chosen, dtype=np.int64)))
        reach = high - low
        window = max(one.low, low - reach), min(one.high, high + reach)
        return window if window[0] < window[1] else (one.low, one.high)


def _audit_moment(table: Table) -> MomentArguments | None:
    """Return the first column of numbers."""
    numbers = table.names_of(Int, Float)
    return MomentArguments(table.name, numbers[0]) if numbers else None


def _audit_covariance(table: Table) -> CovarianceArguments | None:
    """Return the first and the last column of numbers."""
    numbers = table.names_of(Int, Float)
    return CovarianceArguments(table.name, [numbers[0], numbers[-1]]) if numbers else None


MEAN: Final = StatisticSpec(
    name="mean",
    arguments=MomentArguments,
    estimate=estimate_mean,
    summary="the mean of a column, with an interval for the population's",
    details=(
        '``bounds`` are narrower than the declared ones, or "private": found first, for a third '
        "of the cost, which pays off where the declared bounds are loose."
    ),
    audit=_audit_moment,
    trial="a mean",
)
VARIANCE: Final = StatisticSpec(
    name="variance",
    arguments=MomentArguments,
    estimate=estimate_variance,
    summary="the variance of a column, with an interval; ``bounds`` as for `mean`",
    audit=_audit_moment,
    trial="a variance",
)
COVARIANCE: Final = StatisticSpec(
    name="covariance",
    arguments=CovarianceArguments,
    estimate=estimate_covariance,
    summary="variances and covariances of columns, by name such as ``cov(age, cost)``",
    details=(
        "``bounds`` as for `mean`, the same for all columns. Intervals assume that the columns are "
        "normally distributed."
    ),
    audit=_audit_covariance,
    trial="of two columns",
)
