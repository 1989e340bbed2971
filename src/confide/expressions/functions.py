"""Scalar functions and their type rules.

A query can use only the functions listed here. The SQL parser and the Python terms translate into
them, and range analysis and the engines have one rule for each.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Final

from confide.declare import Kind

__all__ = ["Function", "result_kind"]

NUMBERS: Final = frozenset({Kind.INT, Kind.FLOAT})
TEXTS: Final = frozenset({Kind.TEXT})


class Function(StrEnum):
    """A function of the values in one row, or of the noisy values in one group of an answer.

    The semantics are DuckDB's: LIKE is case-sensitive, LEAST and GREATEST skip NULL, Sunday is
    weekday 0, a remainder has the sign of the dividend, and ROUND rounds half away from zero.
    """

    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"
    MODULO = "%"
    NEGATE = "negate"
    EQUAL = "="
    UNEQUAL = "<>"
    LESS = "<"
    LESS_EQUAL = "<="
    GREATER = ">"
    GREATER_EQUAL = ">="
    AND = "and"
    OR = "or"
    NOT = "not"
    IS_NULL = "is_null"
    IN = "in"
    LIKE = "like"
    CASE = "case"
    COALESCE = "coalesce"
    ABS = "abs"
    FLOOR = "floor"
    CEIL = "ceil"
    ROUND = "round"
    LEAST = "least"
    GREATEST = "greatest"
    LN = "ln"
    EXP = "exp"
    SQRT = "sqrt"
    POWER = "power"
    LOG2 = "log2"
    LOG10 = "log10"
    SIGN = "sign"
    SIN = "sin"
    COS = "cos"
    TAN = "tan"
    ASIN = "asin"
    ACOS = "acos"
    ATAN = "atan"
    ATAN2 = "atan2"
    YEAR = "year"
    QUARTER = "quarter"
    MONTH = "month"
    DAY = "day"
    WEEKDAY = "weekday"
    TRUNC_YEAR = "trunc_year"
    TRUNC_QUARTER = "trunc_quarter"
    TRUNC_MONTH = "trunc_month"
    WEEK = "week"
    DAY_OF_YEAR = "dayofyear"
    ISOYEAR = "isoyear"
    TRUNC_WEEK = "trunc_week"
    DAYS_BETWEEN = "days_between"
    ADD_DAYS = "add_days"
    ADD_MONTHS = "add_months"
    STRFTIME = "strftime"
    EPOCH_MS = "epoch_ms"
    FROM_EPOCH_MS = "from_epoch_ms"
    LOWER = "lower"
    UPPER = "upper"
    LENGTH = "length"
    SUBSTR = "substr"
    CONCAT = "||"
    TRIM = "trim"
    LTRIM = "ltrim"
    RTRIM = "rtrim"
    REPLACE = "replace"
    SPLIT_PART = "split_part"
    STRPOS = "strpos"
    TO_INT = "to_int"
    TO_FLOAT = "to_float"
    TO_TEXT = "to_text"
    TO_BOOL = "to_bool"
    TO_DATE = "to_date"


Kinds = Sequence[Kind | None]
"""The types of the arguments; None is the untyped NULL, which can be an argument of any type."""

Rule = Callable[[Kinds], Kind | None]
"""A function that returns the type of the result, or None for arguments of the wrong type."""


def result_kind(function: Function, kinds: Kinds) -> Kind | None:
    """Return the type of a call, or None for arguments of the wrong type.

    >>> result_kind(Function.DIVIDE, [Kind.INT, Kind.INT]), result_kind(Function.ADD, [Kind.TEXT])
    (<Kind.FLOAT: 'float'>, None)
    """
    return RULES[function](kinds)


def _fits(kinds: Kinds, allowed: frozenset[Kind]) -> bool:
    return all(kind is None or kind in allowed for kind in kinds)


def _common(kinds: Kinds) -> Kind | None:
    """Return the common type of the arguments, or None; integers and floats together are floats."""
    known = {kind for kind in kinds if kind is not None}
    if known == NUMBERS:
        return Kind.FLOAT
    return known.pop() if len(known) == 1 else None


def _number(count: int | None = None, *, result: Kind | None = None) -> Rule:
    """Return a rule for ``count`` numbers (by default, at least one).

    The result is a float if any argument is a float, unless ``result`` is given.
    """

    def rule(kinds: Kinds) -> Kind | None:
        if not kinds or (count is not None and len(kinds) != count) or not _fits(kinds, NUMBERS):
            return None
        return result or _common(kinds) or Kind.INT

    return rule


def _takes(*allowed: Kind, result: Kind, least: int | None = None) -> Rule:
    """Return a rule for arguments of these types, in order, and a fixed result type.

    If ``least`` is given, only that many arguments are required.
    """
    minimum = least if least is not None else len(allowed)

    def rule(kinds: Kinds) -> Kind | None:
        fits = minimum <= len(kinds) <= len(allowed) and all(
            kind is None or kind is wanted for kind, wanted in zip(kinds, allowed, strict=False)
        )
        return result if fits else None

    return rule


def _compares(kinds: Kinds) -> Kind | None:
    """Return BOOL for at least two arguments with a common type."""
    known = [kind for kind in kinds if kind is not None]
    return Kind.BOOL if len(kinds) > 1 and (not known or _common(kinds)) else None


def _conditions(count: int | None = None) -> Rule:
    """Return a rule for ``count`` Booleans (by default, at least one), whose result is BOOL."""

    def rule(kinds: Kinds) -> Kind | None:
        fits = bool(kinds) and (count is None or len(kinds) == count)
        return Kind.BOOL if fits and _fits(kinds, frozenset({Kind.BOOL})) else None

    return rule


def _any(result: Kind) -> Rule:
    return lambda kinds: result if len(kinds) == 1 else None


def _cast(result: Kind) -> Rule:
    """Return a rule for one argument of any type but timestamps, whose casts are written out."""
    return lambda kinds: result if len(kinds) == 1 and kinds[0] is not Kind.TIMESTAMP else None


def _branches(kinds: Kinds) -> Kind | None:
    """Return the type of a CASE: condition, value, condition, value, ..., and a last value."""
    if len(kinds) < 3 or len(kinds) % 2 == 0:
        return None
    *pairs, otherwise = kinds
    if not _fits(pairs[::2], frozenset({Kind.BOOL})):
        return None
    return _common([*pairs[1::2], otherwise])


def _same_type(kinds: Kinds) -> Kind | None:
    return _common(kinds) if kinds else None


def _extreme(kinds: Kinds) -> Kind | None:
    """Return the type of LEAST and GREATEST, of numbers, of dates, or of timestamps."""
    for kind in (Kind.DATE, Kind.TIMESTAMP):
        if kind in kinds:
            return kind if _fits(kinds, frozenset({kind})) else None
    return _number()(kinds)


F = Function
RULES: Final[dict[Function, Rule]] = {
    **dict.fromkeys((F.ADD, F.SUBTRACT, F.MULTIPLY), _number(2)),
    F.DIVIDE: _number(2, result=Kind.FLOAT),
    F.MODULO: _takes(Kind.INT, Kind.INT, result=Kind.INT),
    F.NEGATE: _number(1),
    **dict.fromkeys(
        (F.EQUAL, F.UNEQUAL, F.LESS, F.LESS_EQUAL, F.GREATER, F.GREATER_EQUAL, F.IN), _compares
    ),
    **dict.fromkeys((F.AND, F.OR), _conditions()),
    F.NOT: _conditions(1),
    F.IS_NULL: _any(Kind.BOOL),
    F.LIKE: _takes(Kind.TEXT, Kind.TEXT, result=Kind.BOOL),
    F.CASE: _branches,
    F.COALESCE: _same_type,
    F.ABS: _number(1),
    **dict.fromkeys((F.FLOOR, F.CEIL), _number(1, result=Kind.INT)),
    F.ROUND: lambda kinds: _number()(kinds[:1]) if _fits_round(kinds) else None,
    **dict.fromkeys((F.LEAST, F.GREATEST), _extreme),
    **dict.fromkeys((F.LN, F.EXP, F.SQRT, F.LOG2, F.LOG10), _number(1, result=Kind.FLOAT)),
    **dict.fromkeys((F.SIN, F.COS, F.TAN, F.ASIN, F.ACOS), _number(1, result=Kind.FLOAT)),
    F.ATAN: _number(1, result=Kind.FLOAT),
    **dict.fromkeys((F.POWER, F.ATAN2), _number(2, result=Kind.FLOAT)),
    F.SIGN: _number(1, result=Kind.INT),
    **dict.fromkeys(
        (F.YEAR, F.QUARTER, F.MONTH, F.DAY, F.WEEKDAY, F.WEEK, F.DAY_OF_YEAR, F.ISOYEAR),
        _takes(Kind.DATE, result=Kind.INT),
    ),
    **dict.fromkeys(
        (F.TRUNC_YEAR, F.TRUNC_QUARTER, F.TRUNC_MONTH, F.TRUNC_WEEK),
        _takes(Kind.DATE, result=Kind.DATE),
    ),
    F.DAYS_BETWEEN: _takes(Kind.DATE, Kind.DATE, result=Kind.INT),
    **dict.fromkeys((F.ADD_DAYS, F.ADD_MONTHS), _takes(Kind.DATE, Kind.INT, result=Kind.DATE)),
    F.EPOCH_MS: _takes(Kind.TIMESTAMP, result=Kind.INT),
    F.FROM_EPOCH_MS: _takes(Kind.INT, result=Kind.TIMESTAMP),
    F.STRFTIME: _takes(Kind.DATE, Kind.TEXT, result=Kind.TEXT),
    **dict.fromkeys((F.LOWER, F.UPPER), _takes(Kind.TEXT, result=Kind.TEXT)),
    F.LENGTH: _takes(Kind.TEXT, result=Kind.INT),
    F.SUBSTR: _takes(Kind.TEXT, Kind.INT, Kind.INT, result=Kind.TEXT, least=2),
    F.CONCAT: lambda kinds: Kind.TEXT if kinds and _fits(kinds, TEXTS) else None,
    **dict.fromkeys(
        (F.TRIM, F.LTRIM, F.RTRIM), _takes(Kind.TEXT, Kind.TEXT, result=Kind.TEXT, least=1)
    ),
    F.REPLACE: _takes(Kind.TEXT, Kind.TEXT, Kind.TEXT, result=Kind.TEXT),
    F.SPLIT_PART: _takes(Kind.TEXT, Kind.TEXT, Kind.INT, result=Kind.TEXT),
    F.STRPOS: _takes(Kind.TEXT, Kind.TEXT, result=Kind.INT),
    F.TO_INT: _cast(Kind.INT),
    F.TO_FLOAT: _cast(Kind.FLOAT),
    F.TO_TEXT: _cast(Kind.TEXT),
    F.TO_BOOL: _cast(Kind.BOOL),
    F.TO_DATE: _cast(Kind.DATE),
}


def _fits_round(kinds: Kinds) -> bool:
    """Return whether there is one argument, or a second one that is an integer (the digits)."""
    return len(kinds) in (1, 2) and _fits(kinds[1:], frozenset({Kind.INT}))
