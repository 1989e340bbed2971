"""Population estimates: densities, quantiles, likelihood, regression, and custom estimators.

All of them are methods of a curator, through `StatisticMethods`, and `registry` lists them. Their
modules, and SciPy, are imported on first use.
"""

from confide.statistics.methods import StatisticMethods

__all__ = ["StatisticMethods"]
