"""Breakpoints: the values of one column at which a group key changes.

plan/key_values.py uses them to enumerate the keys that a column with many values can produce. A
float column has too many values to enumerate, but FLOOR(price / 100) changes only a few times
between the bounds of the price. It is monotone in the price, so bisection finds the exact doubles
at which it changes; between them it is constant. Long ranges of integers, dates, and timestamps are
treated in the same way.

Bisection runs over *ordinals*. The ordinal of a float is its rank among all doubles; other values
are their own ordinals.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from confide.declare import Kind
from confide.expressions.functions import Function
from confide.expressions.tree import Call, Column, Expression, Literal, walk
from confide.plan.pointwise import COMPARISONS, Floats, apply_call, as_point
from confide.plan.range_analysis import RangeAnalysis

__all__ = ["Breakpoints", "equals_any"]

F = Function
Integers = NDArray[np.int64]
MAX_BREAKPOINTS: Final = 2**17
SIGN_BIT: Final = np.int64(-(2**63))
STEP_FUNCTIONS: Final = frozenset({F.FLOOR, F.CEIL, F.ROUND, F.TO_INT, F.SIGN})
"""Functions that are constant between breakpoints, whatever their argument."""

NONDECREASING_FUNCTIONS: Final = STEP_FUNCTIONS | {
    *(F.TO_FLOAT, F.TO_DATE, F.COALESCE),
    *(F.EPOCH_MS, F.YEAR, F.ISOYEAR, F.TRUNC_YEAR, F.TRUNC_QUARTER, F.TRUNC_MONTH, F.TRUNC_WEEK),
}
"""Functions that are nondecreasing in their first argument, which is never NULL here."""


@dataclass(frozen=True, slots=True)
class Breakpoints:
    """Breakpoints of expressions over one column; `points` represent all of its values.

    ``breaks`` maps added expressions to the ordinals at which they change. ``trends`` is a cache.

    Claim:   for every value in the column's range, there is a point at which all added expressions
             have the same values as at that value.
    Why:     each added expression is monotone in the column (`_trend`): the operations are monotone
             over the reals, and rounding to a double preserves order. An expression with equal
             values at two points is therefore constant between them, so `_find_breaks` finds every
             double (or integer) at which an expression changes. From one change up to the next, all
             expressions are constant, and the change itself is a point.
    Checked: tests/plan/test_key_values.py.
    """

    column: Column
    analysis: RangeAnalysis
    breaks: dict[Expression, Integers] = field(default_factory=dict)
    trends: dict[Expression, int | None] = field(default_factory=dict)

    def add(self, expression: Expression) -> bool:
        """Add an expression, or its subexpressions; return whether the breaks of all were found.

        Subexpressions are added instead if the expression itself is not known to be monotone and
        piecewise constant. The conditions of a CASE do not affect the result.
        """
        if self.column not in walk(expression):
            return True
        if self._trend(expression) is not None and self._is_piecewise_constant(expression):
            return self._record(expression, lambda values: self._compute(expression, values))
        match expression:
            case Call(function=F.CASE, arguments=parts):
                for condition in parts[:-1:2]:
                    self.add_condition(condition)
                return all(self.add(part) for part in (*parts[1::2], parts[-1]))
            case Call(arguments=parts):
                return all(self.add(part) for part in parts)
            case _:
                return False

    def add_condition(self, condition: Expression) -> None:
        """Add the comparisons of a condition, or both sides of a comparison without a trend.

        Where a comparison still cannot be computed, both of its outcomes count as possible.
        """
        match condition:
            case Call(function=F.AND | F.OR, arguments=parts):
                for part in parts:
                    self.add_condition(part)
            case Call(function=F.IN):
                self.add_condition(equals_any(condition))
            case Call(function=F.IS_NULL, arguments=(part,)):
                if self._trend(part) is not None:
                    self.breaks[condition] = np.empty(0, dtype=np.int64)
            case Call(function=function, arguments=(left, right)) if function in COMPARISONS:
                if self._comparison_trend(left, right) is None:
                    self.add(left)
                    self.add(right)
                elif self.column in walk(condition):
                    self._record(condition, lambda values: self._compare(left, right, values))
            case _:
                return

    def points(self) -> Floats:
        """Return one column value for each stretch without a break, then NaN for NULL."""
        low, _ = self._ends()
        found = np.unique(np.concatenate([[low], *self.breaks.values()]))
        return np.append(self._values(found), np.nan)

    def known(self) -> dict[Expression, Floats] | None:
        """Return the value of each added expression at all points, or None for too many points.

        Expressions that cannot be computed are left out.
        """
        values = self.points()
        if len(values) > MAX_BREAKPOINTS:
            return None
        computed = {part: self._values_of_part(part, values) for part in self.breaks}
        return {part: value for part, value in computed.items() if value is not None}

    def _values_of_part(self, part: Expression, values: Floats) -> Floats | None:
        if isinstance(part, Call) and part.function in COMPARISONS:
            computed = [self._compute(argument, values) for argument in part.arguments]
            known = [value for value in computed if value is not None]
            is_known = len(known) == len(computed)
            return COMPARISONS[part.function](*known).astype(np.float64) if is_known else None
        return self._compute(part, values)

    def _record(self, part: Expression, read: Callable[[Floats], Floats | None]) -> bool:
        """Store the breaks of ``part``; return whether they were found.

        ``part`` changes only where the monotone values that ``read`` returns change.
        """
        if part not in self.breaks:
            low, high = self._ends()
            found = _find_breaks(lambda ordinals: read(self._values(ordinals)), low, high)
            if found is None:
                return False
            self.breaks[part] = found
        return True

    def _ends(self) -> tuple[int, int]:
        """Return the ordinals of the column's bounds."""
        found = self.analysis.find(self.column)
        if self.column.kind is not Kind.FLOAT:
            return int(found.low), int(found.high)
        low, high = _to_ordinals(np.array([found.low, found.high], dtype=np.float64)).tolist()
        return low, high

    def _values(self, ordinals: Integers) -> Floats:
        """Return the column values with these ordinals."""
        is_float = self.column.kind is Kind.FLOAT
        return _to_doubles(ordinals) if is_float else ordinals.astype(np.float64)

    def _compute(self, expression: Expression, values: Floats) -> Floats | None:
        """Return an expression's values at some values of the column, or None if unknown."""
        match expression:
            case Column():
                return values
            case Literal(value=value):
                point = as_point(value)
                return None if point is None else np.full(len(values), point)
            case Call(arguments=arguments):
                parts = [self._compute(part, values) for part in arguments]
                known = [part for part in parts if part is not None]
                return apply_call(expression, known) if len(known) == len(parts) else None
            case _:
                return None

    def _compare(self, left: Expression, right: Expression, values: Floats) -> Floats | None:
        """Return 0, 1, or 2 where ``left`` is less than, equal to, or greater than ``right``.

        None means that a side has unknown values.
        """
        first, second = self._compute(left, values), self._compute(right, values)
        if first is None or second is None:
            return None
        return (first >= second).astype(np.float64) + (first > second)

    def _comparison_trend(self, left: Expression, right: Expression) -> int | None:
        """Return the trend of ``left - right``, which is also that of their comparison."""
        return _agree([self._trend(left), _times(-1, self._trend(right))])

    def _is_piecewise_constant(self, expression: Expression) -> bool:
        """Return whether an expression is piecewise constant in the column."""
        match expression:
            case Column(kind=kind):
                return kind is not Kind.FLOAT
            case Call(function=function) if function in STEP_FUNCTIONS:
                return True
            case Call(arguments=parts):
                return all(map(self._is_piecewise_constant, parts))
            case _:
                return True

    def _trend(self, expression: Expression) -> int | None:
        """Return 1 if an expression is nondecreasing in the column, -1 if nonincreasing, 0 if both.

        None means that the trend is unknown, or that the expression may be NULL for a non-NULL
        column.
        """
        if expression not in self.trends:
            self.trends[expression] = self._find_trend(expression)
        return self.trends[expression]

    def _find_trend(self, expression: Expression) -> int | None:
        match expression:
            case Column():
                return 1 if expression == self.column else None
            case Literal(value=value):
                return None if value is None or as_point(value) is None else 0
            case Call(
                function=F.SUBTRACT, arguments=(value, Call(F.MODULO, (same, Literal())))
            ) if value == same:
                return self._trend(value)  # the difference is a multiple of the divisor
            case Call(function=function, arguments=parts):
                trends = [self._trend(part) for part in parts]
                return None if None in trends else self._combine(function, parts, trends)
            case _:
                return None

    def _combine(
        self, function: F, parts: Sequence[Expression], trends: Sequence[int | None]
    ) -> int | None:
        """Return the trend of a function, given the trends of its arguments."""
        first, last = trends[0], trends[-1]
        left, right = self._sign(parts[0]), self._sign(parts[-1])
        found: int | None = None
        match function:
            case F.ADD | F.LEAST | F.GREATEST:
                found = _agree(trends)
            case F.SUBTRACT:
                found = _agree([first, _times(-1, last)])
            case F.NEGATE:
                found = _times(-1, first)
            case F.ABS:
                found = _times(left, first)
            case F.MULTIPLY:
                found = _agree([_times(right, first), _times(left, last)])
            case F.DIVIDE if not self._may_be_zero(parts[1]):
                found = _agree([_times(right, first), _times(-1, _times(left, last))])
            case _ if function in NONDECREASING_FUNCTIONS or (function is F.SQRT and left == 1):
                found = first
            case _:
                pass
        return found

    def _sign(self, expression: Expression) -> int | None:
        """Return 1 for an expression that is never negative, -1 if never positive, else None."""
        found = self.analysis.find(expression)
        return 1 if found.low >= 0 else -1 if found.high <= 0 else None

    def _may_be_zero(self, expression: Expression) -> bool:
        found = self.analysis.find(expression)
        return found.low <= 0 <= found.high


