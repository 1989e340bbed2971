"""The statistics as methods of a connection.

Written by `make generate` from `confide.statistics.registry`. Change a spec there, not this file.
"""

from collections.abc import Sequence
from typing import Unpack

from confide.client.estimates import RemoteEstimate, RemoteEstimateMethods, encode_numbers
from confide.client.http import EstimateArgs
from confide.declare.budget import show_keywords
from confide.exact import Number

__all__ = ["RemoteStatistics"]


@show_keywords
class RemoteStatistics(RemoteEstimateMethods):
    """The statistics of a remote curator, priced by ``epsilon=`` or ``share=``.

    ``confidence=`` is the level of the returned intervals.
    """

    def density(
        self,
        table: str,
        column: str,
        *,
        bins: int | None = None,
        within: Sequence[Number] | None = None,
        **want: Unpack[EstimateArgs],
    ) -> RemoteEstimate:
        """Return a histogram density of a column, with a confidence band.

        ``bins=None`` chooses the width privately, for a fifth of the cost. ``within=(low, high)``
        clips to narrower bounds than the declared ones.
        """
        return self._send_estimate(
            "density",
            {"table": table, "column": column, "bins": bins, "within": encode_numbers(within)},
            want,
        )

    def quantiles(
        self,
        table: str,
        column: str,
        levels: Number | Sequence[Number],
        *,
        within: Sequence[Number] | None = None,
        **want: Unpack[EstimateArgs],
    ) -> RemoteEstimate:
        """Return quantiles of a column, such as ``[0.25, 0.5, 0.75]``; they never cross.

        Several levels together cost less than one by one. ``value`` is a list, or a number for one
        level.
        """
        return self._send_estimate(
            "quantiles",
            {
                "table": table,
                "column": column,
                "levels": encode_numbers(levels),
                "within": encode_numbers(within),
            },
            want,
        )

    def mean(
        self,
        table: str,
        column: str,
        *,
        bounds: Sequence[Number] | str | None = None,
        **want: Unpack[EstimateArgs],
    ) -> RemoteEstimate:
        """Return the mean of a column, with an interval for the population mean.

        ``bounds`` are narrower than the declared ones, or "private" to find them first, for a third
        of the cost, which helps if the declared bounds are loose.
        """
        return self._send_estimate(
            "mean", {"table": table, "column": column, "bounds": encode_numbers(bounds)}, want
        )

    def variance(
        self,
        table: str,
        column: str,
        *,
        bounds: Sequence[Number] | str | None = None,
        **want: Unpack[EstimateArgs],
    ) -> RemoteEstimate:
        """Return the variance of a column, with an interval; ``bounds`` as for `mean`."""
        return self._send_estimate(
            "variance", {"table": table, "column": column, "bounds": encode_numbers(bounds)}, want
        )

    def covariance(
        self,
        table: str,
        columns: Sequence[str],
        *,
        bounds: Sequence[Number] | str | None = None,
        **want: Unpack[EstimateArgs],
    ) -> RemoteEstimate:
        """Return variances and covariances of columns, by name such as ``cov(age, cost)``.

        ``bounds`` as for `mean`, the same for all columns. Intervals assume that the columns are
        normally distributed.
        """
        return self._send_estimate(
            "covariance",
            {"table": table, "columns": columns, "bounds": encode_numbers(bounds)},
            want,
        )

    def exponential_family(
        self,
        table: str,
        column: str | Sequence[str],
        *,
        family: str,
        within: Sequence[Number] | None = None,
        **want: Unpack[EstimateArgs],
    ) -> RemoteEstimate:
        """Return the best-fitting distribution of a family, with standard errors and intervals.

        Families are normal, poisson, exponential, gamma, beta, bernoulli, categorical, and, for a
        list of columns, multivariate-normal.
        """
        return self._send_estimate(
            "exponential_family",
            {"table": table, "column": column, "family": family, "within": encode_numbers(within)},
            want,
        )

    def fit(
        self,
        table: str,
        formula: str,
        *,
        family: str = "linear",
        ridge: Number = 0,
        **want: Unpack[EstimateArgs],
    ) -> RemoteEstimate:
        """Return the coefficients of a regression such as ``"cost ~ age + smoker"``.

        ``family`` is linear, logistic (the response is Bool or Int(0, 1)), or poisson (a count).
        ``ridge`` is a penalty that shrinks the slopes of a linear regression.
        """
        return self._send_estimate(
            "fit",
            {"table": table, "formula": formula, "family": family, "ridge": encode_numbers(ridge)},
            want,
        )

    def compare_means(
        self, table: str, column: str, *, by: str, **want: Unpack[EstimateArgs]
    ) -> RemoteEstimate:
        """Return the difference between a column's means in two groups, with a p-value."""
        return self._send_estimate(
            "compare_means", {"table": table, "column": column, "by": by}, want
        )

    def compare_proportions(
        self, table: str, column: str, *, by: str, **want: Unpack[EstimateArgs]
    ) -> RemoteEstimate:
        """Return the difference between two groups' proportions of true values, with a p-value."""
        return self._send_estimate(
            "compare_proportions", {"table": table, "column": column, "by": by}, want
        )

    def independence(
        self, table: str, first: str, second: str, **want: Unpack[EstimateArgs]
    ) -> RemoteEstimate:
        """Return a chi-square test of whether two columns are independent, with a p-value."""
        return self._send_estimate(
            "independence", {"table": table, "first": first, "second": second}, want
        )

    def sample_and_aggregate(
        self, table: str, estimator: str, *, blocks: int | None = None, **want: Unpack[EstimateArgs]
    ) -> RemoteEstimate:
        """Return the estimate of a registered estimator, by its name."""
        return self._send_estimate(
            "sample_and_aggregate", {"table": table, "estimator": estimator, "blocks": blocks}, want
        )
