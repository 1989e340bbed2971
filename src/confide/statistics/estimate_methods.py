"""`EstimateMethods`: estimates of any statistic by name, and the owner's estimators.

The generated `StatisticMethods` adds a method for each statistic; `Curator` inherits both.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from confide.errors import BadDeclaration, UnsupportedQuery, refusing
from confide.execution.executor import QueryOptions
from confide.execution.pricing import Price
from confide.lazy import lazy_module, require_package

if TYPE_CHECKING:
    from confide.engines.protocol import Estimator
    from confide.execution.executor import Executor
    from confide.statistics import estimate as estimates
    from confide.statistics import registry, sample_and_aggregate
    from confide.statistics.estimate import EstimateContext, EstimateResult, RegisteredEstimator
else:
    estimates = lazy_module("confide.statistics.estimate")
    registry = lazy_module("confide.statistics.registry")
    sample_and_aggregate = lazy_module("confide.statistics.sample_and_aggregate")

__all__ = ["EstimateMethods"]

COSTS: Final = ("epsilon", "share", "error", "confidence")


class EstimateMethods:
    """The base class of `StatisticMethods`: `estimate`, and the owner's estimators."""

    analyst: str
    _executor: "Executor"

    @cached_property
    def estimators(self) -> "dict[str, RegisteredEstimator]":
        """The functions that the owner registered, by name."""
        return {}

    @refusing
    def estimate(
        self,
        statistic: str,
        table: str,
        *,
        fresh: bool = False,
        key: str | None = None,
        confirm: bool = False,
        **given: Any,
    ) -> "EstimateResult":
        """Return an estimate of any registered statistic, by its name.

        ``given`` holds its arguments by name, and ``epsilon=`` or ``share=``. Each built-in
        statistic also has a method of its own.
        """
        cost: dict[str, object] = {name: given.pop(name) for name in COSTS if name in given}
        context = self._context(cost, fresh=fresh, key=key, confirm=confirm)
        spec = registry.find_statistic(statistic)
        return spec.estimate(context, spec.read({"table": table, **given}))

    def _context(
        self, cost: Mapping[str, object], *, fresh: bool, key: str | None, confirm: bool
    ) -> "EstimateContext":
        """Return the context of an estimate; ``cost`` holds the caller's price arguments."""
        # A missing package must fail here, not after a charge.
        require_package("scipy", "Statistics need SciPy", '"confide[statistics]"')
        price = Price.of(cost)
        if price.error is not None:
            raise UnsupportedQuery(
                "The margin of error of an estimate depends on the data, so `error=` cannot set "
                "its cost. Pass `epsilon=` or `share=`."
            )
        options = QueryOptions.of(fresh=fresh, key=key, confirm=confirm)
        return estimates.EstimateContext(self._executor, price, options, self.estimators)

    def register_estimator(
        self,
        name: str,
        estimator: "Estimator",
        *,
        columns: Sequence[str],
        bounds: Sequence[Any] | str | None = None,
    ) -> None:
        """Register the owner's estimator, which analysts can use by name.

        ``bounds`` are required, as for `sample_and_aggregate`, and analysts cannot change them.
        With "column", they are the declared bounds of ``columns`` in the queried table.

        Only functions that the owner registers, or passes to a method, ever see rows. Answers are
        reused by name, so register a changed function under a new name.
        """
        if not isinstance(name, str) or not name.isidentifier():
            raise BadDeclaration(
                "The name of an estimator must consist of letters, digits, and underscores, and "
                f"not begin with a digit; got {name!r}."
            )
        if self.analyst:
            raise UnsupportedQuery(
                "Only the owner can register estimators. Ask the owner to register this one."
            )
        if name in self.estimators:
            raise BadDeclaration(f"An estimator {name!r} already exists. Choose another name.")
        require_package("scipy", "Statistics need SciPy", '"confide[statistics]"')
        sample_and_aggregate.read_bounds(bounds)
        self.estimators[name] = (estimator, tuple(columns), bounds)
