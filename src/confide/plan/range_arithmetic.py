"""`Range` operations, and what WHERE leaves of ranges.

Keys that no such row can have are not answered: of ``WHERE ward = 'A' GROUP BY ward`` ward A alone.
It follows from the question and the declaration; no row is read.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Final

from confide.declare import Kind
from confide.expressions.functions import Function
from confide.expressions.tree import Call, Column, Expression, Literal

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
    "Ranges",
    "is_long",
    "narrow",
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


Ranges = Mapping[tuple[str, str], Range]
"""The range of each column that a query can read, by table and name."""


F = Function
MIRRORED: Final = {
    **{one: one for one in (F.EQUAL, F.UNEQUAL)},
    F.LESS: F.GREATER,
    F.LESS_EQUAL: F.GREATER_EQUAL,
    F.GREATER: F.LESS,
    F.GREATER_EQUAL: F.LESS_EQUAL,
}


def narrow(ranges: Ranges, where: Expression | None) -> Ranges:
    """Return ranges that hold the columns of every row for which ``where`` is true.

    Claim:   a column of such a row lies in its range, or among the values of that; NULL is among
             them only where no comparison names the column.
    Why:     every part of an AND is true there, and a comparison with NULL never is. Parts that are
             not understood are left out, which only widens. A range in which nothing would be left
             stays as it is.
    Checked: tests/plan/test_conditions.py.
    """
    found = dict(ranges)
    for part in _parts(where):
        match part:
            case Call(function=F.IN, arguments=(Column() as column, *others)):
                _limit(found, column, F.IN, others)
            case Call(function=F.NOT, arguments=(Call(function=F.IN, arguments=parts),)):
                _exclude(found, parts)
            case Call(function=function, arguments=(Column() as column, other)):
                _limit(found, column, function, [other])
            case Call(function=function, arguments=(other, Column() as column)):
                _limit(found, column, MIRRORED.get(function, function), [other])
            case _:
                pass
    return found


def _parts(where: Expression | None) -> Iterator[Expression]:
    """Yield the conditions that must all be true."""
    match where:
        case Call(function=F.AND, arguments=parts):
            for part in parts:
                yield from _parts(part)
        case None:
            return
        case _:
            yield where


Found = dict[tuple[str, str], Range]


def _limit(found: Found, column: Column, function: F, others: list[Expression]) -> None:
    values = [other.value for other in others if isinstance(other, Literal)]
    if len(values) < len(others) or (column.table, column.name) not in found:
        return
    was = found[column.table, column.name]
    if is_long(was, column.kind):
        return  # engines compare such numbers with reals as doubles, which take several for one
    if column.kind is Kind.TEXT:
        test = TEXTS.get(function)
        if test is not None:
            found[column.table, column.name] = _keep(was, lambda text: test(text, values))
    elif column.kind in (Kind.INT, Kind.FLOAT, Kind.DATE):
        numbers = [_number(value) for value in values]
        known = [number for number in numbers if number is not None]
        if known and len(known) == len(numbers):
            low, high = _ends(function, known, is_whole=column.kind is not Kind.FLOAT)
            less = Range(max(was.low, low), min(was.high, high))
            if column.kind is Kind.INT and (was.values is not None or function is F.IN):
                less = _keep_codes(was.values, less, function, known)
            found[column.table, column.name] = was if less.is_empty else less


def _exclude(found: Found, parts: tuple[Expression, ...]) -> None:
    match parts:
        case (Column() as column, *others):
            for other in others:
                _limit(found, column, F.UNEQUAL, [other])
        case _:
            pass


def _keep(was: Range, test: Callable[[str], bool]) -> Range:
    """Return a range with those of its values for which a test holds, which NULL never does."""
    kept = tuple(text for text in was.values or () if isinstance(text, str) and test(text))
    return replace(was, values=kept) if kept else was


def _keep_codes(
    listed: Sequence[object] | None, within: Range, function: F, numbers: Sequence[Bound]
) -> Range:
    """Return the integers for which a comparison is true, which it never is for NULL.

    They are among those that the owner listed or, if there is no such list, that IN lists.
    """
    test = TEXTS.get(function)
    written = sorted({int(one) for one in numbers if one == int(one)})
    kept = tuple(
        code
        for code in (written if listed is None else listed)
        if isinstance(code, int) and within.low <= code <= within.high
        if test is None or test(code, numbers)
    )
    return Range(min(kept), max(kept), kept) if kept else NOTHING


TEXTS: Final[dict[F, Callable[[str | int, Sequence[object]], bool]]] = {
    F.EQUAL: lambda value, values: value in values,
    F.IN: lambda value, values: value in values,
    F.UNEQUAL: lambda value, values: value not in values,
}
"""Comparisons of a listed value with written ones."""


def _number(value: object) -> Bound | None:
    match value:
        case bool():
            return None
        case int() | float():
            return value
        case date():
            return value.toordinal()
        case _:
            return None


def _ends(function: F, values: list[Bound], *, is_whole: bool) -> tuple[Bound, Bound]:
    """Return between which numbers a column lies of which a comparison is true."""
    low, high = min(values), max(values)
    if is_whole:
        low = math.floor(low) + 1 if function is F.GREATER else math.ceil(low)
        high = math.ceil(high) - 1 if function is F.LESS else math.floor(high)
    else:
        low = math.nextafter(low, math.inf) if function is F.GREATER else low
        high = math.nextafter(high, -math.inf) if function is F.LESS else high
    match function:
        case F.EQUAL | F.IN:
            return low, high
        case F.LESS | F.LESS_EQUAL:
            return -math.inf, high
        case F.GREATER | F.GREATER_EQUAL:
            return low, math.inf
        case _:
            return -math.inf, math.inf
