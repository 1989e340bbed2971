"""Shorthands: functions that expand into other functions, so that they need no rules of their own.

SQL and Python queries expand them when they build a tree, so a shorthand and its expansion are the
same query. Engines, range analysis, and canonical SQL know only the functions in `Function`.
"""

import math
from collections.abc import Callable, Sequence
from datetime import date
from enum import StrEnum
from typing import Final

from confide.declare import Kind
from confide.errors import UnsupportedQuery
from confide.expressions import calendar, date_formats
from confide.expressions.construct import make_call, make_literal, to_timestamp
from confide.expressions.functions import Function
from confide.expressions.tree import Expression, Literal

__all__ = ["Shorthand", "build_call"]

F = Function
CASE_EXCEPTIONS: Final = str.maketrans("\u0130", "i")
"""Replaces the capital letter whose lower case is two characters in Python, but one on engines."""


class Shorthand(StrEnum):
    """A function that stands for an expression of other functions."""

    TO_TIMESTAMP = "timestamp"
    EPOCH_MS = "epoch_ms"
    EXTRACT = "extract"
    TRUNCATE = "date_trunc"
    DATE_DIFF = "date_diff"
    INTERVAL = "interval"
    STRFTIME = "strftime"
    DAYNAME = "dayname"
    MONTHNAME = "monthname"
    LAST_DAY = "last_day"
    MAKE_DATE = "make_date"
    LOG = "log"
    TRUNC = "trunc"
    INT_DIVIDE = "//"
    PI = "pi"
    RADIANS = "radians"
    DEGREES = "degrees"
    COT = "cot"
    JOIN = "||"
    CONCAT = "concat"
    CONCAT_WS = "concat_ws"
    LEFT = "left"
    RIGHT = "right"
    STARTS_WITH = "starts_with"
    ENDS_WITH = "ends_with"
    CONTAINS = "contains"
    ILIKE = "ilike"


def build_call(function: Function | Shorthand, *arguments: Expression) -> Expression:
    """Return a typed call, with shorthands expanded, or refuse unsuitable arguments."""
    if isinstance(function, Function):
        return make_call(function, *arguments)
    return EXPANSIONS[function](arguments)


Arguments = Sequence[Expression]


def _timestamp(parts: Arguments) -> Expression:
    (part,) = parts
    found = to_timestamp(part)
    if found.kind is not Kind.TIMESTAMP:
        raise UnsupportedQuery(
            "Only dates, timestamps, and strings that are written out can be cast to TIMESTAMP."
        )
    return found


def _milliseconds(parts: Arguments) -> Expression:
    """Return EPOCH_MS of a timestamp, or the timestamp of a number."""
    (part,) = parts
    if part.kind is Kind.INT:
        return make_call(F.FROM_EPOCH_MS, part)
    return make_call(F.EPOCH_MS, to_timestamp(part))


def _format(parts: Arguments) -> Expression:
    form = _read_text(Shorthand.STRFTIME, parts[1:])
    date_formats.check_format(form)
    return date_formats.name_of(form)(parts)


def _log(parts: Arguments) -> Expression:
    """Return LOG(x), the logarithm to base 10, or LOG(base, x)."""
    match parts:
        case [value]:
            return make_call(F.LOG10, value)
        case [Literal(value=2), value]:
            return make_call(F.LOG2, value)
        case [Literal(value=10), value]:
            return make_call(F.LOG10, value)
        case [base, value]:
            return make_call(F.DIVIDE, make_call(F.LN, value), make_call(F.LN, base))
        case _:
            raise UnsupportedQuery("`LOG` takes a number, or a base and a number.")


def _trunc(parts: Arguments) -> Expression:
    """Return a number without its fraction."""
    (value,) = parts
    if value.kind is Kind.INT:
        return value
    is_negative = make_call(F.LESS, value, make_literal(0))
    return make_call(F.CASE, is_negative, make_call(F.CEIL, value), make_call(F.FLOOR, value))


def _int_divide(parts: Arguments) -> Expression:
    """Return the quotient rounded toward zero; subtracting the remainder makes it exact."""
    left, right = parts
    multiple = make_call(F.SUBTRACT, left, make_call(F.MODULO, left, right))
    return make_call(F.TO_INT, make_call(F.DIVIDE, multiple, right))


def _pi(_: Arguments) -> Expression:
    return make_literal(math.pi)


def _radians(parts: Arguments) -> Expression:
    return make_call(F.MULTIPLY, *parts, make_literal(math.pi / 180))


def _degrees(parts: Arguments) -> Expression:
    return make_call(F.MULTIPLY, *parts, make_literal(180 / math.pi))


def _cotangent(parts: Arguments) -> Expression:
    return make_call(F.DIVIDE, make_literal(1), make_call(F.TAN, *parts))


def _join(parts: Arguments) -> Expression:
    return make_call(F.CONCAT, *map(_as_text, parts))


def _concat(parts: Arguments) -> Expression:
    """Return CONCAT, which skips NULL where || gives NULL."""
    return make_call(F.CONCAT, *(_or_empty(_as_text(part)) for part in parts))


