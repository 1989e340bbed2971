"""Ranges of expressions, derived from the query and the declared bounds alone.

The planner derives grids and sensitivities from the ranges, and engines choose between integer and
floating-point arithmetic. Privacy does not depend on the ranges: the engine clamps every summand to
its range, row by row. If a range is too narrow, values are clipped; if it is too wide, noise is
larger than necessary. Only the ranges of integers must never be too narrow, because engines rely on
them to avoid overflow.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Final

from confide.declare import Kind
from confide.declare.columns import to_milliseconds
from confide.expressions.functions import Function
from confide.expressions.tree import AggregateCall, Call, Column, Expression, Key, Literal
from confide.plan.curve_ranges import CURVE_RULES
from confide.plan.date_ranges import DATE_RULES
from confide.plan.range_arithmetic import (
    ANY_INT,
    ANY_LENGTH,
    BOOLEAN_RANGE,
    CURVE_TOLERANCE,
    EMPTY_RANGE,
    MAX_EXACT_INTEGER,
    UNBOUNDED,
    Bound,
    Range,
    Ranges,
    add_tolerance,
    has_inexact_integers,
    widen,
    within_doubles,
)
from confide.plan.text_ranges import TEXT_RULES, unite

__all__ = [
    "ANY_INT",
    "ANY_LENGTH",
    "BOOLEAN_RANGE",
    "MAX_EXACT_INTEGER",
    "UNBOUNDED",
    "Range",
    "RangeAnalysis",
    "range_of",
]

F = Function


@dataclass(frozen=True, slots=True)
class RangeAnalysis:
    """Computes the ranges of expressions over the same columns, each subexpression once.

    ``found`` caches results by the `id` of the expression.
    """

    columns: Ranges
    found: dict[int, tuple[Expression, Range]] = field(default_factory=dict)

    def find(self, expression: Expression) -> Range:
        """Return the range of an expression over one row."""
        known = self.found.get(id(expression))
        if known is None:
            # Storing the expression keeps it alive, so no other expression can reuse its id.
            known = self.found[id(expression)] = expression, self._find(expression)
        return known[1]

    def _find(self, expression: Expression) -> Range:
        match expression:
            case Column(table=table, name=name):
                return self.columns[table, name]
            case Literal(value=value):
                return _of_literal(value)
            case Call(function=function, arguments=arguments, kind=kind):
                parts = [self.find(part) for part in arguments]
                found = RULES[function](parts, arguments)
                if kind is Kind.INT:
                    return widen(_integers_of(found), ANY_INT)
                pairs = zip(parts, arguments, strict=True)
                is_mixed = any(
                    has_inexact_integers(part, argument.kind) for part, argument in pairs
                )
                return widen(found) if is_mixed else found
            case Key() | AggregateCall():
                return UNBOUNDED


def range_of(expression: Expression, columns: Ranges) -> Range:
    """Return the range of an expression over one row.

    >>> from confide.expressions.tree import Literal
    >>> range_of(Literal(3, Kind.INT), {})
    Range(low=3, high=3, values=None)
    """
    return RangeAnalysis(columns).find(expression)


def _of_literal(value: object) -> Range:
    match value:
        case None:
            return EMPTY_RANGE
        case str():
            return Range(-math.inf, math.inf, (value,))
        case datetime():
            return Range(to_milliseconds(value), to_milliseconds(value))
        case date():
            return Range(value.toordinal(), value.toordinal())
        case bool() | int() | float():
            return Range(value, value)
        case _:
            return UNBOUNDED


def _integers_of(found: Range) -> Range:
    """Return a range with its ends rounded inward to integers; infinite ends stay infinite."""
    low = math.ceil(found.low) if math.isfinite(found.low) else found.low
    high = math.floor(found.high) if math.isfinite(found.high) else found.high
    return Range(low, high)


Parts = Sequence[Range]
"""The ranges of the arguments of a function call."""
Rule = Callable[[Parts, Sequence[Expression]], Range]
"""Returns the range of a function call, given its arguments' ranges and the arguments."""


def _ends(ends: Callable[[Range, Range], tuple[Bound, Bound]]) -> Rule:
    """Return the rule of an operation of two numbers; ``ends`` computes the ends of its range."""

    def rule(parts: Parts, _: Sequence[Expression]) -> Range:
        left, right = parts
        if left.is_empty or right.is_empty:
            return EMPTY_RANGE
        return within_doubles(*ends(left, right))

    return rule


