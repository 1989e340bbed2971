"""Arithmetic on noisy answers: what the analyst asked to compute from keys and statistics.

It works on columns of numbers and keys, one entry a group, after the noise; so it is free. NULL is
None in columns of objects and NaN in columns of numbers.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from confide.errors import UnsupportedQuery
from confide.query.functions import Function
from confide.query.tree import Aggregate, Call, Column, Expression, Key, Literal

__all__ = ["Columns", "evaluate", "supports"]

Column_ = NDArray[Any]
Columns = Callable[[Expression], Column_]
"""Gives the column of a key or an aggregate."""


def supports(expression: Expression) -> bool:
    """Tell whether an expression over keys and statistics can be computed after the noise."""
    match expression:
        case Call(function=function, arguments=arguments):
            return function in RULES and all(map(supports, arguments))
        case Column():
            return False
        case Key() | Aggregate() | Literal():
            return True


def evaluate(expression: Expression, columns: Columns, count: int) -> Column_:
    """Return the value of an expression for each group."""
    match expression:
        case Literal(value=value):
            return np.full(count, np.nan if value is None else value)
        case Key() | Aggregate():
            return columns(expression)
        case Call(function=function, arguments=arguments):
            parts = [evaluate(argument, columns, count) for argument in arguments]
            with np.errstate(all="ignore"):
                return RULES[function](parts)
        case Column():
            raise UnsupportedQuery(
                "a bare column has no one value in a group; group by it, or write, say, AVG(x)"
            )


def _case(parts: Sequence[Column_]) -> Column_:
    *pairs, otherwise = parts
    conditions, values = [_truth(part) for part in pairs[::2]], [*pairs[1::2], otherwise]
    if any(value.dtype.kind in "OU" for value in values):
        values = [_objects(value) for value in values]
    return np.select(conditions, values[:-1], values[-1])


def _objects(part: Column_) -> Column_:
    """Return a column of any values, with None for a missing one."""
    values = part.astype(object)
    values[[isinstance(value, float) and bool(np.isnan(value)) for value in values]] = None
    return values


def _truth(part: Column_) -> NDArray[np.bool_]:
    if part.dtype.kind == "f":
        known: NDArray[np.bool_] = (part != 0) & ~np.isnan(part)
        return known
    return part.astype(np.bool_)


def _finite(part: Column_) -> Column_:
    return np.where(np.isfinite(part), part, np.nan)


def _round(parts: Sequence[Column_]) -> Column_:
    digits = int(parts[1][0]) if len(parts) > 1 and len(parts[1]) else 0
    scale = 10.0**digits
    return np.sign(parts[0]) * np.floor(np.abs(parts[0]) * scale + 0.5) / scale


F = Function
RULES: Final[dict[F, Callable[[Sequence[Column_]], Column_]]] = {
    F.ADD: lambda p: p[0] + p[1],
    F.SUBTRACT: lambda p: p[0] - p[1],
    F.MULTIPLY: lambda p: p[0] * p[1],
    F.DIVIDE: lambda p: _finite(p[0] / p[1]),
    F.NEGATE: lambda p: -p[0],
    F.EQUAL: lambda p: p[0] == p[1],
    F.UNEQUAL: lambda p: p[0] != p[1],
    F.LESS: lambda p: p[0] < p[1],
    F.LESS_EQUAL: lambda p: p[0] <= p[1],
    F.GREATER: lambda p: p[0] > p[1],
    F.GREATER_EQUAL: lambda p: p[0] >= p[1],
    F.AND: lambda p: np.logical_and.reduce([_truth(part) for part in p]),
    F.OR: lambda p: np.logical_or.reduce([_truth(part) for part in p]),
    F.NOT: lambda p: ~_truth(p[0]),
    F.CASE: _case,
    F.ABS: lambda p: np.abs(p[0]),
    F.FLOOR: lambda p: np.floor(p[0]),
    F.CEIL: lambda p: np.ceil(p[0]),
    F.ROUND: _round,
    F.LEAST: lambda p: np.fmin.reduce(list(p)),
    F.GREATEST: lambda p: np.fmax.reduce(list(p)),
    F.LN: lambda p: _finite(np.log(p[0])),
    F.EXP: lambda p: _finite(np.exp(p[0])),
    F.SQRT: lambda p: _finite(np.sqrt(p[0])),
    F.TO_FLOAT: lambda p: p[0].astype(np.float64),
}
