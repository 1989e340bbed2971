"""Shares of a budget, counted in whole units."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from confide.errors import BadDeclaration
from confide.exact import integer, non_negative, positive

__all__ = ["UNITS", "Share"]

UNITS: Final = 2**18 * 3**3 * 5**9 * 7 * 11 * 13 * 17 * 19
"""Units in a whole budget. Every 1/k up to k = 22 and every decimal of 9 places is a whole number
of them, and the total is below 2**62, so each database can count them."""

_MOST_UNITS = (1 << 63) - 1
_SIMPLE = 10**6


@dataclass(frozen=True, slots=True, order=True)
class Share:
    """A part of a budget as a whole number of units.

    Claim:   k requests of 1/k, each granted as `Share.floor`, fit into the budget for every k.
    Why:     k floor(UNITS / k) <= UNITS.
    Source:  docs/proofs/loss-filters.md.
    Checked: tests/loss/test_shares.py.

    >>> Share.floor("1%").fraction
    Fraction(1, 100)
    """

    units: int

    def __post_init__(self) -> None:
        if type(self.units) is not int or not 0 <= self.units <= _MOST_UNITS:
            object.__setattr__(self, "units", integer("units", self.units, low=0, high=_MOST_UNITS))

    @property
    def fraction(self) -> Fraction:
        """The share as a part of the whole budget."""
        return Fraction(self.units, UNITS)

    @classmethod
    def floor(cls, value: object) -> "Share":
        """Return what a request for ``value`` is granted: a number, or text such as "1%".

        A float that is the nearest one to a simple fraction means at most that fraction, so that
        eleven requests of 1 / 11, which prints a hair too large, fit as well.
        """
        units = math.floor(_read(value) * UNITS)
        if units > _MOST_UNITS:
            raise BadDeclaration(
                'share must be a part of the budget above 0 and at most 1, such as "5%", got '
                f"{value!r}"
            )
        if not units:
            raise BadDeclaration(f"share must be at least 1/{UNITS} of the budget, got {value!r}")
        return cls(units)

    @classmethod
    def ceil(cls, value: Fraction) -> "Share":
        """Return the least share that pays for the exact part ``value``."""
        exact = non_negative("share", value)
        return cls(min(-(-exact.numerator * UNITS // exact.denominator), _MOST_UNITS))

    def __add__(self, other: "Share") -> "Share":
        return Share(self.units + other.units)

    def __sub__(self, other: "Share") -> "Share":
        return Share(self.units - other.units)


def _read(value: object) -> Fraction:
    match value:
        case float() if math.isfinite(value):
            exact, simple = positive("share", value), Fraction(value).limit_denominator(_SIMPLE)
            return min(exact, simple) if float(simple) == value else exact
        case str() if value.strip().endswith("%"):
            return positive("share", value.strip()[:-1]) / 100
        case _:
            return positive("share", value)
