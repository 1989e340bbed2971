"""Bounds carried through expressions of several aggregates.

Most of what is computed from one statistic only ever rises or falls with it: a percentage, a
rounded mean, a logarithm. Its values at the two ends of the statistic's interval are then the ends
of its own, however coarse or bent it is. What is computed from several lies between the least and
the greatest that all of their intervals allow. A choice among several values has the ends of all
that may be chosen.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from confide.aggregates import function_of
from confide.expressions.functions import Function
from confide.expressions.tree import AggregateCall, Call, Expression, Literal, walk
from confide.release.estimates import Floats
from confide.release.program.run import RULES, Columns, evaluate, is_true

__all__ = [
    "Ends",
    "divisor_of",
    "find_core",
    "leaps",
    "list_statistics",
    "list_vanishing",
    "map_ends",
]

F = Function
Mask = NDArray[np.bool_]
SKIPPING: Final = (F.COALESCE, F.LEAST, F.GREATEST)
"""Functions that pass over NULL."""
PARTIAL: Final = (F.DIVIDE, F.LN, F.SQRT)
"""Functions that are NULL for some numbers."""
Ends = tuple[Floats, Floats]


def find_core(expression: Expression) -> Expression:
    """Return the innermost part that an expression rises or falls with, or the expression itself.

    It is a statistic, or what several are in: the part stands in a function's arguments once. The
    values of a CASE or COALESCE may share one statistic; what conditions depend on does not matter.
    """
    match expression:
        case Call(function=function, arguments=parts) if function in CHOICES:
            cores = {find_core(value) for value in CHOICES[function](parts) if _is_noisy(value)}
            core = cores.pop() if len(cores) == 1 else expression
            return core if isinstance(core, AggregateCall) else expression
        case Call(function=function, arguments=parts) if function in MAPS:
            noisy = [part for part in parts if _is_noisy(part)]
            return find_core(noisy[0]) if len(noisy) == 1 else expression
        case _:
            return expression


def list_statistics(expression: Expression) -> list[AggregateCall]:
    """Return the statistics that the values of an expression are made of, each once.

    What conditions depend on is not among them.
    """
    match expression:
        case AggregateCall():
            return [expression]
        case Call(function=function, arguments=parts) if function in CHOICES | MAPS:
            values = CHOICES[function](parts) if function in CHOICES else parts
            return list(dict.fromkeys(one for part in values for one in list_statistics(part)))
        case _:
            return []


def divisor_of(expression: Expression) -> Expression | None:
    """Return the divisor of a ratio of two linear expressions; None for anything else."""
    match expression:
        case Call(function=F.DIVIDE, arguments=(above, below)) if _is_noisy(below):
            return below if _is_linear(above) and _is_linear(below) else None
        case _:
            return None


def leaps(expression: Expression) -> bool:
    """Tell whether noise decides which of several values an expression is, or a part of it.

    What it is in most draws of the noise then says nothing of what it is without: a CASE on
    ``COUNT(*) = 11`` is hardly ever what it is of 11 rows.
    """
    match expression:
        case Call(function=function, arguments=parts) if function in CHOICES:
            values = [one for one in CHOICES[function](parts) if one != Literal(None, one.kind)]
            decided = [part for one in values for part in walk(one)]
            is_noisy = any(map(_has_noisy_test, [expression, *decided]))
            return (is_noisy and len(values) > 1) or any(map(leaps, values))
        case Call(function=function, arguments=parts) if function in MAPS:
            inner = [part for one in parts for part in walk(one)] if function in SKIPPING else []
            return any(map(_has_noisy_test, inner)) or any(map(leaps, parts))
        case Call():
            return _is_noisy(expression)  # a condition as a number
        case _:
            return False


def list_vanishing(expression: Expression) -> list[Expression]:
    """Return the parts that noise may make NULL where NULL is skipped, so that another is shown."""
    return [
        part
        for outer in walk(expression)
        if isinstance(outer, Call) and outer.function in SKIPPING
        for part in walk(outer)
        if isinstance(part, Call) and part.function in PARTIAL and _is_noisy(part)
    ]


def _has_noisy_test(expression: Expression) -> bool:
    """Tell whether an expression is a CASE one of whose conditions depends on a statistic."""
    match expression:
        case Call(function=F.CASE, arguments=parts):
            return any(map(_is_noisy, parts[:-1:2]))
        case _:
            return False


def _is_linear(expression: Expression) -> bool:
    """Tell whether an expression is a sum of counts and sums, each times what carries no noise."""
    match expression:
        case AggregateCall():
            return function_of(expression).is_linear
        case Call(function=F.ADD | F.SUBTRACT | F.NEGATE, arguments=parts):
            return all(map(_is_linear, parts))
        case Call(function=F.MULTIPLY, arguments=parts):
            return all(map(_is_linear, parts)) and not all(map(_is_noisy, parts))
        case Call(function=F.DIVIDE, arguments=(above, below)):
            return _is_linear(above) and not _is_noisy(below)
        case _:
            return not _is_noisy(expression)


def _is_noisy(expression: Expression) -> bool:
    """Tell whether an expression depends on any statistic, rather than on keys and literals."""
    return any(isinstance(part, AggregateCall) for part in walk(expression))


def map_ends(
    expression: Expression, columns: Columns, count: int, ends: Mapping[Expression, Ends]
) -> Ends:
    """Return both ends of an expression from those of its statistics or core, for each group.

    Where the expression has no value at either end, both are NaN.

    Claim:   the interval holds the expression without noise whenever all of ``ends`` hold what
             they are of, unless the expression is NULL there; likewise for what is released.
    Why:     each function rises or falls with each argument if the others stay, so its least and
             its greatest value over all that arguments may be are at ends of these. An end without
             a value (overflow, the logarithm of a negative number, a divisor that may be zero)
             goes to infinity on its side, beyond every value that there is. LEAST and GREATEST
             skip NULL: no argument that may be NULL holds the others back. CASE and COALESCE are
             one of their values, and every one that may be it is counted; a condition as a number
             is 0 or 1.
    Checked: tests/release/test_interval_arithmetic.py, tests/release/test_coverage.py (how often
             they hold).
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
    may_be_null: Mask

    @classmethod
    def of(cls, low: Floats, high: Floats, *parts: "_Stretch") -> "_Stretch":
        """Return the stretch of a function of others; where one end is unknown, it is far away."""
        may_be_null = ~np.isfinite(low) | ~np.isfinite(high)
        return cls(
            np.where(np.isnan(low) & ~np.isnan(high), -np.inf, low),
            np.where(np.isnan(high) & ~np.isnan(low), np.inf, high),
            reduce(np.logical_or, (part.may_be_null for part in parts), may_be_null),
        )

    def join(self, other: "_Stretch", here: Mask) -> "_Stretch":
        """Return the least stretch that holds another one too, in the groups so marked."""
        return _Stretch(
            np.where(here, np.fmin(self.low, other.low), self.low),
            np.where(here, np.fmax(self.high, other.high), self.high),
            self.may_be_null | (here & other.may_be_null),
        )

    def negate(self) -> "_Stretch":
        """Return the stretch of the same with the opposite sign."""
        return _Stretch(-self.high, -self.low, self.may_be_null)


