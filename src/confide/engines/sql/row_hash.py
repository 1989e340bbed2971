"""Keyed hash of rows, equal on every engine.

Contribution bounding keeps the rows of a unit that have the smallest hashes. Privacy requires only
that the hash of a row depends on nothing but the row and the salt. For accuracy, the hash should
not favor the same value in every unit.

The hash of a row is called its *mark*. It is computed in three steps:

- Each value becomes one or two integers of 31 bits, its *digits*. All strings together have one.
- The *number* of the row is the sum of the digits, each times a secret multiplier, folded to 31
  bits.
- The *height* of the row is computed from the square of its number. The mark consists of the height
  in the upper bits, and the number in the lower 31 bits.

The upper bits of a mark are its *level*, from 0 to 47. From the digits on, all steps add, multiply,
shift, mask, and XOR 63-bit integers in a fixed order. So one salt gives the same marks on every
engine.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date
from functools import reduce
from hashlib import sha256
from typing import Final

from sqlglot import expressions as sql

from confide.declare import Kind
from confide.engines.sql.builders import (
    UNIT,
    Sql,
    call,
    cast,
    clamped,
    column,
    label,
    literal,
    nested,
    number,
    select,
    try_cast,
    typed,
)

__all__ = [
    "HEIGHT",
    "LEVELS",
    "LEVEL_BITS",
    "MARK",
    "NUMBER",
    "digested",
    "level_of",
    "mark_rows",
    "measure_rows",
    "mixed_number",
    "number_rows",
    "rarer_than",
]

BITS: Final = 31
MASK: Final = 2**BITS - 1
MAX_EXACT_DOUBLE: Final = float(2**52)
MARK, NUMBER = "the mark", "the number"  # no declared name begins with "the "
WEIGHTED_SUM, HEIGHT = "the line", "the height"
LEVELS: Final = 48
LEVEL_BITS: Final = 41
"""The number of a mark's bits below its level."""
DIGEST: Final = "MD5_NUMBER"
"""DuckDB's MD5 of a string, as an integer of 128 bits."""
LAST_BYTES: Final = ((120, 255), (104, 255 << 8), (88, 255 << 16), (72, 127 << 24))
"""The shift and the mask that select each of the last four bytes of a digest, last byte first."""
SEPARATOR, NULL_TEXT = "\x1f", "\x1e"  # a separator, and the string that represents NULL


def mark_rows(
    rows: sql.Select,
    names: Sequence[str],
    hashed: Iterable[str],
    kinds: Mapping[str, Kind],
    salt: str,
    *,
    small: Collection[str] = (),
) -> sql.Select:
    """Return the columns ``names`` of the rows, and the mark of each row's columns ``hashed``.

    ``kinds`` gives the kinds of the hashed columns; columns without a kind are hashed as strings.
    Columns in ``small`` contain integers from 0 to 2^31 - 1 in every row, which saves steps.

    Law:     MARK is 2^31 y + w. Here w, the row's number, is the folded sum of secret multiples of
             the digits of the hashed values. The height y is the sum of two integers: bits 31 to 45
             of w squared, and its bits 16 to 29.
    Claim:   a mark lies within [0, 48 * 2^41) and depends on the salt and the hashed values alone;
             no step overflows, and none fails on any value.
    Why:     each of the k digits is less than 2^31 (that of NULL consists of ones). Its multiplier
             is less than 2^31 / k, so the sum is less than 2^62. Folded, w is less than 2^31, and
             its square is less than 2^62. So y is at most (2^15 - 1) + (2^14 - 1), which is less
             than 48 * 2^10.
    Source:  [Knu98], section 6.4, for hashing by multiplication; docs/decisions has the reasons.
    Checked: tests/engines/test_row_hash.py (law, fairness, equality with another engine).
    """
    numbered = number_rows(rows, hashed, kinds, salt, small)
    mark = sql.Add(this=_height() * number(2**BITS), expression=column(NUMBER))
    return select([*map(column, names), label(mark, MARK)], nested(numbered, NUMBER))


