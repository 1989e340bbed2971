"""The statistics as methods of a curator."""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Unpack

from confide.declare.budget import CostArgs, show_keywords
from confide.errors import (
    BadDeclaration,
    UnknownName,
    UnsupportedQuery,
    refusing,
)
from confide.exact import Number, non_negative
from confide.execution.executor import QueryOptions
from confide.execution.pricing import Price
from confide.lazy import lazy_module, require_package
from confide.statistics.estimate import EstimateContext

if TYPE_CHECKING:
    from confide.engines.protocol import Estimator
    from confide.execution.executor import Executor
    from confide.statistics import (
        density,
        glm,
        hypothesis_tests,
        likelihood,
        linear,
        moments,
        quantiles,
        sample_and_aggregate,
    )
    from confide.statistics import formula as formulas
    from confide.statistics.density import Density
    from confide.statistics.estimate import Estimate
    from confide.statistics.hypothesis_tests import Comparison, Independence
else:
    formulas = lazy_module("confide.statistics.formula")
    density = lazy_module("confide.statistics.density")
    glm = lazy_module("confide.statistics.glm")
    hypothesis_tests = lazy_module("confide.statistics.hypothesis_tests")
    likelihood = lazy_module("confide.statistics.likelihood")
    linear = lazy_module("confide.statistics.linear")
    moments = lazy_module("confide.statistics.moments")
    quantiles = lazy_module("confide.statistics.quantiles")
    sample_and_aggregate = lazy_module("confide.statistics.sample_and_aggregate")

__all__ = ["StatisticMethods"]


