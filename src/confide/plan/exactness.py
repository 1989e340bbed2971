"""Whole numbers that engines hold as such: those past 2^53 that are computed are doubles.

Doubles of that size stand for several whole numbers each. As group keys or partners in a join they
would make one of several, so such expressions are refused there.
"""

from typing import Final

from confide.declare import Kind
from confide.errors import UnsupportedQuery
from confide.expressions.functions import Function
from confide.expressions.tree import Call, Column, Expression, Literal
from confide.plan.ranges import EXACT, Ranges, range_of
from confide.query.tree import Join, PerUnit, Source

__all__ = ["see_exact"]

LARGEST: Final = 2**63 - 1
CHOICES: Final = (Function.CASE, Function.COALESCE, Function.LEAST, Function.GREATEST)
WHOLE: Final = (Function.FLOOR, Function.CEIL, Function.MODULO, Function.TO_INT)
"""Functions whose results engines hold in 64 bits, NULL beyond."""


def see_exact(expression: Expression, ranges: Ranges, source: Source) -> None:
    """Refuse a whole number that an engine computes in doubles, where those would not tell it.

    Privacy does not rest on it: statements hold whole numbers in 64 bits. But of several numbers
    that one double stands for, answers would show one.
    """
    if not _is_exact(expression, ranges, _computed(source)):
        raise UnsupportedQuery(
            "whole numbers past 2^53 (about 9 * 10^15) that are computed are not exact, so rows "
            "cannot be grouped or joined by them; take the column itself, or write "
            "LEAST(GREATEST(expression, low), high) with bounds nearer to 0"
        )


def _is_exact(expression: Expression, ranges: Ranges, computed: frozenset[str]) -> bool:
    """Tell whether an engine has the very number, as 64 bits or a double below 2^53."""
    if expression.kind is not Kind.INT or range_of(expression, ranges).largest <= EXACT:
        return True
    match expression:
        case Column(table=table):
            return table not in computed
        case Literal(value=int(value)):
            return abs(value) <= LARGEST
        case Call(function=function, arguments=parts) if function in CHOICES:
            values = [*parts[1::2], parts[-1]] if function is Function.CASE else parts
            return all(_is_exact(one, ranges, computed) for one in values)
        case Call(function=function):
            return function in WHOLE
        case _:
            return False


def _computed(source: Source) -> frozenset[str]:
    """Return the tables, by their names in a question, whose columns are computed for each unit."""
    match source:
        case PerUnit(alias=alias):
            return frozenset({alias})
        case Join(left=left, right=right):
            return _computed(left) | _computed(right)
        case _:
            return frozenset()
