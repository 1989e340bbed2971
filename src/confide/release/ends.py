"""Intervals of arithmetic on a single statistic: both ends of its own, taken along.

Most of what is computed from one statistic only ever rises or falls with it: a percentage, a
rounded mean, a logarithm. Its values at the two ends of the statistic's interval are then the ends
of its own, however coarse or bent it is. A choice among several values has the ends of all that may
be chosen.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from confide.query.functions import Function
from confide.query.tree import Aggregate, Call, Expression, walk
from confide.release.estimates import Floats
from confide.release.evaluate import RULES, Columns, evaluate, is_true

__all__ = ["map_ends", "sole_statistic"]

F = Function
Marks = NDArray[np.bool_]
Ends = tuple[Floats, Floats]


def sole_statistic(expression: Expression) -> Aggregate | None:
    """Return the one statistic whose ends give those of an expression; None for all others.

    It stands in a function's arguments once, for AVG(x) - AVG(x) is wider than need be otherwise;
    the values of a CASE or COALESCE may share it, and what conditions depend on does not matter.
    """
    match expression:
        case Aggregate():
            return expression
        case Call(function=function, arguments=parts) if function in CHOICES:
            values = CHOICES[function](parts)
            found = {sole_statistic(value) for value in values if _is_noisy(value)}
            return found.pop() if len(found) == 1 else None
        case Call(function=function, arguments=parts) if function in MAPS:
            noisy = [part for part in parts if _is_noisy(part)]
            return sole_statistic(noisy[0]) if len(noisy) == 1 else None
        case _:
            return None


def _is_noisy(expression: Expression) -> bool:
    """Tell whether an expression depends on any statistic, rather than on keys and literals."""
    return any(isinstance(part, Aggregate) for part in walk(expression))


def map_ends(expression: Expression, columns: Columns, count: int, ends: Ends) -> Ends:
    """Return both ends of an expression from those of its `sole_statistic`, for each group.

    Where the expression has no value at either end, both are NaN.

    Claim:   the interval holds the expression without noise whenever the statistic's interval holds
             the statistic, unless the expression is NULL there; likewise for what is released.
    Why:     an expression with one statistic in it is a chain of functions, each of which rises or
             falls with what is inside; what lies between two ends lies between their images. An
             end without a value (overflow, the logarithm of a negative number, a divisor that may
             be zero) goes to infinity on its side, beyond every value that there is. LEAST and
             GREATEST skip NULL: what they are without it is added where the inside may be NULL.
             CASE and COALESCE are one of their values, and every one that may be it is counted.
    Checked: tests/release/test_ends.py, tests/release/test_coverage.py (how often they hold).
    """
    with np.errstate(all="ignore"):
        found = _map(expression, columns, count, ends)
    is_null = np.isnan(found.low) | np.isnan(found.high)
    is_null |= np.isinf(found.low) & (found.low == found.high)
    return np.where(is_null, np.nan, found.low), np.where(is_null, np.nan, found.high)


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Between which values an expression lies in each group, and where it may be NULL."""

    low: Floats
    high: Floats
    may_be_null: Marks

    def through(
        self, function: Callable[[Floats], Floats], *, falls: Marks | bool = False
    ) -> "_Stretch":
        """Return the stretch of a function that rises, or falls where so marked."""
        first, last = function(self.low), function(self.high)
        low, high = np.where(falls, last, first), np.where(falls, first, last)
        may_be_null = self.may_be_null | ~np.isfinite(low) | ~np.isfinite(high)
        return _Stretch(
            np.where(np.isnan(low) & ~np.isnan(high), -np.inf, low),
            np.where(np.isnan(high) & ~np.isnan(low), np.inf, high),
            may_be_null,
        )

    def join(self, other: "_Stretch", here: Marks) -> "_Stretch":
        """Return the least stretch that holds another one too, in the groups so marked."""
        return _Stretch(
            np.where(here, np.fmin(self.low, other.low), self.low),
            np.where(here, np.fmax(self.high, other.high), self.high),
            self.may_be_null | (here & other.may_be_null),
        )


def _map(expression: Expression, columns: Columns, count: int, ends: Ends) -> _Stretch:
    if not _is_noisy(expression):
        value = evaluate(expression, columns, count).astype(np.float64)
        return _Stretch(value, value, np.isnan(value))
    if not isinstance(expression, Call):
        return _Stretch(*ends, np.isnan(ends[0]) | np.isnan(ends[1]))
    parts = expression.arguments
    if expression.function in CHOICES:
        values = [_map(one, columns, count, ends) for one in CHOICES[expression.function](parts)]
        if expression.function is F.COALESCE:
            return _first_known(values)
        return _first_true(values, [_chances(one, columns, count) for one in parts[:-1:2]])
    place = next(place for place, part in enumerate(parts) if _is_noisy(part))
    inner = _map(parts[place], columns, count, ends)
    fixed = [
        evaluate(part, columns, count).astype(np.float64)
        for part in (*parts[:place], *parts[place + 1 :])
    ]
    return MAPS[expression.function](inner, fixed, place)


def _chances(condition: Expression, columns: Columns, count: int) -> tuple[Marks, Marks]:
    """Return where a condition may hold, and where it must: a noisy one may or may not."""
    if _is_noisy(condition):
        return np.ones(count, dtype=np.bool_), np.zeros(count, dtype=np.bool_)
    holds = is_true(evaluate(condition, columns, count))
    return holds, holds