def _map(
    expression: Expression, columns: Columns, count: int, ends: Mapping[Expression, Ends]
) -> _Stretch:
    if expression in ends:
        return _Stretch.of(*ends[expression])
    if not _is_noisy(expression):
        value = _numbers(evaluate(expression, columns, count))
        return _Stretch(value, value, np.isnan(value))
    if not isinstance(expression, Call):
        raise TypeError("a statistic needs its ends")
    function, parts = expression.function, expression.arguments
    if function in CHOICES:
        values = [_map(one, columns, count, ends) for one in CHOICES[function](parts)]
        if function is F.COALESCE:
            return _first_known(values)
        return _first_true(values, [_chances(one, columns, count) for one in parts[:-1:2]])
    if function in MAPS:
        return MAPS[function]([_map(part, columns, count, ends) for part in parts])
    every = np.ones(count, dtype=np.bool_)
    return _Stretch(np.zeros(count), np.ones(count), every)  # a condition


def _numbers(column: NDArray[Any]) -> Floats:
    """Return what stands in a column as numbers; what cannot be read as one is NULL."""
    is_number = column.dtype.kind in "biuf"
    return column.astype(np.float64) if is_number else RULES[F.TO_FLOAT]([column])


def _chances(condition: Expression, columns: Columns, count: int) -> tuple[Mask, Mask]:
    """Return where a condition may hold, and where it must: a noisy one may or may not."""
    if _is_noisy(condition):
        return np.ones(count, dtype=np.bool_), np.zeros(count, dtype=np.bool_)
    holds = is_true(evaluate(condition, columns, count))
    return holds, holds


def _first_true(values: list[_Stretch], chances: list[tuple[Mask, Mask]]) -> _Stretch:
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


Map = Callable[[Sequence[_Stretch]], _Stretch]


