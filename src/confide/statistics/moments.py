"""Mean, variance, and covariance, from noisy sums of powers within bounds."""

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
from confide.plan.quantile_tree import plan_quantile_tree
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
"""Fraction of the cost for private bounds."""
COUNT_PART: Final = Fraction(1, 5)
"""The part of that cost spent on counting the rows; the quantiles take the rest."""
WINDOW_LEVELS: Final = (Fraction(1, 10), Fraction(9, 10))
"""The levels of the two quantiles from which private bounds are computed."""

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
    """The mean of any distribution, from the sums of z and 2 z^2 - 1, for scaled values z.

    The sampling variance of a mean depends only on the variance of the rows, so the replicas of
    `Normal` are right for any distribution.
    """

    x: Scaled

    def terms(self, value: Term) -> list[Term]:
        """Return the scaled value and its scaled square, both from -1 to 1."""
        return Normal(self.x).terms(value)

    def estimate(self, sums: Floats, noise: Floats) -> tuple[Floats, Floats]:
        """Return the mean and the standard deviation, and their replicas, one pair per row."""
        return solve_sums(Normal(self.x), sums, noise)


@dataclass(frozen=True, slots=True)
class VarianceEstimator:
    """The variance of any distribution, from the sums of z, 2 z^2 - 1, z^3, and 2 z^4 - 1.

    The values z are scaled. The sampling variance of a variance depends on the means of
    their first four powers.
    """

    x: Scaled

    def terms(self, value: Term) -> list[Term]:
        """Return the four terms to sum, all within [-1, 1]."""
        z = self.x.term(value)
        square = (z * z).clip(0.0, 1.0)
        even = [(2.0 * square - 1.0).clip(-1.0, 1.0), (2.0 * square * square - 1.0).clip(-1.0, 1.0)]
        return [z, even[0], (z * square).clip(-1.0, 1.0), even[1]]

    def estimate(self, sums: Floats, noise: Floats) -> tuple[Floats, Floats]:
        """Return the variance and its replicas, one per row."""
        covariance = self._covariance(sums) * max(float(sums[0]), 1.0)
        return self._solve(sums), self._solve(move_sums(sums, noise, covariance))

    def _solve(self, sums: Floats) -> Floats:
        """Return the sample variance, from the count and the first two sums."""
        means, rows = np.clip(divide(sums), -1.0, 1.0), np.maximum(sums[..., :1], 2.0)
        square = (means[..., 1:2] + 1.0) / 2.0 - means[..., :1] ** 2
        return np.clip(square * rows / (rows - 1.0), 0.0, 1.0) * self.x.half**2

    def _covariance(self, sums: Floats) -> Floats:
        """Return the covariance of one row's count and terms, from the noisy mean powers.

        Only the entries of z and 2 z^2 - 1 are filled in, because the variance uses no others. The
        third and fourth powers are used only to estimate these entries, and are treated as
        constant.
        """
        means = np.clip(divide(sums), -1.0, 1.0)
        z, square = means[0], (means[1] + 1.0) / 2.0
        third, fourth = means[2], (means[3] + 1.0) / 2.0
        mixed = 2.0 * (third - z * square)
        inner = np.array([[square - z**2, mixed], [mixed, 4.0 * (fourth - square**2)]])
        return pad(np.pad(inner, ((0, 2), (0, 2))))


def estimate_mean(context: EstimateContext, arguments: MomentArguments) -> Estimate:
    """Return the mean of a column; see `_estimate_moment`."""
    return _estimate_moment(context, arguments, "mean", MeanEstimator)


def estimate_variance(context: EstimateContext, arguments: MomentArguments) -> Estimate:
    """Return the variance of a column; see `_estimate_moment`."""
    return _estimate_moment(context, arguments, "variance", VarianceEstimator)


