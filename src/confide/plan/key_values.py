"""All values that a computed group key can have.

The planner releases a group for every possible key, so the keys must not depend on rows. A range
alone would include keys that no row can have: for FLOOR(age / 10) * 10, every age instead of every
tenth. `key_values` returns every key that a row can have, and few others, from the declaration and
the query alone.

A key is evaluated with NumPy at *points*: combinations of values of its columns. A column has one
*axis* of points, which are all of its values or, if there are too many, one point for each stretch
of values on which the key is constant (`Breakpoints`).
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
MAX_BRANCHES: Final = 64
"""The maximum number of branches of one expression; see `_Branch`."""
MAX_WORK: Final = 2**24
"""The maximum number of values computed for one key, over all points and branches."""

INTEGER_KINDS: Final = (Kind.INT, Kind.DATE, Kind.BOOL, Kind.TIMESTAMP)


def key_values(key: Expression, ranges: Ranges) -> tuple[float, ...] | None:
    """Return all numbers that a key can be, in ascending order.

    None means that they are unknown or too many. Dates are ordinals, and timestamps milliseconds.
    Floats are returned as floats, and all other numbers as ints. NULL is never included.

    Claim:   no row's key is any other number, on any engine. Each returned number is the key for
             some values of the columns, if the key uses only arithmetic, rounding, date parts, and
             CASE, and each column once.
    Why:     the key is computed at each value of its columns and at NULL, or at points that
             represent them (`Breakpoints`). The operations have the same results for doubles on
             every engine. If a condition cannot be evaluated, both of its outcomes are included; if
             a subexpression cannot be evaluated, all integers in its range are.
    Checked: tests/plan/test_key_values.py, tests/contracts/test_readings.py.
    """
    columns = dict.fromkeys(part for part in walk(key) if isinstance(part, Column))
    return _compute_all(
        key, tuple((column, ranges[column.table, column.name]) for column in columns)
    )


def may_be_null(
    expression: Expression, optional: frozenset[str], ranges: Ranges | None = None
) -> bool:
    """Return whether an expression can be NULL although no declared value is missing in the data.

    NULL can come from a literal (also from a CASE without ELSE), from a column among whose values
    the owner listed NULL, or from an ``optional`` table: the right side of a LEFT JOIN.
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
    """Return the values of a CASE, without its conditions, given all of its arguments."""
    return [*parts[1::2], parts[-1]]


def _operands(expression: Expression) -> Sequence[Expression]:
    """Return the operands of an expression, without the conditions of a CASE."""
    match expression:
        case Call(function=F.CASE, arguments=parts):
            return _values_of(parts)
        case _:
            return parts_of(expression)


def _columns(expression: Expression) -> Iterator[Column]:
    """Yield the columns of an expression, except those used only in the conditions of a CASE."""
    if isinstance(expression, Column):
        yield expression
    for part in _operands(expression):
        yield from _columns(part)


Axis = Mapping[Expression, Floats]
"""The points of one variable: the values of subexpressions that depend on it alone, at each point.

The variable is usually a column. It can also be a subexpression that cannot be computed from its
columns. NULL, represented by NaN, is the last point.
"""


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
    """The values of a key cannot be computed, or only with too many points or too much work."""


@dataclass(slots=True)
class _Work:
    """The number of values that may still be computed for one key."""

    left: int = MAX_WORK

    def take(self, values: int) -> None:
        """Deduct ``values`` from the remaining work, or raise _Incomputable."""
        self.left -= values
        if self.left < 0:
            raise _Incomputable


def _image(key: Expression, axes: Sequence[Axis], work: _Work) -> Floats:
    """Return all values of a key except NULL over all combinations of points, sorted."""
    size = _count_points(axes)
    if size > MAX_POINTS:
        raise _Incomputable
    branches = _ValueTable(_cross(axes), size, work).compute(key)
    if branches is None:
        raise _Incomputable
    values = np.concatenate([branch.values[branch.is_possible] for branch in branches])
    return np.unique(values[~np.isnan(values)])


def _count_points(axes: Iterable[Axis]) -> int:
    """Return the number of combinations of one point from each axis."""
    return prod(len(next(iter(axis.values()))) for axis in axes)


def _cross(axes: Sequence[Axis]) -> dict[Expression, Floats]:
    """Return the value of each subexpression of the axes at every combination of their points."""
    count = stride = _count_points(axes)
    known: dict[Expression, Floats] = {}
    for axis in axes:
        size = _count_points([axis])
        stride //= size
        indices = np.arange(count) // stride % size
        known |= {part: values[indices] for part, values in axis.items()}
    return known


def _find_axes(key: Expression, analysis: RangeAnalysis) -> list[Axis] | None:
    """Return the axes that a key depends on, or None if a subexpression has unknown values."""
    found = (_axis_of(column, key, analysis) for column in dict.fromkeys(_columns(key)))
    axes = [axis for axis in found if axis]
    known = {part for axis in axes for part in axis}
    gaps = _find_gaps(key, known, analysis)
    if gaps is None:
        return None
    return [*axes, *({gap: values} for gap, values in gaps.items())]


