"""Keyed hash of rows, equal on every engine.

Nothing but whole numbers of 63 bits is added, multiplied, shifted and masked, in the same order
everywhere, so one salt gives the same marks on every engine. Privacy needs of a mark no more than
that it depends on its row and the salt; that no value is favoured over all units is wanted besides.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date
from functools import reduce
from hashlib import sha256
from typing import Final

from sqlglot import expressions as sql

from confide.declare import Kind
from confide.engines.sql.expressions import (
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
WIDEST: Final = float(2**52)
MARK, NUMBER = "the mark", "the number"  # no declared name has a space
LINE, HEIGHT = "the line", "the height"
LEVELS: Final = 48
LEVEL_BITS: Final = 41
"""Of a mark's bits so many are below its level."""
DIGEST: Final = "MD5_NUMBER"
ENDS: Final = ((120, 255), (104, 255 << 8), (88, 255 << 16), (72, 127 << 24))
"""How far a digest is shifted for each of its last bytes, from the last, and which bits are it."""
BETWEEN, NOTHING = "\x1f", "\x1e"  # between texts, and for NULL


def mark_rows(
    rows: sql.Select,
    names: Sequence[str],
    hashed: Iterable[str],
    kinds: Mapping[str, Kind],
    salt: str,
    *,
    small: Collection[str] = (),
) -> sql.Select:
    """Return the columns ``names`` of the rows, and their mark by ``hashed``.

    Columns in ``small`` hold whole numbers from 0 to 2^31 - 1 in every row, which spares steps.

    Law:     with w the folded sum of secret multiples of the hashed values, and y the sum of bits
             31 to 45 of w squared and of its bits 16 to 29, MARK is 2^31 y + w.
    Claim:   a mark lies within [0, 48 * 2^41) and depends on the salt and the hashed values alone;
             no step overflows, and none fails on any value.
    Why:     each of k values, all texts being one, is brought to 31 bits, those of NULL all ones,
             and its multiplier is less than 2^31 / k, so that their sum is less than 2^62; squared,
             31 bits are less than 2^62; y is less than 2^15 + 2^14 - 1 = 48 * 2^10 - 1, and w less
             than 2^31.
    Source:  [Knu98], section 6.4, for hashing by multiplication; docs/decisions has the reasons.
    Checked: tests/engines/test_marks.py (law, fairness, equality with another engine).
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
    """Return the columns ``names`` of the rows, and the heights of their marks by ``hashed``.

    The height is y in the law of `mark_rows`: a mark without its lower 31 bits.
    """
    numbered = number_rows(rows, hashed, kinds, salt, small)
    return select([*map(column, names), label(_height(), HEIGHT)], nested(numbered, NUMBER))


def _square() -> Sql:
    return sql.Paren(this=column(NUMBER) * column(NUMBER))


def _height() -> Sql:
    upper = _bits(_square(), BITS, 15)
    return sql.Paren(this=sql.Add(this=upper, expression=_bits(_square(), 16, 14)))


def level_of() -> Sql:
    """Return the level of a row's mark: a single bit, the lower the smaller its height is.

    Why: marks are less than 48 * 2^41, so the bit is one of the 48 lowest, and a smaller mark never
         has a higher one. Low levels are rare: there are about (k / 48)^2 marks below level k.
    """
    place = cast(_right(column(HEIGHT), LEVEL_BITS - BITS), "INTEGER")
    one = cast(number(1), "BIGINT")
    return sql.Paren(this=sql.BitwiseLeftShift(this=one, expression=place))


def rarer_than(levels: int) -> Sql:
    """Return the condition that a mark has one of the lowest so many levels."""
    return sql.LT(this=column(HEIGHT), expression=number(levels * 2 ** (LEVEL_BITS - BITS)))


def number_rows(
    rows: sql.Select,
    hashed: Iterable[str],
    kinds: Mapping[str, Kind],
    salt: str,
    small: Collection[str] = (),
) -> sql.Select:
    """Return the rows with a keyed number of 31 bits by ``hashed`` on each."""
    digits: list[Sql] = []
    named = list(hashed)
    texts = [name for name in named if kinds.get(name, Kind.TEXT) is Kind.TEXT]
    joined = _joined(texts, kinds) if len(texts) > 1 else None
    for name in named:
        if joined is not None and name in texts:
            digits += [_text_digit(joined)] if name == texts[0] else []
            continue
        is_small = name in small  # then the digit below would be the number itself
        value = typed(column(name), kinds.get(name))
        found = [cast(value, "BIGINT")] if is_small else _digits(value, kinds.get(name))
        # No row is without a unit, nor without a mark where it has one.
        digits += found if is_small or name in (UNIT, MARK) else map(_known, found)
    terms = [
        digit * number(secret)
        for digit, secret in zip(digits, _secrets(salt, len(digits)), strict=True)
    ]
    line: Sql = terms[0]
    for term in terms[1:]:
        line = sql.Add(this=line, expression=term)
    summed = select([sql.Star(), label(line, LINE)], nested(rows, "rows"))
    return select([sql.Star(), label(_fold(column(LINE)), NUMBER)], nested(summed, LINE))


def mixed_number() -> Sql:
    """Return a row's number, mixed once more: its square is mixed best in the middle."""
    return _bits(_square(), 16, BITS)


