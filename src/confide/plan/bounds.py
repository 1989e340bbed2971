"""Which values can be added up: those with bounds, and not too large ones."""

from typing import Final

from confide.errors import UnsupportedQuery
from confide.expressions.functions import Function
from confide.expressions.tree import Call, Expression
from confide.plan.ranges import ANY_INT, ANY_LENGTH, ANYTHING, Finder, Range
from confide.query.canonical import quote

__all__ = ["LARGEST_ADDED", "LARGEST_SQUARED", "bound_of"]

LARGEST_SQUARED: Final = 1e140
LARGEST_ADDED: Final = LARGEST_SQUARED**2
"""A noisy total is at most 2^61 times as large, or as its squares: far from the end of doubles."""
BY_TYPE: Final = {Function.LENGTH: ANY_LENGTH, Function.TO_INT: ANY_INT}


def bound_of(argument: Expression, finder: Finder, most: float = LARGEST_ADDED) -> Range:
    """Return where an argument lies, or refuse one that is unbounded, or beyond ``most``."""
    found = finder.find(argument)
    if found.is_empty:
        raise UnsupportedQuery(f"{quote(argument)} is always NULL; leave it out")
    if not found.is_bounded or _is_as_wide_as_its_type(argument, finder):
        raise UnsupportedQuery(
            f"{quote(argument)} has no bounds, so one person could change the answer without "
            "limit; write LEAST(GREATEST(..., low), high) around it, where NULL becomes low"
        )
    if found.largest > most:
        raise UnsupportedQuery(
            f"{quote(argument)} can be larger than {most:.0e}, so the answer or its "
            "interval might be infinite; write LEAST(GREATEST(..., low), high) around it, "
            "where NULL becomes low, or scale it"
        )
    return found


def _is_as_wide_as_its_type(argument: Expression, finder: Finder) -> bool:
    """Tell whether nothing but a type bounds a value: that of lengths, or of whole numbers."""
    found = finder.find(argument)
    is_wide = found.high - found.low >= ANY_LENGTH.high
    return is_wide and not _Strict(finder.columns).find(argument).is_bounded


class _Strict(Finder):
    """Finds ranges in which what a type can hold is no bound."""

    __slots__ = ()

    def _find(self, expression: Expression) -> Range:
        found = super()._find(expression)
        is_by_type = isinstance(expression, Call) and found == BY_TYPE.get(expression.function)
        return ANYTHING if is_by_type else found