def measure_rows(
    rows: sql.Select,
    names: Sequence[str],
    hashed: Iterable[str],
    kinds: Mapping[str, Kind],
    salt: str,
    *,
    small: Collection[str] = (),
) -> sql.Select:
    """Return the columns ``names`` of the rows, and the height of each row's columns ``hashed``.

    The height is y in the law of `mark_rows`: the mark without its lower 31 bits.
    """
    numbered = number_rows(rows, hashed, kinds, salt, small)
    return select([*map(column, names), label(_height(), HEIGHT)], nested(numbered, NUMBER))


def _square() -> Sql:
    """Return the square of a row's number."""
    return sql.Paren(this=column(NUMBER) * column(NUMBER))


def _height() -> Sql:
    """Return the height of a row, from its number."""
    upper = _bits(_square(), BITS, 15)
    return sql.Paren(this=sql.Add(this=upper, expression=_bits(_square(), 16, 14)))


def level_of() -> Sql:
    """Return an integer with a single bit, at the position of the level of a row's mark.

    Why: the level is the mark without its lower 41 bits. Marks are less than 48 * 2^41, so there
         are 48 levels, and a smaller mark never has a higher level. Low levels are rare: for small
         k, about (k / 32)^2 of all marks are below level k.
    """
    level = cast(_shift_right(column(HEIGHT), LEVEL_BITS - BITS), "INTEGER")
    one = cast(number(1), "BIGINT")
    return sql.Paren(this=sql.BitwiseLeftShift(this=one, expression=level))


def rarer_than(levels: int) -> Sql:
    """Return the condition that a row's mark has one of the lowest ``levels`` levels."""
    return sql.LT(this=column(HEIGHT), expression=number(levels * 2 ** (LEVEL_BITS - BITS)))


def number_rows(
    rows: sql.Select,
    hashed: Iterable[str],
    kinds: Mapping[str, Kind],
    salt: str,
    small: Collection[str] = (),
) -> sql.Select:
    """Return the rows, each with the 31-bit number of its columns ``hashed``; see `mark_rows`."""
    digits: list[Sql] = []
    named = list(hashed)
    texts = [name for name in named if kinds.get(name, Kind.TEXT) is Kind.TEXT]
    joined = _joined(texts, kinds) if len(texts) > 1 else None
    for name in named:
        if joined is not None and name in texts:
            digits += [_text_digit(joined)] if name == texts[0] else []
            continue
        is_small = name in small  # such an integer is its own digit
        value = typed(column(name), kinds.get(name))
        found = [cast(value, "BIGINT")] if is_small else _digits(value, kinds.get(name))
        # A unit is never NULL, and neither is a mark.
        digits += found if is_small or name in (UNIT, MARK) else map(_ones_for_null, found)
    terms = [
        digit * number(secret)
        for digit, secret in zip(digits, _secrets(salt, len(digits)), strict=True)
    ]
    weighted_sum: Sql = terms[0]
    for term in terms[1:]:
        weighted_sum = sql.Add(this=weighted_sum, expression=term)
    summed = select([sql.Star(), label(weighted_sum, WEIGHTED_SUM)], nested(rows, "rows"))
    return select(
        [sql.Star(), label(_fold(column(WEIGHTED_SUM)), NUMBER)], nested(summed, WEIGHTED_SUM)
    )


def mixed_number() -> Sql:
    """Return a second 31-bit number of a row: the middle bits of the square of its number."""
    return _bits(_square(), 16, BITS)


