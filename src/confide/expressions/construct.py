"""Constructors of expression nodes, which check types and normalize, for SQL and Python queries.

Different spellings of a query become equal trees: nested ANDs and ORs become one flat call, negated
numbers become literals, and strings that are compared with dates become dates.
"""

import math
import re
from calendar import IllegalMonthError, monthrange
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from typing import Final

import numpy as np

from confide.declare import Kind
from confide.declare.columns import read_timestamp
from confide.errors import BadDeclaration, UnsupportedQuery
from confide.expressions.functions import Function, result_kind
from confide.expressions.tree import (
    AggregateCall,
    Call,
    Column,
    Expression,
    Key,
    Literal,
    size_of,
    walk,
)

__all__ = [
    "check_condition",
    "conjunction",
    "has_aggregate",
    "lift_keys",
    "make_between",
    "make_call",
    "make_literal",
    "normalize_pattern",
    "to_day",
    "to_timestamp",
]

F = Function
MAX_INTEGER: Final = 10**38
INT64_LIMIT: Final = 2**63
"""Integers from this value up, or below its negative, do not fit in 64 bits and become floats."""
MAX_TEXT_LENGTH: Final = 1_000
MAX_ROUND_DIGITS: Final = 15
MAX_PARTS: Final = 5_000
MAX_PIECES: Final = 1_000
MAX_TRIMMED_CHARACTERS: Final = 100
"""The maximum number of characters for TRIM, which compares each of them at each position."""
EPOCH_DAY: Final = Literal(date(1970, 1, 1), Kind.DATE)
MILLISECONDS_PER_DAY: Final = 86_400_000
CASTS: Final = frozenset({F.TO_INT, F.TO_FLOAT, F.TO_TEXT, F.TO_BOOL})
DATE_FUNCTIONS: Final = frozenset(
    {
        *(F.YEAR, F.QUARTER, F.MONTH, F.DAY, F.WEEKDAY, F.WEEK, F.DAY_OF_YEAR, F.ISOYEAR),
        *(F.TRUNC_YEAR, F.TRUNC_QUARTER, F.TRUNC_MONTH, F.TRUNC_WEEK, F.TO_DATE),
    }
)
"""Functions of dates, which use the date of a timestamp."""
EXTREMES: Final = frozenset({F.LEAST, F.GREATEST})
COMPARISONS: Final = frozenset(
    {F.EQUAL, F.UNEQUAL, F.LESS, F.LESS_EQUAL, F.GREATER, F.GREATER_EQUAL, F.IN}
)
CONDITIONALS: Final = frozenset({F.COALESCE, F.CASE})
MAX_PART_WILDCARDS: Final = 4
WILDCARDS: Final = re.compile(r"[%_]*%[%_]*")
SEARCHES: Final = (F.TRIM, F.LTRIM, F.RTRIM, F.REPLACE, F.SPLIT_PART, F.STRPOS)
FIRST_LITERAL_ARGUMENT: Final = dict.fromkeys(
    (F.IN, F.LIKE, F.ROUND, F.SUBSTR, F.STRFTIME, *SEARCHES), 1
)
"""The index of the first argument that must be a literal, as must all later ones."""


def make_literal(value: object) -> Literal:  # noqa: PLR0911  # one for each type
    """Return a typed literal for a value in the analyst's query."""
    value = _plain(value)
    match value:
        case None:
            return Literal(None, None)
        case bool():
            return Literal(value, Kind.BOOL)
        case int() if abs(value) < MAX_INTEGER:
            fits_int64 = -INT64_LIMIT <= value < INT64_LIMIT
            return Literal(value, Kind.INT) if fits_int64 else Literal(float(value), Kind.FLOAT)
        case float() if math.isfinite(value):
            return Literal(value + 0.0, Kind.FLOAT)
        case str() if len(value) <= MAX_TEXT_LENGTH and not any(map(_is_control, value)):
            return Literal(value, Kind.TEXT)
        case datetime() if _is_plain_timestamp(value):
            return Literal(value.replace(fold=0), Kind.TIMESTAMP)
        case date() if type(value) is date:
            return Literal(value, Kind.DATE)
        case _:
            raise UnsupportedQuery(
                "A value must be a number of at most 38 digits, a string of at most "
                f"{MAX_TEXT_LENGTH:,} characters without control characters, a date, a timestamp "
                "in milliseconds without a time zone, TRUE, FALSE, or NULL."
            )