def _axis_of(column: Column, key: Expression, analysis: RangeAnalysis) -> Axis | None:
    """Return the axis of a column, or None if its values cannot be represented by points.

    If the column has few values, the points are all of them; otherwise they are breakpoints.
    """
    found = analysis.find(column)
    if column.kind in INTEGER_KINDS and (values := _integers(found)) is not None:
        return {column: values}
    # Integers past 2^53 cannot be points, because one double would stand for several of them.
    is_exact = column.kind is Kind.FLOAT or (
        column.kind in INTEGER_KINDS and found.largest < EXACT_LIMIT
    )
    breakpoints = Breakpoints(column, analysis)
    can_use = is_exact and found.is_bounded and breakpoints.add(key)
    return breakpoints.known() if can_use else None


def _integers(found: Range) -> Floats | None:
    """Return the integers of a range and then NULL, or None if they are too many or too large."""
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
    """Return the largest subexpressions that cannot be computed, with all integers in their ranges.

    ``known`` are the subexpressions with known values. None means that a subexpression that cannot
    be computed has no range of few integers.
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
    is_integer = expression.kind in (Kind.INT, Kind.DATE, Kind.TIMESTAMP)
    values = _integers(analysis.find(expression)) if is_integer else None
    return None if values is None else {expression: values}


def _merge_axes(expression: Expression, axes: Sequence[Axis], work: _Work) -> Iterator[Axis]:
    """Yield new axes with fewer points: the distinct values of subexpressions.

    There is one new axis for each largest subexpression that depends on a single old one.

    Why: subexpressions over different variables vary independently. If two depend on the same
         variable, treating them as independent may add keys, but it omits none.
    """
    axis_of = {part: index for index, axis in enumerate(axes) for part in axis}
    indices = set(_find_axis_indices(expression, axis_of))
    if len(indices) > 1:
        for part in dict.fromkeys(_operands(expression)):
            yield from _merge_axes(part, axes, work)
    for index in indices if len(indices) == 1 else ():
        yield {expression: np.append(_image(expression, [axes[index]], work), np.nan)}


def _find_axis_indices(expression: Expression, axis_of: Mapping[Expression, int]) -> Iterator[int]:
    """Yield the indices of the axes that an expression depends on, possibly with repetitions."""
    if expression in axis_of:
        yield axis_of[expression]
        return
    for part in _operands(expression):
        yield from _find_axis_indices(part, axis_of)


@dataclass(frozen=True, slots=True)
class _Branch:
    """One possible value of an expression at each point, and the points where it is possible.

    An expression has several branches if it contains a CASE. NaN stands for NULL.
    """

    values: Floats
    is_possible: Mask


@dataclass(frozen=True, slots=True)
class _ValueTable:
    """Computes expressions at ``size`` points, from the values of ``known`` subexpressions."""

    known: Mapping[Expression, Floats]
    size: int
    work: _Work

    def compute(self, expression: Expression) -> list[_Branch] | None:
        """Return the branches of an expression, or None if its values are unknown."""
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
        if len(known) < len(found) or prod(map(len, known)) > MAX_BRANCHES:
            return None
        branches = []
        for combination in product(*known):
            self.work.take(self.size)
            values = apply_call(call, [branch.values for branch in combination])
            if values is None:
                return None
            is_possible = np.logical_and.reduce([branch.is_possible for branch in combination])
            branches.append(_Branch(values, is_possible))
        return _drop_impossible(branches)

    def _evaluate_case(self, parts: Sequence[Expression]) -> list[_Branch] | None:
        """Return the branches of a CASE; ``is_open`` marks where earlier ones may not apply."""
        branches: list[_Branch] = []
        is_open = np.ones(self.size, dtype=np.bool_)
        for condition, value in zip((*parts[:-1:2], None), _values_of(parts), strict=True):
            found = self.compute(value)
            may_hold, may_fail = (
                (is_open, is_open) if condition is None else self._outcomes(condition)
            )
            if found is None or len(branches) + len(found) > MAX_BRANCHES:
                return None
            self.work.take(self.size * len(found))
            branches += [
                _Branch(branch.values, branch.is_possible & is_open & may_hold) for branch in found
            ]
            is_open = is_open & may_fail
        return _drop_impossible(branches)

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
                masks = [self._true_points(part) for part in parts]
                known = [mask for mask in masks if mask is not None]
                combine = np.logical_and if function is F.AND else np.logical_or
                return combine.reduce(known) if len(known) == len(masks) else None
            case Call(function=F.IN):
                return self._true_points(equals_any(condition))
            case Call(function=function, arguments=parts) if function in COMPARISONS:
                found = [_single_value(self.compute(part)) for part in parts]
                known_values = [values for values in found if values is not None]
                return (
                    COMPARISONS[function](*known_values)
                    if len(known_values) == len(found)
                    else None
                )
            case _:
                return None


def _drop_impossible(branches: list[_Branch]) -> list[_Branch]:
    """Return the branches that are possible at some point, or the first one if there are none."""
    return [branch for branch in branches if branch.is_possible.any()] or branches[:1]


def _single_value(branches: list[_Branch] | None) -> Floats | None:
    """Return the value at each point, or None unless exactly one is possible at every point."""
    if branches is None:
        return None
    masks = [branch.is_possible for branch in branches]
    if (np.sum(masks, axis=0) != 1).any():
        return None
    return np.select(masks, [branch.values for branch in branches])
