"""Numbers that stand for texts where PostgreSQL hashes and sorts rows.

The last 31 bits of an MD5 take it a third of a microsecond; where all texts are known, they are
computed here and only looked up there.
"""

from collections.abc import Sequence
from hashlib import md5
from typing import Final

from sqlglot import expressions as sql

from confide.engines.expressions import Sql, call, case, cast, number
from confide.engines.marks import MASK, digested
from confide.query.tree import Value

__all__ = ["look_up_digits", "sort_by_numbers", "text_digit"]

MOST_TEXTS: Final = 64
"""With more texts than these to compare, an MD5 is faster."""
LONGEST: Final = 2**22
"""Characters of a text that count for its mark beside others: 64 such texts have a gigabyte."""
SORTED: Final = "HASHTEXTEXTENDED"
"""PostgreSQL's own hash of a text, by which it finds groups."""


def look_up_digits(select: sql.Select, domains: Sequence[Sequence[Value] | None]) -> sql.Select:
    """Return a statement that looks up the numbers of keys whose values are all known.

    Why: a key outside its known values is NULL, and so is what is looked up for it.
    """
    known = {f"k{place}": domain for place, domain in enumerate(domains)}
    for digit in list(select.find_all(sql.BitwiseOr)):
        named, *others = digested(digit).find_all(sql.Column)
        texts = known.get(named.name)
        if others or not texts:
            continue
        listed = [text for text in texts if isinstance(text, str)]
        if len(listed) <= MOST_TEXTS and all(one is None or one in listed for one in texts):
            digit.replace(_looked_up(named.copy(), listed))
    return select


def sort_by_numbers(select: sql.Select) -> sql.Select:
    """Return a statement that sorts units that are texts by a number first, and then by the text.

    Why: rows with equal texts have equal numbers, so the partitions are the same ones, and nothing
         depends on which of them comes first. Texts that begin alike take long to compare.
    """
    for window in select.find_all(sql.Window):
        (unit,) = window.args["partition_by"]
        window.set("partition_by", [call(SORTED, unit.copy(), number(0)), unit])
    return select


def _looked_up(text: Sql, listed: Sequence[str]) -> Sql:
    branches = [
        sql.If(this=sql.Literal.string(one), true=cast(number(digit_of(one)), "BIGINT"))
        for one in listed
    ]
    return sql.Case(this=text, ifs=branches)


def digit_of(text: str) -> int:
    """Return the last 31 bits of the MD5 of a text's bytes."""
    digest = md5(text.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[-4:]) & MASK


def text_digit(node: sql.BitwiseOr) -> Sql:
    """Return the last 31 bits of an MD5, by reading the last of its figures.

    # Privacy: texts of a row that pass a gigabyte together cannot be joined, and the fault would
    # tell of the row; so of each no more is joined than fits.
    """
    text = digested(node)
    if text.find(sql.DPipe):
        for part in list(text.find_all(sql.Column)):
            part.replace(_shortened(part))
    figures = call("RIGHT", call("MD5", text), number(8))
    # NULL stays NULL.
    written = sql.DPipe(this=sql.Literal.string("0x"), expression=figures)
    return sql.BitwiseAnd(this=cast(written, "BIGINT"), expression=number(MASK))


def _shortened(text: Sql) -> Sql:
    """Return the first characters of a text; one of few bytes is not looked at."""
    is_long = sql.GT(this=call("OCTET_LENGTH", text.copy()), expression=number(LONGEST))
    return case(is_long, call("LEFT", text.copy(), number(LONGEST)), text.copy())
