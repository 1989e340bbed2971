"""Functions of dates and timestamps that expand into other functions: parts, periods, differences.

Weeks begin on Monday, whatever an engine's settings are.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from typing import Final, TypeVar

from confide.declare import Kind
from confide.errors import UnsupportedQuery
from confide.expressions.construct import (
    make_call,
    make_literal,
    read_day,
    to_day,
    to_timestamp,
)
from confide.expressions.functions import Function
from confide.expressions.tree import Expression, Literal

__all__ = [
    "DATE_PARTS",
    "TRUNCATIONS",
    "Arguments",
    "Rule",
    "add_interval",
    "as_literal",
    "date_difference",
    "extract_part",
    "last_day",
    "make_date",
    "truncate_date",
]

F = Function
EPOCH: Final = date(1970, 1, 1)
SECONDS_PER_DAY: Final = 86_400.0
SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
BEFORE_EPOCH: Final = 719_162 * 24 * HOUR
"""Milliseconds from January 1 of year 1 to January 1, 1970."""
CLOCK_PARTS: Final = frozenset({"hour", "minute", "second", "millisecond", "epoch"})
"""Parts and periods that depend on the time of day; a date counts as its midnight."""

Rule = Callable[[Expression], Expression]
"""A function that returns an expression of a date, such as its year."""

T = TypeVar("T")


def _call(function: Function) -> Rule:
    return lambda day: make_call(function, day)


def _number(value: float) -> Expression:
    return make_literal(value)


def _plus(left: Expression, right: Expression) -> Expression:
    return make_call(F.ADD, left, right)


def _minus(left: Expression, right: Expression) -> Expression:
    return make_call(F.SUBTRACT, left, right)


def _times(left: Expression, right: Expression) -> Expression:
    return make_call(F.MULTIPLY, left, right)


def _years_of(length: int, first: int = 0) -> Rule:
    """Return the rule of the number of the period of ``length`` years that contains a date.

    By default, the periods start in year 0 and are numbered from 0. If ``first`` is 1, they start
    in year 1 and are numbered from 1, as EXTRACT does for centuries and millennia.
    """

    def rule(day: Expression) -> Expression:
        year = make_call(F.YEAR, day)
        counted = _minus(year, _number(first)) if first else year
        found = make_call(F.FLOOR, make_call(F.DIVIDE, counted, _number(length)))
        return _plus(found, _number(1)) if first else found

    return rule


def _iso_weekday(day: Expression) -> Expression:
    """Return the day of the week; Monday is 1 and Sunday is 7."""
    shifted = _plus(make_call(F.WEEKDAY, day), _number(6))
    return _plus(make_call(F.MODULO, shifted, _number(7)), _number(1))


def _epoch(day: Expression) -> Expression:
    if day.kind is Kind.TIMESTAMP:
        return make_call(F.DIVIDE, make_call(F.EPOCH_MS, day), _number(1_000))
    days = make_call(F.DAYS_BETWEEN, make_literal(EPOCH), day)
    return _times(days, _number(SECONDS_PER_DAY))


def _count_since_epoch(part: Expression, size: int) -> Expression:
    """Return the number of complete periods of ``size`` milliseconds since 1970."""
    count = make_call(F.EPOCH_MS, to_timestamp(part))
    return count if size == 1 else make_call(F.FLOOR, make_call(F.DIVIDE, count, _number(size)))


def _clock(size: int, cycle: int) -> Rule:
    """Return the rule of a part of the time of day, such as hours, which restart after ``cycle``.

    Periods of ``size`` milliseconds are counted from year 1, so that no remainder is negative.
    """
    first = BEFORE_EPOCH // size

    def rule(part: Expression) -> Expression:
        return make_call(
            F.MODULO, _plus(_count_since_epoch(part, size), _number(first)), _number(cycle)
        )

    return rule


def _beginning_of(size: int) -> Rule:
    """Return the rule of the beginning of an hour or another period of ``size`` milliseconds."""

    def rule(part: Expression) -> Expression:
        return make_call(F.FROM_EPOCH_MS, _times(_count_since_epoch(part, size), _number(size)))

    return rule


def _year_and_week(day: Expression) -> Expression:
    return _plus(_times(make_call(F.ISOYEAR, day), _number(100)), make_call(F.WEEK, day))


DATE_PARTS: Final[Mapping[str, Rule]] = {
    "year": _call(F.YEAR),
    "quarter": _call(F.QUARTER),
    "month": _call(F.MONTH),
    "day": _call(F.DAY),
    "dow": _call(F.WEEKDAY),
    "dayofweek": _call(F.WEEKDAY),
    "weekday": _call(F.WEEKDAY),
    "isodow": _iso_weekday,
    "doy": _call(F.DAY_OF_YEAR),
    "dayofyear": _call(F.DAY_OF_YEAR),
    "week": _call(F.WEEK),
    "weekofyear": _call(F.WEEK),
    "isoyear": _call(F.ISOYEAR),
    "yearweek": _year_and_week,
    "decade": _years_of(10),
    "century": _years_of(100, 1),
    "millennium": _years_of(1000, 1),
    "epoch": _epoch,
    "hour": _clock(HOUR, 24),
    "minute": _clock(MINUTE, 60),
    "second": _clock(SECOND, 60),
    "millisecond": _clock(1, 60_000),
}
"""The parts of a date, by their names in EXTRACT."""


def _beginning_of_years(length: int) -> Rule:
    """Return the rule of January 1 of the latest year, up to a date, divisible by ``length``."""

    def rule(day: Expression) -> Expression:
        years = make_call(F.MODULO, make_call(F.YEAR, day), _number(length))
        return make_call(F.ADD_MONTHS, make_call(F.TRUNC_YEAR, day), _times(years, _number(-12)))

    return rule


def _beginning_of_iso_year(day: Expression) -> Expression:
    weeks = _minus(make_call(F.WEEK, day), _number(1))
    return make_call(F.ADD_DAYS, make_call(F.TRUNC_WEEK, day), _times(weeks, _number(-7)))


TRUNCATIONS: Final[Mapping[str, Rule]] = {
    "day": lambda day: day,
    "week": _call(F.TRUNC_WEEK),
    "month": _call(F.TRUNC_MONTH),
    "quarter": _call(F.TRUNC_QUARTER),
    "year": _call(F.TRUNC_YEAR),
    "isoyear": _beginning_of_iso_year,
    "decade": _beginning_of_years(10),
    "century": _beginning_of_years(100),
    "millennium": _beginning_of_years(1000),
    "hour": _beginning_of(HOUR),
    "minute": _beginning_of(MINUTE),
    "second": _beginning_of(SECOND),
}
"""Rules of the first day of the period that contains a date, by its name in DATE_TRUNC."""


def _counted(*steps: tuple[Function, int]) -> Rule:
    """Return the rule of a number of periods since year 0: a sum of parts of the date.

    Each of ``steps`` has a part, such as the year, and the number by which to multiply it.
    """

    def rule(day: Expression) -> Expression:
        parts = [
            make_call(part, day) if times == 1 else _times(make_call(part, day), _number(times))
            for part, times in steps
        ]
        return parts[0] if len(parts) == 1 else _plus(*parts)

    return rule


COUNTS: Final[Mapping[str, Rule]] = {
    "month": _counted((F.YEAR, 12), (F.MONTH, 1)),
    "quarter": _counted((F.YEAR, 4), (F.QUARTER, 1)),
    "year": _counted((F.YEAR, 1)),
    "isoyear": _counted((F.ISOYEAR, 1)),
    "decade": _years_of(10),
    "century": _years_of(100),
    "millennium": _years_of(1000),
}
"""The numbers of periods since year 0, whose differences DATE_DIFF returns."""

INTERVALS: Final[Mapping[str, tuple[Function, int]]] = {
    "day": (F.ADD_DAYS, 1),
    "week": (F.ADD_DAYS, 7),
    "month": (F.ADD_MONTHS, 1),
    "quarter": (F.ADD_MONTHS, 3),
    "year": (F.ADD_MONTHS, 12),
    "decade": (F.ADD_MONTHS, 120),
    "century": (F.ADD_MONTHS, 1_200),
    "millennium": (F.ADD_MONTHS, 12_000),
}
PLURALS: Final = {"centuries": "century", "millennia": "millennium"}

Arguments = Sequence[Expression]


def extract_part(parts: Arguments) -> Expression:
    """Return a part of a date or timestamp, from the part's name and the date."""
    name, day = parts
    return _find(DATE_PARTS, "EXTRACT", name)(_suitable(name, day))


