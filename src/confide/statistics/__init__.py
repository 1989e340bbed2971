"""Estimates for the population: densities, quantiles, likelihood, regression, any estimator.

All of them are methods of a curator, by `StatisticMethods`, and `registry` lists them. Their
modules, and SciPy, are imported when they are first used.
"""

from confide.statistics.methods import StatisticMethods

__all__ = ["StatisticMethods"]
