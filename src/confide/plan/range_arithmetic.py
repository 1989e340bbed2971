"""`Range` and its operations, and the effect of WHERE on ranges.

`narrow` restricts the ranges of columns to the rows that satisfy WHERE. The planner uses it to omit
keys that no selected row can have: ``WHERE ward = 'A' GROUP BY ward`` yields ward A only. This
depends only on the query and the declaration; no row is read.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Final

from confide.declare import Kind
from confide.declare.columns import to_milliseconds
from confide.expressions.functions import Function
from confide.expressions.tree import Call, Column, Expression, Literal

__all__ = [
    "ANY_INT",
    "ANY_LENGTH",
    "BOOLEAN_RANGE",
    "CURVE_TOLERANCE",
    "EMPTY_RANGE",
    "MAX_EXACT_INTEGER",
    "UNBOUNDED",
    "Bound",
    "Range",
    "Ranges",
    "add_tolerance",
    "has_inexact_integers",
    "narrow",
    "widen",
    "within_doubles",
]

Bound = int | float
MAX_EXACT_INTEGER: Final = 2**53
"""The largest integer up to which doubles hold every integer."""
SAFE_DOUBLE: Final = 1e300
CURVE_TOLERANCE: Final = 2.0**-40
"""The relative tolerance for functions such as LN, which engines compute slightly differently."""


@dataclass(frozen=True, slots=True)
class Range:
    """The interval of an expression's non-NULL values, and the values themselves if known.

    Dates are ordinals, counted from January 1 of year 1; Booleans are 0 and 1. ``values`` lists
    every possible value if the owner, a public table, or the query does. If it contains None, NULL
    is a group of its own. For strings, the interval is that of their lengths, and infinite if
    ``values`` lists them.
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
        """Whether no value except NULL is possible."""
        return self.low > self.high

    @property
    def largest(self) -> Bound:
        """The largest absolute value."""
        return max(abs(self.low), abs(self.high))

    def union(self, other: "Range") -> "Range":
        """Return the smallest range that contains both ranges."""
        both = None
        if self.values is not None and other.values is not None:
            both = tuple(dict.fromkeys((*self.values, *other.values)))
        return Range(min(self.low, other.low), max(self.high, other.high), both)


UNBOUNDED: Final = Range(-math.inf, math.inf)
EMPTY_RANGE: Final = Range(math.inf, -math.inf, ())
BOOLEAN_RANGE: Final = Range(0, 1)
ANY_INT: Final = Range(-(2**63), 2**63 - 1)
ANY_LENGTH: Final = Range(0, 2**31)


def has_inexact_integers(found: Range, kind: Kind | None) -> bool:
    """Return whether a range contains integers too large for exact doubles."""
    return kind is Kind.INT and found.largest > MAX_EXACT_INTEGER


def widen(found: Range, limit: Range | None = None) -> Range:
    """Return a range widened by the possible rounding of integers past 2^53 to doubles.

    A range within ``limit`` stays within it. A range with an infinite end, or without numbers past
    2^53, is returned unchanged.

    Why: past 2^53 engines compute in doubles, or convert integers to doubles, each time with a
         relative error of up to 2^-53. Bounds computed here as integers would exclude some values.
    """
    if not found.is_bounded or found.largest <= MAX_EXACT_INTEGER:
        return found
    room = found.largest / 2**50 if isinstance(found.largest, float) else 1 + found.largest // 2**50
    low, high = found.low - room, found.high + room
    if limit is not None and limit.low <= found.low and found.high <= limit.high:
        low, high = max(low, limit.low), min(high, limit.high)
    return Range(low, high, found.values)


def within_doubles(low: Bound, high: Bound) -> Range:
    """Return a range in which ends that doubles may not hold are replaced by infinite ones."""
    return Range(
        low if abs(low) < SAFE_DOUBLE else -math.inf, high if abs(high) < SAFE_DOUBLE else math.inf
    )


def add_tolerance(found: Range) -> Range:
    """Return a range widened by the differences between engines in a function such as LN."""
    if found.is_empty:
        return found
    low, high = (CURVE_TOLERANCE * (1.0 + abs(end)) for end in (found.low, found.high))
    return Range(found.low - low, found.high + high)


Ranges = Mapping[tuple[str, str], Range]
"""The range of each column that a query can read, by table and name."""


