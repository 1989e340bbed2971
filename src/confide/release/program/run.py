"""`run_program`: outputs, HAVING, ORDER BY, and LIMIT over released numbers.

It works on columns of numbers and keys, one entry a group, after the noise; so it is free. NULL is
None in columns of objects and NaN in columns of numbers.
"""

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from confide.aggregates import function_of
from confide.declare import Kind
from confide.errors import UnsupportedQuery
from confide.expressions.functions import Function
from confide.expressions.tree import AggregateCall, Call, Column, Expression, Key, Literal, Value
from confide.plan import Plan
from confide.query import Program
from confide.query.tree import Output
from confide.release.estimates import Floats, estimate
from confide.release.noise import NoisyMeasurement

__all__ = [
    "Columns",
    "ResultTable",
    "Statistics",
    "check_program",
    "evaluate",
    "is_floored",
    "is_noisy_number",
    "is_true",
    "order_groups",
    "run_program",
]

Column_ = NDArray[Any]
Mask = NDArray[np.bool_]
Rule = Callable[[Sequence[Column_]], Column_]
Columns = Callable[[Expression], Column_]
"""Gives the column of a key or an aggregate."""


@dataclass(frozen=True, slots=True)
class ResultTable:
    """The result of a public program: columns of values, with one entry per group.

    ``order`` are the indices of the groups in the answer, after HAVING, ORDER BY, and LIMIT.
    """

    names: tuple[str, ...]
    columns: tuple[list[Any], ...]
    order: tuple[int, ...]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of the answer, one dictionary each."""
        return [
            {name: column[group] for name, column in zip(self.names, self.columns, strict=True)}
            for group in self.order
        ]


def check_program(program: Program) -> None:
    """Raise UnsupportedQuery for expressions that cannot be computed from noisy values."""
    if not all(map(_is_supported, program.expressions)):
        raise UnsupportedQuery(
            "Keys and statistics can be combined only with arithmetic, comparisons, AND, OR, "
            "NOT, IN, IS NULL, CASE, COALESCE, ABS, FLOOR, CEIL, ROUND, LEAST, GREATEST, LN, "
            "EXP, SQRT, and CAST to DOUBLE. For an integer, write `ROUND(x)`. Apply other "
            "functions to the columns inside the aggregates."
        )


def run_program(program: Program, plan: Plan, noisy: NoisyMeasurement) -> ResultTable:
    """Return the result of a public program over a noisy measurement; free."""
    columns, count = Statistics.of(noisy, plan), len(noisy.groups)
    values = (_shown(one, evaluate(one.expression, columns, count)) for one in program.outputs)
    return ResultTable(program.columns, tuple(values), order_groups(program, plan, noisy))


def order_groups(program: Program, plan: Plan, noisy: NoisyMeasurement) -> tuple[int, ...]:
    """Return the indices of the groups in the answer, after HAVING, ORDER BY, and LIMIT."""
    columns, count = Statistics.of(noisy, plan), len(noisy.groups)
    groups = list(range(count))
    if program.having is not None:
        kept = evaluate(program.having, columns, count)
        groups = [group for group in groups if _plain(kept[group])]
    for order in reversed(program.order):
        values = [_plain(value) for value in evaluate(order.expression, columns, count)]
        missing = [group for group in groups if values[group] is None]
        groups = [group for group in groups if values[group] is not None]
        groups.sort(key=values.__getitem__, reverse=order.descending)
        groups += missing
    return tuple(groups if program.limit is None else groups[: program.limit])


def is_noisy_number(output: Output) -> bool:
    """Return whether a column of an answer holds noisy numbers."""
    is_key = isinstance(output.expression, Key)
    return not is_key and output.expression.kind in (Kind.INT, Kind.FLOAT)


def _shown(output: Output, column: Column_) -> list[Any]:
    """Return a column as Python values, with integers rounded to int."""
    values = [_plain(value) for value in column]
    if output.expression.kind is Kind.INT and not isinstance(output.expression, Key):
        return [None if value is None else round(value) for value in values]
    return values


def _plain(value: Any) -> Any:
    item = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(item, float) and math.isnan(item) else item


def _is_supported(expression: Expression) -> bool:
    match expression:
        case Call(function=function, arguments=arguments):
            return function in RULES and all(map(_is_supported, arguments))
        case Column():
            return False
        case Key() | AggregateCall() | Literal():
            return True


def evaluate(expression: Expression, columns: Columns, count: int) -> Column_:
    """Return the value of an expression for each group."""
    match expression:
        case Literal(value=value):
            return np.full(count, np.nan if value is None else value)
        case Key() | AggregateCall():
            return columns(expression)
        case Call(function=function, arguments=arguments):
            parts = [_prepare(one, evaluate(one, columns, count)) for one in arguments]
            with np.errstate(all="ignore"):
                return RULES[function](parts)
        case Column():
            raise UnsupportedQuery(
                "A column can have several values in a group. Group by it, or aggregate it, such "
                "as with `AVG(x)`."
            )


def _prepare(expression: Expression, column: Column_) -> Column_:
    """Return a column to compute with: keys that are numbers come as such, not as objects."""
    if column.dtype.kind == "O" and expression.kind in (Kind.INT, Kind.FLOAT):
        return column.astype(np.float64)  # None becomes NaN
    return column


def _case(parts: Sequence[Column_]) -> Column_:
    *pairs, otherwise = parts
    conditions, values = [is_true(part) for part in pairs[::2]], [*pairs[1::2], otherwise]
    if any(value.dtype.kind in "OU" for value in values):
        values = [_objects(value) for value in values]
    if not conditions:
        return values[-1]
    return np.select(conditions, values[:-1], values[-1])


def _objects(part: Column_) -> Column_:
    """Return a column of any values, with None for a missing one."""
    values = part.astype(object)
    values[_is_missing(part)] = None
    return values


def _is_missing(part: Column_) -> Mask:
    if part.dtype.kind == "O":
        return np.array([value is None for value in part], dtype=np.bool_)
    return np.isnan(part) if part.dtype.kind == "f" else np.zeros(len(part), dtype=np.bool_)


def is_true(part: Column_) -> Mask:
    """Tell where a condition holds: NULL does not."""
    return part.astype(np.bool_) & ~_is_missing(part)


def _is_false(part: Column_) -> Mask:
    return ~part.astype(np.bool_) & ~_is_missing(part)


def _join(holds: Mask, fails: Mask) -> Column_:
    """Return what is true, what is false, and NULL for what is neither."""
    if (holds | fails).all():
        return holds
    found = np.full(len(holds), None, dtype=object)
    found[holds], found[fails] = True, False
    return found


def _and(parts: Sequence[Column_]) -> Column_:
    holds = np.logical_and.reduce([is_true(part) for part in parts])
    return _join(holds, np.logical_or.reduce([_is_false(part) for part in parts]))


def _or(parts: Sequence[Column_]) -> Column_:
    holds = np.logical_or.reduce([is_true(part) for part in parts])
    return _join(holds, np.logical_and.reduce([_is_false(part) for part in parts]))


def _compare(relation: Callable[[Column_, Column_], Column_]) -> Rule:
    """Return a rule that compares what is there: NULL is not even unequal to anything."""

    def compare(parts: Sequence[Column_]) -> Column_:
        first, second = parts
        is_known = ~(_is_missing(first) | _is_missing(second))
        holds = np.zeros(len(is_known), dtype=np.bool_)
        if is_known.any():  # a NULL alone has a type that a text does not compare with
            holds[is_known] = relation(first[is_known], second[is_known])
        return _join(holds, is_known & ~holds)

    return compare


def _coalesce(parts: Sequence[Column_]) -> Column_:
    """Return the first value that is there."""
    known = [~_is_missing(part) for part in parts[:-1]]
    pairs = [one for pair in zip(known, parts[:-1], strict=True) for one in pair]
    return _case([*pairs, parts[-1]])


def _in(parts: Sequence[Column_]) -> Column_:
    value, *others = parts
    return _or([_compare(operator.eq)([value, other]) for other in others])


def _finite(part: Column_) -> Column_:
    return np.where(np.isfinite(part), part, np.nan)


def _in_64_bits(part: Column_) -> Column_:
    """Return whole numbers, those that no engine has either as NULL."""
    return np.where(np.abs(part) < 2.0**63, part, np.nan)


def _round(parts: Sequence[Column_]) -> Column_:
    scale = 10.0 ** parts[1].astype(np.float64) if len(parts) > 1 else 1.0
    return _finite(np.sign(parts[0]) * np.floor(np.abs(parts[0]) * scale + 0.5) / scale)


def _to_float(parts: Sequence[Column_]) -> Column_:
    return _finite(np.array([_read_float(value) for value in parts[0]], dtype=np.float64))


def _read_float(value: Any) -> float:
    """Return a value as a number; what cannot be read as one is NULL."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")