@show_keywords
class StatisticMethods:
    """Private statistics: each is charged once, and carries intervals that count the noise.

    The modules behind import SciPy, so each method imports its own.
    """

    analyst: str
    _executor: "Executor"

    @cached_property
    def estimators(self) -> dict[str, tuple["Estimator", tuple[str, ...], Any]]:
        """The owner's functions by name."""
        return {}

    def _asked(self, want: CostArgs, *, fresh: bool, key: str | None) -> EstimateContext:
        """Return the terms of an estimate, from what a caller typed."""
        wanted = Price.of(want)
        if wanted.error is not None:
            raise UnsupportedQuery(
                "how near an estimate is depends on the data; say epsilon= or share="
            )
        return EstimateContext(self._executor, wanted, QueryOptions.of(fresh=fresh, key=key))

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
        **want: Unpack[CostArgs],
    ) -> "Density":
        """Return a histogram density of a column, with a band.

        ``bins=None`` chooses the width privately, for a fifth of the cost. ``within=(low, high)``
        clips tighter than declared.
        """
        _need_scipy()
        asked = self._asked(want, fresh=fresh, key=key)
        return density.estimate_density(asked, table, column, bins, formulas.read_within(within))

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
        **want: Unpack[CostArgs],
    ) -> "Estimate":
        """Return quantiles of a column, such as ``[0.25, 0.5, 0.75]``; they never cross.

        Many at once cost less than one by one. ``value`` is a list, or a number for one level.
        """
        _need_scipy()
        asked = self._asked(want, fresh=fresh, key=key)
        wanted, single = quantiles.read_levels(levels)
        bounds = formulas.read_within(within)
        return quantiles.estimate_quantiles(asked, table, column, wanted, bounds, single=single)

    @refusing
    def mean(
        self,
        table: str,
        column: str,
        *,
        bounds: Sequence[Number] | str | None = None,
        fresh: bool = False,
        key: str | None = None,
        **want: Unpack[CostArgs],
    ) -> "Estimate":
        """Return the mean of a column, with an interval for the population's.

        ``bounds`` are tighter ones than declared, or "private": found first, for a third of the
        cost, which pays where the declared bounds are loose.
        """
        _need_scipy()
        asked = self._asked(want, fresh=fresh, key=key)
        return moments.estimate_moment(asked, table, column, "mean", bounds)

    @refusing
    def variance(
        self,
        table: str,
        column: str,
        *,
        bounds: Sequence[Number] | str | None = None,
        fresh: bool = False,
        key: str | None = None,
        **want: Unpack[CostArgs],
    ) -> "Estimate":
        """Return the variance of a column, with an interval; ``bounds`` as for `mean`."""
        _need_scipy()
        asked = self._asked(want, fresh=fresh, key=key)
        return moments.estimate_moment(asked, table, column, "variance", bounds)

    @refusing
    def covariance(
        self,
        table: str,
        columns: Sequence[str],
        *,
        bounds: Sequence[Number] | str | None = None,
        fresh: bool = False,
        key: str | None = None,
        **want: Unpack[CostArgs],
    ) -> "Estimate":
        """Return variances and covariances of columns, by name such as ``cov(age, cost)``.

        ``bounds`` as for `mean`, the same for all columns. Intervals take the columns for normal.
        """
        _need_scipy()
        asked = self._asked(want, fresh=fresh, key=key)
        return moments.estimate_covariance(asked, table, list(columns), bounds)

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
        **want: Unpack[CostArgs],
    ) -> "Estimate":
        """Return the likeliest law of a family, with standard errors and intervals.

        Families are normal, poisson, exponential, gamma, beta, bernoulli, categorical and, for a
        list of columns, multivariate-normal.
        """
        _need_scipy()
        columns = [column] if isinstance(column, str) else list(column)
        asked = self._asked(want, fresh=fresh, key=key)
        return likelihood.estimate_family(
            asked, table, columns, family, formulas.read_within(within)
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
        **want: Unpack[CostArgs],
    ) -> "Estimate":
        """Return the coefficients of a regression such as ``"cost ~ age + smoker"``.

        ``family`` is linear, logistic (the response is Bool or Int(0, 1)) or poisson (a count).
        ``ridge`` shrinks the slopes of a linear one.
        """
        _need_scipy()
        asked = self._asked(want, fresh=fresh, key=key)
        design = formulas.read_formula(asked, table, formula)
        shrinking = float(non_negative("ridge", ridge))
        match family:
            case "linear":
                return linear.fit_linear(asked, table, design, shrinking)
            case "logistic" | "poisson" if shrinking:
                raise UnsupportedQuery(
                    f"ridge= shrinks linear regressions, and this one is {family}; leave it out"
                )
            case "logistic" | "poisson":
                return glm.fit_generalised(asked, table, design, family)
            case _:
                raise UnsupportedQuery(
                    f"there is no regression {family!r}; families are linear, logistic and poisson"
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
        **want: Unpack[CostArgs],
    ) -> "Comparison":
        """Return the difference of a column's means in two groups, with a p-value."""
        _need_scipy()
        return hypothesis_tests.compare_means(
            self._asked(want, fresh=fresh, key=key), table, column, by
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
        **want: Unpack[CostArgs],
    ) -> "Comparison":
        """Return the difference of the parts in which a column is true, with a p-value."""
        _need_scipy()
        return hypothesis_tests.compare_proportions(
            self._asked(want, fresh=fresh, key=key), table, column, by
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
        **want: Unpack[CostArgs],
    ) -> "Independence":
        """Return a chi-square test of whether two columns have to do with each other."""
        _need_scipy()
        return hypothesis_tests.check_independence(
            self._asked(want, fresh=fresh, key=key), table, first, second
        )

    def register_estimator(
        self,
        name: str,
        estimator: "Estimator",
        *,
        columns: Sequence[str],
        bounds: Sequence[Any] | str | None = None,
    ) -> None:
        """Let analysts ask for an estimator of the owner's by name; its bounds are the owner's.

        ``bounds`` are needed, as for `sample_and_aggregate`. With "column" they are those of the
        table that is asked about.

        Only functions registered here, or given by the owner, ever see rows. Answers are found
        again by the name: give a function that changed a new one.
        """
        if not isinstance(name, str) or not name.isidentifier():
            raise BadDeclaration(f"an estimator needs a plain name, got {name!r}")
        if self.analyst:
            raise UnsupportedQuery("only the owner registers estimators")
        if name in self.estimators:
            raise BadDeclaration(f"there is an estimator {name!r} already; choose another name")
        _need_scipy()
        sample_and_aggregate.read_bounds(bounds)
        self.estimators[name] = (estimator, tuple(columns), bounds)

    @refusing
    def sample_and_aggregate(
        self,
        table: str,
        estimator: "str | Estimator",
        *,
        columns: Sequence[str] | None = None,
        bounds: Sequence[Any] | str | None = None,
        blocks: int | None = None,
        method: str = "window",
        corrected: bool | None = None,
        fresh: bool = False,
        key: str | None = None,
        **want: Unpack[CostArgs],
    ) -> "Estimate":
        """Return an estimate by any function of rows, run on blocks of units.

        ``estimator`` is the owner's function, from a block of rows to a number or several, or the
        name of a registered one. ``bounds`` are pairs (low, high), one for each number: results
        are clipped to them. ``bounds="column"`` takes the declared bounds of ``columns``, one
        column for each number, which suits a mean, a median, a quantile or a trimmed mean. If the
        function returns another count of numbers, every block fails and counts as the low bounds.
        ``blocks=None`` makes blocks of a few times n^(1/4) units. ``method`` is window, mean or
        median. ``corrected=True`` takes away bias that falls like 1 / rows; None does so where the
        bounds are "column".
        """
        _need_scipy()
        # A function given by hand is not known again: another may have the same name.
        is_fresh = fresh or not isinstance(estimator, str)
        asked = self._asked(want, fresh=is_fresh, key=key)
        if isinstance(estimator, str):
            if estimator not in self.estimators:
                known = ", ".join(sorted(self.estimators)) or "none so far"
                raise UnknownName(f"there is no estimator {estimator!r}; registered are: {known}")
            if columns is not None or bounds is not None:
                raise UnsupportedQuery(
                    "a registered estimator has the columns and bounds that the owner gave it; "
                    "leave columns= and bounds= out"
                )
            function, columns, bounds = self.estimators[estimator]
            name = estimator
        else:
            # Privacy: a function of an analyst's could carry rows away by itself.
            if self.analyst:
                raise UnsupportedQuery("only the owner's functions run on rows; name one of theirs")
            function, name = estimator, _name_function(estimator)
        sampling = sample_and_aggregate.Sampling.of(
            asked,
            name,
            function,
            table,
            columns=columns or (),
            bounds=bounds,
            blocks=blocks,
            method=method,
        )
        by_default = isinstance(bounds, str) and bounds == sample_and_aggregate.COLUMN
        is_corrected = by_default if corrected is None else corrected
        return sample_and_aggregate.estimate_blocks(asked, sampling, corrected=is_corrected)


def _need_scipy() -> None:
    """Refuse at once, and not after a charge, where SciPy is not installed."""
    require_package("scipy", "statistics need SciPy", '"confide[statistics]"')


def _name_function(function: object) -> str:
    """Return the name of a function, which the ledger writes down beside what it cost."""
    if not callable(function):
        raise BadDeclaration(f"estimator must be a function or a registered name, got {function!r}")
    kind = type(function)
    inside = getattr(function, "__module__", None) or kind.__module__
    named = getattr(function, "__qualname__", None) or getattr(function, "__name__", None)
    return f"{inside}.{named or f'<{kind.__qualname__}>'}"
