"""Evaluates row functions at many points at once, as every engine does.

Points are doubles: days are ordinals, Booleans are 0 and 1, and NaN stands for NULL. Engines round
doubles alike, so what is computed here is what they compute, wherever it stays below 2^53.
"""

from collections.abc import Callable, Sequence
from datetime import date
from typing import Final

import numpy as np
from numpy.typing import NDArray

from confide.declare import Kind
from confide.expressions.functions import Function
from confide.expressions.tree import Call, Expression, Literal

__all__ = ["EXACT", "TESTS", "Floats", "Marks", "apply_call", "as_point", "can_apply"]

F = Function
Floats = NDArray[np.float64]
Marks = NDArray[np.bool_]
EXACT: Final = 2.0**53
"""Below it doubles hold every whole number, so that they compute as engines do."""

EPOCH: Final = 719_163
"""What `date.toordinal` says of 1 January 1970."""
NEARLY_HALF: Final = np.nextafter(0.5, 0.0)
NUMERIC: Final = (Kind.INT, Kind.FLOAT, Kind.BOOL)


def as_point(value: float | str | date | None) -> float | None:
    """Return a written value as a point, or None where doubles cannot hold it."""
    match value:
        case None:
            return float("nan")
        case str():
            return None
        case date():
            return float(value.toordinal())
        case _:
            return float(value) if abs(value) < EXACT else None


def apply_call(call: Call, parts: Sequence[Floats]) -> Floats | None:
    """Return a function of its arguments at every point.

    None says that engines may compute it differently, or that a result has too many digits.
    """
    rule = TYPED.get(call.function)
    if rule is None and call.function not in RULES:
        return None
    with np.errstate(all="ignore"):
        found = RULES[call.function](parts) if rule is None else rule(call.arguments, parts[0])
    if found is None or not (np.isnan(found) | (np.abs(found) < EXACT)).all():
        return None
    return found


def can_apply(call: Call) -> bool:
    """Return whether every engine computes a function alike, whatever its arguments are."""
    return apply_call(call, [np.zeros(1)] * len(call.arguments)) is not None


Rule = Callable[[Sequence[Floats]], Floats]
Typed = Callable[[Sequence[Expression], Floats], Floats | None]
"""A rule that depends on the types of the arguments, or on their literals."""


def _not_by_zero(operation: Callable[[Floats, Floats], Floats]) -> Rule:
    return lambda p: np.where(p[1] == 0.0, np.nan, operation(p[0], p[1]))


def _coalesce(parts: Sequence[Floats]) -> Floats:
    found = parts[0]
    for part in parts[1:]:
        found = np.where(np.isnan(found), part, found)
    return found


def _round(arguments: Sequence[Expression], value: Floats) -> Floats | None:
    """Return the values of `engines.sql.dialect.round_double` and `round_integer`."""
    written = arguments[1] if len(arguments) > 1 else Literal(0, Kind.INT)
    digits = written.value if isinstance(written, Literal) else None
    if not isinstance(digits, int) or isinstance(digits, bool):
        return None
    if arguments[0].kind is Kind.INT:
        return value if digits >= 0 else _round_whole(value, 10**-digits)
    power = 10.0 ** abs(digits)
    scaled = value * power if digits >= 0 else value / power
    rounded = np.trunc(scaled + np.copysign(NEARLY_HALF, scaled))
    return rounded / power if digits >= 0 else rounded * power


def _round_whole(value: Floats, unit: int) -> Floats:
    is_known = ~np.isnan(value)
    size = np.abs(value[is_known]).astype(np.int64)
    found = np.full(len(value), np.nan)
    found[is_known] = np.sign(value[is_known]) * ((size + unit // 2) // unit * unit)
    return found


def _to_whole(arguments: Sequence[Expression], value: Floats) -> Floats | None:
    """Return the nearest whole number, halves to the even one."""
    return np.rint(value) if arguments[0].kind in NUMERIC else None


def _to_real(arguments: Sequence[Expression], value: Floats) -> Floats | None:
    return value if arguments[0].kind in NUMERIC else None


def _to_day(arguments: Sequence[Expression], value: Floats) -> Floats | None:
    return value if arguments[0].kind is Kind.DATE else None


def _calendar(part_of: Callable[[NDArray[np.datetime64]], NDArray[np.int64]]) -> Rule:
    """A rule for a function of the day; days are ordinals."""

    def rule(parts: Sequence[Floats]) -> Floats:
        (ordinals,) = parts
        is_day = ~np.isnan(ordinals)
        found = np.full(len(ordinals), np.nan)
        found[is_day] = part_of((ordinals[is_day].astype(np.int64) - EPOCH).astype("datetime64[D]"))
        return found

    return rule


def _months(days: NDArray[np.datetime64]) -> NDArray[np.int64]:
    """Return how many months after January of year 0 days are."""
    return days.astype("datetime64[M]").astype(np.int64) + 12 * 1970


def _first_day(months: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the ordinals of the first days of such months."""
    firsts = (months - 12 * 1970).astype("datetime64[M]").astype("datetime64[D]")
    return firsts.astype(np.int64) + EPOCH


RULES: Final[dict[F, Rule]] = {
    F.ADD: lambda p: p[0] + p[1],
    F.SUBTRACT: lambda p: p[0] - p[1],
    F.MULTIPLY: lambda p: p[0] * p[1],
    F.DIVIDE: _not_by_zero(np.divide),
    F.MODULO: _not_by_zero(np.fmod),
    F.NEGATE: lambda p: -p[0],
    F.ABS: lambda p: np.abs(p[0]),
    F.FLOOR: lambda p: np.floor(p[0]),
    F.CEIL: lambda p: np.ceil(p[0]),
    F.SQRT: lambda p: np.sqrt(p[0]),
    F.LEAST: lambda p: np.fmin.reduce(list(p)),
    F.GREATEST: lambda p: np.fmax.reduce(list(p)),
    F.COALESCE: _coalesce,
    F.YEAR: _calendar(lambda days: _months(days) // 12),
    F.QUARTER: _calendar(lambda days: _months(days) % 12 // 3 + 1),
    F.MONTH: _calendar(lambda days: _months(days) % 12 + 1),
    F.DAY: _calendar(lambda days: (days - days.astype("datetime64[M]")).astype(np.int64) + 1),
    F.WEEKDAY: _calendar(lambda days: (days.astype(np.int64) + EPOCH) % 7),
    F.TRUNC_YEAR: _calendar(lambda days: _first_day(_months(days) // 12 * 12)),
    F.TRUNC_QUARTER: _calendar(lambda days: _first_day(_months(days) // 3 * 3)),
    F.TRUNC_MONTH: _calendar(lambda days: _first_day(_months(days))),
}
"""Functions that every engine computes alike; logarithms and exponentials are not among them."""

TYPED: Final[dict[F, Typed]] = {
    F.ROUND: _round,
    F.TO_INT: _to_whole,
    F.TO_FLOAT: _to_real,
    F.TO_DATE: _to_day,
}

TESTS: Final[dict[F, Callable[..., Marks]]] = {
    F.EQUAL: lambda a, b: a == b,
    F.UNEQUAL: lambda a, b: (a != b) & ~np.isnan(a) & ~np.isnan(b),
    F.LESS: np.less,
    F.LESS_EQUAL: np.less_equal,
    F.GREATER: np.greater,
    F.GREATER_EQUAL: np.greater_equal,
    F.IS_NULL: np.isnan,
}
"""Comparisons, which are true at no point where an argument is NULL."""
