"""Exact arithmetic: arguments become fractions, and real constants become balls.

A float means the decimal that it prints as: 0.1 is one tenth, so ten answers at 0.1 use up a
budget of 1. A *ball* (python-flint's `arb`) encloses a real number such as exp(1/3). A ball is
converted to a float or a fraction only by rounding in a stated direction.
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
    "first_integer",
    "float_above",
    "float_below",
    "fraction",
    "fraction_above",
    "fraction_below",
    "integer",
    "is_above",
    "non_negative",
    "percent",
    "positive",
    "probability",
]

T = TypeVar("T")
Number = int | float | Fraction | Decimal | str
"""The types accepted as an exact number, including strings such as "1/3" or "2.5e-3"."""

MAX_NUMBER_LENGTH: Final = 1_000
MAX_DECIMAL_EXPONENT: Final = 5_000
DECIMAL_EXPONENT: Final = re.compile(r"[eE]([+-]?[0-9_]+)")
"""The exponent of a number, checked before the number is read.

The exact value of a short string such as 1e999999999 would fill the memory."""


def fraction(name: str, value: object, allowed: str) -> Fraction:
    """Return ``value`` as the exact fraction that the caller wrote.

    ``name`` and ``allowed`` are the argument's name and a description of the allowed values.

    Raises:
        BadDeclaration: ``value`` is not a finite number; the message names the argument.
    """
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
        raise BadDeclaration(f"`{name}` must be {allowed}; got {value!r}.")
    return exact


def _read(text: str) -> Fraction | None:
    """Return the number that a string contains, or None.

    None means that the string is not a number, is too long, or has too large an exponent.
    """
    # ASCII only: Fraction accepts the digits of every script, but DECIMAL_EXPONENT does not.
    if len(text) > MAX_NUMBER_LENGTH or not text.isascii():
        return None
    exponent = DECIMAL_EXPONENT.search(text)
    try:
        if exponent and abs(int(exponent[1])) > MAX_DECIMAL_EXPONENT:
            return None
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        return None


def positive(name: str, value: object) -> Fraction:
    """Return ``value`` as a fraction above 0.

    >>> positive("epsilon", 0.1)
    Fraction(1, 10)
    """
    allowed = "a finite number greater than 0"
    exact = fraction(name, value, allowed)
    if exact <= 0:
        raise BadDeclaration(f"`{name}` must be {allowed}; got {value!r}.")
    return exact


def non_negative(name: str, value: object) -> Fraction:
    """Return ``value`` as a fraction of at least 0."""
    allowed = "a finite number that is at least 0"
    exact = fraction(name, value, allowed)
    if exact < 0:
        raise BadDeclaration(f"`{name}` must be {allowed}; got {value!r}.")
    return exact


def probability(name: str, value: object, *, zero: bool = True) -> Fraction:
    """Return ``value`` as a fraction in [0, 1), or in (0, 1) if ``zero`` is false."""
    low = "at least 0" if zero else "greater than 0"
    allowed = f"a number {low} and less than 1"
    exact = fraction(name, value, allowed)
    if not 0 <= exact < 1 or (exact == 0 and not zero):
        raise BadDeclaration(f"`{name}` must be {allowed}; got {value!r}.")
    return exact


def integer(name: str, value: object, *, low: int, high: int) -> int:
    """Return ``value`` as an integer from ``low`` to ``high``, inclusive."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not low <= int(value) <= high:
        raise BadDeclaration(f"`{name}` must be an integer from {low} to {high}; got {value!r}.")
    return int(value)


def ball(value: Fraction | int) -> arb:
    """Return a ball around a fraction, at the current precision."""
    exact = Fraction(value)
    return arb(fmpq(exact.numerator, exact.denominator))


def decide(attempt: Callable[[], T | None]) -> T:
    """Repeat ``attempt`` at doubled precision until it returns an answer.

    Why: a ball contains its real number at every precision. So an attempt that answers only when
    its balls leave no doubt is right whenever it answers.
    """
    bits = 64
    while True:
        with ctx.workprec(bits):
            answer = attempt()
        if answer is not None:
            return answer
        bits *= 2


def is_above(real: Callable[[], arb], bound: Fraction) -> bool:
    """Return whether a real number is above ``bound``; if they are equal, this never returns."""

    def compare() -> bool | None:
        enclosed, limit = real(), ball(bound)
        return True if enclosed > limit else False if enclosed < limit else None

    return decide(compare)


def first_integer(holds: Callable[[int], bool], start: int) -> int:
    """Return the smallest integer that is at least ``start`` and for which ``holds`` is true.

    Once ``holds`` is true for one integer, it must be true for all later ones.
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
    """Return a float that is at least ``value``, to display a loss.

    Both the float's exact value and the decimal that it prints as are at least ``value``.
    """
    exact = fraction_above(value) if isinstance(value, arb) else value
    found = max(_nearest(exact), -sys.float_info.max)
    while math.isfinite(found) and min(Fraction(found), Fraction(repr(found))) < exact:
        found = math.nextafter(found, math.inf)
    return found


def float_below(value: arb | Fraction) -> float:
    """Return a float that is at most ``value``, to display a remaining budget.

    Both the float's exact value and the decimal that it prints as are at most ``value``.
    """
    exact = fraction_below(value) if isinstance(value, arb) else value
    found = min(_nearest(exact), sys.float_info.max)
    while math.isfinite(found) and max(Fraction(found), Fraction(repr(found))) > exact:
        found = math.nextafter(found, -math.inf)
    return found


def percent(share: Fraction, *, down: bool = False) -> str:
    """Return a share of the budget in percent: a cost rounded up, or with ``down``, rounded down.

    It has at most two decimals or, below 1%, three significant digits.

    >>> percent(Fraction(1, 3)), percent(Fraction(2, 3), down=True), percent(Fraction(1, 4))
    ('33.34%', '66.66%', '25%')
    >>> percent(Fraction(1, 300)), percent(Fraction(1, 10**7)), percent(Fraction(0))
    ('0.334%', '0.00001%', '0%')
    """
    value = 100 * share
    decimals = 2 if value >= 1 or not value else 2 - math.floor(math.log10(value))
    steps = value * 10**decimals
    rounded = math.floor(steps) if down else math.ceil(steps)
    return f"{rounded / 10**decimals:.{decimals}f}".rstrip("0").rstrip(".") + "%"


def _nearest(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf
