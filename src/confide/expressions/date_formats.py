"""Formats of dates and timestamps, with English names whatever an engine's settings are."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Final

from confide.declare import Kind
from confide.errors import UnsupportedQuery
from confide.expressions.calendar import DATE_PARTS, Arguments, Rule, as_literal
from confide.expressions.construct import make_call, make_literal, to_day
from confide.expressions.functions import Function
from confide.expressions.tree import Expression

__all__ = ["check_format", "format_day", "name_of", "repeats_yearly", "spell_date"]

F = Function
DAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)
EXAMPLE_FORMAT: Final = "%Y-%m"


def name_of(form: str) -> Callable[[Arguments], Expression]:
    """Return the expansion of a function that returns a date as a string in this format."""

    def write(parts: Arguments) -> Expression:
        part = as_literal(parts[0])
        if part.kind is Kind.TIMESTAMP and CLOCK_CODES.keys() & set(CODE.findall(form)):
            return spell_date(part, form)
        return make_call(F.STRFTIME, to_day(part), make_literal(form))

    return write


def _digits(number: Rule, count: int) -> Rule:
    """Return the rule of a nonnegative integer as a string of ``count`` digits."""

    def rule(day: Expression) -> Expression:
        padded = make_call(F.TO_TEXT, make_call(F.ADD, number(day), make_literal(10**count)))
        return make_call(F.SUBSTR, padded, make_literal(2))

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
            for part in (make_call(F.EQUAL, found, make_literal(place)), make_literal(name))
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
    "%Y": (_digits(DATE_PARTS["year"], 4), lambda day: f"{day.year:04}"),
    "%y": (
        _digits(lambda day: make_call(F.MODULO, make_call(F.YEAR, day), make_literal(100)), 2),
        lambda day: f"{day.year % 100:02}",
    ),
    "%m": (_digits(DATE_PARTS["month"], 2), lambda day: f"{day.month:02}"),
    "%-m": (_text(DATE_PARTS["month"]), lambda day: str(day.month)),
    "%d": (_digits(DATE_PARTS["day"], 2), lambda day: f"{day.day:02}"),
    "%-d": (_text(DATE_PARTS["day"]), lambda day: str(day.day)),
    "%j": (_digits(DATE_PARTS["doy"], 3), lambda day: f"{day.timetuple().tm_yday:03}"),
    "%B": (_name(DATE_PARTS["month"], 1, MONTHS), lambda day: MONTHS[day.month - 1]),
    "%b": (
        _name(DATE_PARTS["month"], 1, _abbreviated(MONTHS)),
        lambda day: MONTHS[day.month - 1][:3],
    ),
    "%A": (_name(DATE_PARTS["dow"], 0, DAYS), lambda day: DAYS[day.isoweekday() % 7]),
    "%a": (
        _name(DATE_PARTS["dow"], 0, _abbreviated(DAYS)),
        lambda day: DAYS[day.isoweekday() % 7][:3],
    ),
    "%u": (_text(DATE_PARTS["isodow"]), lambda day: str(day.isoweekday())),
    "%w": (_text(DATE_PARTS["dow"]), lambda day: str(day.isoweekday() % 7)),
    "%G": (_digits(DATE_PARTS["isoyear"], 4), lambda day: f"{day.isocalendar().year:04}"),
    "%V": (_digits(DATE_PARTS["week"], 2), lambda day: f"{day.isocalendar().week:02}"),
    **dict.fromkeys(("%H", "%M", "%S"), (_constant("00"), lambda _: "00")),
    "%%": (_constant("%"), lambda _: "%"),
}
"""The codes of STRFTIME, each as an expression for the engine and as a Python function."""
CLOCK_CODES: Final = {"%H": "hour", "%M": "minute", "%S": "second"}
YEARLY: Final = frozenset({"%Y", "%y", "%G", "%j", "%V"})
"""Codes that depend on the year, and not only on the month, the day, and the weekday."""
CODE: Final = re.compile(r"%-?.|[^%]+|%", re.DOTALL)


def check_format(form: str) -> None:
    """Refuse a format with unknown codes, or without codes."""
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


def spell_date(part: Expression, form: str) -> Expression:
    """Return the expression, for the engine to compute, of a date or timestamp in a format."""
    day = to_day(part)
    pieces: list[Expression] = []
    for piece in CODE.findall(form):
        if part.kind is Kind.TIMESTAMP and piece in CLOCK_CODES:
            pieces.append(_digits(DATE_PARTS[CLOCK_CODES[piece]], 2)(part))
        else:
            pieces.append(FORMATS[piece][0](day) if piece in FORMATS else make_literal(piece))
    return pieces[0] if len(pieces) == 1 else make_call(F.CONCAT, *pieces)


def format_day(day: date, form: str) -> str:
    """Return a date as a string in a format."""
    return "".join(
        FORMATS[piece][1](day) if piece in FORMATS else piece for piece in CODE.findall(form)
    )