def _secrets(salt: str, count: int) -> list[int]:
    """Return an odd multiplier for each of ``count`` values, less than 2^31 / count."""
    drawn = (sha256(f"{salt} {place}".encode()).digest()[:8] for place in range(count))
    return [int.from_bytes(some) % (2 ** (BITS - 1) // count) * 2 | 1 for some in drawn]


def _try_whole(value: Sql) -> Sql:
    return try_cast(typed(sql.Paren(this=value), Kind.FLOAT), "BIGINT")


def _digits(value: Sql, kind: Kind | None) -> list[Sql]:
    """Return whole numbers from 0 to 2^31 - 1 that stand for a value; that of NULL is NULL."""
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
            # Privacy: a double that is infinite or NaN in spite of its range fails no cast.
            whole = _try_whole(clamped(value, -WIDEST, WIDEST))
            size = sql.Paren(this=number(1.0) + call("ABS", value.copy()))
            part = _try_whole(value.copy() / size * number(float(2 ** (BITS - 1))))
            found = [_fold(whole), _and(part, number(MASK))]
        case _:
            found = [_text_digit(value if kind is Kind.TEXT else cast(value, "VARCHAR"))]
    return found


def _known(digit: Sql) -> Sql:
    return call("COALESCE", digit, cast(number(MASK), "BIGINT"))


def _joined(names: Sequence[str], kinds: Mapping[str, Kind]) -> Sql:
    """Return several texts as one, of which one digest is computed instead of several.

    Texts that hold the two marks themselves may be joined alike, and so have equal numbers.
    """
    texts: list[Sql] = []
    for name in names:
        text: Sql = cast(typed(column(name), kinds.get(name)), "VARCHAR")
        if name != UNIT:  # no row is without one
            text = call("COALESCE", text, sql.Literal.string(NOTHING))
        texts += [sql.Literal.string(BETWEEN), text] if texts else [text]
    return sql.Paren(this=reduce(lambda left, right: sql.DPipe(this=left, expression=right), texts))


def _text_digit(text: Sql) -> Sql:
    """Return the last 31 bits of the MD5 of a text's bytes.

    DuckDB takes the last byte for the foremost, so the last four change places. Its optimiser
    computes the digest once; other engines write the whole OR, the only one, in their own way.
    """
    last, *others = (
        _and(_right(call(DIGEST, text.copy()), right), number(bits)) for right, bits in ENDS
    )
    upper = reduce(lambda left, right: sql.Add(this=left, expression=right), others)
    word = sql.BitwiseOr(this=sql.Paren(this=upper), expression=last)
    return cast(sql.Paren(this=word), "BIGINT")


def digested(node: sql.BitwiseOr) -> Sql:
    """Return the text of which a node is the digit, for engines that write it otherwise."""
    calls = (found for found in node.find_all(sql.Anonymous) if found.name == DIGEST)
    text: Sql = next(calls).expressions[0]
    return text


def _fold(value: Sql) -> Sql:
    """Return the upper and the lower bits of a number, laid over each other."""
    return _and(sql.BitwiseXor(this=value, expression=_right(value.copy(), BITS)), number(MASK))


def _right(value: Sql, count: int) -> Sql:
    return sql.Paren(this=sql.BitwiseRightShift(this=value, expression=number(count)))


def _bits(value: Sql, first: int, count: int) -> Sql:
    """Return so many bits of a number, from the first upwards."""
    return _and(_right(value, first), number(2**count - 1))


def _and(some: Sql, others: Sql) -> Sql:
    return sql.Paren(this=sql.BitwiseAnd(this=some, expression=others))