def _first_true(values: list[_Stretch], chances: list[tuple[Marks, Marks]]) -> _Stretch:
    """Return the stretch of a CASE: of every value that may be it; the last has no condition."""
    found = _nothing(len(values[0].low))
    is_open = np.ones(len(found.low), dtype=np.bool_)
    for value, (may_be, must_be) in zip(values, [*chances, (is_open, is_open)], strict=True):
        found = found.join(value, is_open & may_be)
        is_open = is_open & ~must_be
    return found


def _first_known(values: list[_Stretch]) -> _Stretch:
    """Return the stretch of a COALESCE: of its values up to the first that cannot be NULL."""
    found = _nothing(len(values[0].low))
    is_open = np.ones(len(found.low), dtype=np.bool_)
    for value in values:
        found = found.join(value, is_open)
        is_open = is_open & value.may_be_null
    return _Stretch(found.low, found.high, is_open)


def _nothing(count: int) -> _Stretch:
    nowhere = np.full(count, np.nan)
    return _Stretch(nowhere, nowhere, np.zeros(count, dtype=np.bool_))


Map = Callable[[_Stretch, list[Floats], int], _Stretch]
"""From the stretch of one argument, the values of the others and its place among them."""


def _rise(function: Callable[[Floats], Floats], least: float = -np.inf) -> Map:
    """A function of one number, NaN where it has no value, that never falls or lies below least."""

    def rise(inner: _Stretch, _: list[Floats], __: int) -> _Stretch:
        found = inner.through(function)
        return _Stretch(np.maximum(found.low, least), found.high, found.may_be_null)

    return rise


def _round(inner: _Stretch, fixed: list[Floats], _: int) -> _Stretch:
    return inner.through(lambda x: np.where(np.isinf(x), x, RULES[F.ROUND]([x, *fixed])))


def _subtract(inner: _Stretch, fixed: list[Floats], place: int) -> _Stretch:
    (other,) = fixed
    if place == 0:
        return inner.through(lambda x: x - other)
    return inner.through(lambda x: other - x, falls=True)


def _multiply(inner: _Stretch, fixed: list[Floats], _: int) -> _Stretch:
    (other,) = fixed
    is_zero = other == 0.0  # also times an end that is infinitely far

    def multiply(x: Floats) -> Floats:
        return np.where(is_zero & ~np.isnan(x), 0.0, x * other)

    return inner.through(multiply, falls=other < 0.0)


def _absolute(inner: _Stretch, _: list[Floats], __: int) -> _Stretch:
    first, last = np.abs(inner.low), np.abs(inner.high)
    nearest = np.where((inner.low <= 0.0) & (inner.high >= 0.0), 0.0, np.minimum(first, last))
    return _Stretch(nearest, np.maximum(first, last), inner.may_be_null)


def _divide(inner: _Stretch, fixed: list[Floats], place: int) -> _Stretch:
    """Return the stretch of a quotient: anything, where a noisy divisor may be zero."""
    (other,) = fixed
    if place == 0:
        by = np.where(other == 0.0, np.nan, other)
        return inner.through(lambda x: x / by, falls=by < 0.0)
    found = inner.through(lambda x: other / x, falls=other > 0.0)
    may_be_zero = (inner.low <= 0.0) & (inner.high >= 0.0)
    is_anything = may_be_zero & ~np.isnan(other)
    return _Stretch(
        np.where(is_anything, -np.inf, found.low),
        np.where(is_anything, np.inf, found.high),
        found.may_be_null | may_be_zero,
    )


def _choose(function: F) -> Map:
    """The least or the greatest of several numbers, NULL skipped."""
    rule = RULES[function]

    def choose(inner: _Stretch, fixed: list[Floats], _: int) -> _Stretch:
        low, high = rule([inner.low, *fixed]), rule([inner.high, *fixed])
        alone = rule(fixed) if fixed else np.full(len(low), np.nan)
        return _Stretch(
            np.where(inner.may_be_null, np.fmin(low, alone), low),
            np.where(inner.may_be_null, np.fmax(high, alone), high),
            np.isnan(alone) & inner.may_be_null,
        )

    return choose


MAPS: Final[dict[F, Map]] = {
    F.NEGATE: lambda inner, _, __: inner.through(np.negative, falls=True),
    F.ADD: lambda inner, fixed, _: inner.through(lambda x: x + fixed[0]),
    F.SUBTRACT: _subtract,
    F.MULTIPLY: _multiply,
    F.DIVIDE: _divide,
    F.ABS: _absolute,
    F.FLOOR: _rise(np.floor),
    F.CEIL: _rise(np.ceil),
    F.ROUND: _round,
    F.LN: _rise(np.log),
    F.EXP: _rise(np.exp),
    F.SQRT: _rise(np.sqrt, least=0.0),
    F.TO_FLOAT: _rise(np.positive),
    F.LEAST: _choose(F.LEAST),
    F.GREATEST: _choose(F.GREATEST),
}
"""Functions that only rise or only fall with one argument, if all others stay; and the size."""
CHOICES: Final[dict[F, Callable[[Sequence[Expression]], Sequence[Expression]]]] = {
    F.CASE: lambda parts: [*parts[1::2], parts[-1]],
    F.COALESCE: lambda parts: parts,
}
"""Functions that are one of several values, and which of their arguments these are."""
