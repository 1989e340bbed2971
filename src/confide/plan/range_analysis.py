"""Where an expression's values lie, from the declared bounds alone.

Ranges choose grids, scales and types; they are not what privacy rests on: whatever is summed is
clamped to its range inside the engine, row by row. A range that is too narrow would clip, one
that is too wide would cost accuracy. Whole-number ranges must hold exactly, since the engine
relies on them not to overflow.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Final

from confide.declare import Kind
from confide.expressions.functions import Function
from confide.expressions.tree import AggregateCall, Call, Column, Expression, Key, Literal
from confide.plan.range_arithmetic import (
    ANY_INT,
    ANY_LENGTH,
    ANYTHING,
    EXACT,
    NOTHING,
    SLIGHTLY,
    TRUTH,
    Bound,
    Range,
    Ranges,
    is_long,
    nearly,
    widen,
)

__all__ = [
    "ANYTHING",
    "ANY_INT",
    "ANY_LENGTH",
    "EXACT",
    "TRUTH",
    "Range",
    "RangeAnalysis",
    "range_of",
]

F = Function


@dataclass(frozen=True, slots=True)
class RangeAnalysis:
    """Finds the ranges of expressions over the same columns, that of each part once."""

    columns: Ranges
    found: dict[int, tuple[Expression, Range]] = field(default_factory=dict)

    def find(self, expression: Expression) -> Range:
        """Return where the value of a row's expression can lie."""
        known = self.found.get(id(expression))
        if known is None:
            # The expression is kept with its range: no other one gets its id meanwhile.
            known = self.found[id(expression)] = expression, self._find(expression)
        return known[1]

    def _find(self, expression: Expression) -> Range:
        match expression:
            case Column(table=table, name=name):
                return self.columns[table, name]
            case Literal(value=value):
                return _of_literal(value)
            case Call(function=function, arguments=arguments, kind=kind):
                parts = [self.find(part) for part in arguments]
                found = RULES[function](parts, arguments)
                if kind is Kind.INT:
                    return widen(_whole(found), ANY_INT)
                pairs = zip(parts, arguments, strict=True)
                is_mixed = any(is_long(part, argument.kind) for part, argument in pairs)
                return widen(found) if is_mixed else found
            case Key() | AggregateCall():
                return ANYTHING


def range_of(expression: Expression, columns: Ranges) -> Range:
    """Return where the value of a row's expression can lie.

    >>> from confide.expressions.tree import Literal
    >>> range_of(Literal(3, Kind.INT), {})
    Range(low=3, high=3, values=None)
    """
    return RangeAnalysis(columns).find(expression)


def _of_literal(value: object) -> Range:
    match value:
        case None:
            return NOTHING
        case str():
            return Range(-math.inf, math.inf, (value,))
        case date():
            return Range(value.toordinal(), value.toordinal())
        case bool() | int() | float():
            return Range(value, value)
        case _:
            return ANYTHING


def _whole(found: Range) -> Range:
    """Return the range of whole numbers within, with infinities where doubles lost count."""
    low = math.ceil(found.low) if math.isfinite(found.low) else found.low
    high = math.floor(found.high) if math.isfinite(found.high) else found.high
    return Range(low, high)


Parts = Sequence[Range]
Rule = Callable[[Parts, Sequence[Expression]], Range]


def _corners(operation: Callable[[Bound, Bound], Bound]) -> Rule:
    """A rule for an operation that is monotone in each argument: its ends are at the corners."""

    def rule(parts: Parts, _: Sequence[Expression]) -> Range:
        left, right = parts
        if left.is_empty or right.is_empty:
            return NOTHING
        if not (left.is_bounded and right.is_bounded):
            return ANYTHING
        ends = [operation(a, b) for a in (left.low, left.high) for b in (right.low, right.high)]
        return _within_doubles(min(ends), max(ends))

    return rule


def _within_doubles(low: Bound, high: Bound) -> Range:
    return Range(low, high) if max(abs(low), abs(high)) < 1e300 else ANYTHING


def _monotone(function: Callable[[Bound], Bound], *, least: Bound = -math.inf) -> Rule:
    """A rule for an increasing function of one number, NULL below ``least``."""

    def rule(parts: Parts, _: Sequence[Expression]) -> Range:
        (part,) = parts
        if part.is_empty or part.high < least:
            return NOTHING
        low = (
            function(max(part.low, least))
            if part.low > -math.inf or least > -math.inf
            else -math.inf
        )
        high = function(part.high) if part.high < math.inf else math.inf
        return Range(low, high)

    return rule


