"""`STATISTICS`: every statistic by its name.

To add a statistic, write its arguments, estimator, and `StatisticSpec` in a file of its own, list
the spec here, and run ``make generate``. Methods of `Curator` and `Connection`, HTTP, agents, the
audit, and the page of statistics follow from the spec. SciPy is imported when an estimate needs it.
"""

from typing import Any, Final

from confide.errors import UnknownName
from confide.statistics.density import DENSITY
from confide.statistics.hypothesis_tests import COMPARE_MEANS, COMPARE_PROPORTIONS, INDEPENDENCE
from confide.statistics.likelihood import EXPONENTIAL_FAMILY
from confide.statistics.moments import COVARIANCE, MEAN, VARIANCE
from confide.statistics.quantiles import QUANTILES
from confide.statistics.regression import FIT
from confide.statistics.sample_and_aggregate import SAMPLE_AND_AGGREGATE
from confide.statistics.spec import StatisticSpec

__all__ = ["STATISTICS", "find_statistic", "register"]

BUILT_IN: Final[tuple[StatisticSpec[Any], ...]] = (
    DENSITY,
    QUANTILES,
    MEAN,
    VARIANCE,
    COVARIANCE,
    EXPONENTIAL_FAMILY,
    FIT,
    COMPARE_MEANS,
    COMPARE_PROPORTIONS,
    INDEPENDENCE,
    SAMPLE_AND_AGGREGATE,
)

STATISTICS: Final[dict[str, StatisticSpec[Any]]] = {spec.name: spec for spec in BUILT_IN}
"""Every statistic by its name, those that were registered last."""


def register(spec: StatisticSpec[Any]) -> None:
    """Add a statistic; do so before an application or tools for agents are made."""
    if spec.name in STATISTICS:
        raise ValueError(f"there is a statistic called {spec.name} already")
    STATISTICS[spec.name] = spec


def find_statistic(name: str) -> StatisticSpec[Any]:
    """Return the statistic of a name, or refuse it."""
    found = STATISTICS.get(name) if isinstance(name, str) else None
    if found is None:
        raise UnknownName(
            f"there is no statistic {name!r}; statistics are: {', '.join(STATISTICS)}"
        )
    return found
