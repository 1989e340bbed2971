"""Queries as typed trees, with two front ends: SQL and Python.

The SQL front end, `confide.query.sql`, is not imported here: loading its parser is slow.
"""

from confide.aggregates import (
    count,
    count_units,
    mean,
    median,
    quantile,
    stddev,
    sum,  # noqa: A004  # named as in SQL
    variance,
)
from confide.expressions.functions import Function
from confide.expressions.terms import (
    Term,
    case,
    coalesce,
    col,
    concat,
    date_diff,
    greatest,
    least,
    make_date,
)
from confide.query.builder import QueryRunner, TableQuery
from confide.query.canonical import canonical
from confide.query.scope import Names
from confide.query.split import Program, Split, split_query
from confide.query.tree import Query, is_selection

__all__ = [
    "Function",
    "Names",
    "Program",
    "Query",
    "QueryRunner",
    "Split",
    "TableQuery",
    "Term",
    "canonical",
    "case",
    "coalesce",
    "col",
    "concat",
    "count",
    "count_units",
    "date_diff",
    "greatest",
    "is_selection",
    "least",
    "make_date",
    "mean",
    "median",
    "quantile",
    "split_query",
    "stddev",
    "sum",
    "variance",
]