def _divide(parts: Parts, _: Sequence[Expression]) -> Range:
    """Bounded only when the divisor keeps away from zero."""
    left, right = parts
    if left.is_empty or right.is_empty:
        return NOTHING
    if not (left.is_bounded and right.is_bounded) or right.low <= 0 <= right.high:
        return ANYTHING
    ends = [a / b for a in (left.low, left.high) for b in (right.low, right.high)]
    return _within_doubles(min(ends), max(ends))


def _modulo(parts: Parts, _: Sequence[Expression]) -> Range:
    """The remainder has the sign of the dividend and is smaller than the divisor."""
    left, right = parts
    if left.is_empty or right.is_empty or not right.largest:
        return NOTHING
    most = min(right.largest - 1, left.largest)
    return Range(-most if left.low < 0 else 0, most if left.high > 0 else 0)


def _negate(parts: Parts, _: Sequence[Expression]) -> Range:
    return Range(-parts[0].high, -parts[0].low)


def _absolute(parts: Parts, _: Sequence[Expression]) -> Range:
    (part,) = parts
    if part.is_empty:
        return NOTHING
    nearest = 0 if part.low <= 0 <= part.high else min(abs(part.low), abs(part.high))
    return Range(nearest, part.largest)


def _truth(parts: Parts, arguments: Sequence[Expression]) -> Range:
    del parts, arguments
    return TRUTH


def _union(parts: Parts, _: Sequence[Expression]) -> Range:
    found = parts[0]
    for part in parts[1:]:
        found = found.union(part)
    return found


def _branches(parts: Parts, arguments: Sequence[Expression]) -> Range:
    *pairs, otherwise = parts
    return _union([*pairs[1::2], otherwise], arguments)


def _least(parts: Parts, arguments: Sequence[Expression]) -> Range:
    """The engine skips NULL among the arguments, so only a literal is sure to bound the result."""
    found = _union(parts, arguments)
    sure = [
        part.high for part, argument in zip(parts, arguments, strict=True) if _is_sure(argument)
    ]
    return Range(found.low, min([found.high, *sure]))


def _greatest(parts: Parts, arguments: Sequence[Expression]) -> Range:
    found = _union(parts, arguments)
    sure = [part.low for part, argument in zip(parts, arguments, strict=True) if _is_sure(argument)]
    return Range(max([found.low, *sure]), found.high)


def _is_sure(argument: Expression) -> bool:
    return isinstance(argument, Literal) and argument.value is not None


def _round(parts: Parts, arguments: Sequence[Expression]) -> Range:
    """Rounding to digits moves outwards by less than one unit of the last digit."""
    part, digits = parts[0], arguments[1] if len(arguments) > 1 else None
    places = digits.value if isinstance(digits, Literal) and isinstance(digits.value, int) else 0
    if not part.is_bounded:
        return part if part.is_empty else ANYTHING
    if places <= 0:
        unit = 10**-places
        low, high = math.floor(part.low) // unit * unit, -(-math.ceil(part.high) // unit) * unit
        return widen(Range(low, high))
    grain = 10.0**-places + SLIGHTLY * float(part.largest)  # the size of a digit, and of doubles
    return Range(part.low - grain, part.high + grain)


def _to_int(parts: Parts, arguments: Sequence[Expression]) -> Range:
    (part,), (argument,) = parts, arguments
    if getattr(argument, "kind", None) in (Kind.INT, Kind.FLOAT, Kind.BOOL) and part.is_bounded:
        return Range(math.floor(part.low), math.ceil(part.high))
    return ANY_INT


def _to_float(parts: Parts, arguments: Sequence[Expression]) -> Range:
    kind = getattr(arguments[0], "kind", None)
    return parts[0] if kind in (Kind.INT, Kind.FLOAT, Kind.BOOL) else ANYTHING


def _same_kind(kind: Kind) -> Rule:
    """A cast to the type that the argument has already keeps its range; others tell nothing."""

    def rule(parts: Parts, arguments: Sequence[Expression]) -> Range:
        return parts[0] if getattr(arguments[0], "kind", None) is kind else ANYTHING

    return rule


def _length(parts: Parts, arguments: Sequence[Expression]) -> Range:
    known = _texts(parts[0])
    lengths = [len(value) for value in known if value is not None] if known is not None else []
    if lengths:
        return Range(min(lengths), max(lengths))
    match arguments[0]:
        case Call(function=F.SUBSTR, arguments=(_, _, Literal(value=int(count)))):
            return Range(0, min(abs(count), ANY_LENGTH.high))
        case _:
            return ANY_LENGTH


def _letters(change: Callable[[str], str]) -> Rule:
    """A rule for upper or lower case: known texts stay known, if no engine disagrees on them."""

    def rule(parts: Parts, _: Sequence[Expression]) -> Range:
        known = _texts(parts[0])
        if known is None or not all(value is None or value.isascii() for value in known):
            return ANYTHING
        return _known(None if value is None else change(value) for value in known)

    return rule