def _is_plain_timestamp(value: datetime) -> bool:
    """Return whether a timestamp has milliseconds and no time zone."""
    return type(value) is datetime and value.tzinfo is None and not value.microsecond % 1000


def _plain(value: object) -> object:
    """Return the Python value of a NumPy or pandas scalar; return other values unchanged.

    A timestamp at midnight becomes a date. Time spans and NaT are refused.
    """
    match value:
        case timedelta() | np.timedelta64():
            raise UnsupportedQuery(
                "A time span cannot be used as a value. Write a number, such as its days."
            )
        case datetime() | np.datetime64() if value != value:  # noqa: PLR0124  # only NaT differs from itself
            raise UnsupportedQuery(
                "NaT is not a date. Write a date, `None` for NULL, or `is_null()` to check whether "
                "a date is missing."
            )
        case np.datetime64():
            day, exact = value.astype("datetime64[D]"), value.astype("datetime64[us]")
            found = day.item() if day == value else exact.item() if exact == value else None
            return found if isinstance(found, date) else value
        case datetime() if value.time() == time.min and value.tzinfo is None:
            has_nanoseconds = getattr(value, "nanosecond", 0)  # only pandas timestamps have them
            return value if has_nanoseconds else date(value.year, value.month, value.day)
        case datetime() if not getattr(value, "nanosecond", 0) and type(value) is not datetime:
            return datetime.combine(value.date(), value.time(), value.tzinfo)
        case np.generic():
            return value.item()
        case _:
            return value


def _is_control(char: str) -> bool:
    return ord(char) < 32 or 127 <= ord(char) < 160 or 0xD800 <= ord(char) < 0xE000


def read_day(text: str) -> Literal:
    """Return the date literal for a string such as '2020-01-31'."""
    try:
        day = date.fromisoformat(text) if len(text) == 10 else None
    except ValueError:
        day = None
    if day is None:
        raise UnsupportedQuery(f"{text!r} is not a date. Write `DATE '2020-01-31'`.")
    return Literal(day, Kind.DATE)


def to_timestamp(part: Expression) -> Expression:
    """Return a date or a string literal as a timestamp; return other expressions unchanged."""
    match part:
        case Literal(value=str(text)):
            try:
                return Literal(read_timestamp("timestamp", text), Kind.TIMESTAMP)
            except BadDeclaration:
                raise UnsupportedQuery(
                    f"{text!r} is not a timestamp. Write `TIMESTAMP '2020-01-31 12:30:00'`."
                ) from None
        case Literal(value=date() as day, kind=Kind.DATE):
            return Literal(datetime.combine(day, time.min), Kind.TIMESTAMP)
        case _ if part.kind is Kind.DATE:
            days = make_call(F.DAYS_BETWEEN, EPOCH_DAY, part)
            count = make_call(F.MULTIPLY, days, make_literal(MILLISECONDS_PER_DAY))
            return make_call(F.FROM_EPOCH_MS, count)
        case _:
            return part


def to_day(part: Expression) -> Expression:
    """Return the date of a timestamp; return other expressions unchanged."""
    match part:
        case Literal(value=datetime() as timestamp):
            return Literal(timestamp.date(), Kind.DATE)
        case _ if part.kind is Kind.TIMESTAMP:
            count = make_call(F.EPOCH_MS, part)
            days = make_call(F.DIVIDE, count, make_literal(MILLISECONDS_PER_DAY))
            return make_call(F.ADD_DAYS, EPOCH_DAY, make_call(F.FLOOR, days))
        case _:
            return part