def equals_any(condition: Call) -> Call:
    """Return IN as a disjunction of comparisons."""
    value, *others = condition.arguments
    same = (Call(F.EQUAL, (value, other), Kind.BOOL) for other in others)
    return Call(F.OR, tuple(same), Kind.BOOL)


def _times(sign: int | None, trend: int | None) -> int | None:
    """Return the trend of a term with this trend, multiplied by a factor of this sign."""
    if trend == 0:
        return 0
    return None if sign is None or trend is None else sign * trend


def _agree(trends: Iterable[int | None]) -> int | None:
    """Return the trend of a sum of terms with these trends, or None if they disagree."""
    found = set(trends) - {0}
    if not found:
        return 0
    return found.pop() if len(found) == 1 else None


def _find_breaks(
    compute: Callable[[Integers], Floats | None], low: int, high: int
) -> Integers | None:
    """Return the ordinals at which a monotone function differs from its value one ordinal before.

    They lie above ``low`` and are at most ``high``. None means that the function changes too often
    or has unknown values.

    Why: a pair of ordinals with equal values has no break in between. Any other pair is halved,
    until the two are next to each other and the upper one is a break. All pairs are halved at once.
    """
    found = [np.empty(0, dtype=np.int64)]
    below, above = np.array([low]), np.array([high])
    at_below, at_above = compute(below), compute(above)
    while at_below is not None and at_above is not None and len(below) <= MAX_BREAKPOINTS:
        is_open = at_below != at_above
        is_next = is_open & (below + 1 == above)
        found.append(above[is_next])
        is_wide = is_open & ~is_next
        if not is_wide.any():
            return np.concatenate(found)
        below, above = below[is_wide], above[is_wide]
        middle = (below >> 1) + (above >> 1) + (below & above & 1)  # low + high may overflow
        at_middle = compute(middle)
        if at_middle is None or np.isnan(at_middle).any():
            return None
        at_below = np.append(at_below[is_wide], at_middle)
        at_above = np.append(at_middle, at_above[is_wide])
        below, above = np.append(below, middle), np.append(middle, above)
    return None


def _to_ordinals(values: Floats) -> Integers:
    """Return the rank of each double among all doubles; both zeros have the same rank."""
    bits: Integers = values.view(np.int64)
    return np.where(bits < 0, SIGN_BIT - bits, bits)


def _to_doubles(ordinals: Integers) -> Floats:
    bits: Integers = np.where(ordinals < 0, SIGN_BIT - ordinals, ordinals)
    return bits.view(np.float64)