def _substring(parts: Parts, arguments: Sequence[Expression]) -> Range:
    """Parts of known texts are known, where they are counted from the beginning."""
    end: int | None = None
    match arguments[1:]:
        case [Literal(value=int(first))] if first > 0:
            start = first - 1
        case [Literal(value=int(first)), Literal(value=int(count))] if first > 0 <= count:
            start, end = first - 1, first - 1 + count
        case _:
            return ANYTHING
    known = _texts(parts[0])
    return ANYTHING if known is None else _known(one and one[start:end] for one in known)


def _texts(part: Range) -> tuple[str | None, ...] | None:
    """Return the strings that an argument is one of, if they are known."""
    known = part.values
    return None if known is None else tuple(one for one in known if not isinstance(one, int))


def _known(values: Iterable[str | None]) -> Range:
    return Range(-math.inf, math.inf, tuple(dict.fromkeys(values)))


def _of_day(part_of: Callable[[date], int]) -> Rule:
    """A rule for a function of the day that grows with it."""

    def rule(parts: Parts, _: Sequence[Expression]) -> Range:
        (part,) = parts
        if not part.is_bounded:
            return ANYTHING
        return Range(part_of(_day(part.low)), part_of(_day(part.high)))

    return rule


def _fixed(low: int, high: int) -> Rule:
    def rule(parts: Parts, arguments: Sequence[Expression]) -> Range:
        del parts, arguments
        return Range(low, high)

    return rule


def _day(ordinal: Bound) -> date:
    return date.fromordinal(int(ordinal))


def _month_start(day: date) -> int:
    return day.replace(day=1).toordinal()


def _quarter_start(day: date) -> int:
    return day.replace(month=day.month - (day.month - 1) % 3, day=1).toordinal()


def _year_start(day: date) -> int:
    return day.replace(month=1, day=1).toordinal()


SMALLEST: Final = math.ulp(0.0)
LARGEST_EXPONENT: Final = 709.0
_LN: Final = _monotone(math.log, least=SMALLEST)


def _exponential(part: Range) -> Range:
    """Return the range of EXP, without an upper end where it may be past the doubles."""
    if part.is_empty:
        return NOTHING
    low = 0.0 if part.low < -LARGEST_EXPONENT else math.exp(min(part.low, LARGEST_EXPONENT))
    if part.high > LARGEST_EXPONENT:
        return Range(max(low * (1.0 - SLIGHTLY), 0.0), math.inf)
    return Range(max(low * (1.0 - SLIGHTLY), 0.0), math.exp(part.high) * (1.0 + SLIGHTLY))


RULES: Final[dict[F, Rule]] = {
    F.ADD: _corners(lambda a, b: a + b),
    F.SUBTRACT: _corners(lambda a, b: a - b),
    F.MULTIPLY: _corners(lambda a, b: a * b),
    F.DIVIDE: _divide,
    F.MODULO: _modulo,
    F.NEGATE: _negate,
    **dict.fromkeys(
        (
            F.EQUAL, F.UNEQUAL, F.LESS, F.LESS_EQUAL, F.GREATER, F.GREATER_EQUAL,
            F.AND, F.OR, F.NOT, F.IS_NULL, F.IN, F.LIKE, F.TO_BOOL,
        ),
        _truth,
    ),
    F.CASE: _branches,
    F.COALESCE: _union,
    F.ABS: _absolute,
    F.FLOOR: _monotone(math.floor),
    F.CEIL: _monotone(math.ceil),
    F.ROUND: _round,
    F.LEAST: _least,
    F.GREATEST: _greatest,
    F.LN: lambda parts, arguments: nearly(_LN(parts, arguments)),
    F.EXP: lambda parts, _: _exponential(parts[0]),
    F.SQRT: _monotone(math.sqrt, least=0),
    F.YEAR: _of_day(lambda day: day.year),
    F.QUARTER: _fixed(1, 4),
    F.MONTH: _fixed(1, 12),
    F.DAY: _fixed(1, 31),
    F.WEEKDAY: _fixed(0, 6),
    F.TRUNC_YEAR: _of_day(_year_start),
    F.TRUNC_QUARTER: _of_day(_quarter_start),
    F.TRUNC_MONTH: _of_day(_month_start),
    F.LOWER: _letters(str.lower),
    F.UPPER: _letters(str.upper),
    F.SUBSTR: _substring,
    F.LENGTH: _length,
    F.TO_INT: _to_int,
    F.TO_FLOAT: _to_float,
    F.TO_TEXT: _same_kind(Kind.TEXT),
    F.TO_DATE: _same_kind(Kind.DATE),
}  # fmt: skip
