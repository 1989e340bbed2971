"""Numbers that stand for texts in the keyed hash, as PostgreSQL computes them.

The last 31 bits of an MD5 take it a microsecond or two; where all texts are known, they are
computed here and only looked up there.
"""

from collections.abc import Sequence
from hashlib import md5
from typing import Final

from sqlglot import expressions as sql

from confide.engines import guards
from confide.engines.expressions import Sql, call, cast, number
from confide.query.tree import Value

__all__ = ["look_up_digits", "text_digit"]

MOST_TEXTS: Final = 64
"""With more texts than these to compare, an MD5 is faster."""


def look_up_digits(select: sql.Select, domains: Sequence[Sequence[Value] | None]) -> sql.Select:
    """Return a statement that looks up the numbers of keys whose values are all known.

    Why: a key outside its known values is NULL, and so is what is looked up for it.
    """
    known = {f"k{place}": domain for place, domain in enumerate(domains)}
    for digest in list(select.find_all(sql.Anonymous)):
        named = digest.find(sql.Column) if digest.name == "MD5_NUMBER" else None
        texts = known.get(named.name) if named is not None else None
        shift = digest.parent
        if named is None or not texts or not isinstance(shift, sql.BitwiseRightShift):
            continue
        listed = [text for text in texts if isinstance(text, str)]
        if len(listed) <= MOST_TEXTS and all(one is None or one in listed for one in texts):
            shift.replace(_looked_up(named.copy(), listed))
    return select


def _looked_up(text: Sql, listed: Sequence[str]) -> Sql:
    branches = [
        sql.If(this=sql.Literal.string(one), true=cast(number(digit_of(one)), "BIGINT"))
        for one in listed
    ]
    return sql.Case(this=text, ifs=branches)


def digit_of(text: str) -> int:
    """Return the last 31 bits of the MD5 of a text's bytes, the last byte foremost."""
    digest = md5(text.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest, "little") >> 97


def text_digit(node: sql.BitwiseRightShift) -> Sql | None:
    """Return the last 31 bits of an MD5, the last byte foremost."""
    found = node.this
    if not isinstance(found, sql.Anonymous) or found.name != "MD5_NUMBER":
        return None

    digits = call("RIGHT", call("MD5", *found.expressions), number(8))
    bits = sql.Cast(
        this=sql.DPipe(this=sql.Literal.string("x"), expression=digits),  # NULL stays NULL
        to=sql.DataType.build("BIT(32)", dialect="postgres"),
    )
    return guards.bound(_swap_bytes, cast(bits, "BIGINT"), always=True)


def _swap_bytes(value: Sql) -> Sql:
    """Return 31 bits of four bytes, of which the last comes first and the last bit is left out."""
    last, third = (sql.BitwiseAnd(this=value.copy(), expression=number(255 << n)) for n in (0, 8))
    second = sql.BitwiseAnd(
        this=sql.Paren(this=sql.BitwiseRightShift(this=value.copy(), expression=number(9))),
        expression=number(255 << 7),
    )
    first = sql.BitwiseRightShift(this=value.copy(), expression=number(25))
    moved: Sql = sql.BitwiseLeftShift(this=sql.Paren(this=last), expression=number(23))
    middle = sql.BitwiseLeftShift(this=sql.Paren(this=third), expression=number(7))
    for part in (middle, second, first):
        moved = sql.Add(this=sql.Paren(this=moved), expression=sql.Paren(this=part))
    return sql.Paren(this=moved)
