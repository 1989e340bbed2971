"""Aggregates such as COUNT and AVG: their SQL, the totals they need, estimates, and intervals."""

from confide.aggregates.count import CountFunction, CountUnitsFunction, count, count_units
from confide.aggregates.quantile import QuantileFunction, median, quantile
from confide.aggregates.registry import (
    AGGREGATES,
    AggregateFunction,
    Pattern,
    UnitForm,
    function_of,
    list_spellings,
    make_aggregate,
    register,
)
from confide.aggregates.sum import MeanFunction, SumFunction, mean, sum  # noqa: A004  # the word that users know
from confide.aggregates.variance import DeviationFunction, VarianceFunction, stddev, variance

__all__ = [
    "AGGREGATES",
    "AggregateFunction",
    "CountFunction",
    "CountUnitsFunction",
    "DeviationFunction",
    "MeanFunction",
    "Pattern",
    "QuantileFunction",
    "SumFunction",
    "UnitForm",
    "VarianceFunction",
    "count",
    "count_units",
    "function_of",
    "list_spellings",
    "make_aggregate",
    "mean",
    "median",
    "quantile",
    "register",
    "stddev",
    "sum",
    "variance",
]
