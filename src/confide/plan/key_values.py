"""All values that a computed group key can have.

A range alone would include keys that no row can have: for FLOOR(age / 10) * 10 every year instead
of every tenth. The result contains every key that a row can have, and few others. It depends only
on the declaration and the query; no row is read.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import prod
from typing import Final

import numpy as np

from confide.declare import Kind
from confide.expressions.functions import Function
from confide.expressions.tree import Call, Column, Expression, Literal, parts_of, walk
from confide.plan.breakpoints import Breakpoints, equals_any
from confide.plan.pointwise import (
    COMPARISONS,
    EXACT_LIMIT,
    Floats,
    Mask,
    apply_call,
    as_point,
    can_apply,
)
from confide.plan.range_analysis import Range, RangeAnalysis
from confide.plan.range_arithmetic import Ranges

__all__ = ["key_values", "may_be_null"]

F = Function
MAX_POINTS: Final = 2**17
MAX_CASES: Final = 64
MAX_WORK: Final = 2**24
"""The maximum number of values computed for one key, over all points and cases."""

INTEGER_KINDS: Final = (Kind.INT, Kind.DATE, Kind.BOOL)


def key_values(key: Expression, ranges: Ranges) -> tuple[float, ...] | None:
    """Return all numbers, or ordinals of dates, that a key can be, in ascending order.

    None means that they are unknown or too many. Integers and dates are ints.

    Claim:   no row's key is any other number, on any engine; NULL is not included. Each returned
             number is the key for some values of the columns, if the key uses only arithmetic,
             rounding, date parts, and CASE, and each column once.
    Why:     the key is computed at each value of its columns and at NULL, or at points that
             represent them (`Breakpoints`). The operations have the same results for doubles on
             every engine. A condition that cannot be evaluated may be true or false, and a part
             that cannot be evaluated may be any integer in its range.
    Checked: tests/plan/test_key_values.py, tests/contracts/test_readings.py.
    """
    columns = dict.fromkeys(part for part in walk(key) if isinstance(part, Column))
    return _compute_all(key, tuple((one, ranges[one.table, one.name]) for one in columns))


def may_be_null(
    expression: Expression, optional: frozenset[str], ranges: Ranges | None = None
) -> bool:
    """Return whether an expression can be NULL by its own form, even where no column is NULL.

    It can if a CASE has no ELSE, or if the owner listed NULL among the values of a column. It also
    can if a column belongs to an ``optional`` table, the right side of a LEFT JOIN.
    """

    def is_null(part: Expression) -> bool:
        return may_be_null(part, optional, ranges)

    match expression:
        case Literal(value=value):
            return value is None
        case Column(table=table, name=name):
            listed = ranges[table, name].values if ranges is not None else None
            return table in optional or (listed is not None and None in listed)
        case Call(function=F.CASE, arguments=parts):
            return any(map(is_null, _values_of(parts)))
        case Call(function=F.COALESCE | F.LEAST | F.GREATEST, arguments=parts):
            return all(map(is_null, parts))
        case Call(function=function, arguments=parts):
            return function is not F.IS_NULL and any(map(is_null, parts))
        case _:
            return False


def _values_of(parts: Sequence[Expression]) -> Sequence[Expression]:
    """Return the value branches of a CASE, without its conditions."""
    return [*parts[1::2], parts[-1]]


def _operands(expression: Expression) -> Sequence[Expression]:
    """Return the operands of an expression, without the conditions of a CASE."""
    match expression:
        case Call(function=F.CASE, arguments=parts):
            return _values_of(parts)
        case _:
            return parts_of(expression)


def _columns(expression: Expression) -> Iterator[Column]:
    if isinstance(expression, Column):
        yield expression
    for part in _operands(expression):
        yield from _columns(part)


Axis = Mapping[Expression, Floats]
"""Parts of a key that depend on one variable (often a column), at all its points, NULL last."""


@lru_cache(maxsize=256)
def _compute_all(
    key: Expression, columns: tuple[tuple[Column, Range], ...]
) -> tuple[float, ...] | None:
    analysis = RangeAnalysis({(column.table, column.name): found for column, found in columns})
    axes = _find_axes(key, analysis)
    if axes is None:
        return None
    try:
        work = _Work()
        if _count_points(axes) > MAX_POINTS:
            axes = list(_merge_axes(key, axes, work))
        found = _image(key, axes, work)
    except _Incomputable:
        return None
    is_integer = key.kind is not Kind.FLOAT
    return tuple(found.astype(np.int64).tolist() if is_integer else (found + 0.0).tolist())


class _Incomputable(Exception):
    """The values of a key cannot be computed, or not at a bounded cost."""


@dataclass(slots=True)
class _Work:
    """The remaining work that one key may take."""

    left: int = MAX_WORK

    def take(self, numbers: int) -> None:
        """Deduct this many numbers from the remaining work."""
        self.left -= numbers
        if self.left < 0:
            raise _Incomputable


def _image(key: Expression, axes: Sequence[Axis], work: _Work) -> Floats:
    """Return all values of a key over all combinations of points, in ascending order."""
    size = _count_points(axes)
    if size > MAX_POINTS:
        raise _Incomputable
    branches = _ValueTable(_cross(axes), size, work).compute(key)
    if branches is None:
        raise _Incomputable
    held = np.concatenate([one.values[one.live] for one in branches])
    return np.unique(held[~np.isnan(held)])


def _count_points(axes: Iterable[Axis]) -> int:
    return prod(len(next(iter(axis.values()))) for axis in axes)


def _cross(axes: Sequence[Axis]) -> dict[Expression, Floats]:
    """Return all parts at every combination of points."""
    count = stride = _count_points(axes)
    known: dict[Expression, Floats] = {}
    for axis in axes:
        size = _count_points([axis])
        stride //= size
        places = np.arange(count) // stride % size
        known |= {part: values[places] for part, values in axis.items()}
    return known


def _find_axes(key: Expression, analysis: RangeAnalysis) -> list[Axis] | None:
    """Return the axes that a key depends on, or None if some part has unknown values."""
    found = (_axis_of(column, key, analysis) for column in dict.fromkeys(_columns(key)))
    axes = [axis for axis in found if axis]
    known = {part for axis in axes for part in axis}
    gaps = _find_gaps(key, known, analysis)
    if gaps is None:
        return None
    return [*axes, *({gap: values} for gap, values in gaps.items())]


def _axis_of(column: Column, key: Expression, analysis: RangeAnalysis) -> Axis | None:
    """Return all values of a short column, or the breakpoints of a key over a long one."""
    found = analysis.find(column)
    if column.kind in INTEGER_KINDS and (values := _integers(found)) is not None:
        return {column: values}
    # Longer integers cannot be points, because one double would stand for several of them.
    is_exact = column.kind is Kind.FLOAT or (
        column.kind in INTEGER_KINDS and found.largest < EXACT_LIMIT
    )
    steps = Breakpoints(column, analysis)
    return steps.known() if is_exact and found.is_bounded and steps.add(key) else None


def _integers(found: Range) -> Floats | None:
    """Return the integers of a range and NULL, or None if there are too many."""
    codes = [value for value in found.values or () if isinstance(value, int)]
    if codes:
        return np.array([*sorted(codes), np.nan])
    if (
        not found.is_bounded
        or found.high - found.low >= MAX_POINTS - 1
        or found.largest >= EXACT_LIMIT
    ):
        return None
    return np.append(np.arange(found.low, found.high + 1, dtype=np.float64), np.nan)


def _find_gaps(
    expression: Expression, known: set[Expression], analysis: RangeAnalysis
) -> Axis | None:
    """Return the parts that cannot be computed, with all integers in their ranges.

    None means that one of them has no short range.
    """
    if expression in known:
        return {}
    match expression:
        case Literal(value=value):
            return None if as_point(value) is None else {}
        case Call(function=function) if function is F.CASE or can_apply(expression):
            below = [_find_gaps(part, known, analysis) for part in _operands(expression)]
            if None not in below:
                return {gap: found for gaps in below if gaps for gap, found in gaps.items()}
        case _:
            pass
    is_integer = expression.kind in (Kind.INT, Kind.DATE)
    values = _integers(analysis.find(expression)) if is_integer else None
    return None if values is None else {expression: values}


def _merge_axes(expression: Expression, axes: Sequence[Axis], work: _Work) -> Iterator[Axis]:
    """Yield the largest parts that depend on only one axis each, with all of their values.

    Why: parts that depend on different variables vary independently. If two parts depend on the
         same variable, this may add values, but it omits none.
    """
    owners = {part: place for place, axis in enumerate(axes) for part in axis}
    places = set(_find_owners(expression, owners))
    if len(places) > 1:
        for part in dict.fromkeys(_operands(expression)):
            yield from _merge_axes(part, axes, work)
    for place in places if len(places) == 1 else ():
        yield {expression: np.append(_image(expression, [axes[place]], work), np.nan)}


def _find_owners(expression: Expression, owners: Mapping[Expression, int]) -> Iterator[int]:
    if expression in owners:
        yield owners[expression]
        return
    for part in _operands(expression):
        yield from _find_owners(part, owners)


@dataclass(frozen=True, slots=True)
class _Branch:
    """Values that an expression may have, NaN for NULL, and the points where it may have them."""

    values: Floats
    live: Mask


@dataclass(frozen=True, slots=True)
class _ValueTable:
    """Computes expressions at all points, from parts with known values."""

    known: Mapping[Expression, Floats]
    size: int
    work: _Work

    def compute(self, expression: Expression) -> list[_Branch] | None:
        """Return the possible values of an expression, or None if they are unknown."""
        self.work.take(self.size)
        if expression in self.known:
            return self._unconditional(self.known[expression])
        match expression:
            case Literal(value=value):
                point = as_point(value)
                return None if point is None else self._unconditional(np.full(self.size, point))
            case Call(function=F.CASE, arguments=parts):
                return self._evaluate_case(parts)
            case Call():
                return self._apply(expression)
            case _:
                return None

    def _unconditional(self, values: Floats) -> list[_Branch]:
        return [_Branch(values, np.ones(self.size, dtype=np.bool_))]

    def _apply(self, call: Call) -> list[_Branch] | None:
        found = [self.compute(part) for part in call.arguments]
        known = [branches for branches in found if branches is not None]
        if len(known) < len(found) or prod(map(len, known)) > MAX_CASES:
            return None
        branches = []
        for each in product(*known):
            self.work.take(self.size)
            values = apply_call(call, [branch.values for branch in each])
            if values is None:
                return None
            branches.append(
                _Branch(values, np.logical_and.reduce([branch.live for branch in each]))
            )
        return _keep_live(branches)

    def _evaluate_case(self, parts: Sequence[Expression]) -> list[_Branch] | None:
        """Return each branch of a CASE and the points where it may be taken."""
        branches: list[_Branch] = []
        is_open = np.ones(self.size, dtype=np.bool_)
        for condition, value in zip((*parts[:-1:2], None), _values_of(parts), strict=True):
            found = self.compute(value)
            may_hold, may_fail = (
                (is_open, is_open) if condition is None else self._outcomes(condition)
            )
            if found is None or len(branches) + len(found) > MAX_CASES:
                return None
            self.work.take(self.size * len(found))
            branches += [_Branch(one.values, one.live & is_open & may_hold) for one in found]
            is_open = is_open & may_fail
        return _keep_live(branches)

    def _outcomes(self, condition: Expression) -> tuple[Mask, Mask]:
        """Return the points where a condition may be true, and where it may be false or NULL."""
        holds = self._true_points(condition)
        every = np.ones(self.size, dtype=np.bool_)
        return (every, every) if holds is None else (holds, ~holds)

    def _true_points(self, condition: Expression) -> Mask | None:
        """Return the points where a condition is true (not NULL), or None if they are unknown."""
        if condition in self.known:
            return np.equal(self.known[condition], 1.0)
        match condition:
            case Call(function=F.AND | F.OR as function, arguments=parts):
                both = [self._true_points(part) for part in parts]
                known = [one for one in both if one is not None]
                join = np.logical_and if function is F.AND else np.logical_or
                return join.reduce(known) if len(known) == len(both) else None
            case Call(function=F.IN):
                return self._true_points(equals_any(condition))
            case Call(function=function, arguments=parts) if function in COMPARISONS:
                found = [_join(self.compute(part)) for part in parts]
                known_values = [one for one in found if one is not None]
                return (
                    COMPARISONS[function](*known_values)
                    if len(known_values) == len(found)
                    else None
                )
            case _:
                return None


def _keep_live(branches: list[_Branch]) -> list[_Branch]:
    """Return the branches that are possible at some point."""
    return [one for one in branches if one.live.any()] or branches[:1]


def _join(branches: list[_Branch] | None) -> Floats | None:
    """Return the value of an expression at each point, or None if it has several anywhere."""
    if branches is None or (np.sum([one.live for one in branches], axis=0) != 1).any():
        return None
    return np.select([one.live for one in branches], [one.values for one in branches])