def _rise(function: Callable[[Floats], Floats], least: float = -np.inf) -> Map:
    """A function of one number, NaN where it has no value, that never falls or lies below least."""

    def rise(parts: Sequence[_Stretch]) -> _Stretch:
        (inner,) = parts
        found = _Stretch.of(function(inner.low), function(inner.high), inner)
        return _Stretch(np.maximum(found.low, least), found.high, found.may_be_null)

    return rise


def _round(parts: Sequence[_Stretch]) -> _Stretch:
    inner, digits = parts[0], [part.low for part in parts[1:]]
    low, high = (
        np.where(np.isinf(end), end, RULES[F.ROUND]([end, *digits]))
        for end in (inner.low, inner.high)
    )
    return _Stretch.of(low, high, inner)


def _add(parts: Sequence[_Stretch]) -> _Stretch:
    first, second = parts
    return _Stretch.of(first.low + second.low, first.high + second.high, first, second)


def _multiply(parts: Sequence[_Stretch]) -> _Stretch:
    first, second = parts

    def multiply(x: Floats, y: Floats) -> Floats:
        is_zero = ((x == 0.0) & ~np.isnan(y)) | ((y == 0.0) & ~np.isnan(x))
        return np.where(is_zero, 0.0, x * y)  # also times an end that is infinitely far

    return _outermost(first, second, multiply)


def _divide(parts: Sequence[_Stretch]) -> _Stretch:
    """Return the stretch of a quotient: anything, where the divisor may have either sign.

    A divisor of one sign that may be near zero leaves one end infinitely far. Zero divides nothing.
    """
    above, below = parts
    low = np.where(below.low == 0.0, 0.0, below.low)
    high = np.where(below.high == 0.0, -0.0, below.high)
    is_zero = (low == 0.0) & (high == 0.0)
    by = _Stretch(
        np.where(is_zero, np.nan, low), np.where(is_zero, np.nan, high), below.may_be_null
    )
    found = _outermost(above, by, np.divide)
    is_anything = (low < 0.0) & (high > 0.0) & ~np.isnan(above.low)
    return _Stretch(
        np.where(is_anything, -np.inf, found.low),
        np.where(is_anything, np.inf, found.high),
        found.may_be_null | ((low <= 0.0) & (high >= 0.0)),
    )


def _outermost(
    first: _Stretch, second: _Stretch, function: Callable[[Floats, Floats], Floats]
) -> _Stretch:
    """Return the stretch of a function that rises or falls with each of two arguments."""
    found = [function(x, y) for x in (first.low, first.high) for y in (second.low, second.high)]
    is_known = ~(np.isnan(first.low) | np.isnan(second.low))
    low, high = np.fmin.reduce(found), np.fmax.reduce(found)
    return _Stretch.of(
        np.where(is_known, low, np.nan), np.where(is_known, high, np.nan), first, second
    )


def _absolute(parts: Sequence[_Stretch]) -> _Stretch:
    (inner,) = parts
    first, last = np.abs(inner.low), np.abs(inner.high)
    nearest = np.where((inner.low <= 0.0) & (inner.high >= 0.0), 0.0, np.minimum(first, last))
    return _Stretch(nearest, np.maximum(first, last), inner.may_be_null)


def _least(parts: Sequence[_Stretch]) -> _Stretch:
    """Return the stretch of the least of several numbers, of which NULL is skipped."""
    low: Floats = np.fmin.reduce([part.low for part in parts])
    high: Floats = np.fmax.reduce([part.high for part in parts])
    sure: Floats = np.fmin.reduce([np.where(part.may_be_null, np.nan, part.high) for part in parts])
    may_be_null: Mask = np.logical_and.reduce([part.may_be_null for part in parts])
    return _Stretch(low, np.where(np.isnan(sure), high, sure), may_be_null)


MAPS: Final[dict[F, Map]] = {
    F.NEGATE: lambda parts: parts[0].negate(),
    F.ADD: _add,
    F.SUBTRACT: lambda parts: _add([parts[0], parts[1].negate()]),
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
    F.LEAST: _least,
    F.GREATEST: lambda parts: _least([part.negate() for part in parts]).negate(),
}
"""Functions that only rise or only fall with each argument, if all others stay; and the size."""
CHOICES: Final[dict[F, Callable[[Sequence[Expression]], Sequence[Expression]]]] = {
    F.CASE: lambda parts: [*parts[1::2], parts[-1]],
    F.COALESCE: lambda parts: parts,
}
"""Functions that are one of several values, and which of their arguments these are."""
