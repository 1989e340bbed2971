"""The keyed hash by which the rows of a unit are cut, in arithmetic that every engine repeats.

Nothing but whole numbers of 63 bits is added, multiplied, shifted and masked, in the same order
everywhere, so one salt gives the same marks on every engine. Privacy needs of a mark no more than
that it depends on its row and the salt; that no value is favoured over all units is wanted besides.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date
from hashlib import sha256
from typing import Final

from sqlglot import expressions as sql

from confide.declare import Kind
from confide.engines.expressions import Sql, call, cast, literal, number
from confide.engines.fragments import clamped, column, label, nested, select

__all__ = ["LEVEL", "MARK", "NUMBER", "least_first", "mark_rows", "number_rows"]

BITS: Final = 31
MASK: Final = 2**BITS - 1
WIDEST: Final = float(2**52)
MARK, LEVEL, NUMBER = "the mark", "the level", "the number"  # no declared name has a space
LINE: Final = "the line"


def mark_rows(
    rows: sql.Select,
    names: Sequence[str],
    hashed: Iterable[str],
    kinds: Mapping[str, Kind],
    salt: str,
    *,
    small: Collection[str] = (),
) -> sql.Select:
    """Return the columns ``names`` of the rows, their mark by ``hashed``, and its level.

    Columns in ``small`` hold whole numbers from 0 to 2^31 - 1 in every row, which spares steps.

    Law:     with w the folded sum of secret multiples of the hashed values, MARK is w squared, of
             62 bits; LEVEL is the lowest bit that is 1 in the upper half of MARK (0 if none is).
    Claim:   a mark lies within [0, 2^62) and depends on the salt and the hashed values alone;
             no step overflows, and none fails on any value.
    Why:     each of k values is brought to 31 bits, never NULL, and its multiplier is less than
             2^31 / k, so that their sum is less than 2^62; squared, 31 bits are less than 2^62.
    Source:  [Knu98], section 6.4, for hashing by multiplication; docs/decisions has the reasons.
    Checked: tests/engines/test_marks.py (law, fairness, equality with another engine).
    """
    numbered = number_rows(rows, hashed, kinds, salt, small)
    square = sql.Paren(this=column(NUMBER) * column(NUMBER))
    upper = _shift(square)
    level = _and(upper, sql.Paren(this=sql.Neg(this=upper.copy())))
    marks = [label(square.copy(), MARK), label(level, LEVEL)]
    return select([*map(column, names), *marks], nested(numbered, NUMBER))


def number_rows(
    rows: sql.Select,
    hashed: Iterable[str],
    kinds: Mapping[str, Kind],
    salt: str,
    small: Collection[str] = (),
) -> sql.Select:
    """Return the rows with a keyed number of 31 bits by ``hashed`` on each."""
    digits: list[Sql] = []
    for name in hashed:
        is_small = name in small  # then the digit below would be the number itself
        value = column(name)
        digits += [cast(value, "BIGINT")] if is_small else _digits(value, kinds.get(name))
    terms = [
        digit * number(secret)
        for digit, secret in zip(digits, _secrets(salt, len(digits)), strict=True)
    ]
    line: Sql = terms[0]
    for term in terms[1:]:
        line = sql.Add(this=line, expression=term)
    summed = select([sql.Star(), label(line, LINE)], nested(rows, "rows"))
    return select([sql.Star(), label(_fold(column(LINE)), NUMBER)], nested(summed, LINE))


def least_first() -> Sql:
    """Return what rows are ordered by: rare levels first, then the lower half of the mark.

    Levels are at most 2^30, so this is more than -2^61 - 1.
    """
    return _and(column(MARK), number(MASK)) - column(LEVEL) * number(2**BITS)


def _secrets(salt: str, count: int) -> list[int]:
    """Return an odd multiplier for each of ``count`` values, less than 2^31 / count."""
    drawn = (sha256(f"{salt} {place}".encode()).digest()[:8] for place in range(count))
    return [int.from_bytes(some) % (2 ** (BITS - 1) // count) * 2 | 1 for some in drawn]


def _digits(value: Sql, kind: Kind | None) -> list[Sql]:
    """Return whole numbers from 0 to 2^31 - 1 that stand for a value; NULL has one too."""
    match kind:
        case Kind.INT:
            found = [_fold(cast(value, "BIGINT"))]
        case Kind.BOOL:
            no = sql.If(this=sql.Not(this=value.copy()), true=number(0))
            found = [sql.Case(ifs=[sql.If(this=value, true=number(1)), no])]
        case Kind.DATE:
            days = sql.Paren(this=value - literal(date(1970, 1, 1)))
            found = [_and(cast(days, "BIGINT"), number(MASK))]
        case Kind.FLOAT:
            whole = cast(clamped(value, -WIDEST, WIDEST), "BIGINT")
            size = sql.Paren(this=number(1.0) + call("ABS", value.copy()))
            part = cast(value.copy() / size * number(float(2 ** (BITS - 1))), "BIGINT")
            found = [_fold(whole), _and(part, number(MASK))]
        case _:
            found = [_text_digit(cast(value, "VARCHAR"))]
    return [call("COALESCE", digit, cast(number(MASK), "BIGINT")) for digit in found]


def _text_digit(text: Sql) -> Sql:
    """Return the last 31 bits of the MD5 of a text's bytes, the last byte foremost."""
    digest = sql.BitwiseRightShift(this=call("MD5_NUMBER", text), expression=number(97))
    return cast(sql.Paren(this=digest), "BIGINT")


def _fold(value: Sql) -> Sql:
    """Return the upper and the lower bits of a number, laid over each other."""
    return _and(sql.BitwiseXor(this=value, expression=_shift(value.copy())), number(MASK))


def _shift(value: Sql) -> Sql:
    return sql.Paren(this=sql.BitwiseRightShift(this=value, expression=number(BITS)))


def _and(some: Sql, others: Sql) -> Sql:
    return sql.Paren(this=sql.BitwiseAnd(this=some, expression=others))
