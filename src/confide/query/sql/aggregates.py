"""Aggregate calls in SQL: COUNT, SUM, AVG, quantiles and their FILTER."""

from dataclasses import replace
from fractions import Fraction
from typing import Final

from sqlglot import exp

from confide.aggregates import (
    CountFunction,
    CountUnitsFunction,
    DeviationFunction,
    MeanFunction,
    QuantileFunction,
    SumFunction,
    VarianceFunction,
    make_aggregate,
)
from confide.declare import Kind
from confide.errors import UnsupportedQuery
from confide.exact import fraction
from confide.expressions.tree import AggregateCall, Expression, Literal
from confide.query.scope import OWN_ROWS, Unit
from confide.query.sql.expressions import Here, find_named, read_expression, strip

__all__ = ["read_own_statistic", "read_statistic"]

HALF: Final = Fraction(1, 2)
MOMENTS: Final[dict[type[exp.Expr], str]] = {
    exp.Sum: SumFunction.name,
    exp.Avg: MeanFunction.name,
    exp.Variance: VarianceFunction.name,
    exp.Stddev: DeviationFunction.name,
    exp.StddevSamp: DeviationFunction.name,
}
ADVICE: Final[dict[type[exp.Expr], str]] = {
    exp.Min: "MIN shows one row; ask QUANTILE_CONT(x, 0.01)",
    exp.Max: "MAX shows one row; ask QUANTILE_CONT(x, 0.99)",
    exp.Quantile: "QUANTILE picks a row; write QUANTILE_CONT(x, q)",
    exp.PercentileDisc: "PERCENTILE_DISC picks a row; write PERCENTILE_CONT",
    exp.CountIf: "write COUNT(*) FILTER (WHERE condition)",
    exp.VariancePop: "write VAR_SAMP(x)",
    exp.StddevPop: "write STDDEV_SAMP(x)",
    exp.IgnoreNulls: "values of single rows are never shown, and NULL is always skipped",
    exp.First: "FIRST shows one row",
    exp.Last: "LAST shows one row",
    exp.Mode: "write SELECT x FROM table GROUP BY x ORDER BY COUNT(*) DESC LIMIT 1",
}
LISTED: Final = (
    "COUNT(*), COUNT(x), COUNT(DISTINCT unit), SUM, AVG, VAR_SAMP, STDDEV, MEDIAN, "
    "QUANTILE_CONT(x, q) and PERCENTILE_CONT(q) WITHIN GROUP (ORDER BY x)"
)


OWN: Final = (exp.Count, exp.Sum, exp.Avg)


def read_own_statistic(node: exp.Expr, here: Here) -> Expression:
    """Return a statistic of one unit's rows, of which fewer are answered."""
    inner = node.this if type(node) is exp.Filter else node
    if type(inner) not in OWN:
        raise UnsupportedQuery(OWN_ROWS)
    return read_statistic(node, here)


def read_statistic(node: exp.Expr, here: Here) -> Expression:
    """Return the statistic that a node means, with its FILTER, or refuse it."""
    if type(node) is not exp.Filter:
        return _read_statistic(node, here)
    here.statement.expect(node, "this", "expression")
    here.statement.expect(node.expression, "this")
    found = _read_statistic(node.this, here)
    where = read_expression(node.expression.this, _inside(here))
    return make_aggregate(found.function, *found.arguments, where=where, level=found.level)


def _inside(here: Here) -> Here:
    """Return the place inside an aggregate, where only rows can be spoken of."""
    return replace(here, clause="an aggregate", aliases={}, aggregate=_refuse_nested)


def _refuse_nested(_node: exp.Expr, _here: Here) -> Expression:
    raise UnsupportedQuery(
        "an aggregate of an aggregate needs a per-unit subquery: "
        "SELECT AVG(t) FROM (SELECT unit, SUM(x) AS t FROM table GROUP BY unit)"
    )


def _read_statistic(node: exp.Expr, here: Here) -> AggregateCall:
    kind = type(node)
    if kind is exp.Count:
        return _read_count(node, here)
    if kind is exp.Median:
        here.statement.expect(node, "this")
        return make_aggregate(QuantileFunction.name, _read_argument(node.this, here), level=HALF)
    if kind is exp.PercentileCont:
        here.statement.expect(node, "this", "expression")
        if node.expression is None:
            raise UnsupportedQuery(
                "a quantile needs its level: write QUANTILE_CONT(x, 0.9), or "
                "PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x)"
            )
        level = _read_level(node.expression, here)
        return make_aggregate(QuantileFunction.name, _read_argument(node.this, here), level=level)
    if kind is exp.WithinGroup:
        return _read_within_group(node, here)
    if kind in MOMENTS:
        here.statement.expect(node, "this")
        return make_aggregate(MOMENTS[kind], _read_argument(node.this, here))
    said = ADVICE.get(kind, "this aggregate is not answered")
    if type(node.this) is exp.Column:
        said = said.replace("(x,", f"({node.this.name},").replace("(x)", f"({node.this.name})")
    raise UnsupportedQuery(f"{said}; there are {LISTED}")


def _read_argument(node: exp.Expr, here: Here) -> Expression:
    return read_expression(node, _inside(here))


def _read_count(node: exp.Expr, here: Here) -> AggregateCall:
    if node.expressions:
        raise UnsupportedQuery(
            "COUNT takes one value: COUNT(*) counts rows, COUNT(x) those where x is not NULL"
        )
    here.statement.expect(node, "this", "big_int")
    what = node.this
    if what is None:
        raise UnsupportedQuery("write COUNT(*)")
    if type(what) is exp.Star:
        here.statement.expect(what)
        return make_aggregate(CountFunction.name)
    if type(what) is exp.Distinct:
        return _read_count_distinct(what, here)
    return make_aggregate(CountFunction.name, _read_argument(what, here))


def _read_count_distinct(node: exp.Expr, here: Here) -> AggregateCall:
    """Read COUNT(DISTINCT unit): people, not values."""
    here.statement.expect(node, "expressions")
    parts = [strip(part) for part in node.expressions]
    found = find_named(parts[0], here) if len(parts) == 1 else None
    if not isinstance(found, Unit):
        raise UnsupportedQuery(
            "COUNT(DISTINCT ...) counts units only: one person can have very many values; "
            "to count values, group by them"
        )
    if found.member.optional:
        raise UnsupportedQuery("count the unit of the first table; this one may be missing")
    return make_aggregate(CountUnitsFunction.name)


def _read_within_group(node: exp.Expr, here: Here) -> AggregateCall:
    here.statement.expect(node, "this", "expression")
    inner, order = node.this, node.expression
    here.statement.expect(order, "expressions")
    if type(inner) is not exp.PercentileCont or inner.expression or len(order.expressions) != 1:
        raise UnsupportedQuery("write PERCENTILE_CONT(q) WITHIN GROUP (ORDER BY x)")
    here.statement.expect(inner, "this")
    (ordered,) = order.expressions
    here.statement.expect(ordered, "this", "desc", "nulls_first")
    level = _read_level(inner.this, here)
    level = 1 - level if ordered.args.get("desc") else level
    return make_aggregate(QuantileFunction.name, _read_argument(ordered.this, here), level=level)


def _read_level(node: exp.Expr, here: Here) -> Fraction:
    match read_expression(node, _inside(here)):
        case Literal(value=int() | float() as value, kind=Kind.INT | Kind.FLOAT):
            return fraction("level", float(value), "a number")
        case _:
            raise UnsupportedQuery("a quantile's level must be written out, such as 0.9")
