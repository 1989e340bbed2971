"""Ranges of powers, logarithms, and trigonometric functions.

Engines may differ in the last bits of a curve, so ranges that are computed from its values have
some tolerance.
"""

import math
from collections.abc import Callable, Sequence
from typing import Final

from confide.expressions.functions import Function
from confide.expressions.tree import Expression
from confide.plan.range_arithmetic import (
    CURVE_TOLERANCE,
    EMPTY_RANGE,
    UNBOUNDED,
    Bound,
    Range,
    add_tolerance,
    within_doubles,
)

__all__ = ["CURVE_RULES"]

F = Function
Parts = Sequence[Range]
Rule = Callable[[Parts, Sequence[Expression]], Range]
POSITIVE: Final = Range(math.ulp(0.0), math.inf)
UNIT_INTERVAL: Final = Range(-1.0, 1.0)
ANY_ANGLE: Final = Range(-math.pi, math.pi)


def _increasing(curve: Callable[[Bound], float], domain: Range = UNBOUNDED) -> Rule:
    """Return the rule of an increasing curve, which is NULL outside its domain."""

    def rule(parts: Parts, _: Sequence[Expression]) -> Range:
        (part,) = parts
        low, high = max(part.low, domain.low), min(part.high, domain.high)
        if low > high:
            return EMPTY_RANGE
        return add_tolerance(Range(_end(curve, low), _end(curve, high)))

    return rule


def _end(curve: Callable[[Bound], float], at: Bound) -> float:
    return curve(at) if math.isfinite(at) else float(at)


def _arc_cosine(parts: Parts, arguments: Sequence[Expression]) -> Range:
    sine = _increasing(math.asin, UNIT_INTERVAL)(parts, arguments)
    if sine.is_empty:
        return EMPTY_RANGE
    return add_tolerance(Range(math.pi / 2 - sine.high, math.pi / 2 - sine.low))


def _arc_tangent(parts: Parts, _: Sequence[Expression]) -> Range:
    (part,) = parts
    return (
        part if part.is_empty else add_tolerance(Range(math.atan(part.low), math.atan(part.high)))
    )


def _angle(parts: Parts, _: Sequence[Expression]) -> Range:
    """Return the range of ATAN2(y, x), narrowed by the known signs of y and x."""
    y, x = parts
    if y.is_empty or x.is_empty:
        return EMPTY_RANGE
    low, high = ANY_ANGLE.low, ANY_ANGLE.high
    if y.low >= 0:
        low = 0.0  # engines get no negative zero
    elif y.high < 0:
        high = 0.0
    if x.low > 0:
        low, high = max(low, -math.pi / 2), min(high, math.pi / 2)
    return add_tolerance(Range(low, high))


def _wave(parts: Parts, _: Sequence[Expression]) -> Range:
    return parts[0] if parts[0].is_empty else UNIT_INTERVAL


def _tangent(parts: Parts, _: Sequence[Expression]) -> Range:
    return parts[0] if parts[0].is_empty else UNBOUNDED


def _power(parts: Parts, _: Sequence[Expression]) -> Range:
    """Return the range of POWER.

    Claim: every value that is not NULL lies in the range.
    Why:   for bases of at least 0, a power is monotone in the base and in the exponent, except at
           base 0 with negative exponents, where it is NULL or has no bound above. So its extremes
           lie at corners. A negative base has a value for integer exponents only; for one such
           exponent, the power is monotone on either side of 0.
    """
    base, exponent = parts
    if base.is_empty or exponent.is_empty:
        return EMPTY_RANGE
    if base.low < 0:
        is_fixed = exponent.low == exponent.high and exponent.low == int(exponent.low)
        return _fixed_power(base, int(exponent.low)) if is_fixed else UNBOUNDED
    if not (base.is_bounded and exponent.is_bounded) or (base.low == 0 and exponent.low < 0):
        return Range(0.0, math.inf)
    ends = [_raise(a, b) for a in (base.low, base.high) for b in (exponent.low, exponent.high)]
    return _near_powers(min(ends), max(ends))


def _fixed_power(base: Range, exponent: int) -> Range:
    """Return the range of an integer power of bases that may be negative."""
    is_even = exponent % 2 == 0
    touches_zero = base.high >= 0
    if not base.is_bounded or (exponent < 0 and touches_zero):
        return Range(0.0, math.inf) if is_even else UNBOUNDED
    ends = [_raise(base.low, exponent), _raise(base.high, exponent)]
    ends += [0.0] if touches_zero and exponent > 0 else []
    return _near_powers(min(ends), max(ends))


def _raise(base: Bound, exponent: Bound) -> float:
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return math.inf if base > 0 or exponent % 2 == 0 else -math.inf


def _near_powers(low: float, high: float) -> Range:
    """Return a range widened by a tolerance, whose low end stays nonnegative if ``low`` is."""
    found = within_doubles(low - abs(low) * CURVE_TOLERANCE, high + abs(high) * CURVE_TOLERANCE)
    tiny = math.ulp(0.0)
    return Range(found.low if low >= 0 else found.low - tiny, found.high + tiny)


CURVE_RULES: Final[dict[F, Rule]] = {
    F.POWER: _power,
    F.LOG2: _increasing(math.log2, POSITIVE),
    F.LOG10: _increasing(math.log10, POSITIVE),
    F.SIN: _wave,
    F.COS: _wave,
    F.TAN: _tangent,
    F.ASIN: _increasing(math.asin, UNIT_INTERVAL),
    F.ACOS: _arc_cosine,
    F.ATAN: _arc_tangent,
    F.ATAN2: _angle,
}