def _estimate_moment(
    context: EstimateContext,
    arguments: MomentArguments,
    statistic: str,
    estimator: type[MeanEstimator] | type[VarianceEstimator],
) -> Estimate:
    """Return the mean or the variance of a column, with its standard error.

    Law:     a count and sums of powers within [-1, 1], plus the plan's noise. Private bounds take a
             third of the cost: they are two quantiles by `QuantileTree`, extended by their distance
             on either side.
    Claim:   costs the granted share.
    Why:     the sums are one release of totals. Private bounds are further releases, and all
             losses add up. By the time values are summed, the bounds that clip them are public.
    Source:  [Smi11], [KV18]; docs/proofs/statistics.md.
    Checked: tests/statistics/test_moments.py.
    """

    def terms(numbers: tuple[Numbers, ...]) -> list[Term]:
        return estimator(numbers[0].scaled).terms(numbers[0].term)

    columns = (arguments.column,)
    bounded = _BoundedSums(context, arguments.table, columns, terms, arguments.bounds)
    charged = bounded.charge(statistic)
    numbers = bounded.numbers(charged.noisy["windows"])[0]
    plan = bounded.plan(charged.prepared.shares[-1], charged.noisy["windows"])
    sums = read_sums(plan, charged.noisy["steps"])
    solved, replicas = estimator(numbers.scaled).estimate(sums.values[0], sums.noise)
    return make_estimate(
        f"{statistic} of {numbers.name}", (statistic,), solved[:1], replicas[:, :1], charged
    )


def estimate_covariance(context: EstimateContext, arguments: CovarianceArguments) -> Estimate:
    """Return variances and covariances of columns, with intervals from a normal model.

    Bounds and costs are as in `_estimate_moment`; the cost of private bounds is split by column.
    """
    columns = list(arguments.columns)
    if len(set(columns)) < 2 or len(set(columns)) < len(columns):
        raise UnsupportedQuery(
            f"A covariance needs at least two columns, all different; got {len(columns)}, of which "
            f"{len(set(columns))} are different."
        )

    def terms(numbers: tuple[Numbers, ...]) -> list[Term]:
        return MultivariateNormal(numbers).terms()

    bounded = _BoundedSums(context, arguments.table, tuple(columns), terms, arguments.bounds)
    charged = bounded.charge("covariance")
    numbers = bounded.numbers(charged.noisy["windows"])
    estimator = MultivariateNormal(numbers)
    plan = bounded.plan(charged.prepared.shares[-1], charged.noisy["windows"])
    sums = read_sums(plan, charged.noisy["steps"])
    solved, replicas = solve_sums(estimator, sums.values[0], sums.noise)
    first = len(columns)
    title = f"covariances of {', '.join(one.name for one in numbers)}"
    return make_estimate(
        title,
        estimator.parameters[first:],
        solved[first:],
        replicas[:, first:],
        charged,
        form="named",
    )


def _read_bounds(bounds: Bounds) -> ClipRange:
    if isinstance(bounds, str) and bounds != PRIVATE:
        raise BadDeclaration(
            f"`bounds` must be two numbers (low, high), {PRIVATE!r}, or None; got {bounds!r}."
        )
    return None if isinstance(bounds, str) else read_within(bounds, "bounds")


@dataclass(frozen=True, slots=True)
class _PreparedMoments:
    """The shares, and the plan of the sums.

    If private bounds are requested, ``shares`` starts with one share for each column's bounds. Its
    last item is the share of the sums. ``plan`` is for sums within the declared or passed bounds.
    """

    shares: tuple[Share, ...]
    plan: Plan