def _secrets(salt: str, count: int) -> list[int]:
    """Return ``count`` odd multipliers, each less than 2^31 / count, derived from the salt."""
    digests = (sha256(f"{salt} {index}".encode()).digest()[:8] for index in range(count))
    return [int.from_bytes(drawn) % (2 ** (BITS - 1) // count) * 2 | 1 for drawn in digests]


def _try_integer(value: Sql) -> Sql:
    """Return the integer nearest to a double, or NULL if it does not fit."""
    return try_cast(typed(sql.Paren(this=value), Kind.FLOAT), "BIGINT")


def _digits(value: Sql, kind: Kind | None) -> list[Sql]:
    """Return the digits of a value, integers from 0 to 2^31 - 1; they are NULL for NULL."""
    match kind:
        case Kind.INT | Kind.TIMESTAMP:
            found = [_fold(cast(value, "BIGINT"))]
        case Kind.BOOL:
            no = sql.If(this=sql.Not(this=value.copy()), true=number(0))
            found = [sql.Case(ifs=[sql.If(this=value, true=number(1)), no])]
        case Kind.DATE:
            days = sql.Paren(this=value - literal(date(1970, 1, 1)))
            found = [_bitwise_and(cast(days, "BIGINT"), number(MASK))]
        case Kind.FLOAT:
            # Privacy: no cast fails on a double that is infinite or NaN in spite of its range.
            whole = _try_integer(clamped(value, -MAX_EXACT_DOUBLE, MAX_EXACT_DOUBLE))
            size = sql.Paren(this=number(1.0) + call("ABS", value.copy()))
            part = _try_integer(value.copy() / size * number(float(2 ** (BITS - 1))))
            found = [_fold(whole), _bitwise_and(part, number(MASK))]
        case _:
            found = [_text_digit(value if kind is Kind.TEXT else cast(value, "VARCHAR"))]
    return found


def _ones_for_null(digit: Sql) -> Sql:
    return call("COALESCE", digit, cast(number(MASK), "BIGINT"))


def _joined(names: Sequence[str], kinds: Mapping[str, Kind]) -> Sql:
    """Return several strings joined into one, so that a single digest is computed.

    Different strings may give the same joined string if they contain the separator. Then they have
    the same number.
    """
    texts: list[Sql] = []
    for name in names:
        text: Sql = cast(typed(column(name), kinds.get(name)), "VARCHAR")
        if name != UNIT:  # every row has a unit
            text = call("COALESCE", text, sql.Literal.string(NULL_TEXT))
        texts += [sql.Literal.string(SEPARATOR), text] if texts else [text]
    return sql.Paren(this=reduce(lambda left, right: sql.DPipe(this=left, expression=right), texts))


def _text_digit(text: Sql) -> Sql:
    """Return the last 31 bits of the MD5 of a string's bytes.

    DuckDB's integer has the bytes of the digest in reverse order, so the last four are put back in
    order here. The digest appears four times, but DuckDB's optimizer computes it once. Other
    engines replace this expression with their own. They find it by its bitwise OR, since no other
    part of a statement has one.
    """
    last, *others = (
        _bitwise_and(_shift_right(call(DIGEST, text.copy()), shift), number(bits))
        for shift, bits in LAST_BYTES
    )
    upper = reduce(lambda left, right: sql.Add(this=left, expression=right), others)
    word = sql.BitwiseOr(this=sql.Paren(this=upper), expression=last)
    return cast(sql.Paren(this=word), "BIGINT")


def digested(node: sql.BitwiseOr) -> Sql:
    """Return the string whose digit a node of `_text_digit` computes, so engines can replace it."""
    calls = (found for found in node.find_all(sql.Anonymous) if found.name == DIGEST)
    text: Sql = next(calls).expressions[0]
    return text


def _fold(value: Sql) -> Sql:
    """Return the lower 31 bits of an integer, combined by XOR with the 31 bits above them."""
    return _bitwise_and(
        sql.BitwiseXor(this=value, expression=_shift_right(value.copy(), BITS)), number(MASK)
    )


def _shift_right(value: Sql, count: int) -> Sql:
    return sql.Paren(this=sql.BitwiseRightShift(this=value, expression=number(count)))


def _bits(value: Sql, first: int, count: int) -> Sql:
    """Return ``count`` bits of an integer as an integer, the lowest at position ``first``."""
    return _bitwise_and(_shift_right(value, first), number(2**count - 1))


def _bitwise_and(left: Sql, right: Sql) -> Sql:
    return sql.Paren(this=sql.BitwiseAnd(this=left, expression=right))
