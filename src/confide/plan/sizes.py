"""Questions that would take the engine too long to read, refused before they are paid for."""

from typing import Final

from confide.errors import UnsupportedQuery
from confide.plan.ranges import Ranges, range_of
from confide.query.functions import Function
from confide.query.tree import (
    Aggregate,
    Call,
    Column,
    Expression,
    Join,
    PerUnit,
    Query,
    Source,
    walk,
)

__all__ = ["check_sizes"]

LARGEST: Final = 2_000
GUARDED: Final = frozenset(
    {
        *(Function.ADD, Function.SUBTRACT, Function.MULTIPLY, Function.DIVIDE, Function.MODULO),
        *(Function.NEGATE, Function.ABS, Function.ROUND, Function.SQRT, Function.EXP, Function.LN),
        *(Function.TO_FLOAT, Function.TO_DATE),
    }
)
"""Functions whose guards may write their argument twice."""
COPIES: Final[dict[Function, tuple[int, ...]]] = {
    Function.DIVIDE: (1, 2),
    Function.MODULO: (1, 3),
    Function.LN: (2,),
    Function.TO_DATE: (4,),
}
"""How often their arguments stand in what an engine reads, where NULLIF is a CASE."""
PLAIN: Final = frozenset(
    {
        *(Function.ADD, Function.SUBTRACT, Function.MULTIPLY, Function.DIVIDE),
        *(Function.NEGATE, Function.ABS),
    }
)
"""Those of them whose guard is left out where the result is bounded."""


def check_sizes(query: Query, ranges: Ranges | None = None) -> None:
    """Refuse expressions that are too large once every guard is written out.

    ``ranges`` of the source's columns tell where arithmetic stays bounded and needs no guard.
    """
    for top in _expressions(query):
        if _size(top, ranges or {}) > LARGEST:
            raise UnsupportedQuery(
                "this expression is too deep: divisions, roots and casts inside one another; "
                "write it with fewer of them"
            )


def _size(expression: Expression, ranges: Ranges) -> int:
    """Return how many pieces the expression has when guards are written out, or more."""
    match expression:
        case Call(function=function, arguments=arguments):
            copies = COPIES.get(function, (1,) * len(arguments))
            sizes = (_size(argument, ranges) for argument in arguments)
            total = sum(size * times for size, times in zip(sizes, copies, strict=True))
            twice = function in GUARDED and not _is_plain(expression, ranges)
            return min(1 + total * (2 if twice else 1), LARGEST + 1)
        case Aggregate(argument=argument, where=where):
            return 1 + sum(_size(part, ranges) for part in (argument, where) if part is not None)
        case _:
            return 1


def _is_plain(call: Call, ranges: Ranges) -> bool:
    """Tell whether arithmetic is written without a guard: its range is known and bounded."""
    columns = {(part.table, part.name) for part in walk(call) if isinstance(part, Column)}
    known = call.function in PLAIN and columns <= ranges.keys()
    return known and range_of(call, ranges).is_bounded


def _expressions(query: Query) -> list[Expression]:
    tops = [*query.keys, *(output.expression for output in query.outputs)]
    tops += [order.expression for order in query.order]
    tops += [part for part in (query.where, query.having) if part is not None]
    return tops + _source_expressions(query.source)


def _source_expressions(source: Source) -> list[Expression]:
    match source:
        case PerUnit(source=inner, where=where, outputs=outputs):
            tops = [output.expression for output in outputs]
            tops += [where] if where is not None else []
            return tops + _source_expressions(inner)
        case Join(left=left, right=right, on=pairs):
            tops = [part for part, _ in pairs]
            return tops + _source_expressions(left) + _source_expressions(right)
        case _:
            return []
