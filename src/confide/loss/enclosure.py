"""Ball arithmetic narrow enough to decide with, and thresholds found with it.

Every answer here errs in one stated direction, so a caller never has to trust a rounding.
"""

from collections.abc import Callable
from fractions import Fraction

from flint import arb, ctx

from confide.errors import Fault
from confide.exact import ball, fraction_above

__all__ = [
    "TINY",
    "bound_above",
    "chance_above",
    "enclose",
    "first_dyadic",
    "last_dyadic",
    "normal_tail",
    "normal_tail_inverse",
    "shorten_down",
    "shorten_up",
]

BITS = 96
"""Relative accuracy of an enclosed real number, far beyond what a float can show."""

TINY = Fraction(1, 1 << 4096)
"""What stands for any smaller bound; every delta that means something is far above it."""

_SHORT = 64
_PLACES = 62
_MOST_BITS = 1 << 22
_SMALLEST = Fraction(1, 1 << 128)


def enclose(real: Callable[[], arb]) -> arb:
    """Return a ball around the non-zero number that ``real`` computes, BITS bits narrow.

    Why: a ball holds its number at every precision, so trying again with more bits only narrows.
    """
    precision = BITS + 32
    while precision <= _MOST_BITS:
        with ctx.workprec(precision):
            found = real()
            if found.rel_accuracy_bits() >= BITS:
                return found
        precision *= 2
    raise Fault(f"no enclosure of {BITS} bits was found with {_MOST_BITS} bits of work")


def bound_above(real: Callable[[], arb]) -> Fraction:
    """Return a short fraction, at least the positive number that ``real`` computes.

    What is below 2**-4096 becomes 2**-4096: such fractions would fill the memory.
    """
    with ctx.workprec(BITS + 32):
        if real() < ball(TINY):
            return TINY
    found = enclose(real)
    # The end of a ball is rounded outwards to the precision at hand, which must not be a float's.
    with ctx.workprec(2 * BITS):
        return TINY if found < ball(TINY) else shorten_up(fraction_above(found))


def chance_above(real: Callable[[], arb]) -> Fraction:
    """Return a short fraction, at least the positive probability that ``real`` computes."""
    return min(Fraction(1), bound_above(real))


def shorten_up(value: Fraction) -> Fraction:
    """Return the next dyadic number of 64 bits that is at least ``value`` (positive)."""
    return -_shorten(-value, value)


def shorten_down(value: Fraction) -> Fraction:
    """Return the next dyadic number of 64 bits that is at most ``value`` (positive)."""
    return _shorten(value, value)


def _shorten(signed: Fraction, size: Fraction) -> Fraction:
    exponent = size.numerator.bit_length() - size.denominator.bit_length() - _SHORT
    unit = Fraction(2) ** exponent
    return (signed / unit).__floor__() * unit


def last_dyadic(holds: Callable[[Fraction], bool]) -> Fraction:
    """Return the greatest tested number above 0 for which ``holds`` was seen to be true.

    ``holds`` turns from true to false once as its argument grows. The answer is below that point
    by at most one part in 2**62.
    """
    exponent = _last_exponent(holds)
    found = Fraction(2) ** exponent
    for place in range(1, _PLACES + 1):
        further = found + Fraction(2) ** (exponent - place)
        if holds(further):
            found = further
    return found


def first_dyadic(holds: Callable[[Fraction], bool]) -> Fraction:
    """Return a number for which ``holds`` was seen to be true, nearly the least one.

    ``holds`` turns from false to true once as its argument grows. The answer is above that point
    by at most one part in 2**62, or is 2**-128.
    """
    if holds(_SMALLEST):
        return _SMALLEST
    exponent = _last_exponent(lambda value: not holds(value))
    low, high = Fraction(2) ** exponent, Fraction(2) ** (exponent + 1)
    for _ in range(_PLACES):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _last_exponent(holds: Callable[[Fraction], bool]) -> int:
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
    """Enclose P(X > point) of a standard normal X.

    Why: erfc falls, so its values at the two ends of a ball enclose those between; its own
    bound for a wide ball is far too coarse where the tail is thin.
    """
    scaled = point / arb(2).sqrt()
    return scaled.lower().erfc().union(scaled.upper().erfc()) / 2


def normal_tail_inverse(mass: arb) -> arb:
    """Enclose the point that a standard normal variable passes with probability ``mass``."""
    return arb(2).sqrt() * (2 * mass).erfcinv()