F = Function
MIRRORED: Final = {
    **{function: function for function in (F.EQUAL, F.UNEQUAL)},
    F.LESS: F.GREATER,
    F.LESS_EQUAL: F.GREATER_EQUAL,
    F.GREATER: F.LESS,
    F.GREATER_EQUAL: F.LESS_EQUAL,
}
"""The comparison with which 5 < x can be written as x > 5."""


def narrow(ranges: Ranges, where: Expression | None) -> Ranges:
    """Return ranges that contain the columns of every row for which ``where`` is true.

    Claim:   a value other than NULL in a column of such a row lies in the range of the column, and
             is one of its listed values, if any. If NULL was listed and such a row can have it, it
             stays listed.
    Why:     every part of a true AND is true, and a comparison with NULL never is. Parts that
             cannot be interpreted are ignored, which only widens ranges. A range that would become
             empty stays unchanged.
    Checked: tests/plan/test_keys.py.
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


MutableRanges = dict[tuple[str, str], Range]


def _limit(found: MutableRanges, column: Column, function: F, others: list[Expression]) -> None:
    """Restrict a column's range in ``found`` by one comparison with ``others``, if possible."""
    values = [other.value for other in others if isinstance(other, Literal)]
    if len(values) < len(others) or (column.table, column.name) not in found:
        return
    before = found[column.table, column.name]
    if has_inexact_integers(before, column.kind):
        return  # engines compare these with floats as doubles, which merges several into one
    if column.kind is Kind.TEXT:
        test = VALUE_TESTS.get(function)
        if test is not None:
            found[column.table, column.name] = _filter_values(
                before, lambda text: test(text, values)
            )
    elif column.kind in (Kind.INT, Kind.FLOAT, Kind.DATE, Kind.TIMESTAMP):
        numbers = [_as_number(value) for value in values]
        known = [number for number in numbers if number is not None]
        if known and len(known) == len(numbers):
            low, high = _ends(function, known, is_integer=column.kind is not Kind.FLOAT)
            narrowed = Range(max(before.low, low), min(before.high, high))
            if column.kind is Kind.INT and (before.values is not None or function is F.IN):
                narrowed = _filter_integers(before.values, narrowed, function, known)
            found[column.table, column.name] = before if narrowed.is_empty else narrowed


def _exclude(found: MutableRanges, parts: tuple[Expression, ...]) -> None:
    """Restrict the range of a column in ``found`` by NOT IN; ``parts`` are the operands of IN."""
    match parts:
        case (Column() as column, *others):
            for other in others:
                _limit(found, column, F.UNEQUAL, [other])
        case _:
            pass


def _filter_values(before: Range, test: Callable[[str], bool]) -> Range:
    """Return a range with only the listed strings that pass a test, or unchanged if none does."""
    kept = tuple(text for text in before.values or () if isinstance(text, str) and test(text))
    return replace(before, values=kept) if kept else before


def _filter_integers(
    listed: Sequence[object] | None, within: Range, function: F, numbers: Sequence[Bound]
) -> Range:
    """Return the range of the integers ``within`` for which a comparison with ``numbers`` is true.

    The candidates are the values ``listed`` before or, without such a list, the ``numbers`` of IN.
    NULL is excluded.
    """
    test = VALUE_TESTS.get(function)
    written = sorted({int(number) for number in numbers if number == int(number)})
    kept = tuple(
        code
        for code in (written if listed is None else listed)
        if isinstance(code, int) and within.low <= code <= within.high
        if test is None or test(code, numbers)
    )
    return Range(min(kept), max(kept), kept) if kept else EMPTY_RANGE


VALUE_TESTS: Final[dict[F, Callable[[str | int, Sequence[object]], bool]]] = {
    F.EQUAL: lambda value, values: value in values,
    F.IN: lambda value, values: value in values,
    F.UNEQUAL: lambda value, values: value not in values,
}
"""Comparisons of a listed value with literals."""


def _as_number(value: object) -> Bound | None:
    match value:
        case bool():
            return None
        case int() | float():
            return value
        case datetime():
            return to_milliseconds(value)
        case date():
            return value.toordinal()
        case _:
            return None


def _ends(function: F, values: list[Bound], *, is_integer: bool) -> tuple[Bound, Bound]:
    """Return bounds of a column if a comparison with these values is true; infinite if unknown."""
    low, high = min(values), max(values)
    if is_integer:
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