def make_call(function: Function, *arguments: Expression) -> Expression:
    """Return a typed function call or a simpler equivalent; refuse arguments of the wrong type."""
    simpler = _simplify(function, arguments)
    if simpler is not None:
        return simpler
    match function, arguments:
        case F.ROUND, (_, Literal(value=int(digits))) if abs(digits) > MAX_ROUND_DIGITS:
            raise UnsupportedQuery(
                f"`ROUND` takes from {-MAX_ROUND_DIGITS} to {MAX_ROUND_DIGITS} digits."
            )
        case F.LIKE, (text, Literal(value=str(pattern))):
            arguments = (text, make_literal(normalize_pattern(pattern)))
        case ((F.AND | F.OR | F.CONCAT), _):
            arguments = _flatten(function, arguments)
            if len(arguments) == 1:
                return arguments[0]
    if function in COMPARISONS | CONDITIONALS | EXTREMES:
        arguments = _convert_dates(arguments)
    _check_literals(function, arguments)
    _check_pieces(function, arguments)
    _check_size(arguments)
    kinds = [argument.kind for argument in arguments]
    kind = result_kind(function, kinds)
    if kind is None:
        raise UnsupportedQuery(_type_error(function, kinds))
    return Call(function, tuple(arguments), kind)


def _simplify(  # noqa: PLR0911  # one for each rule
    function: Function, arguments: Sequence[Expression]
) -> Expression | None:
    """Return a simpler equivalent of a call, or None.

    Some calls of literals become literals, and arithmetic of dates becomes a function of dates.
    """
    match function, arguments:
        case F.NEGATE, (Literal(value=bool()),):
            return None
        case F.NEGATE, (Literal(value=int() | float() as value),):
            negation_fits = value == INT64_LIMIT  # a float, but its negation fits into 64 bits
            return make_literal(-INT64_LIMIT if negation_fits else -value)
        case F.TO_DATE, (Literal(value=str(text)),):
            return read_day(text)
        case _, (first, *others) if first.kind is Kind.TIMESTAMP and function in DATE_FUNCTIONS:
            day = to_day(first)
            return day if function is F.TO_DATE else make_call(function, day, *others)
        case _, (first,) if first.kind is Kind.TIMESTAMP and function in CASTS:
            raise UnsupportedQuery(
                "A timestamp can be cast to DATE only. Use `STRFTIME(x, '%Y-%m-%d %H:%M')` for a "
                "string, and `EXTRACT(epoch FROM x)` for a number."
            )
        case ((F.ADD | F.SUBTRACT), (left, right)) if Kind.DATE in (left.kind, right.kind):
            return _move_date(function, left, right)
        case (
            (F.ADD_DAYS | F.ADD_MONTHS),
            (Literal(value=date() as day), Literal(value=int(count), kind=Kind.INT)),
        ):
            return _moved_date(function, day, count)
        case _:
            return None


def _move_date(function: Function, left: Expression, right: Expression) -> Expression:
    """Return a date plus or minus days, or the days between two dates."""
    match function, left.kind, right.kind:
        case F.SUBTRACT, Kind.DATE, Kind.DATE:
            return make_call(F.DAYS_BETWEEN, right, left)
        case F.SUBTRACT, Kind.DATE, Kind.INT:
            return make_call(F.ADD_DAYS, left, make_call(F.NEGATE, right))
        case F.ADD, Kind.DATE, Kind.INT:
            return make_call(F.ADD_DAYS, left, right)
        case F.ADD, Kind.INT, Kind.DATE:
            return make_call(F.ADD_DAYS, right, left)
        case _:
            raise UnsupportedQuery(_type_error(function, [left.kind, right.kind]))


