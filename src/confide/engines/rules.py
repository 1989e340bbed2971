"""Rules that several spellings share: the meaning of DuckDB's words, said in plainer ones.

Numbers in what a rule returns are written by the engine's own function for doubles, since nothing
is spelled twice.
"""

import math
from collections.abc import Callable, Sequence
from typing import Final

from sqlglot import expressions as sql

from confide.engines.expressions import Sql, call
from confide.engines.texts import FALSE, TRUE

__all__ = [
    "Real",
    "keep_listed",
    "literal_of",
    "read_truth",
    "round_real",
    "round_whole",
    "substring",
]

Real = Callable[[float], Sql]
"""Writes a double as a literal of the engine."""

WHOLE: Final = 2.0**53
"""From here on every double is a whole number."""
NEARLY_HALF: Final = math.nextafter(0.5, 0.0)
LARGEST: Final = 1.7976931348623157e308
LONGEST: Final = 2**31 - 1


def literal_of(node: Sql) -> int:
    """Return the whole number that a literal stands for, which may have a sign before it."""
    match node:
        case sql.Paren() | sql.Cast():
            return literal_of(node.this)
        case sql.Neg():
            return -literal_of(node.this)
        case _:
            return int(node.name)


def keep_listed(text: Sql, listed: Sequence[Sql]) -> Sql:
    """Return a text if it is one of a list, else NULL."""
    inside = sql.In(this=text, expressions=[one.copy() for one in listed])
    return sql.Case(ifs=[sql.If(this=inside, true=text.copy())])


def read_truth(text: Sql) -> Sql:
    """Return what a text says of truth, in the words that DuckDB knows."""
    said = call("LOWER", text)
    branches = [
        sql.If(
            this=sql.In(this=said.copy(), expressions=[sql.Literal.string(word) for word in words]),
            true=sql.Boolean(this=truth),
        )
        for truth, words in ((True, TRUE), (False, FALSE))
    ]
    return sql.Case(ifs=branches)


def substring(text: Sql, places: Sequence[int]) -> Sql:
    """Return a part of a text by code points, for engines that know places from 1 and from the end.

    In DuckDB place 0 is the one before the first, and a length below zero goes backwards.
    """
    start, length = places[0], places[1] if len(places) > 1 else LONGEST
    if length < 0:
        start, length = start + length, -length
        if places[0] >= 0 > start - 1:
            # What starts at or after the first place cannot wrap round to the end.
            start, length = 1, max(0, length + start - 1)
    elif start == 0:
        start, length = 1, max(0, length - 1)
    parts = [sql.Literal.number(str(abs(start))), sql.Literal.number(str(length))]
    if start < 0:
        parts[0] = sql.Neg(this=parts[0])
    return call("SUBSTR", text, *parts)


def round_whole(value: Sql, digits: int) -> Sql:
    """Return a whole number rounded to tens, hundreds and so on, halves away from zero."""
    if digits >= 0:
        return value
    step = 10**-digits
    if step > 2**62:
        return sql.Paren(this=value * sql.Literal.number("0"))
    whole, half = (sql.Literal.number(str(number)) for number in (step, step // 2))
    rest = sql.Paren(this=sql.Mod(this=sql.Paren(this=value), expression=whole))
    below = sql.Neg(this=half.copy())
    added = sql.Case(
        ifs=[
            sql.If(this=sql.GTE(this=rest.copy(), expression=half), true=whole.copy()),
            sql.If(
                this=sql.LTE(this=rest.copy(), expression=below), true=sql.Neg(this=whole.copy())
            ),
        ],
        default=sql.Literal.number("0"),
    )
    return sql.Paren(this=sql.Paren(this=value.copy()) - rest + added)


def round_real(value: Sql, digits: int, real: Real, cut: Callable[[Sql], Sql]) -> Sql:
    """Return a double rounded by the very operations of DuckDB, halves away from zero.

    ``cut`` drops the fraction of a double below 2^53, and gives a double.

    Why: DuckDB multiplies by a power of ten, rounds, and divides again; where the product is too
         large for a double it gives the number as it was. To round halves away from zero is to add
         the double next below one half and to cut: the sum, rounded by the processor, passes a
         whole number only where the fraction is one half or more.
    """
    if digits > 308:
        return value
    if digits < -308:
        return sql.Paren(this=value * real(0.0))
    power = real(10.0 ** abs(digits))
    there, back = (sql.Mul, sql.Div) if digits >= 0 else (sql.Div, sql.Mul)

    def scaled() -> Sql:
        inner = sql.Paren(this=value.copy())
        return inner if not digits else sql.Paren(this=there(this=inner, expression=power.copy()))

    def unscaled(some: Sql) -> Sql:
        return some if not digits else back(this=some, expression=power.copy())

    is_below = sql.LT(this=scaled(), expression=real(0.0))
    half = sql.Case(ifs=[sql.If(this=is_below, true=real(-NEARLY_HALF))], default=real(NEARLY_HALF))
    rounded = cut(sql.Paren(this=scaled() + half))
    size = call("ABS", scaled())
    is_small = sql.LT(this=size, expression=real(WHOLE))
    is_finite = sql.LTE(this=size.copy(), expression=real(LARGEST))
    branches = [(is_small, unscaled(rounded)), (is_finite, unscaled(scaled()))]
    otherwise = value.copy() if digits >= 0 else None
    return sql.Case(
        ifs=[sql.If(this=condition, true=result) for condition, result in branches],
        default=otherwise,
    )
