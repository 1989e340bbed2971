"""Numbers without rounding: what callers typed as fractions, real constants as balls.

A float means the decimal that prints it: 0.1 is one tenth, so ten answers of 0.1 fill a budget
of 1. A real number such as exp(1/3) is enclosed by a *ball* of python-flint and leaves the exact
world as a float or fraction that is rounded in a stated direction.
"""

import math
import re
import sys
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Rational, Real
from typing import Final, TypeVar

from flint import arb, ctx, fmpq

from confide.errors import BadDeclaration

__all__ = [
    "Number",
    "ball",
    "decide",
    "float_above",
    "float_below",
    "fraction",
    "fraction_above",
    "fraction_below",
    "is_above",
    "least",
    "non_negative",
    "positive",
    "probability",
    "whole",
]

T = TypeVar("T")
Number = int | float | Fraction | Decimal | str
"""What a caller may type for an exact number; text such as "1/3" or "2.5e-3" is fine."""

LONGEST: Final = 1_000
LARGEST_EXPONENT: Final = 5_000
EXPONENT: Final = re.compile(r"[eE]([+-]?[0-9_]+)")
"""Beyond these a number written in a few characters would take all memory."""


def fraction(name: str, value: object, allowed: str) -> Fraction:
    """Return ``value`` as the fraction its owner wrote, or refuse it by its argument's name."""
    match value:
        case bool():
            exact = None
        case Rational():
            exact = Fraction(int(value.numerator), int(value.denominator))
        case Decimal():
            exact = _read(str(value))
        case Real() if math.isfinite(value):
            exact = Fraction(repr(float(value)) if isinstance(value, float) else str(value))
        case str():
            exact = _read(value)
        case _:
            exact = None
    if exact is None:
        raise BadDeclaration(f"{name} must be {allowed}, got {value!r}")
    return exact


def _read(text: str) -> Fraction | None:
    # Fraction reads the digits of every script, the search for an exponent those of ASCII alone.
    if len(text) > LONGEST or not text.isascii():
        return None
    exponent = EXPONENT.search(text)
    try:
        if exponent and abs(int(exponent[1])) > LARGEST_EXPONENT:
            return None
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        return None


def positive(name: str, value: object) -> Fraction:
    """Return a number above zero.

    >>> positive("epsilon", 0.1)
    Fraction(1, 10)
    """
    allowed = "a finite number above 0"
    exact = fraction(name, value, allowed)
    if exact <= 0:
        raise BadDeclaration(f"{name} must be {allowed}, got {value!r}")
    return exact


def non_negative(name: str, value: object) -> Fraction:
    """Return a number of at least zero."""
    allowed = "a finite number of at least 0"
    exact = fraction(name, value, allowed)
    if exact < 0:
        raise BadDeclaration(f"{name} must be {allowed}, got {value!r}")
    return exact


def probability(name: str, value: object, *, zero: bool = True) -> Fraction:
    """Return a number in [0, 1), or in (0, 1) when ``zero`` is not allowed."""
    allowed = "a number in [0, 1)" if zero else "a number in (0, 1)"
    exact = fraction(name, value, allowed)
    if not 0 <= exact < 1 or (exact == 0 and not zero):
        raise BadDeclaration(f"{name} must be {allowed}, got {value!r}")
    return exact


def whole(name: str, value: object, *, low: int, high: int) -> int:
    """Return an integer between ``low`` and ``high``, both included."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not low <= int(value) <= high:
        raise BadDeclaration(f"{name} must be a whole number from {low} to {high}, got {value!r}")
    return int(value)


def ball(value: Fraction | int) -> arb:
    """Enclose a fraction at the current precision."""
    exact = Fraction(value)
    return arb(fmpq(exact.numerator, exact.denominator))


def decide(attempt: Callable[[], T | None]) -> T:
    """Repeat ``attempt`` with doubled precision until it can tell.

    Why: a ball always holds the real number it stands for, at any precision; so an attempt that
    answers only when its balls leave no doubt is right whenever it answers.
    """
    bits = 64
    while True:
        with ctx.workprec(bits):
            answer = attempt()
        if answer is not None:
            return answer
        bits *= 2


def is_above(real: Callable[[], arb], bound: Fraction) -> bool:
    """Tell whether a real number, which must not be ``bound`` itself, lies above it."""

    def compare() -> bool | None:
        enclosed, limit = real(), ball(bound)
        return True if enclosed > limit else False if enclosed < limit else None

    return decide(compare)


def least(holds: Callable[[int], bool], start: int) -> int:
    """Return the least whole number from ``start`` on for which ``holds``.

    It must hold for all later numbers once it does for one.
    """
    if holds(start):
        return start
    low, step = start, 1
    while not holds(low + step):
        low, step = low + step, 2 * step
    high = low + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def fraction_below(value: arb) -> Fraction:
    """Return the lower end of a ball, exactly."""
    return _dyadic(value.lower())


def fraction_above(value: arb) -> Fraction:
    """Return the upper end of a ball, exactly."""
    return _dyadic(value.upper())


def _dyadic(end: arb) -> Fraction:
    mantissa, exponent = end.man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def float_above(value: arb | Fraction) -> float:
    """Return a float that is at least ``value``, as is the decimal that prints it: a loss shown."""
    exact = fraction_above(value) if isinstance(value, arb) else value
    near = max(_nearest(exact), -sys.float_info.max)
    while math.isfinite(near) and min(Fraction(near), Fraction(repr(near))) < exact:
        near = math.nextafter(near, math.inf)
    return near


def float_below(value: arb | Fraction) -> float:
    """Return a float that is at most ``value``, as is the decimal that prints it: a budget left."""
    exact = fraction_below(value) if isinstance(value, arb) else value
    near = min(_nearest(exact), sys.float_info.max)
    while math.isfinite(near) and max(Fraction(near), Fraction(repr(near))) > exact:
        near = math.nextafter(near, -math.inf)
    return near


def _nearest(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf
