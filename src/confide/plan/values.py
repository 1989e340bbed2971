"""Which whole numbers and days a group key can be: it is computed for every value of its column.

A range alone would name keys that no row can have: of FLOOR(age / 10) * 10 every year, not every
tenth. What is found holds every key that a row can have, and hardly any other. It follows from the
declaration and the question; no row is read.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from itertools import product
from typing import Final

import numpy as np
from numpy.typing import NDArray

from confide.declare import Kind
from confide.plan.ranges import Range, Ranges
from confide.query.functions import Function
from confide.query.tree import Call, Column, Expression, Literal

__all__ = ["may_be_null", "whole_values"]

F = Function
Floats = NDArray[np.float64]
Marks = NDArray[np.bool_]
MOST_POINTS: Final = 2**17
MOST_CASES: Final = 64
EXACT: Final = 2.0**53
"""Below it doubles hold every whole number, so that they compute as engines do."""

EPOCH: Final = 719_163
"""What `date.toordinal` says of 1 January 1970."""


def whole_values(key: Expression, ranges: Ranges) -> tuple[int, ...] | None:
    """Return in order every whole number, or ordinal of a day, that a key can be.

    None says that this is not known, or that its column has too many values.

    Claim:   no row's key is another number, on any engine; NULL is not counted.
    Why:     a key of one column is computed at each of its values and at NULL, by operations that
             every double has alike; halves may be rounded either way, and a condition that is not
             understood may hold or fail.
    Checked: tests/plan/test_values.py.
    """
    columns = set(_columns(key))
    if not columns:
        return _compute_all(key, None, Range(0, 0))
    column = columns.pop()
    found = ranges[column.table, column.name]
    is_short = found.high - found.low < MOST_POINTS and found.largest < EXACT
    if columns or not is_short or column.kind not in (Kind.INT, Kind.DATE, Kind.BOOL):
        return None
    return _compute_all(key, column, Range(found.low, found.high))


def may_be_null(expression: Expression, optional: frozenset[str]) -> bool:
    """Tell whether NULL is one of an expression's own values, even where no column is NULL.

    It is where a CASE has no ELSE, or a column is of a table that is ``optional``: LEFT JOINed.
    """
    match expression:
        case Literal(value=value):
            return value is None
        case Column(table=table):
            return table in optional
        case Call(function=F.CASE, arguments=parts):
            return any(may_be_null(part, optional) for part in _values_of(parts))
        case Call(function=F.COALESCE | F.LEAST | F.GREATEST, arguments=parts):
            return all(may_be_null(part, optional) for part in parts)
        case Call(function=function, arguments=parts):
            return function is not F.IS_NULL and any(may_be_null(one, optional) for one in parts)
        case _:
            return False


def _columns(expression: Expression) -> Iterable[Column]:
    """Yield the columns that an expression is computed from, conditions of a CASE apart."""
    match expression:
        case Column():
            yield expression
        case Call(function=function, arguments=parts):
            for part in _values_of(parts) if function is F.CASE else parts:
                yield from _columns(part)
        case _:
            return


def _values_of(parts: Sequence[Expression]) -> Sequence[Expression]:
    """Return the values of a CASE, without its conditions."""
    return [*parts[1::2], parts[-1]]


@dataclass(frozen=True, slots=True)
class _Branch:
    """What an expression may be at each point, NaN for NULL, and at which points it may be that."""

    values: Floats
    live: Marks


@lru_cache(maxsize=256)
def _compute_all(key: Expression, column: Column | None, found: Range) -> tuple[int, ...] | None:
    points = np.append(np.arange(found.low, found.high + 1, dtype=np.float64), np.nan)
    branches = _Table(column, points).compute(key)
    if branches is None:
        return None
    held = np.concatenate([one.values[one.live] for one in branches])
    return tuple(np.unique(held[~np.isnan(held)]).astype(np.int64).tolist())


@dataclass(frozen=True, slots=True)
class _Table:
    """Computes expressions at all points of one column."""

    column: Column | None
    points: Floats

    def compute(self, expression: Expression) -> list[_Branch] | None:
        """Return what an expression may be, or None if that is not understood."""
        match expression:
            case Column():
                return self._everywhere(self.points) if expression == self.column else None
            case Literal(value=value) if not isinstance(value, str):
                fixed = _as_number(value)
                is_exact = not abs(fixed) >= EXACT  # NaN is NULL
                return self._everywhere(np.full(len(self.points), fixed)) if is_exact else None
            case Call(function=F.CASE, arguments=parts):
                return self._choose(parts)
            case Call(function=function, arguments=parts) if function in RULES:
                return self._apply(RULES[function], parts)
            case Call(function=function, arguments=parts) if function in ROUNDED:
                return self._round(parts)
            case _:
                return None

    def _everywhere(self, values: Floats) -> list[_Branch]:
        return [_Branch(values, np.ones(len(values), dtype=np.bool_))]

    def _apply(self, rule: "Rule", parts: Sequence[Expression]) -> list[_Branch] | None:
        found = [self.compute(part) for part in parts]
        known = [branches for branches in found if branches is not None]
        if len(known) < len(found) or np.prod([len(one) for one in known]) > MOST_CASES:
            return None
        branches = []
        for each in product(*known):
            with np.errstate(all="ignore"):
                values = rule([branch.values for branch in each])
            if not (np.isnan(values) | (np.abs(values) < EXACT)).all():
                return None
            live = np.logical_and.reduce([branch.live for branch in each])
            branches.append(_Branch(values, live))
        return branches

    def _round(self, parts: Sequence[Expression]) -> list[_Branch] | None:
        """Return both neighbours: engines differ in what they do with a half."""
        number, digits = parts[0], parts[1] if len(parts) > 1 else Literal(0, Kind.INT)
        if not isinstance(digits, Literal) or not isinstance(digits.value, int) or digits.value > 0:
            return None
        if getattr(number, "kind", None) not in (Kind.INT, Kind.FLOAT, Kind.BOOL):
            return None
        unit = 10.0 ** -max(digits.value, -15)
        down = self._apply(lambda p: np.floor(p[0] / unit) * unit, [number])
        up = self._apply(lambda p: np.ceil(p[0] / unit) * unit, [number])
        return None if down is None or up is None else down + up

    def _choose(self, parts: Sequence[Expression]) -> list[_Branch] | None:
        """Return every value that a CASE may be, where it may be that."""
        branches: list[_Branch] = []
        is_open = np.ones(len(self.points), dtype=np.bool_)
        for condition, value in zip((*parts[:-1:2], None), _values_of(parts), strict=True):
            found = self.compute(value)
            may_hold, may_fail = (is_open, is_open) if condition is None else self._judge(condition)
            if found is None or len(branches) + len(found) > MOST_CASES:
                return None
            branches += [_Branch(one.values, one.live & is_open & may_hold) for one in found]
            is_open = is_open & may_fail
        return branches

    def _judge(self, condition: Expression) -> tuple[Marks, Marks]:
        """Return where a condition may be true, and where it may be something else."""
        holds = self._holds(condition)
        every = np.ones(len(self.points), dtype=np.bool_)
        return (every, every) if holds is None else (holds, ~holds)

    def _holds(self, condition: Expression) -> Marks | None:
        """Return where a condition is true, which NULL is not; None if that is not understood."""
        match condition:
            case Call(function=F.AND | F.OR as function, arguments=parts):
                both = [self._holds(part) for part in parts]
                known = [one for one in both if one is not None]
                join = np.logical_and if function is F.AND else np.logical_or
                return join.reduce(known) if len(known) == len(both) else None
            case Call(function=F.IN, arguments=(value, *others)):
                same = [Call(F.EQUAL, (value, other), Kind.BOOL) for other in others]
                return self._holds(Call(F.OR, tuple(same), Kind.BOOL))
            case Call(function=function, arguments=parts) if function in TESTS:
                found = [_join(self.compute(part)) for part in parts]
                sure = [one for one in found if one is not None]
                return TESTS[function](*sure) if len(sure) == len(found) else None
            case _:
                return None


def _join(branches: list[_Branch] | None) -> Floats | None:
    """Return what an expression is at each point, if it may be one thing only there."""
    if branches is None or (np.sum([one.live for one in branches], axis=0) != 1).any():
        return None
    return np.select([one.live for one in branches], [one.values for one in branches])


def _as_number(value: float | date | None) -> float:
    if isinstance(value, date):
        return float(value.toordinal())
    return np.nan if value is None else float(value)


Rule = Callable[[Sequence[Floats]], Floats]


def _not_by_zero(operation: Callable[[Floats, Floats], Floats]) -> Rule:
    return lambda p: np.where(p[1] == 0.0, np.nan, operation(p[0], p[1]))


def _coalesce(parts: Sequence[Floats]) -> Floats:
    found = parts[0]
    for part in parts[1:]:
        found = np.where(np.isnan(found), part, found)
    return found


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
"""Functions that every engine computes alike; logarithms and roots are not among them."""

ROUNDED: Final = (F.ROUND, F.TO_INT)
TESTS: Final[dict[F, Callable[..., Marks]]] = {
    F.EQUAL: lambda a, b: a == b,
    F.UNEQUAL: lambda a, b: (a != b) & ~np.isnan(a) & ~np.isnan(b),
    F.LESS: np.less,
    F.LESS_EQUAL: np.less_equal,
    F.GREATER: np.greater,
    F.GREATER_EQUAL: np.greater_equal,
    F.IS_NULL: np.isnan,
}
