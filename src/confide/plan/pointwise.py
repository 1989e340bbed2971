"""Evaluation of row functions at many points at once, with the same results as every engine.

plan/key_values.py and plan/breakpoints.py use it to enumerate group keys without reading rows. A
*point* is one value of an expression. Points are doubles: dates are ordinals, timestamps are
milliseconds, Booleans are 0 and 1, and NaN stands for NULL. Engines round doubles in the same way,
so their results equal ours as long as all values stay below 2^53 in magnitude.
"""

from collections.abc import Callable, Sequence
from datetime import date, datetime
from typing import Final

import numpy as np
from numpy.typing import NDArray

from confide.declare import Kind
from confide.declare.columns import MAX_MILLISECONDS, MIN_MILLISECONDS, to_milliseconds
from confide.expressions.functions import Function
from confide.expressions.tree import Call, Expression, Literal

__all__ = ["COMPARISONS", "EXACT_LIMIT", "Floats", "Mask", "apply_call", "as_point", "can_apply"]

F = Function
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
EXACT_LIMIT: Final = 2.0**53
"""The bound below which doubles represent every integer, so results equal those of engines."""

EPOCH: Final = 719_163
"""The value of `date.toordinal` for January 1, 1970."""
MAX_ORDINAL: Final = date.max.toordinal()
ALMOST_HALF: Final = np.nextafter(0.5, 0.0)
NUMERIC_KINDS: Final = (Kind.INT, Kind.FLOAT, Kind.BOOL)


def as_point(value: float | str | date | None) -> float | None:
    """Return a literal value as a point, or None for strings and for numbers that are too large."""
    match value:
        case None:
            return float("nan")
        case str():
            return None
        case datetime():
            return float(to_milliseconds(value))
        case date():
            return float(value.toordinal())
        case _:
            return float(value) if abs(value) < EXACT_LIMIT else None


def apply_call(call: Call, parts: Sequence[Floats]) -> Floats | None:
    """Return the values of a function at every point.

    None means that engines may compute it differently, or that a result is too large to be exact.
    """
    rule = TYPED_RULES.get(call.function)
    if rule is None and call.function not in RULES:
        return None
    with np.errstate(all="ignore"):
        found = RULES[call.function](parts) if rule is None else rule(call.arguments, parts[0])
    if found is None or not (np.isnan(found) | (np.abs(found) < EXACT_LIMIT)).all():
        return None
    return found


def can_apply(call: Call) -> bool:
    """Return whether every engine computes a function identically for all arguments."""
    return apply_call(call, [np.zeros(1)] * len(call.arguments)) is not None


Rule = Callable[[Sequence[Floats]], Floats]
TypedRule = Callable[[Sequence[Expression], Floats], Floats | None]
"""A rule that depends on the types of the arguments, or on literals among them.

It gets the arguments, and the values of the first one.
"""


def _not_by_zero(operation: Callable[[Floats, Floats], Floats]) -> Rule:
    return lambda p: np.where(p[1] == 0.0, np.nan, operation(p[0], p[1]))


def _coalesce(parts: Sequence[Floats]) -> Floats:
    found = parts[0]
    for part in parts[1:]:
        found = np.where(np.isnan(found), part, found)
    return found


def _round(arguments: Sequence[Expression], value: Floats) -> Floats | None:
    """Return the rounded values as engines do, with halves away from zero."""
    literal = arguments[1] if len(arguments) > 1 else Literal(0, Kind.INT)
    digits = literal.value if isinstance(literal, Literal) else None
    if not isinstance(digits, int) or isinstance(digits, bool):
        return None
    if arguments[0].kind is Kind.INT:
        return value if digits >= 0 else _round_int(value, 10**-digits)
    power = 10.0 ** abs(digits)
    scaled = value * power if digits >= 0 else value / power
    rounded = np.trunc(scaled + np.copysign(ALMOST_HALF, scaled))
    return rounded / power if digits >= 0 else rounded * power


def _round_int(value: Floats, unit: int) -> Floats:
    """Return integers rounded to multiples of ``unit``, with halves away from zero."""
    is_known = ~np.isnan(value)
    size = np.abs(value[is_known]).astype(np.int64)
    found = np.full(len(value), np.nan)
    found[is_known] = np.sign(value[is_known]) * ((size + unit // 2) // unit * unit)
    return found


def _to_int(arguments: Sequence[Expression], value: Floats) -> Floats | None:
    """Return the nearest integer, rounding half to even."""
    return np.rint(value) if arguments[0].kind in NUMERIC_KINDS else None


def _to_float(arguments: Sequence[Expression], value: Floats) -> Floats | None:
    return value if arguments[0].kind in NUMERIC_KINDS else None


def _to_date(arguments: Sequence[Expression], value: Floats) -> Floats | None:
    return value if arguments[0].kind is Kind.DATE else None


def _calendar(part_of: Callable[[NDArray[np.datetime64]], NDArray[np.int64]]) -> Rule:
    """Return the rule of a function of dates, which are ordinals; ``part_of`` gets NumPy dates."""

    def rule(parts: Sequence[Floats]) -> Floats:
        (ordinals,) = parts
        is_day = ~np.isnan(ordinals)
        found = np.full(len(ordinals), np.nan)
        found[is_day] = part_of((ordinals[is_day].astype(np.int64) - EPOCH).astype("datetime64[D]"))
        return found

    return rule


def _months(days: NDArray[np.datetime64]) -> NDArray[np.int64]:
    """Return the number of months since January of year 0."""
    return days.astype("datetime64[M]").astype(np.int64) + 12 * 1970


def _first_day(months: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the ordinals of the first days of these months."""
    firsts = (months - 12 * 1970).astype("datetime64[M]").astype("datetime64[D]")
    return firsts.astype(np.int64) + EPOCH


def _month_lengths(months: NDArray[np.int64]) -> NDArray[np.int64]:
    return _first_day(months + 1) - _first_day(months)


def _thursday(days: NDArray[np.datetime64]) -> NDArray[np.datetime64]:
    """Return the Thursday of each date's week, whose year is the ISO year."""
    found: NDArray[np.datetime64] = (
        days + 3 - ((days.astype(np.int64) + EPOCH - 1) % 7).astype("timedelta64[D]")
    )
    return found


def _iso_week(days: NDArray[np.datetime64]) -> NDArray[np.int64]:
    thursday = _thursday(days)
    first = thursday.astype("datetime64[Y]").astype("datetime64[D]")
    found: NDArray[np.int64] = (thursday - first).astype(np.int64) // 7 + 1
    return found


def _within_years(ordinals: Floats) -> Floats:
    """Return ordinals of dates, with NULL for those outside years 1 to 9999."""
    is_date = (ordinals >= 1) & (ordinals <= MAX_ORDINAL)
    return np.where(is_date, ordinals, np.nan)


def _add_months(parts: Sequence[Floats]) -> Floats:
    """Return dates moved by months; a day past the end of the month becomes its last day."""
    ordinals, counts = parts
    is_known = ~(np.isnan(ordinals) | np.isnan(counts)) & (np.abs(counts) < MAX_ORDINAL)
    found = np.full(len(ordinals), np.nan)
    days = (ordinals[is_known].astype(np.int64) - EPOCH).astype("datetime64[D]")
    in_month = (days - days.astype("datetime64[M]")).astype(np.int64) + 1
    months = _months(days) + counts[is_known].astype(np.int64)
    moved = _first_day(months) + np.minimum(in_month, _month_lengths(months)) - 1
    found[is_known] = _within_years(moved.astype(np.float64))
    return found


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
    F.SIGN: lambda p: np.sign(p[0]),
    F.LEAST: lambda p: np.fmin.reduce(list(p)),
    F.GREATEST: lambda p: np.fmax.reduce(list(p)),
    F.COALESCE: _coalesce,
    F.YEAR: _calendar(lambda days: _months(days) // 12),
    F.QUARTER: _calendar(lambda days: _months(days) % 12 // 3 + 1),
    F.MONTH: _calendar(lambda days: _months(days) % 12 + 1),
    F.DAY: _calendar(lambda days: (days - days.astype("datetime64[M]")).astype(np.int64) + 1),
    F.WEEKDAY: _calendar(lambda days: (days.astype(np.int64) + EPOCH) % 7),
    F.WEEK: _calendar(_iso_week),
    F.ISOYEAR: _calendar(lambda days: _months(_thursday(days)) // 12),
    F.DAY_OF_YEAR: _calendar(
        lambda days: (days - days.astype("datetime64[Y]")).astype(np.int64) + 1
    ),
    F.TRUNC_WEEK: _calendar(lambda days: _thursday(days).astype(np.int64) + EPOCH - 3),
    F.EPOCH_MS: lambda p: p[0],
    F.FROM_EPOCH_MS: lambda p: np.where(
        (p[0] >= MIN_MILLISECONDS) & (p[0] <= MAX_MILLISECONDS), p[0], np.nan
    ),
    F.DAYS_BETWEEN: lambda p: p[1] - p[0],
    F.ADD_DAYS: lambda p: _within_years(p[0] + p[1]),
    F.ADD_MONTHS: _add_months,
    F.TRUNC_YEAR: _calendar(lambda days: _first_day(_months(days) // 12 * 12)),
    F.TRUNC_QUARTER: _calendar(lambda days: _first_day(_months(days) // 3 * 3)),
    F.TRUNC_MONTH: _calendar(lambda days: _first_day(_months(days))),
}
"""Functions that every engine computes identically, which excludes logarithms and exponentials."""

TYPED_RULES: Final[dict[F, TypedRule]] = {
    F.ROUND: _round,
    F.TO_INT: _to_int,
    F.TO_FLOAT: _to_float,
    F.TO_DATE: _to_date,
}

COMPARISONS: Final[dict[F, Callable[..., Mask]]] = {
    F.EQUAL: lambda a, b: a == b,
    F.UNEQUAL: lambda a, b: (a != b) & ~np.isnan(a) & ~np.isnan(b),
    F.LESS: np.less,
    F.LESS_EQUAL: np.less_equal,
    F.GREATER: np.greater,
    F.GREATER_EQUAL: np.greater_equal,
    F.IS_NULL: np.isnan,
}
"""Comparisons; except for IS NULL, none is true at a point where an argument is NULL."""
