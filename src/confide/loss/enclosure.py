"""Exact bounds on real numbers that formulas define, and on points where a condition changes.

A formula is a function ``real`` that computes a ball around its number at the current precision.
Each result here is rounded in one stated direction, so no caller depends on how rounding turns out.
"""

from collections.abc import Callable
from fractions import Fraction

from flint import arb, ctx

from confide.errors import Fault
from confide.exact import ball, fraction_above

__all__ = [
    "TINY",
    "bound_above",
    "enclose",
    "first_dyadic",
    "last_dyadic",
    "normal_tail",
    "normal_tail_inverse",
    "probability_above",
    "shorten_down",
    "shorten_up",
]

BITS = 96
"""The relative accuracy of an enclosed real number in bits, far beyond that of a float."""

TINY = Fraction(1, 1 << 4096)
"""The smallest bound returned; every meaningful delta is far above it."""

_SHORT_BITS = 64
_BISECTIONS = 62
_MAX_PRECISION = 1 << 22
_MIN_DYADIC = Fraction(1, 1 << 128)


def enclose(real: Callable[[], arb]) -> arb:
    """Return a ball around the non-zero number that ``real`` computes, accurate to BITS bits.

    Why: a ball contains its number at every precision, so more bits only narrow the ball.
    """
    precision = BITS + 32
    while precision <= _MAX_PRECISION:
        with ctx.workprec(precision):
            found = real()
            if found.rel_accuracy_bits() >= BITS:
                return found
        precision *= 2
    raise Fault(f"No enclosure of {BITS} bits was found with {_MAX_PRECISION} bits of precision.")


def bound_above(real: Callable[[], arb]) -> Fraction:
    """Return a short fraction that is at least the positive number that ``real`` computes.

    A number below 2**-4096 becomes 2**-4096, because its fraction could fill the memory.
    """
    with ctx.workprec(BITS + 32):
        if real() < ball(TINY):
            return TINY
    found = enclose(real)
    # `fraction_above` rounds the end of a ball outward to the current precision; use enough bits.
    with ctx.workprec(2 * BITS):
        return TINY if found < ball(TINY) else shorten_up(fraction_above(found))


def probability_above(real: Callable[[], arb]) -> Fraction:
    """Return a short fraction that is at least the positive probability that ``real`` computes."""
    return min(Fraction(1), bound_above(real))


def shorten_up(value: Fraction) -> Fraction:
    """Return ``value`` (positive), rounded up to a dyadic number of 64 or 65 bits."""
    return -_shorten(-value, value)


def shorten_down(value: Fraction) -> Fraction:
    """Return ``value`` (positive), rounded down to a dyadic number of 64 or 65 bits."""
    return _shorten(value, value)


def _shorten(signed: Fraction, size: Fraction) -> Fraction:
    """Return ``signed`` rounded down to 64 or 65 bits; ``size`` is its absolute value."""
    exponent = size.numerator.bit_length() - size.denominator.bit_length() - _SHORT_BITS
    unit = Fraction(2) ** exponent
    return (signed / unit).__floor__() * unit


def last_dyadic(holds: Callable[[Fraction], bool]) -> Fraction:
    """Return nearly the greatest number for which ``holds`` is true.

    ``holds`` must change from true to false once as its argument grows. It was evaluated at the
    result, and is true there. The result is below the point of the change by at most one part in
    2**62.
    """
    exponent = _last_exponent(holds)
    found = Fraction(2) ** exponent
    for bit in range(1, _BISECTIONS + 1):
        further = found + Fraction(2) ** (exponent - bit)
        if holds(further):
            found = further
    return found


def first_dyadic(holds: Callable[[Fraction], bool]) -> Fraction:
    """Return nearly the smallest number for which ``holds`` is true.

    ``holds`` must change from false to true once as its argument grows. It was evaluated at the
    result, and is true there. The result is above the point of the change by at most one part in
    2**62, or is 2**-128.
    """
    if holds(_MIN_DYADIC):
        return _MIN_DYADIC
    exponent = _last_exponent(lambda value: not holds(value))
    low, high = Fraction(2) ** exponent, Fraction(2) ** (exponent + 1)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _last_exponent(holds: Callable[[Fraction], bool]) -> int:
    """Return the greatest integer e for which ``holds(2**e)`` is true."""
    low, high = (0, 1) if holds(Fraction(1)) else (-1, 0)
    while low < 0 and not holds(Fraction(2) ** low):
        low, high = 2 * low, low
    while high > 0 and holds(Fraction(2) ** high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(Fraction(2) ** middle) else (low, middle)
    return low


def normal_tail(point: arb) -> arb:
    """Return a ball around P(X > point), for X standard normal.

    Why: erfc is decreasing, so its values at the two ends of a ball enclose all values between.
    Evaluating erfc on the ball itself would give a far too wide ball where the tail is thin.
    """
    scaled = point / arb(2).sqrt()
    return scaled.lower().erfc().union(scaled.upper().erfc()) / 2


def normal_tail_inverse(mass: arb) -> arb:
    """Return a ball around the point that a standard normal X exceeds with probability ``mass``."""
    return arb(2).sqrt() * (2 * mass).erfcinv()
