"""Ranges of functions of dates; dates are ordinals, counted from January 1 of year 1."""

import math
from collections.abc import Callable, Sequence
from datetime import date
from functools import lru_cache
from typing import Final

from confide.declare.columns import MAX_MILLISECONDS, MIN_MILLISECONDS
from confide.expressions.date_formats import format_day, repeats_yearly
from confide.expressions.functions import Function
from confide.expressions.tree import Expression, Literal
from confide.plan.range_arithmetic import EMPTY_RANGE, UNBOUNDED, Bound, Range

__all__ = ["DATE_RULES"]

F = Function
Parts = Sequence[Range]
Rule = Callable[[Parts, Sequence[Expression]], Range]
FIRST_DAY, LAST_DAY = date.min.toordinal(), date.max.toordinal()
MAX_KNOWN: Final = 10_000
FORTY_YEARS: Final = range(date(2000, 1, 1).toordinal(), date(2040, 1, 1).toordinal())
"""A period in which every day of the year, even February 29, falls on every day of the week."""


def _part(part_of: Callable[[date], int]) -> Rule:
    """Return the rule of a nondecreasing function of a date."""

    def rule(parts: Parts, _: Sequence[Expression]) -> Range:
        (part,) = parts
        if not part.is_bounded:
            return UNBOUNDED
        return Range(part_of(_to_date(part.low)), part_of(_to_date(part.high)))

    return rule


def _fixed(low: int, high: int) -> Rule:
    def rule(parts: Parts, arguments: Sequence[Expression]) -> Range:
        del parts, arguments
        return Range(low, high)

    return rule


def _to_date(ordinal: Bound) -> date:
    return date.fromordinal(int(ordinal))


def _month_start(day: date) -> int:
    return day.replace(day=1).toordinal()


def _quarter_start(day: date) -> int:
    return day.replace(month=day.month - (day.month - 1) % 3, day=1).toordinal()


def _year_start(day: date) -> int:
    return day.replace(month=1, day=1).toordinal()


def _week_start(day: date) -> int:
    return day.toordinal() - day.weekday()


def _days_between(parts: Parts, _: Sequence[Expression]) -> Range:
    first, last = parts
    if first.is_empty or last.is_empty:
        return EMPTY_RANGE
    return Range(last.low - first.high, last.high - first.low)


def _moved(move: Callable[[Bound, Bound], Bound]) -> Rule:
    """Return the rule of a date moved by a number; dates out of years 1 to 9999 are NULL."""

    def rule(parts: Parts, _: Sequence[Expression]) -> Range:
        day, count = parts
        if day.is_empty or count.is_empty:
            return EMPTY_RANGE
        if not (day.is_bounded and count.is_bounded):
            return UNBOUNDED
        low, high = move(day.low, count.low), move(day.high, count.high)
        if high < FIRST_DAY or low > LAST_DAY:
            return EMPTY_RANGE
        return Range(max(low, FIRST_DAY), min(high, LAST_DAY))

    return rule


def _move_months(ordinal: Bound, count: Bound) -> Bound:
    """Return a date moved by months; a day past the end of the month becomes its last day.

    An infinity stands for years outside 1 to 9999.
    """
    day = _to_date(ordinal)
    year, month = divmod(day.year * 12 + day.month - 1 + int(count), 12)
    if not date.min.year <= year <= date.max.year:
        return math.inf if year > 0 else -math.inf
    start = date(year, month + 1, 1)
    days = (start.replace(day=28).toordinal() + 4) - start.toordinal()
    following = date.fromordinal(start.toordinal() + days) if start < LAST_MONTH else None
    length = 31 if following is None else _month_start(following) - start.toordinal()
    return start.toordinal() + min(day.day, length) - 1


LAST_MONTH: Final = date(9999, 12, 1)


def _formatted(parts: Parts, arguments: Sequence[Expression]) -> Range:
    """Return the strings that the dates in a range can give, or only a bound on their length."""
    (part, *_), form = parts, arguments[1]
    if part.is_empty or not isinstance(form, Literal) or not isinstance(form.value, str):
        return EMPTY_RANGE
    listed = _format_days(part.low, part.high, form.value)
    return Range(-math.inf, math.inf, listed) if listed else Range(0, 20 * len(form.value))


def _from_milliseconds(parts: Parts, _: Sequence[Expression]) -> Range:
    """Return the range of a timestamp, which is NULL outside years 1 to 9999."""
    (part,) = parts
    if part.is_empty or part.high < MIN_MILLISECONDS or part.low > MAX_MILLISECONDS:
        return EMPTY_RANGE
    return Range(max(part.low, MIN_MILLISECONDS), min(part.high, MAX_MILLISECONDS))


@lru_cache(maxsize=256)
def _format_days(low: Bound, high: Bound, form: str) -> tuple[str, ...] | None:
    if high - low < MAX_KNOWN:
        days = range(int(low), int(high) + 1)
    elif repeats_yearly(form):
        days = FORTY_YEARS
    else:
        return None
    return tuple(dict.fromkeys(format_day(date.fromordinal(day), form) for day in days))


DATE_RULES: Final[dict[F, Rule]] = {
    F.YEAR: _part(lambda day: day.year),
    F.ISOYEAR: _part(lambda day: day.isocalendar().year),
    F.QUARTER: _fixed(1, 4),
    F.MONTH: _fixed(1, 12),
    F.WEEK: _fixed(1, 53),
    F.DAY: _fixed(1, 31),
    F.DAY_OF_YEAR: _fixed(1, 366),
    F.WEEKDAY: _fixed(0, 6),
    F.TRUNC_YEAR: _part(_year_start),
    F.TRUNC_QUARTER: _part(_quarter_start),
    F.TRUNC_MONTH: _part(_month_start),
    F.TRUNC_WEEK: _part(_week_start),
    F.DAYS_BETWEEN: _days_between,
    F.ADD_DAYS: _moved(lambda day, count: day + count),
    F.ADD_MONTHS: _moved(_move_months),
    F.STRFTIME: _formatted,
    F.EPOCH_MS: lambda parts, _: parts[0],
    F.FROM_EPOCH_MS: _from_milliseconds,
}
