"""Shares of a budget, counted in integer units."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from confide.errors import BadDeclaration
from confide.exact import integer, non_negative, positive

__all__ = ["UNITS", "Share"]

UNITS: Final = 2**18 * 3**3 * 5**9 * 7 * 11 * 13 * 17 * 19
"""The number of units in the budget. Every 1/k up to k = 22 and every decimal with 9 digits is an
integer number of units. The number is below 2**62, so every database can store it."""

_MAX_UNITS = (1 << 63) - 1
_MAX_DENOMINATOR = 10**6


@dataclass(frozen=True, slots=True, order=True)
class Share:
    """A fraction of a budget, as an integer number of units.

    Claim:   k requests of 1/k, each granted as `Share.floor`, fit into the budget for every k.
    Why:     k floor(UNITS / k) <= UNITS.
    Source:  docs/proofs/loss-filters.md.
    Checked: tests/loss/test_shares.py.

    >>> Share.floor("1%").fraction
    Fraction(1, 100)
    """

    units: int

    def __post_init__(self) -> None:
        if type(self.units) is not int or not 0 <= self.units <= _MAX_UNITS:
            object.__setattr__(self, "units", integer("units", self.units, low=0, high=_MAX_UNITS))

    @property
    def fraction(self) -> Fraction:
        """The share as a fraction of the whole budget."""
        return Fraction(self.units, UNITS)

    @classmethod
    def floor(cls, value: object) -> "Share":
        """Return the share granted to a request for ``value``, a number or a string such as "1%".

        If a float is the closest one to a fraction with a denominator of at most a million, it
        means at most that fraction. So eleven requests of the float 1 / 11 fit, although the
        decimal that it prints as is slightly larger than the fraction.
        """
        units = math.floor(_read(value) * UNITS)
        if units > _MAX_UNITS:
            raise BadDeclaration(
                '`share` must be greater than 0 and at most 1, such as 0.05 or "5%"; got '
                f"{value!r}."
            )
        if not units:
            raise BadDeclaration(f"`share` must be at least 1/{UNITS}; got {value!r}.")
        return cls(units)

    @classmethod
    def ceil(cls, value: Fraction) -> "Share":
        """Return the smallest share that covers the exact fraction ``value``.

        If none does, the result is the largest share, which exceeds every budget.
        """
        exact = non_negative("share", value)
        return cls(min(-(-exact.numerator * UNITS // exact.denominator), _MAX_UNITS))

    def __add__(self, other: "Share") -> "Share":
        return Share(self.units + other.units)

    def __sub__(self, other: "Share") -> "Share":
        return Share(self.units - other.units)


def _read(value: object) -> Fraction:
    match value:
        case float() if math.isfinite(value):
            exact, simple = (
                positive("share", value),
                Fraction(value).limit_denominator(_MAX_DENOMINATOR),
            )
            return min(exact, simple) if float(simple) == value else exact
        case str() if value.strip().endswith("%"):
            return positive("share", value.strip()[:-1]) / 100
        case _:
            return positive("share", value)