def truncate_date(parts: Arguments) -> Expression:
    """Return the first day of a period, from the period's name and the date."""
    name, day = parts
    return _find(TRUNCATIONS, "DATE_TRUNC", name)(_check_day(_suitable(name, day)))


def _suitable(name: Expression, part: Expression) -> Expression:
    """Return a date or timestamp as it is for the names in `CLOCK_PARTS`, otherwise as a date."""
    return as_literal(part) if _read_word(name) in CLOCK_PARTS else as_day(part)


def date_difference(parts: Arguments) -> Expression:
    """Return the number of periods between two dates, from the period's name and the dates.

    It is the number of periods that start after the first date, up to the second one, and negative
    if the second date is earlier. Only of weeks, complete ones are counted.
    """
    name, first, last = parts
    return _find(DIFFERENCES, "DATE_DIFF", name)(_suitable(name, first), _suitable(name, last))


def _days_between(first: Expression, last: Expression) -> Expression:
    return make_call(F.DAYS_BETWEEN, first, last)


def _weeks_between(first: Expression, last: Expression) -> Expression:
    """Return the number of complete weeks, without the days that remain."""
    days = _days_between(first, last)
    whole = _minus(days, make_call(F.MODULO, days, _number(7)))
    return make_call(F.TO_INT, make_call(F.DIVIDE, whole, _number(7)))


