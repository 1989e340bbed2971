"""Functions of dates that expand into other functions: parts, periods, differences, and formats.

Names of months and days are English, and weeks begin on Monday, whatever an engine's settings are.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Final, TypeVar

from confide.declare import Kind
from confide.errors import UnsupportedQuery
from confide.expressions.construct import make_call, make_literal, read_day
from confide.expressions.functions import Function
from confide.expressions.tree import Expression, Literal

__all__ = [
    "DATE_PARTS",
    "EXAMPLE_FORMAT",
    "TRUNCATIONS",
    "add_interval",
    "check_format",
    "date_difference",
    "extract_part",
    "format_day",
    "last_day",
    "make_date",
    "name_of",
    "repeats_yearly",
    "spell_date",
    "truncate_date",
]

F = Function
EPOCH: Final = date(1970, 1, 1)
SECONDS_PER_DAY: Final = 86_400.0
DAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)
EXAMPLE_FORMAT: Final = "%Y-%m"

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
    """Return the rule of a number of periods of ``length`` years since year ``first``.

    Decades start in year 0 and are numbered from 0; centuries and millennia start in year 1 and
    are numbered from 1.
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
    days = make_call(F.DAYS_BETWEEN, make_literal(EPOCH), day)
    return _times(days, _number(SECONDS_PER_DAY))


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
}
"""The parts of a date, by their names in EXTRACT."""


def _beginning_of_years(length: int) -> Rule:
    """Return the rule of January 1 of the latest year that is a multiple of ``length``."""

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
}
"""The first days of periods, by their names in DATE_TRUNC."""


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
    """Return a part of a date, from its name and the date."""
    name, day = parts
    return _find(DATE_PARTS, "EXTRACT", name)(as_day(day))


def truncate_date(parts: Arguments) -> Expression:
    """Return the first day of a period, from the period's name and the date."""
    name, day = parts
    return _find(TRUNCATIONS, "DATE_TRUNC", name)(_check_day(as_day(day)))


def date_difference(parts: Arguments) -> Expression:
    """Return the number of periods between two dates, from the period's name and the dates."""
    name, first, last = parts
    return _find(DIFFERENCES, "DATE_DIFF", name)(as_day(first), as_day(last))


def _days_between(first: Expression, last: Expression) -> Expression:
    return make_call(F.DAYS_BETWEEN, first, last)


def _weeks_between(first: Expression, last: Expression) -> Expression:
    """Return the number of complete weeks, without the days that remain."""
    days = _days_between(first, last)
    whole = _minus(days, make_call(F.MODULO, days, _number(7)))
    return make_call(F.TO_INT, make_call(F.DIVIDE, whole, _number(7)))


def _difference(count: Rule) -> Callable[[Expression, Expression], Expression]:
    return lambda first, last: _minus(count(last), count(first))


DIFFERENCES: Final[Mapping[str, Callable[[Expression, Expression], Expression]]] = {
    "day": _days_between,
    "week": _weeks_between,
    **{name: _difference(count) for name, count in COUNTS.items()},
}
"""The numbers of periods between two dates, by the periods' names in DATE_DIFF."""


def add_interval(parts: Arguments) -> Expression:
    """Return a date moved by an interval, from the interval's unit, the date, and the number."""
    name, day, count = parts
    function, size = _find(INTERVALS, "INTERVAL", name)
    return make_call(function, as_day(day), _multiplied(count, size))


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


def name_of(form: str) -> Callable[[Arguments], Expression]:
    """Return the shorthand of a date as a string in a fixed format."""
    return lambda parts: make_call(F.STRFTIME, as_day(parts[0]), make_literal(form))


def as_day(part: Expression) -> Expression:
    """Return a date expression; read a constant string as a date."""
    match part:
        case Literal(value=str(text)):
            return read_day(text)
        case _:
            return part


def _check_day(day: Expression) -> Expression:
    if day.kind not in (Kind.DATE, None):
        raise UnsupportedQuery(f"`DATE_TRUNC` takes a date; got a value of type {day.kind}.")
    return day


def _read_word(name: Expression) -> str:
    """Return the name of a period in the singular and in lower case."""
    match name:
        case Literal(value=str(text)):
            word = text.lower()
        case _:
            word = ""
    return PLURALS.get(word, word.removesuffix("s"))


def _find(table: Mapping[str, T], function: str, name: Expression) -> T:
    word = _read_word(name)
    if word not in table:
        raise UnsupportedQuery(f"`{function}` takes one of {', '.join(table)}.")
    return table[word]