def _moved_date(function: Function, day: date, count: int) -> Expression:
    """Return a literal date moved by days or months, at most to the end of the new month."""
    try:
        if function is F.ADD_DAYS:
            return make_literal(day + timedelta(count))
        year, month = divmod(day.year * 12 + day.month - 1 + count, 12)
        return make_literal(
            day.replace(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))
        )
    except (ValueError, OverflowError, IllegalMonthError):
        raise UnsupportedQuery(
            f"Dates are in the years 1 to 9999. Move {day.isoformat()} by less."
        ) from None


def normalize_pattern(pattern: str) -> str:
    """Return an equivalent LIKE pattern that takes few steps per character of a string.

    Claim: an engine that tries each part after a % at every position of a string compares at most
           ``MAX_PART_WILDCARDS`` underscores at each position, in addition to the pattern's other
           characters.
    Why:   a run of wildcards with a % in it matches any string of at least as many characters as
           it has underscores. So its underscores can move before the %, to the end of the
           preceding part, where each is compared only once. Only underscores within a part, or at
           the end of the pattern, are compared repeatedly. If one part has too many of these, the
           pattern is refused.

    >>> normalize_pattern("%__a%_%b_%")
    '__%a_%b_%'

    # Privacy: without this, each _ after a % made a query measurably slower if one person had a
    # long string.
    """
    written = WILDCARDS.sub(lambda run: "_" * run[0].count("_") + "%", pattern)
    _, *parts = written.split("%")
    counted = [part.rstrip("_") for part in parts[:-1]] + parts[-1:]
    most = max((part.count("_") for part in counted), default=0)
    if most > MAX_PART_WILDCARDS:
        raise UnsupportedQuery(
            f"After a `%`, a pattern can have at most {MAX_PART_WILDCARDS} `_` among other "
            "characters. Replace some `_` by the characters that they stand for, or combine two "
            f"patterns with AND; got {most}."
        )
    return written


def _flatten(function: Function, arguments: Sequence[Expression]) -> tuple[Expression, ...]:
    flat: list[Expression] = []
    for argument in arguments:
        match argument:
            case Call(function=inner, arguments=parts) if inner is function:
                flat.extend(parts)
            case _:
                flat.append(argument)
    return tuple(flat)


def _convert_dates(arguments: Sequence[Expression]) -> tuple[Expression, ...]:
    """Return the arguments, with strings read as dates or timestamps if any argument is one."""
    if any(argument.kind is Kind.TIMESTAMP for argument in arguments):
        return tuple(part if part.kind is Kind.BOOL else to_timestamp(part) for part in arguments)
    if not any(argument.kind is Kind.DATE for argument in arguments):
        return tuple(arguments)
    return tuple(
        read_day(argument.value)
        if isinstance(argument, Literal) and isinstance(argument.value, str)
        else argument
        for argument in arguments
    )


def _check_literals(function: Function, arguments: Sequence[Expression]) -> None:
    """Refuse columns and calls where a function takes literals only."""
    start = FIRST_LITERAL_ARGUMENT.get(function, len(arguments))
    if not all(isinstance(argument, Literal) for argument in arguments[start:]):
        raise UnsupportedQuery(
            f"The arguments of `{function.upper()}` after the first must be constants, such as 2 "
            "or 'day', not columns."
        )


def _check_pieces(function: Function, arguments: Sequence[Expression]) -> None:
    """Refuse arguments of string searches for which engines differ or that take too long."""
    if function in SEARCHES and any(part.kind is None for part in arguments[1:]):
        raise UnsupportedQuery(
            f"The characters for `{function.upper()}` must be a constant, such as 'abc'; got NULL."
        )
    match function, arguments[1:]:
        case ((F.TRIM | F.LTRIM | F.RTRIM), [Literal(value=str(characters))]):
            if len(set(characters)) > MAX_TRIMMED_CHARACTERS:
                raise UnsupportedQuery(
                    f"`{function.upper()}` takes at most {MAX_TRIMMED_CHARACTERS} different "
                    f"characters; got {len(set(characters))}."
                )
        case ((F.REPLACE | F.SPLIT_PART | F.STRPOS), [Literal(value=""), *_]):
            raise UnsupportedQuery(
                f"The second argument of `{function.upper()}` must have at least one character."
            )
        case F.SPLIT_PART, [_, Literal(value=int(place))] if not 0 < place <= MAX_PIECES:
            raise UnsupportedQuery(
                f"`SPLIT_PART` counts pieces from 1 to {MAX_PIECES:,}; got {place}."
            )
        case _:
            return


