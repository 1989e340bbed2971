"""Aggregate calls in SQL, matched against registered patterns, and their FILTER."""

from dataclasses import replace
from fractions import Fraction
from typing import Final

from sqlglot import exp

from confide.aggregates import list_spellings, make_aggregate
from confide.declare import Kind
from confide.errors import UnsupportedQuery
from confide.exact import fraction
from confide.expressions.tree import AggregateCall, Expression, Literal
from confide.query.scope import PER_UNIT_ADVICE, Unit
from confide.query.sql.expressions import Context, read_expression, resolve_name
from confide.query.sql.patterns import match_aggregate, unit_types

__all__ = ["read_own_statistic", "read_statistic"]

VALUE_VARIABLES: Final = ("x", "y")
"""Pattern variables that match row expressions, in the order of the aggregate's arguments."""
UNITS_ONLY: Final = (
    "COUNT(DISTINCT ...) can count only units, because one unit can have any number of values. To "
    "count values, group by them."
)
ADVICE: Final[dict[type[exp.Expr], str]] = {
    exp.Min: "MIN is the value of a single row. Use `QUANTILE_CONT(x, 0.01)`.",
    exp.Max: "MAX is the value of a single row. Use `QUANTILE_CONT(x, 0.99)`.",
    exp.Quantile: "QUANTILE is the value of a single row. Use `QUANTILE_CONT(x, q)`.",
    exp.PercentileDisc: "PERCENTILE_DISC is the value of a single row. Use `PERCENTILE_CONT`.",
    exp.CountIf: "COUNT_IF is not supported. Write `COUNT(*) FILTER (WHERE condition)`.",
    exp.VariancePop: "VAR_POP is not supported. Use `VAR_SAMP(x)`.",
    exp.StddevPop: "STDDEV_POP is not supported. Use `STDDEV_SAMP(x)`.",
    exp.IgnoreNulls: "The value of a single row cannot be selected, and NULL is always skipped.",
    exp.First: "FIRST is the value of a single row.",
    exp.Last: "LAST is the value of a single row.",
    exp.Mode: "MODE is not supported. Write "
    "`SELECT x FROM table GROUP BY x ORDER BY COUNT(*) DESC LIMIT 1`.",
}


def read_own_statistic(node: exp.Expr, context: Context) -> Expression:
    """Return a statistic for a per-unit subquery, or refuse an aggregate that has no such form."""
    inner = node.this if type(node) is exp.Filter else node
    if type(inner) not in unit_types():
        raise UnsupportedQuery(PER_UNIT_ADVICE)
    return read_statistic(node, context)


def read_statistic(node: exp.Expr, context: Context) -> Expression:
    """Return the statistic that a node denotes, including its FILTER."""
    if type(node) is not exp.Filter:
        return _read_statistic(node, context)
    context.statement.expect(node, "this", "expression")
    context.statement.expect(node.expression, "this")
    found = _read_statistic(node.this, context)
    where = read_expression(node.expression.this, _inside(context))
    return make_aggregate(found.function, *found.arguments, where=where, level=found.level)


def _inside(context: Context) -> Context:
    """Return the context inside an aggregate, where only row expressions are allowed."""
    return replace(context, clause="an aggregate", aliases={}, aggregate=_refuse_nested)


def _refuse_nested(_node: exp.Expr, _context: Context) -> Expression:
    raise UnsupportedQuery(
        "An aggregate of an aggregate needs a per-unit subquery: "
        "`SELECT AVG(t) FROM (SELECT unit, SUM(x) AS t FROM table GROUP BY unit)`."
    )


def _read_statistic(node: exp.Expr, context: Context) -> AggregateCall:
    if type(node) is exp.Count:
        _check_count(node, context)
    match = match_aggregate(node)
    if match is None:
        raise _pattern_error(node, context)
    for part, known in match.pairs:
        context.statement.expect(part, *known)
    pattern, parts = match.pattern, match.parts
    level = _read_level(parts["q"], context) if "q" in parts else pattern.level
    if level is not None and pattern.is_descending:
        level = 1 - level
    if "unit" in parts:
        _check_unit(parts["unit"], context)
    values = [
        read_expression(parts[name], _inside(context)) for name in VALUE_VARIABLES if name in parts
    ]
    return make_aggregate(match.function.name, *values, level=level)


def _pattern_error(node: exp.Expr, context: Context) -> UnsupportedQuery:
    """Return the error for a call that matches no aggregate pattern."""
    if type(node) is exp.PercentileCont:
        context.statement.expect(node, "this", "expression")
        return UnsupportedQuery(
            "A quantile needs a level. Write `QUANTILE_CONT(x, 0.9)` or "
            "`PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x)`."
        )
    if type(node) is exp.WithinGroup:
        context.statement.expect(node, "this", "expression")
        context.statement.expect(node.expression, "expressions")
        return UnsupportedQuery(
            "WITHIN GROUP needs PERCENTILE_CONT. Write "
            "`PERCENTILE_CONT(q) WITHIN GROUP (ORDER BY x)`."
        )
    advice = ADVICE.get(type(node), "This aggregate is not supported.")
    if type(node.this) is exp.Column:
        advice = advice.replace("(x,", f"({node.this.name},").replace("(x)", f"({node.this.name})")
    return UnsupportedQuery(f"{advice} Aggregates: {list_spellings()}.")


def _check_count(node: exp.Expr, context: Context) -> None:
    """Raise UnsupportedQuery for arguments that COUNT does not support, such as several values."""
    if node.expressions:
        raise UnsupportedQuery(
            "COUNT takes one value. `COUNT(*)` counts rows, and `COUNT(x)` counts the rows where "
            "`x` is not NULL."
        )
    context.statement.expect(node, "this", "big_int")
    if node.this is None:
        raise UnsupportedQuery("COUNT needs an argument. Write `COUNT(*)`.")
    if type(node.this) is exp.Distinct:
        context.statement.expect(node.this, "expressions")
        if len(node.this.expressions) != 1:
            raise UnsupportedQuery(UNITS_ONLY)


def _check_unit(node: exp.Expr, context: Context) -> None:
    """Raise UnsupportedQuery unless COUNT(DISTINCT) counts a unit that is never missing."""
    found = resolve_name(node, context)
    if not isinstance(found, Unit):
        raise UnsupportedQuery(UNITS_ONLY)
    if found.member.optional:
        raise UnsupportedQuery(
            "The unit of this table may be missing. Count the unit of the first table."
        )


def _read_level(node: exp.Expr, context: Context) -> Fraction:
    match read_expression(node, _inside(context)):
        case Literal(value=int() | float() as value, kind=Kind.INT | Kind.FLOAT):
            return fraction("level", float(value), "a number")
        case _:
            raise UnsupportedQuery("The level of a quantile must be a literal, such as 0.9.")