class _BoundedSums:
    """Sums of columns clipped to bounds that are declared, passed, or found privately first.

    A window is the pair of bounds (low, high) to which one column is clipped. ``terms`` returns the
    terms to sum for the clipped columns.
    """

    def __init__(
        self,
        context: EstimateContext,
        table: str,
        columns: tuple[str, ...],
        terms: Callable[[tuple[Numbers, ...]], list[Term]],
        bounds: Bounds,
    ) -> None:
        self.context, self.table, self.private = context, table, bounds == PRIVATE
        within = _read_bounds(bounds)
        self.columns = [number_column(context, table, name, within) for name in columns]
        self.terms = terms

    def charge(self, statistic: str) -> ChargedEstimate[_PreparedMoments]:
        """Charge, and return the noisy steps of the sums with the windows of the columns."""
        declared = [(one.low, one.high) for one in self.columns]
        terms = {
            "estimate": statistic,
            "query": canonical(self._query(declared)),
            "private": self.private,
        }
        return charge_and_release(
            self.context, terms, self._prepare, self._release, readings=1 + 2 * len(declared)
        )

    def numbers(self, windows: Sequence[Sequence[float]]) -> tuple[Numbers, ...]:
        """Return the columns, clipped to their windows."""
        return tuple(
            Numbers(one.name, one.term.clip(low, high), low, high)
            for one, (low, high) in zip(self.columns, windows, strict=True)
        )

    def plan(self, share: Share, windows: Sequence[Sequence[float]]) -> Plan:
        """Return the plan of sums clipped to these windows."""
        return self.context.plan(self._query(windows), share)

    def _query(self, windows: Sequence[Sequence[float]]) -> Query:
        names = [one.name for one in self.columns]
        return self.context.planner.read(
            plan_sums(self.table, names, self.terms(self.numbers(windows)))
        )

    def _prepare(self, share: Share) -> _PreparedMoments:
        declared = [(one.low, one.high) for one in self.columns]
        shares: tuple[Share, ...] = (share,)
        if self.private:
            each = [BOUNDS_PART / len(declared)] * len(declared)
            shares = split_share(share, (*each, 1 - BOUNDS_PART))
            for one, part in zip(self.columns, shares, strict=False):
                self._plan_window(one, part)  # refuses before the charge
        return _PreparedMoments(shares, self.plan(shares[-1], declared))

    def _release(self, prepared: _PreparedMoments, hold: Hold) -> dict[str, Any]:
        windows = [[one.low, one.high] for one in self.columns]
        if self.private:
            parts = zip(self.columns, prepared.shares, strict=False)
            windows = [list(self._find_window(one, part, hold)) for one, part in parts]
        plan = self.plan(prepared.shares[-1], windows)
        return {"windows": windows, "steps": release_totals(self.context.executor, plan, hold)}

    def _plan_window(self, one: Numbers, share: Share) -> tuple[Plan, Plan, Share]:
        """Return the plans of the row count and the histogram, and the share of the quantiles."""
        rows, planner = TableQuery(self.table).where(col(one.name).not_null()), self.context.planner
        count_share, quantile_share = split_share(share, (COUNT_PART, 1 - COUNT_PART))
        count_plan = planner.plan(planner.read(rows.agg(n=count())), count_share)
        # The median stands in for both levels: the histogram of its query serves every quantile.
        median = rows.agg(q=quantile(one.term, Fraction(1, 2)))
        histogram_plan = planner.plan(planner.read(median), quantile_share)
        return count_plan, histogram_plan, quantile_share

    def _find_window(self, one: Numbers, share: Share, hold: Hold) -> Window:
        """Return a window that is likely to contain nearly all values, found from two quantiles."""
        executor = self.context.executor
        count_plan, histogram_plan, quantile_share = self._plan_window(one, share)
        rows, granted = histogram_plan.contribution.rows, executor.planner.loss(quantile_share)
        tree = plan_quantile_tree(len(WINDOW_LEVELS), rows, executor.planner.neighbours, granted)
        steps = release_totals(executor, count_plan, hold)
        size = round(float(read_sums(count_plan, steps).values[0, 0]))
        cells = histogram_plan.histograms[0].cells
        sealed = executor.engine.run(histogram_plan.measurement, hold)
        chosen = choose_quantiles(
            sealed, cells, tree, WINDOW_LEVELS, executor.entropy, size=max(1, size)
        )
        low, high = (float(end) for end in cells.middle(np.array(chosen, dtype=np.int64)))
        distance = high - low
        window = max(one.low, low - distance), min(one.high, high + distance)
        return window if window[0] < window[1] else (one.low, one.high)


def _audit_moment(table: Table) -> MomentArguments | None:
    """Return arguments with the first numeric column."""
    numbers = table.names_of(Int, Float)
    return MomentArguments(table.name, numbers[0]) if numbers else None


def _audit_covariance(table: Table) -> CovarianceArguments | None:
    """Return arguments with the first and last numeric columns."""
    numbers = table.names_of(Int, Float)
    return CovarianceArguments(table.name, [numbers[0], numbers[-1]]) if numbers else None


MEAN: Final = StatisticSpec(
    name="mean",
    arguments=MomentArguments,
    estimate=estimate_mean,
    summary="the mean of a column, with an interval for the population mean",
    details=(
        '``bounds`` are narrower than the declared ones, or "private" to find them first, for a '
        "third of the cost, which helps if the declared bounds are loose."
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