def _concat_with_separator(parts: Arguments) -> Expression:
    """Return CONCAT_WS: prefix each value that is not NULL, and drop the first separator."""
    separator = _read_text(Shorthand.CONCAT_WS, parts[:1])
    prefix = make_literal(separator)
    joined = [_or_empty(make_call(F.CONCAT, prefix, _as_text(part))) for part in parts[1:]]
    if not joined:
        raise UnsupportedQuery("`CONCAT_WS` takes a separator and at least one value.")
    start = make_literal(len(separator) + 1)
    return make_call(F.SUBSTR, make_call(F.CONCAT, *joined), start)


def _as_text(part: Expression) -> Expression:
    """Return a value as a string; convert a literal here if all engines would write it alike."""
    match part:
        case Literal(value=bool(truth)):
            return make_literal(str(truth).lower())
        case Literal(value=int() | date() as value):
            return make_literal(str(value))
        case _:
            pass
    return part if part.kind in (Kind.TEXT, None) else make_call(F.TO_TEXT, part)


def _or_empty(part: Expression) -> Expression:
    if isinstance(part, Literal):
        return make_literal("") if part.value is None else part
    return make_call(F.COALESCE, part, make_literal(""))


def _left(parts: Arguments) -> Expression:
    text, count = parts[0], _read_count(Shorthand.LEFT, parts)
    return make_call(F.SUBSTR, text, make_literal(1), make_literal(count))


def _right(parts: Arguments) -> Expression:
    """Return the last characters; for a count of 0, return the empty string."""
    text, count = parts[0], _read_count(Shorthand.RIGHT, parts)
    if not count:
        return make_call(F.SUBSTR, text, make_literal(1), make_literal(0))
    return make_call(F.SUBSTR, text, make_literal(-count))


def _starts_with(parts: Arguments) -> Expression:
    prefix = _read_text(Shorthand.STARTS_WITH, parts[1:])
    return make_call(F.EQUAL, _left([parts[0], make_literal(len(prefix))]), make_literal(prefix))


def _ends_with(parts: Arguments) -> Expression:
    suffix = _read_text(Shorthand.ENDS_WITH, parts[1:])
    return make_call(F.EQUAL, _right([parts[0], make_literal(len(suffix))]), make_literal(suffix))


def _contains(parts: Arguments) -> Expression:
    return make_call(F.GREATER, make_call(F.STRPOS, *parts), make_literal(0))


def _ilike(parts: Arguments) -> Expression:
    pattern = _read_text(Shorthand.ILIKE, parts[1:])
    return make_call(F.LIKE, make_call(F.LOWER, parts[0]), make_literal(_lower(pattern)))


def _lower(text: str) -> str:
    """Return a pattern in lower case, where each character stays one character."""
    return "".join(map(str.lower, text.translate(CASE_EXCEPTIONS)))


def _read_text(function: Shorthand, arguments: Arguments) -> str:
    match arguments:
        case [Literal(value=str(text))]:
            return text
        case _:
            raise UnsupportedQuery(
                f"The string that `{function.upper()}` searches for or inserts must be a constant, "
                "such as 'abc'."
            )


def _read_count(function: Shorthand, arguments: Arguments) -> int:
    match arguments[1:]:
        case [Literal(value=int(count), kind=Kind.INT)] if count >= 0:
            return count
        case _:
            raise UnsupportedQuery(
                f"`{function.upper()}` takes a constant number of characters, at least 0. Use "
                "`SUBSTR(x, start, length)` for other parts."
            )


EXPANSIONS: Final[dict[Shorthand, Callable[[Arguments], Expression]]] = {
    Shorthand.TO_TIMESTAMP: _timestamp,
    Shorthand.EPOCH_MS: _milliseconds,
    Shorthand.EXTRACT: calendar.extract_part,
    Shorthand.TRUNCATE: calendar.truncate_date,
    Shorthand.DATE_DIFF: calendar.date_difference,
    Shorthand.INTERVAL: calendar.add_interval,
    Shorthand.STRFTIME: _format,
    Shorthand.DAYNAME: date_formats.name_of("%A"),
    Shorthand.MONTHNAME: date_formats.name_of("%B"),
    Shorthand.LAST_DAY: calendar.last_day,
    Shorthand.MAKE_DATE: calendar.make_date,
    Shorthand.LOG: _log,
    Shorthand.TRUNC: _trunc,
    Shorthand.INT_DIVIDE: _int_divide,
    Shorthand.PI: _pi,
    Shorthand.RADIANS: _radians,
    Shorthand.DEGREES: _degrees,
    Shorthand.COT: _cotangent,
    Shorthand.JOIN: _join,
    Shorthand.CONCAT: _concat,
    Shorthand.CONCAT_WS: _concat_with_separator,
    Shorthand.LEFT: _left,
    Shorthand.RIGHT: _right,
    Shorthand.STARTS_WITH: _starts_with,
    Shorthand.ENDS_WITH: _ends_with,
    Shorthand.CONTAINS: _contains,
    Shorthand.ILIKE: _ilike,
}
