"""`STATISTICS`: the registry of statistics by name.

To add a statistic, write its arguments, estimator, and `StatisticSpec` in a file of its own, list
the spec here, and run ``make generate``. The methods of `Curator` and `Connection`, the HTTP and
MCP schemas, the audit, and the docs follow from the spec. SciPy is imported on first use.
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
"""All statistics by name; those registered at run time come last."""


def register(spec: StatisticSpec[Any]) -> None:
    """Register a statistic; call this before you create an application or agent tools."""
    if spec.name in STATISTICS:
        raise ValueError(f"A statistic {spec.name!r} already exists. Choose another name.")
    STATISTICS[spec.name] = spec


def find_statistic(name: str) -> StatisticSpec[Any]:
    """Return the statistic with this name, or raise `UnknownName`."""
    found = STATISTICS.get(name) if isinstance(name, str) else None
    if found is None:
        raise UnknownName(f"Unknown statistic {name!r}. Choose one of {', '.join(STATISTICS)}.")
    return found