def _digits(number: Rule, count: int) -> Rule:
    """Return the rule of a nonnegative integer as a string of ``count`` digits."""

    def rule(day: Expression) -> Expression:
        padded = make_call(F.TO_TEXT, _plus(number(day), _number(10**count)))
        return make_call(F.SUBSTR, padded, _number(2))

    return rule


def _text(number: Rule) -> Rule:
    return lambda day: make_call(F.TO_TEXT, number(day))


def _name(number: Rule, first: int, names: Sequence[str]) -> Rule:
    """Return the rule of the name of a month or day; the first name has the number ``first``."""

    def rule(day: Expression) -> Expression:
        found = number(day)
        branches = [
            part
            for place, name in enumerate(names, first)
            for part in (make_call(F.EQUAL, found, _number(place)), make_literal(name))
        ]
        return make_call(F.CASE, *branches, make_literal(None))

    return rule


def _constant(text: str) -> Rule:
    return lambda day: make_call(
        F.CASE, make_call(F.IS_NULL, day), make_literal(None), make_literal(text)
    )


def _abbreviated(names: Sequence[str]) -> list[str]:
    return [name[:3] for name in names]


FORMATS: Final[Mapping[str, tuple[Rule, Callable[[date], str]]]] = {
    "%Y": (_digits(_call(F.YEAR), 4), lambda day: f"{day.year:04}"),
    "%y": (
        _digits(lambda day: make_call(F.MODULO, make_call(F.YEAR, day), _number(100)), 2),
        lambda day: f"{day.year % 100:02}",
    ),
    "%m": (_digits(_call(F.MONTH), 2), lambda day: f"{day.month:02}"),
    "%-m": (_text(_call(F.MONTH)), lambda day: str(day.month)),
    "%d": (_digits(_call(F.DAY), 2), lambda day: f"{day.day:02}"),
    "%-d": (_text(_call(F.DAY)), lambda day: str(day.day)),
    "%j": (_digits(_call(F.DAY_OF_YEAR), 3), lambda day: f"{day.timetuple().tm_yday:03}"),
    "%B": (_name(_call(F.MONTH), 1, MONTHS), lambda day: MONTHS[day.month - 1]),
    "%b": (_name(_call(F.MONTH), 1, _abbreviated(MONTHS)), lambda day: MONTHS[day.month - 1][:3]),
    "%A": (_name(_call(F.WEEKDAY), 0, DAYS), lambda day: DAYS[day.isoweekday() % 7]),
    "%a": (
        _name(_call(F.WEEKDAY), 0, _abbreviated(DAYS)),
        lambda day: DAYS[day.isoweekday() % 7][:3],
    ),
    "%u": (_text(_iso_weekday), lambda day: str(day.isoweekday())),
    "%w": (_text(_call(F.WEEKDAY)), lambda day: str(day.isoweekday() % 7)),
    "%G": (_digits(_call(F.ISOYEAR), 4), lambda day: f"{day.isocalendar().year:04}"),
    "%V": (_digits(_call(F.WEEK), 2), lambda day: f"{day.isocalendar().week:02}"),
    **dict.fromkeys(("%H", "%M", "%S"), (_constant("00"), lambda _: "00")),
    "%%": (_constant("%"), lambda _: "%"),
}
"""The codes of STRFTIME, each as an expression for the engine and as a Python function."""
YEARLY: Final = frozenset({"%Y", "%y", "%G", "%j", "%V"})
"""Codes that depend on the year, and not only on the month, the day, and the weekday."""
CODE: Final = re.compile(r"%-?.|[^%]+|%", re.DOTALL)


def check_format(form: str) -> None:
    """Refuse a format with unknown codes, or without any."""
    codes = [piece for piece in CODE.findall(form) if piece.startswith("%")]
    unknown = [code for code in codes if code not in FORMATS]
    if unknown or not codes:
        raise UnsupportedQuery(
            f"`STRFTIME` takes a format of {', '.join(FORMATS)}, such as '{EXAMPLE_FORMAT}'"
            + (f"; got {unknown[0]}." if unknown else ".")
        )


def repeats_yearly(form: str) -> bool:
    """Return whether a format shows only months, days of the month, and weekdays."""
    return not YEARLY.intersection(CODE.findall(form))


def spell_date(day: Expression, form: str) -> Expression:
    """Return an expression, computed by the engine, of a date as a string in a format."""
    pieces = [
        FORMATS[piece][0](day) if piece in FORMATS else make_literal(piece)
        for piece in CODE.findall(form)
    ]
    return pieces[0] if len(pieces) == 1 else make_call(F.CONCAT, *pieces)


def format_day(day: date, form: str) -> str:
    """Return a date as a string in a format."""
    return "".join(
        FORMATS[piece][1](day) if piece in FORMATS else piece for piece in CODE.findall(form)
    )
