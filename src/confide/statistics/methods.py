"""The statistics as methods of a curator.

Written by `make generate` from `confide.statistics.registry`. Change a spec there, not this file.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack

from confide.declare.budget import CostArgs, show_keywords
from confide.engines.protocol import Estimator
from confide.errors import refusing
from confide.exact import Number
from confide.lazy import lazy_module
from confide.statistics.estimate_methods import EstimateMethods

if TYPE_CHECKING:
    from confide.statistics import (
        density,
        hypothesis_tests,
        likelihood,
        moments,
        quantiles,
        regression,
        sample_and_aggregate,
    )
    from confide.statistics.density import Density
    from confide.statistics.estimate import Estimate
    from confide.statistics.hypothesis_tests import Comparison, Independence
else:
    density = lazy_module("confide.statistics.density")
    hypothesis_tests = lazy_module("confide.statistics.hypothesis_tests")
    likelihood = lazy_module("confide.statistics.likelihood")
    moments = lazy_module("confide.statistics.moments")
    quantiles = lazy_module("confide.statistics.quantiles")
    regression = lazy_module("confide.statistics.regression")
    sample_and_aggregate = lazy_module("confide.statistics.sample_and_aggregate")

__all__ = ["StatisticMethods"]


@show_keywords
class StatisticMethods(EstimateMethods):
    """Differentially private statistics, charged once, with intervals that include the noise.

    Their modules, and SciPy, are imported on first use.
    """

    @refusing
    def density(
        self,
        table: str,
        column: str,
        *,
        bins: int | None = None,
        within: Sequence[Number] | None = None,
        fresh: bool = False,
        key: str | None = None,
        confirm: bool = False,
        **want: Unpack[CostArgs],
    ) -> "Density":
        """Return a histogram density of a column, with a confidence band.

        ``bins=None`` chooses the width privately, for a fifth of the cost. ``within=(low, high)``
        clips to narrower bounds than the declared ones.
        """
        context = self._context(want, fresh=fresh, key=key, confirm=confirm)
        return density.estimate_density(
            context, density.DensityArguments(table, column, bins=bins, within=within)
        )

    @refusing
    def quantiles(
        self,
        table: str,
        column: str,
        levels: Number | Sequence[Number],
        *,
        within: Sequence[Number] | None = None,
        fresh: bool = False,
        key: str | None = None,
        confirm: bool = False,
        **want: Unpack[CostArgs],
    ) -> "Estimate":
        """Return quantiles of a column, such as ``[0.25, 0.5, 0.75]``; they never cross.

        Several levels together cost less than one by one. ``value`` is a list, or a number for one
        level.
        """
        context = self._context(want, fresh=fresh, key=key, confirm=confirm)
        return quantiles.estimate_quantiles(
            context, quantiles.QuantilesArguments(table, column, levels, within=within)
        )

    @refusing
    def mean(
        self,
        table: str,
        column: str,
        *,
        bounds: Sequence[Number] | str | None = None,
        fresh: bool = False,
        key: str | None = None,
        confirm: bool = False,
        **want: Unpack[CostArgs],
    ) -> "Estimate":
        """Return the mean of a column, with an interval for the population mean.

        ``bounds`` are narrower than the declared ones, or "private" to find them first, for a third
        of the cost, which helps if the declared bounds are loose.
        """
        context = self._context(want, fresh=fresh, key=key, confirm=confirm)
        return moments.estimate_mean(context, moments.MomentArguments(table, column, bounds=bounds))

    @refusing
    def variance(
        self,
        table: str,
        column: str,
        *,
        bounds: Sequence[Number] | str | None = None,
        fresh: bool = False,
        key: str | None = None,
        confirm: bool = False,
        **want: Unpack[CostArgs],
    ) -> "Estimate":
        """Return the variance of a column, with an interval; ``bounds`` as for `mean`."""
        context = self._context(want, fresh=fresh, key=key, confirm=confirm)
        return moments.estimate_variance(
            context, moments.MomentArguments(table, column, bounds=bounds)
        )

    @refusing
    def covariance(
        self,
        table: str,
        columns: Sequence[str],
        *,
        bounds: Sequence[Number] | str | None = None,
        fresh: bool = False,
        key: str | None = None,
        confirm: bool = False,
        **want: Unpack[CostArgs],
    ) -> "Estimate":
        """Return variances and covariances of columns, by name such as ``cov(age, cost)``.

        ``bounds`` as for `mean`, the same for all columns. Intervals assume that the columns are
        normally distributed.
        """
        context = self._context(want, fresh=fresh, key=key, confirm=confirm)
        return moments.estimate_covariance(
            context, moments.CovarianceArguments(table, columns, bounds=bounds)
        )

    @refusing
    def exponential_family(
        self,
        table: str,
        column: str | Sequence[str],
        *,
        family: str,
        within: Sequence[Number] | None = None,
        fresh: bool = False,
        key: str | None = None,
        confirm: bool = False,
        **want: Unpack[CostArgs],
    ) -> "Estimate":
        """Return the best-fitting distribution of a family, with standard errors and intervals.

        Families are normal, poisson, exponential, gamma, beta, bernoulli, categorical, and, for a
        list of columns, multivariate-normal.
        """
        context = self._context(want, fresh=fresh, key=key, confirm=confirm)
        return likelihood.estimate_family(
            context, likelihood.FamilyArguments(table, column, family=family, within=within)
        )

    @refusing
    def fit(
        self,
        table: str,
        formula: str,
        *,
        family: str = "linear",
        ridge: Number = 0,
        fresh: bool = False,
        key: str | None = None,
        confirm: bool = False,
        **want: Unpack[CostArgs],
    ) -> "Estimate":
        """Return the coefficients of a regression such as ``"cost ~ age + smoker"``.

        ``family`` is linear, logistic (the response is Bool or Int(0, 1)), or poisson (a count).
        ``ridge`` is a penalty that shrinks the slopes of a linear regression.
        """
        context = self._context(want, fresh=fresh, key=key, confirm=confirm)
        return regression.estimate_fit(
            context, regression.FitArguments(table, formula, family=family, ridge=ridge)
        )

    @refusing
    def compare_means(
        self,
        table: str,
        column: str,
        *,
        by: str,
        fresh: bool = False,
        key: str | None = None,
        confirm: bool = False,
        **want: Unpack[CostArgs],
    ) -> "Comparison":
        """Return the difference between a column's means in two groups, with a p-value."""
        context = self._context(want, fresh=fresh, key=key, confirm=confirm)
        return hypothesis_tests.compare_means(
            context, hypothesis_tests.ComparisonArguments(table, column, by=by)
        )

    @refusing
    def compare_proportions(
        self,
        table: str,
        column: str,
        *,
        by: str,
        fresh: bool = False,
        key: str | None = None,
        confirm: bool = False,
        **want: Unpack[CostArgs],
    ) -> "Comparison":
        """Return the difference between two groups' proportions of true values, with a p-value."""
        context = self._context(want, fresh=fresh, key=key, confirm=confirm)
        return hypothesis_tests.compare_proportions(
            context, hypothesis_tests.ComparisonArguments(table, column, by=by)
        )

    @refusing
    def independence(
        self,
        table: str,
        first: str,
        second: str,
        *,
        fresh: bool = False,
        key: str | None = None,
        confirm: bool = False,
        **want: Unpack[CostArgs],
    ) -> "Independence":
        """Return a chi-square test of whether two columns are independent, with a p-value."""
        context = self._context(want, fresh=fresh, key=key, confirm=confirm)
        return hypothesis_tests.check_independence(
            context, hypothesis_tests.IndependenceArguments(table, first, second)
        )

    @refusing
    def sample_and_aggregate(
        self,
        table: str,
        estimator: str | Estimator,
        *,
        columns: Sequence[str] | None = None,
        bounds: Sequence[Any] | str | None = None,
        blocks: int | None = None,
        method: str = "window",
        corrected: bool | None = None,
        fresh: bool = False,
        key: str | None = None,
        confirm: bool = False,
        **want: Unpack[CostArgs],
    ) -> "Estimate":
        """Return an estimate by any function of rows, run on blocks of units.

        ``estimator`` is the owner's function, which maps a block of rows to one or more numbers, or
        the name of a registered estimator. ``bounds`` are pairs (low, high), one for each number;
        results are clipped to them. ``bounds="column"`` uses the declared bounds of ``columns``,
        one column for each number, which suits a mean, a median, a quantile, or a trimmed mean. If
        the function returns a different number of results, every block fails and counts as the
        lower bounds. ``blocks=None`` makes blocks of a few times n^(1/4) units. ``method`` is
        window, mean, or median. ``corrected=True`` removes bias of order 1 / rows; None does so if
        the bounds are "column".
        """
        context = self._context(want, fresh=fresh, key=key, confirm=confirm)
        return sample_and_aggregate.estimate_blocks(
            context,
            sample_and_aggregate.BlockArguments(
                table,
                estimator,
                columns=columns,
                bounds=bounds,
                blocks=blocks,
                method=method,
                corrected=corrected,
            ),
        )
