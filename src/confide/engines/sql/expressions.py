"""Row expressions as SQL that never fails.

Integer arithmetic is exact where ranges prove that it stays within 2^53. Otherwise it is done in
doubles (remainders in 64-bit integers), and the result is cast to a 64-bit integer or becomes NULL.
Doubles stay finite: an infinite result or NaN becomes NULL. No text from the analyst is spliced
into the SQL; literals become literal nodes.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Final

from sqlglot import expressions as sql

from confide.declare import Kind
from confide.declare.columns import MAX_MILLISECONDS, MIN_MILLISECONDS
from confide.engines.sql.builders import (
    TYPES,
    Sql,
    as_double,
    call,
    case,
    cast,
    finite,
    literal,
    number,
    try_cast,
    typed,
    valid_date,
)
from confide.expressions.date_formats import spell_date
from confide.expressions.functions import Function
from confide.expressions.tree import AggregateCall, Call, Column, Expression, Key, Literal
from confide.plan.range_analysis import Range, RangeAnalysis
from confide.plan.range_arithmetic import Ranges
from confide.plan.text_ranges import MAX_OPERAND_LENGTH, SPACES, length_range

__all__ = ["Emitter"]

SAFE_INT: Final = 2**53
COSTLY_FUNCTIONS: Final = frozenset({Function.CONCAT, Function.REPLACE, Function.SPLIT_PART})
"""Functions that read at most `MAX_OPERAND_LENGTH` characters of a string of unknown length."""
FIRST_POSITION: Final = {Function.ROUND: 1, Function.SUBSTR: 1, Function.SPLIT_PART: 2}
"""The index of the first argument that is a position or a number of digits."""
OVERFLOWING: Final = frozenset(
    {Function.ADD, Function.SUBTRACT, Function.MULTIPLY, Function.NEGATE, Function.ABS}
)
"""Operations on integers whose results may need more than 64 bits."""
MAX_ORDINAL: Final = date.max.toordinal()
MAX_MONTH: Final = 12 * date.max.year + 13
"""January of the year 10000, as its year times 12 plus 1. December of the year 0 is 12."""
MAX_POSITION: Final = 2**31 - 1
F = Function
Args = Sequence[Sql]


@dataclass(frozen=True, slots=True)
class Emitter:
    """Writes expressions over columns whose ranges are known.

    ``named`` maps expressions computed in a subquery to their column names. The caller must map
    only columns, and function calls of type double.
    """

    ranges: Ranges
    named: Mapping[Expression, str] = field(default_factory=dict)
    finder: RangeAnalysis = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "finder", RangeAnalysis(self.ranges))

    def emit(self, expression: Expression) -> Sql:
        """Return the SQL of a row expression."""
        if expression in self.named:
            return self._column(expression, self.named[expression])
        match expression:
            case Column(table=table, name=name):
                return self._column(expression, name, table)
            case Literal(value=value):
                return _literal(value)
            case Call(function=F.STRFTIME, arguments=arguments):
                return self._formatted(arguments)
            case Call(function=function, arguments=arguments):
                return self._call(expression, function, arguments)
            case Key() | AggregateCall():
                raise TypeError("Keys and aggregates are not row expressions.")

    def _column(self, expression: Expression, name: str, table: str | None = None) -> Sql:
        found = sql.column(name, table=table, quoted=True)
        is_exact = expression.kind is not Kind.INT or _is_exact_as_double(
            self.finder.find(expression)
        )
        kind = Kind.INT if expression.kind is Kind.TIMESTAMP else expression.kind
        return typed(found, kind) if is_exact else found

    def _call(self, expression: Call, function: F, arguments: tuple[Expression, ...]) -> Sql:
        found = self.finder.find(expression)
        as_doubles = expression.kind is Kind.FLOAT or not _is_exact_as_double(found)
        parts = [self.emit(argument) for argument in arguments]
        if function in COSTLY_FUNCTIONS:
            parts = [
                self._shorten(part, argument)
                for part, argument in zip(parts, arguments, strict=True)
            ]
        if first := FIRST_POSITION.get(function):
            parts[first:] = map(_clamped_position, arguments[first:])
        if function is F.TO_TEXT and arguments[0].kind is Kind.FLOAT:
            parts = [_without_negative_zero(parts[0])]
        if function in ARITHMETIC:
            if as_doubles and function is F.MODULO:
                parts = [try_cast(part, "BIGINT") for part in parts]
            elif as_doubles:
                count = 1 if function is F.ROUND else len(parts)
                parts[:count] = [as_double(part) for part in parts[:count]]
            result: Sql = sql.Paren(this=ARITHMETIC[function](*parts))
            if as_doubles and function is not F.MODULO:
                result = typed(result, Kind.FLOAT)
                if expression.kind is Kind.INT:
                    # Privacy: on every engine an integer has 64 bits, or is NULL. A double
                    # would equal several integers in a join, and a cast of it could fail.
                    return try_cast(result, "BIGINT")
            elif function in OVERFLOWING:
                result = typed(result, Kind.INT)  # DuckDB then computes it in 128 bits
            return result if found.is_bounded else finite(result)
        return RULES[function](parts)

    def _formatted(self, arguments: tuple[Expression, ...]) -> Sql:
        match arguments:
            case [day, Literal(value=str(form))]:
                return self.emit(spell_date(day, form))
            case _:
                return cast(sql.Null(), "VARCHAR")

    def _shorten(self, text: Sql, argument: Expression) -> Sql:
        """Return an argument of a costly function, cut unless its length has a known bound.

        # Privacy: without a limit, a few long strings of one person could fill an engine's memory,
        # or, if they have many separators, make a query measurably slower.
        """
        if math.isfinite(length_range(self.finder.find(argument)).high):
            return text
        return call("SUBSTR", text, number(1), number(MAX_OPERAND_LENGTH))


def _without_negative_zero(value: Sql) -> Sql:
    """Return a double unchanged, except that -0.0 becomes 0.0.

    Why: IEEE 754 defines -0.0 + 0.0 as 0.0. Engines disagree on the sign of a zero that ROUND
    returns, and a string would show it.
    """
    return typed(sql.Paren(this=sql.Add(this=value, expression=number(0.0))), Kind.FLOAT)


def _literal(value: object) -> Sql:
    if isinstance(value, int) and not isinstance(value, bool):
        return _integer_literal(value)
    return literal(value)


def _integer_literal(value: int) -> Sql:
    """Return a 64-bit integer literal, or NULL if it does not fit.

    NULL is only a safeguard: front ends have already turned larger integers into doubles.

    # Privacy: engines make small literals 32-bit, and their sums may overflow on only some rows.
    """
    return cast(number(value) if -(2**63) <= value < 2**63 else sql.Null(), "BIGINT")


def _clamped_position(argument: Expression) -> Sql:
    """Return a string position or a number of digits, clamped to what engines accept.

    It is NULL unless the argument is an integer literal.
    """
    value = argument.value if isinstance(argument, Literal) else None
    return (
        number(max(-MAX_POSITION, min(value, MAX_POSITION)))
        if isinstance(value, int)
        else sql.Null()
    )


def _is_exact_as_double(found: Range) -> bool:
    return found.is_bounded and found.largest <= SAFE_INT


def _binary(node: type[sql.Binary]) -> Callable[[Args], Sql]:
    return lambda parts: sql.Paren(this=node(this=parts[0], expression=parts[1]))


def _chain(node: type[sql.Connector]) -> Callable[[Args], Sql]:
    def write(parts: Args) -> Sql:
        result: Sql = parts[0]
        for part in parts[1:]:
            result = node(this=result, expression=part)
        return sql.Paren(this=result)

    return write


def _function_call(name: str) -> Callable[[Args], Sql]:
    return lambda parts: call(name, *parts)


def _as_day(part: Sql) -> Sql:
    return cast(part, "DATE")


def _date_part(name: str) -> Callable[[Args], Sql]:
    return lambda parts: call(name, _as_day(parts[0]))


def _trunc(unit: str) -> Callable[[Args], Sql]:
    def write(parts: Args) -> Sql:
        start = call("DATE_TRUNC", sql.Literal.string(unit), _as_day(parts[0]))
        return cast(start, "DATE")

    return write


def _case(parts: Args) -> Sql:
    *pairs, otherwise = parts
    branches = [
        sql.If(this=condition, true=value)
        for condition, value in zip(pairs[::2], pairs[1::2], strict=True)
    ]
    return sql.Case(ifs=branches, default=otherwise)


def _in_list(parts: Args) -> Sql:
    return sql.Paren(this=sql.In(this=parts[0], expressions=list(parts[1:])))


def _between_days(parts: Args) -> Sql:
    first, last = map(_as_day, parts)
    return cast(sql.Paren(this=sql.Sub(this=last, expression=first)), "BIGINT")


def _limited(value: Sql, low: int, high: int) -> Sql:
    """Return a number clamped to [low, high]; NULL becomes ``low``."""
    return call("LEAST", call("GREATEST", value, number(low)), number(high))


def _add_days(parts: Args) -> Sql:
    """Return a date moved by days, or NULL outside years 1 to 9999.

    Why: the day's number is clamped to at most one day beyond these years before it becomes a date
         again, so every engine can represent that date. NULL becomes the day before year 1. Days
         beyond these years finally become NULL.
    """
    day, count = _as_day(parts[0]), _limited(parts[1], -MAX_ORDINAL, MAX_ORDINAL)
    first = literal(date.min)
    place = sql.Paren(this=sql.Sub(this=day, expression=first))
    moved = _limited(sql.Add(this=cast(place, "BIGINT"), expression=count), -1, MAX_ORDINAL)
    return valid_date(sql.Paren(this=sql.Add(this=first.copy(), expression=cast(moved, "INTEGER"))))


def _add_months(parts: Args) -> Sql:
    """Return a date moved by months, or NULL outside years 1 to 9999.

    If the month that it is moved to lacks its day, it becomes the last day of that month.
    """
    day, count = _as_day(parts[0]), _limited(parts[1], -MAX_ORDINAL, MAX_ORDINAL)
    month = call("YEAR", day.copy()) * number(12) + call("MONTH", day.copy())
    target = _limited(sql.Add(this=sql.Paren(this=month), expression=count), 12, MAX_MONTH)
    moved = sql.Sub(this=target, expression=sql.Paren(this=month.copy()))
    later = sql.Add(this=day, expression=call("TO_MONTHS", cast(sql.Paren(this=moved), "INTEGER")))
    return valid_date(cast(sql.Paren(this=later), "DATE"))


def _valid_milliseconds(parts: Args) -> Sql:
    """Return milliseconds since 1970, or NULL outside years 1 to 9999, as for dates."""
    moved = _limited(parts[0], MIN_MILLISECONDS - 1, MAX_MILLISECONDS + 1)
    inside = sql.Nullif(this=moved, expression=number(MIN_MILLISECONDS - 1))
    return cast(sql.Nullif(this=inside, expression=number(MAX_MILLISECONDS + 1)), "BIGINT")


def _concatenated(parts: Args) -> Sql:
    result: Sql = parts[0]
    for part in parts[1:]:
        result = sql.DPipe(this=result, expression=part)
    return sql.Paren(this=result)


def _trimmed(name: str) -> Callable[[Args], Sql]:
    """Return a rule that trims the given characters, by default all that Unicode calls spaces."""
    return lambda parts: call(name, parts[0], *parts[1:] or [sql.Literal.string(SPACES)])


def _to_integer(name: str) -> Callable[[Args], Sql]:
    """Return a rule for FLOOR or CEIL, whose result is an integer, or NULL beyond 64 bits."""
    return lambda parts: try_cast(call(name, parts[0]), "BIGINT")


def _logarithm(name: str) -> Callable[[Args], Sql]:
    """Return a rule for a logarithm, which is NULL unless its argument is positive."""

    def write(parts: Args) -> Sql:
        zero = number(0.0)
        positive = call("GREATEST", as_double(parts[0]), zero)
        return call(name, sql.Nullif(this=positive, expression=zero.copy()))

    return write


def _curve(name: str) -> Callable[[Args], Sql]:
    return lambda parts: call(name, *map(as_double, parts))


def _arc(name: str) -> Callable[[Args], Sql]:
    """Return a rule for ASIN or ACOS, which are NULL outside [-1, 1]."""

    def write(parts: Args) -> Sql:
        value = as_double(parts[0])
        inside = sql.Between(this=value, low=number(-1.0), high=number(1.0))
        return case(inside, call(name, value.copy()))

    return write


def _angle(parts: Args) -> Sql:
    """Return ATAN2 with -0.0 replaced by 0.0, because it distinguishes the two."""
    return call("ATAN2", *(_without_negative_zero(as_double(part)) for part in parts))


def _sqrt(parts: Args) -> Sql:
    return finite(call("SQRT", as_double(parts[0])))


def _exp(parts: Args) -> Sql:
    return finite(call("EXP", as_double(parts[0])))


def _modulo(a: Sql, b: Sql) -> Sql:
    """Return a remainder; dividing by -1 is replaced by dividing by 1.

    # Privacy: -2^63 % -1 overflows on engines that compute the quotient, so a query would fail if a
    # row had these operands.
    """
    one, zero = cast(number(1), "BIGINT"), number(0)
    is_minus_one = sql.EQ(this=b, expression=number(-1))
    return sql.Mod(
        this=a,
        expression=case(is_minus_one, one, sql.Nullif(this=b.copy(), expression=zero)),
    )


ARITHMETIC: Final[dict[F, Callable[..., Sql]]] = {
    F.ADD: lambda a, b: sql.Add(this=a, expression=b),
    F.SUBTRACT: lambda a, b: sql.Sub(this=a, expression=b),
    F.MULTIPLY: lambda a, b: sql.Mul(this=a, expression=b),
    F.DIVIDE: lambda a, b: sql.Div(this=a, expression=sql.Nullif(this=b, expression=number(0))),
    F.MODULO: _modulo,
    F.NEGATE: lambda a: sql.Neg(this=a),
    F.ABS: lambda a: call("ABS", a),
    F.ROUND: lambda a, *digits: call("ROUND", a, *digits),
}

RULES: Final[dict[F, Callable[[Args], Sql]]] = {
    F.EQUAL: _binary(sql.EQ),
    F.UNEQUAL: _binary(sql.NEQ),
    F.LESS: _binary(sql.LT),
    F.LESS_EQUAL: _binary(sql.LTE),
    F.GREATER: _binary(sql.GT),
    F.GREATER_EQUAL: _binary(sql.GTE),
    F.AND: _chain(sql.And),
    F.OR: _chain(sql.Or),
    F.NOT: lambda parts: sql.Paren(this=sql.Not(this=parts[0])),
    F.IS_NULL: lambda parts: sql.Paren(this=sql.Is(this=parts[0], expression=sql.Null())),
    F.IN: _in_list,
    F.LIKE: _binary(sql.Like),
    F.CASE: _case,
    F.COALESCE: _function_call("COALESCE"),
    F.FLOOR: _to_integer("FLOOR"),
    F.CEIL: _to_integer("CEIL"),
    F.LEAST: _function_call("LEAST"),
    F.GREATEST: _function_call("GREATEST"),
    F.LN: _logarithm("LN"),
    F.LOG2: _logarithm("LOG2"),
    F.LOG10: _logarithm("LOG10"),
    F.POWER: lambda parts: finite(call("POWER", *map(as_double, parts))),
    F.SIGN: lambda parts: cast(call("SIGN", as_double(parts[0])), "BIGINT"),
    **{function: _curve(function.upper()) for function in (F.SIN, F.COS, F.TAN, F.ATAN)},
    **{function: _arc(function.upper()) for function in (F.ASIN, F.ACOS)},
    F.ATAN2: _angle,
    F.EXP: _exp,
    F.SQRT: _sqrt,
    F.YEAR: _date_part("YEAR"),
    F.QUARTER: _date_part("QUARTER"),
    F.MONTH: _date_part("MONTH"),
    F.DAY: _date_part("DAY"),
    F.WEEKDAY: _date_part("DAYOFWEEK"),
    F.TRUNC_YEAR: _trunc("year"),
    F.TRUNC_QUARTER: _trunc("quarter"),
    F.TRUNC_MONTH: _trunc("month"),
    F.WEEK: _date_part("WEEK"),
    F.DAY_OF_YEAR: _date_part("DAYOFYEAR"),
    F.ISOYEAR: _date_part("ISOYEAR"),
    F.TRUNC_WEEK: _trunc("week"),
    F.DAYS_BETWEEN: _between_days,
    F.ADD_DAYS: _add_days,
    F.ADD_MONTHS: _add_months,
    F.STRFTIME: _function_call("STRFTIME"),
    F.EPOCH_MS: lambda parts: parts[0],  # engines hold timestamps as milliseconds since 1970
    F.FROM_EPOCH_MS: _valid_milliseconds,
    F.LOWER: _function_call("LOWER"),
    F.UPPER: _function_call("UPPER"),
    F.LENGTH: _function_call("LENGTH"),
    F.SUBSTR: _function_call("SUBSTR"),
    F.CONCAT: _concatenated,
    **{function: _trimmed(function.upper()) for function in (F.TRIM, F.LTRIM, F.RTRIM)},
    F.REPLACE: _function_call("REPLACE"),
    F.SPLIT_PART: _function_call("SPLIT_PART"),
    F.STRPOS: _function_call("STRPOS"),
    F.TO_INT: lambda parts: try_cast(parts[0], TYPES[Kind.INT]),
    F.TO_FLOAT: lambda parts: finite(try_cast(parts[0], TYPES[Kind.FLOAT])),
    F.TO_TEXT: lambda parts: try_cast(parts[0], TYPES[Kind.TEXT]),
    F.TO_BOOL: lambda parts: try_cast(parts[0], TYPES[Kind.BOOL]),
    F.TO_DATE: lambda parts: valid_date(try_cast(parts[0], TYPES[Kind.DATE])),
}