def _check_size(arguments: Sequence[Expression]) -> None:
    """Refuse a tree that is too large.

    Short SQL can give a large tree, because CASE x WHEN, NULLIF, and BETWEEN duplicate their
    operands.
    """
    if sum(map(size_of, arguments)) > MAX_PARTS:
        raise UnsupportedQuery(
            f"An expression can have at most {MAX_PARTS:,} parts, including those that "
            "`CASE x WHEN`, `NULLIF`, and `BETWEEN` repeat. Simplify the expression."
        )


def _type_error(function: Function, kinds: Sequence[Kind | None]) -> str:
    given = ", ".join("NULL" if kind is None else kind for kind in kinds)
    hint = "Use values of one type, or CAST them."
    if function in COMPARISONS and Kind.BOOL in kinds:
        hint = "For a Boolean, write `x` or `NOT x`."
    if function in (F.AND, F.OR, F.NOT):
        hint = "It takes conditions, such as `x <> 0`."
    elif function in (F.LEAST, F.GREATEST):
        hint = "It takes numbers. For other types, write `CASE WHEN x < y THEN x ELSE y END`."
    elif function is F.MODULO:
        hint = "It takes integers. Convert a number with `CAST(x AS BIGINT)`."
    return f"`{function.upper()}` does not support arguments of type ({given}). {hint}"


def make_between(value: Expression, low: Expression, high: Expression) -> Expression:
    """Return BETWEEN as two comparisons."""
    return make_call(
        F.AND, make_call(F.GREATER_EQUAL, value, low), make_call(F.LESS_EQUAL, value, high)
    )


def conjunction(conditions: Sequence[Expression]) -> Expression | None:
    """Return the conjunction of the conditions, or None if there are none."""
    return make_call(F.AND, *conditions) if conditions else None


def check_condition(expression: Expression) -> Expression:
    """Return the expression if it is Boolean, as WHERE, HAVING, and FILTER require."""
    if expression.kind is not Kind.BOOL:
        raise UnsupportedQuery("A condition must be a Boolean. Compare the value with another one.")
    return expression


def has_aggregate(expression: Expression) -> bool:
    """Return whether an aggregate is part of the expression."""
    return any(isinstance(part, AggregateCall) for part in walk(expression))


def lift_keys(expression: Expression, keys: Sequence[Expression]) -> Expression:
    """Return the expression with each group key replaced by a `Key`, which has its index.

    # Privacy: a column that is not a group key may reach an answer only through an aggregate, so
    # refuse any column that remains outside of one.
    """
    if expression in keys:
        index = keys.index(expression)
        return Key(index, _kind(keys[index]))
    match expression:
        case Call(function=function, arguments=arguments, kind=kind):
            return Call(function, tuple(lift_keys(part, keys) for part in arguments), kind)
        case Column(name=name):
            raise UnsupportedQuery(
                f"Column {name!r} is neither in GROUP BY nor inside an aggregate, and single rows "
                f"are never shown. Add it to GROUP BY, or write an aggregate such as "
                f"`COUNT({name})`."
            )
        case Literal() | Key() | AggregateCall():
            return expression


def _kind(expression: Expression) -> Kind:
    if expression.kind is None:
        raise UnsupportedQuery("NULL has no type here. CAST it or omit it.")
    return expression.kind
