"""Estimates with honest intervals: densities, quantiles, likelihood, regression, any estimator.

Everything is asked through a curator, whose methods are in `Estimators`. The modules need SciPy,
so they are imported when they are first used.
"""

from confide.statistics.methods import Estimators

__all__ = ["Estimators"]
