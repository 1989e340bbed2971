"""The interval that holds an expression's values, and room in it for what doubles round."""

import math
from dataclasses import dataclass
from typing import Final

from confide.declare import Kind

__all__ = [
    "ANYTHING",
    "ANY_INT",
    "ANY_LENGTH",
    "EXACT",
    "NOTHING",
    "SLIGHTLY",
    "TRUTH",
    "Bound",
    "Range",
    "is_long",
    "nearly",
    "widen",
]

Bound = int | float
EXACT: Final = 2**53
"""Up to here doubles hold every whole number."""
SLIGHTLY: Final = 2.0**-40


@dataclass(frozen=True, slots=True)
class Range:
    """The interval that holds an expression's non-NULL values, and its few values if known.

    Days count from 1 January of year 1, truth values are 0 and 1; text has no interval.
    ``values`` lists every possible value, where the owner or a public table does; None in it says
    that NULL is to be answered too.
    """

    low: Bound
    high: Bound
    values: tuple[str | int | None, ...] | None = None

    @property
    def is_bounded(self) -> bool:
        """Whether both ends are finite."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    @property
    def is_empty(self) -> bool:
        """Whether no value but NULL can occur."""
        return self.low > self.high

    @property
    def largest(self) -> Bound:
        """The largest absolute value."""
        return max(abs(self.low), abs(self.high))

    def union(self, other: "Range") -> "Range":
        """Return the least range that holds both."""
        both = None
        if self.values is not None and other.values is not None:
            both = tuple(dict.fromkeys((*self.values, *other.values)))
        return Range(min(self.low, other.low), max(self.high, other.high), both)


ANYTHING: Final = Range(-math.inf, math.inf)
NOTHING: Final = Range(math.inf, -math.inf, ())
TRUTH: Final = Range(0, 1)
ANY_INT: Final = Range(-(2**63), 2**63 - 1)
ANY_LENGTH: Final = Range(0, 2**31)


def is_long(found: Range, kind: Kind | None) -> bool:
    """Tell whether these are whole numbers of which some are no doubles."""
    return kind is Kind.INT and found.largest > EXACT


def widen(found: Range, most: Range | None = None) -> Range:
    """Return a range with room for what doubles round whole numbers to, past 2^53.

    What is within ``most`` stays there.

    Why: there engines compute in doubles, or make doubles of whole numbers, each time within a part
         in 2^53; ends that are computed here as whole numbers would leave some values outside.
    """
    if not found.is_bounded or found.largest <= EXACT:
        return found
    room = found.largest / 2**50 if isinstance(found.largest, float) else 1 + found.largest // 2**50
    low, high = found.low - room, found.high + room
    if most is not None and most.low <= found.low and found.high <= most.high:
        low, high = max(low, most.low), min(high, most.high)
    return Range(low, high, found.values)


def nearly(found: Range) -> Range:
    """Return a range with room for what engines and we compute of a curve differently."""
    if found.is_empty:
        return found
    low, high = (SLIGHTLY * (1.0 + abs(end)) for end in (found.low, found.high))
    return Range(found.low - low, found.high + high)