F = Function
RULES: Final[dict[F, Rule]] = {
    F.ADD: lambda p: _finite(p[0] + p[1]),
    F.SUBTRACT: lambda p: _finite(p[0] - p[1]),
    F.MULTIPLY: lambda p: _finite(p[0] * p[1]),
    F.DIVIDE: lambda p: _finite(p[0] / p[1]),
    F.NEGATE: lambda p: -p[0],
    F.EQUAL: _compare(operator.eq),
    F.UNEQUAL: _compare(operator.ne),
    F.LESS: _compare(operator.lt),
    F.LESS_EQUAL: _compare(operator.le),
    F.GREATER: _compare(operator.gt),
    F.GREATER_EQUAL: _compare(operator.ge),
    F.AND: _and,
    F.OR: _or,
    F.NOT: lambda p: _join(_is_false(p[0]), is_true(p[0])),
    F.CASE: _case,
    F.COALESCE: _coalesce,
    F.IN: _in,
    F.IS_NULL: lambda p: _is_missing(p[0]),
    F.ABS: lambda p: np.abs(p[0]),
    F.FLOOR: lambda p: _in_64_bits(np.floor(p[0])),
    F.CEIL: lambda p: _in_64_bits(np.ceil(p[0])),
    F.ROUND: _round,
    F.LEAST: lambda p: np.fmin.reduce(list(p)),
    F.GREATEST: lambda p: np.fmax.reduce(list(p)),
    F.LN: lambda p: _finite(np.log(p[0])),
    F.EXP: lambda p: _finite(np.exp(p[0])),
    F.SQRT: lambda p: _finite(np.sqrt(p[0])),
    F.TO_FLOAT: _to_float,
}


@dataclass(frozen=True, slots=True)
class Statistics:
    """Gives the column of a key or a statistic, from totals of each group."""

    plan: Plan
    groups: tuple[tuple[Value, ...], ...]
    totals: Floats

    @classmethod
    def of(cls, totals: NoisyMeasurement, plan: Plan) -> "Statistics":
        """Return those that were released."""
        return cls(plan, totals.groups, totals.values(plan))

    def __call__(self, expression: Expression) -> NDArray[Any]:
        if isinstance(expression, Key):
            return np.array([group[expression.index] for group in self.groups], dtype=object)
        statistic = next(s for s in self.plan.statistics if s.aggregate == expression)
        found = estimate(statistic, self.plan, self.totals)
        return np.maximum(found, 0.0) if is_floored(statistic.aggregate, self.plan) else found


def is_floored(aggregate: AggregateCall, plan: Plan) -> bool:
    """Return whether a statistic is a count that the owner wants shown as zero or more."""
    return function_of(aggregate).is_count and plan.is_nonnegative