def _product_ends(left: Range, right: Range) -> tuple[Bound, Bound]:
    """Return the ends of a product, which is monotone in each factor."""
    ends = [_product(a, b) for a in (left.low, left.high) for b in (right.low, right.high)]
    return min(ends), max(ends)


def _product(a: Bound, b: Bound) -> Bound:
    """Return the product of two ends; zero times an infinite end is zero."""
    return a * b if a and b else 0


def _monotone(function: Callable[[Bound], Bound], *, minimum: Bound = -math.inf) -> Rule:
    """Return the rule of an increasing function of one number that is NULL below ``minimum``."""

    def rule(parts: Parts, _: Sequence[Expression]) -> Range:
        (part,) = parts
        if part.is_empty or part.high < minimum:
            return EMPTY_RANGE
        low = (
            function(max(part.low, minimum))
            if part.low > -math.inf or minimum > -math.inf
            else -math.inf
        )
        high = function(part.high) if part.high < math.inf else math.inf
        return Range(low, high)

    return rule


def _divide(parts: Parts, _: Sequence[Expression]) -> Range:
    """Return the range of a quotient; dividing by zero is NULL.

    It is finite only if both ranges are finite and that of the divisor excludes zero. Otherwise,
    only the sign of the quotient is known, if both signs are known.
    """
    left, right = parts
    if left.is_empty or right.is_empty:
        return EMPTY_RANGE
    if not (left.is_bounded and right.is_bounded) or right.low <= 0 <= right.high:
        if min(left.low, right.low) >= 0 or max(left.high, right.high) <= 0:
            return Range(0, math.inf)
        is_negative = (left.low >= 0 >= right.high) or (right.low >= 0 >= left.high)
        return Range(-math.inf, 0) if is_negative else UNBOUNDED
    ends = [a / b for a in (left.low, left.high) for b in (right.low, right.high)]
    return within_doubles(min(ends), max(ends))


def _sign(parts: Parts, _: Sequence[Expression]) -> Range:
    (part,) = parts
    if part.is_empty:
        return EMPTY_RANGE
    return Range((part.low > 0) - (part.low < 0), (part.high > 0) - (part.high < 0))


def _modulo(parts: Parts, _: Sequence[Expression]) -> Range:
    """Return the range of a remainder.

    It has the sign of the dividend and is less than the divisor in absolute value.
    """
    left, right = parts
    if left.is_empty or right.is_empty or not right.largest:
        return EMPTY_RANGE
    most = min(right.largest - 1, left.largest)
    return Range(-most if left.low < 0 else 0, most if left.high > 0 else 0)


def _negate(parts: Parts, _: Sequence[Expression]) -> Range:
    return Range(-parts[0].high, -parts[0].low)


def _absolute(parts: Parts, _: Sequence[Expression]) -> Range:
    (part,) = parts
    if part.is_empty:
        return EMPTY_RANGE
    nearest = 0 if part.low <= 0 <= part.high else min(abs(part.low), abs(part.high))
    return Range(nearest, part.largest)


def _boolean(parts: Parts, arguments: Sequence[Expression]) -> Range:
    del parts, arguments
    return BOOLEAN_RANGE


def _union(parts: Parts, _: Sequence[Expression]) -> Range:
    return unite(parts)


def _case(parts: Parts, arguments: Sequence[Expression]) -> Range:
    *pairs, otherwise = parts
    return _union([*pairs[1::2], otherwise], arguments)


def _least_of(parts: Parts, arguments: Sequence[Expression]) -> Range:
    """Return the range of LEAST.

    A single argument bounds LEAST from above only if it is a literal: LEAST skips NULL, which any
    other argument may be.
    """
    found = _union(parts, arguments)
    limits = [
        part.high
        for part, argument in zip(parts, arguments, strict=True)
        if _is_never_null(argument)
    ]
    return Range(found.low, min([found.high, *limits]))


def _greatest_of(parts: Parts, arguments: Sequence[Expression]) -> Range:
    found = _union(parts, arguments)
    limits = [
        part.low
        for part, argument in zip(parts, arguments, strict=True)
        if _is_never_null(argument)
    ]
    return Range(max([found.low, *limits]), found.high)


def _is_never_null(argument: Expression) -> bool:
    return isinstance(argument, Literal) and argument.value is not None


def _round(parts: Parts, arguments: Sequence[Expression]) -> Range:
    """Return the range of ROUND, which changes values by less than one unit of the last digit."""
    part, digits = parts[0], arguments[1] if len(arguments) > 1 else None
    places = digits.value if isinstance(digits, Literal) and isinstance(digits.value, int) else 0
    if not part.is_bounded:
        return part if part.is_empty else UNBOUNDED
    if places <= 0:
        unit = 10**-places
        low, high = math.floor(part.low) // unit * unit, -(-math.ceil(part.high) // unit) * unit
        return widen(Range(low, high))
    # One unit of the last digit, plus a tolerance for rounding errors.
    change = 10.0**-places + CURVE_TOLERANCE * float(part.largest)
    return Range(part.low - change, part.high + change)


def _to_int(parts: Parts, arguments: Sequence[Expression]) -> Range:
    (part,), (argument,) = parts, arguments
    if getattr(argument, "kind", None) in (Kind.INT, Kind.FLOAT, Kind.BOOL) and part.is_bounded:
        return Range(math.floor(part.low), math.ceil(part.high))
    return ANY_INT


def _to_float(parts: Parts, arguments: Sequence[Expression]) -> Range:
    kind = getattr(arguments[0], "kind", None)
    return parts[0] if kind in (Kind.INT, Kind.FLOAT, Kind.BOOL) else UNBOUNDED


def _to_date_range(parts: Parts, arguments: Sequence[Expression]) -> Range:
    """Return the range of a cast to a date, which is known only if the argument is a date."""
    return parts[0] if getattr(arguments[0], "kind", None) is Kind.DATE else UNBOUNDED


MIN_POSITIVE: Final = math.ulp(0.0)
MAX_EXPONENT: Final = 709.0
_LN: Final = _monotone(math.log, minimum=MIN_POSITIVE)


def _exponential(part: Range) -> Range:
    """Return the range of EXP with its tolerance, unbounded above if EXP may overflow a double."""
    if part.is_empty:
        return EMPTY_RANGE
    low = 0.0 if part.low < -MAX_EXPONENT else math.exp(min(part.low, MAX_EXPONENT))
    if part.high > MAX_EXPONENT:
        return Range(max(low * (1.0 - CURVE_TOLERANCE), 0.0), math.inf)
    return Range(
        max(low * (1.0 - CURVE_TOLERANCE), 0.0), math.exp(part.high) * (1.0 + CURVE_TOLERANCE)
    )


RULES: Final[dict[F, Rule]] = {
    F.ADD: _ends(lambda left, right: (left.low + right.low, left.high + right.high)),
    F.SUBTRACT: _ends(lambda left, right: (left.low - right.high, left.high - right.low)),
    F.MULTIPLY: _ends(_product_ends),
    F.DIVIDE: _divide,
    F.MODULO: _modulo,
    F.NEGATE: _negate,
    **dict.fromkeys(
        (
            F.EQUAL, F.UNEQUAL, F.LESS, F.LESS_EQUAL, F.GREATER, F.GREATER_EQUAL,
            F.AND, F.OR, F.NOT, F.IS_NULL, F.IN, F.LIKE, F.TO_BOOL,
        ),
        _boolean,
    ),
    F.CASE: _case,
    F.COALESCE: _union,
    F.ABS: _absolute,
    F.FLOOR: _monotone(math.floor),
    F.CEIL: _monotone(math.ceil),
    F.ROUND: _round,
    F.LEAST: _least_of,
    F.GREATEST: _greatest_of,
    F.LN: lambda parts, arguments: add_tolerance(_LN(parts, arguments)),
    F.EXP: lambda parts, _: _exponential(parts[0]),
    F.SQRT: _monotone(math.sqrt, minimum=0),
    F.SIGN: _sign,
    **CURVE_RULES,
    **DATE_RULES,
    **TEXT_RULES,
    F.TO_INT: _to_int,
    F.TO_FLOAT: _to_float,
    F.TO_DATE: _to_date_range,
}  # fmt: skip
