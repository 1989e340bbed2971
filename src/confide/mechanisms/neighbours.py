"""The two relations of neighboring datasets, and the sensitivities of common statistics."""

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from confide.errors import BadDeclaration
from confide.exact import Number, fraction, integer

__all__ = ["Neighbours", "Sensitivity", "histogram_sensitivity", "sum_sensitivity"]


class Neighbours(StrEnum):
    """The relation that defines neighboring datasets; every guarantee is for one of these."""

    ADD_REMOVE = "add-remove"
    REPLACE = "replace"

    @classmethod
    def of(cls, value: "Neighbours | str") -> "Neighbours":
        """Return the relation with this name, or raise BadDeclaration."""
        try:
            return cls(value)
        except ValueError:
            allowed = " or ".join(repr(str(member)) for member in cls)
            raise BadDeclaration(f"`neighbours` must be {allowed}; got {value!r}.") from None


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The most that a vector of statistics changes between neighboring datasets, in each norm.

    ``l0`` is the number of statistics that change; ``largest`` is the most that any one changes.
    """

    l0: int
    l1: Fraction
    l2_squared: Fraction
    largest: Fraction


def histogram_sensitivity(
    neighbours: Neighbours | str, *, cells: int = 1, rows: int = 1
) -> Sensitivity:
    """Return the sensitivity of a histogram: row counts by cell.

    One unit has rows in at most ``cells`` cells, and at most ``rows`` rows in each.

    Claim:   under add-remove, l0 is cells, l1 is cells * rows, and the squared l2 is
             cells * rows^2. Under replace, each of these is twice as large. No single count changes
             by more than ``rows``.
    Why:     adding a unit raises each of its cells by at most ``rows``. Replacing one removes
             such a unit and adds another, which can be in different cells. If both are in one
             cell, the two changes have opposite signs, so its count changes by at most ``rows``.
    Checked: tests/mechanisms/test_neighbours.py (all small datasets).

    >>> histogram_sensitivity("add-remove").l1, histogram_sensitivity("replace").l1
    (Fraction(1, 1), Fraction(2, 1))
    """
    count = integer("cells", cells, low=1, high=2**61)
    most = integer("rows", rows, low=1, high=2**61)
    touched = count * (2 if Neighbours.of(neighbours) is Neighbours.REPLACE else 1)
    return Sensitivity(
        touched, Fraction(touched * most), Fraction(touched * most**2), Fraction(most)
    )


def sum_sensitivity(neighbours: Neighbours | str, low: Number, high: Number) -> Fraction:
    """Return the sensitivity of a sum of values in [low, high], one per unit.

    Claim:   max(|low|, |high|) under add-remove, high - low under replace.
    Why:     adding or removing a unit changes the sum by its value; replacing one changes it by
             the difference of two values.

    >>> sum_sensitivity("add-remove", 0, 120), sum_sensitivity("replace", 100, 120)
    (Fraction(120, 1), Fraction(20, 1))
    """
    least, most = fraction("low", low, "a finite number"), fraction("high", high, "a finite number")
    if least > most:
        raise BadDeclaration(
            f"`low` and `high` must satisfy low <= high; got low={low}, high={high}."
        )
    if Neighbours.of(neighbours) is Neighbours.REPLACE:
        return most - least
    return max(abs(least), abs(most))
