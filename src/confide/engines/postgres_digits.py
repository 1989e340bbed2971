"""Numbers that stand for texts where PostgreSQL hashes and sorts rows."""

from typing import Final

from sqlglot import expressions as sql

from confide.engines.expressions import Sql, call, case, cast, number
from confide.engines.marks import MASK, digested

__all__ = ["sort_by_numbers", "text_digit"]

LONGEST: Final = 2**22
"""Characters of a text that count for its mark beside others: 64 such texts have a gigabyte."""
SORTED: Final = "HASHTEXTEXTENDED"
"""PostgreSQL's own hash of a text, by which it finds groups."""


def sort_by_numbers(select: sql.Select) -> sql.Select:
    """Return a statement that sorts units that are texts by a number first, and then by the text.

    Why: rows with equal texts have equal numbers, so the partitions are the same ones, and nothing
         depends on which of them comes first. Texts that begin alike take long to compare.
    """
    for window in select.find_all(sql.Window):
        (unit,) = window.args["partition_by"]
        window.set("partition_by", [call(SORTED, unit.copy(), number(0)), unit])
    return select


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