def _difference(count: Rule) -> Callable[[Expression, Expression], Expression]:
    return lambda first, last: _minus(count(last), count(first))


CLOCK_SIZES: Final = {"hour": HOUR, "minute": MINUTE, "second": SECOND, "millisecond": 1}


def _periods(size: int) -> Rule:
    return lambda part: _count_since_epoch(part, size)


DIFFERENCES: Final[Mapping[str, Callable[[Expression, Expression], Expression]]] = {
    "day": _days_between,
    "week": _weeks_between,
    **{name: _difference(count) for name, count in COUNTS.items()},
    **{name: _difference(_periods(size)) for name, size in CLOCK_SIZES.items()},
}
"""The numbers of periods between two dates, by the periods' names in DATE_DIFF."""


def add_interval(parts: Arguments) -> Expression:
    """Return a date moved by an interval, from the interval's unit, the date, and the number."""
    name, start, count = parts
    day = as_literal(start)
    if _read_word(name) in CLOCK_SIZES:
        return _later(to_timestamp(day), _multiplied(count, CLOCK_SIZES[_read_word(name)]))
    function, size = _find(INTERVALS, "INTERVAL", name, CLOCK_SIZES)
    moved = make_call(function, to_day(day), _multiplied(count, size))
    if day.kind is not Kind.TIMESTAMP:
        return moved
    in_day = make_call(F.MODULO, _since_year_one(day), _number(24 * HOUR))
    return _later(to_timestamp(moved), in_day)


def _since_year_one(timestamp: Expression) -> Expression:
    return _plus(make_call(F.EPOCH_MS, timestamp), _number(BEFORE_EPOCH))


def _later(timestamp: Expression, milliseconds: Expression) -> Expression:
    count = _plus(make_call(F.EPOCH_MS, timestamp), milliseconds)
    return make_call(F.FROM_EPOCH_MS, count)


def _multiplied(count: Expression, size: int) -> Expression:
    match count:
        case Literal(value=int(number), kind=Kind.INT):
            return make_literal(number * size)
        case _:
            return count if size == 1 else _times(count, make_literal(size))


def last_day(parts: Arguments) -> Expression:
    """Return the last day of a date's month."""
    (day,) = parts
    following = make_call(F.ADD_MONTHS, make_call(F.TRUNC_MONTH, day), _number(1))
    return make_call(F.ADD_DAYS, following, _number(-1))


def make_date(parts: Arguments) -> Expression:
    """Return a date from its year, month, and day, or NULL if there is no such date."""
    year, month, day = parts
    months = _plus(_times(_minus(year, _number(1)), _number(12)), _minus(month, _number(1)))
    first = make_call(F.ADD_MONTHS, make_literal(date.min), months)
    found = make_call(F.ADD_DAYS, first, _minus(day, _number(1)))
    exists = make_call(
        F.AND,
        make_call(F.GREATER_EQUAL, month, _number(1)),
        make_call(F.LESS_EQUAL, month, _number(12)),
        make_call(F.EQUAL, make_call(F.DAY, found), day),
    )
    return make_call(F.CASE, exists, found, make_literal(None))


def as_day(part: Expression) -> Expression:
    """Return a date, or the date of a timestamp, as an expression; constant strings are read."""
    return to_day(as_literal(part))


def as_literal(part: Expression) -> Expression:
    """Return an expression; read a constant string as a date or a timestamp."""
    match part:
        case Literal(value=str(text)):
            return read_day(text) if len(text) <= len("2020-01-31") else to_timestamp(part)
        case _:
            return part


def _check_day(day: Expression) -> Expression:
    if day.kind not in (Kind.DATE, Kind.TIMESTAMP, None):
        raise UnsupportedQuery(
            f"`DATE_TRUNC` takes a date or a timestamp; got a value of type {day.kind}."
        )
    return day


def _read_word(name: Expression) -> str:
    """Return the name of a period in the singular and in lower case, or "" for another value."""
    match name:
        case Literal(value=str(text)):
            word = text.lower()
        case _:
            word = ""
    return PLURALS.get(word, word.removesuffix("s"))


def _find(table: Mapping[str, T], function: str, name: Expression, others: Iterable[str] = ()) -> T:
    word = _read_word(name)
    if word not in table:
        raise UnsupportedQuery(f"`{function}` takes one of {', '.join([*table, *others])}.")
    return table[word]
