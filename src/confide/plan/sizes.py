"""Questions that would take the engine too long to read, refused before they are paid for."""

from dataclasses import dataclass, field
from typing import Final

from confide.errors import UnsupportedQuery
from confide.expressions.functions import Function
from confide.expressions.tree import Call, Column, Expression, parts_of
from confide.plan.ranges import Finder, Ranges
from confide.query.tree import Join, PerUnit, Query, Source

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
    sizes = _Sizes(Finder(ranges or {}))
    if any(sizes.measure(top).size > LARGEST for top in _expressions(query)):
        raise UnsupportedQuery(
            "this expression is too deep or too long: divisions, roots and casts inside one "
            "another, or a list of more than some 1,500 values; write fewer, or BETWEEN for a list"
        )


@dataclass(frozen=True, slots=True)
class _Size:
    """How many pieces there are when guards are written out; whether all columns have ranges."""

    size: int
    is_known: bool = True


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Measures expressions of one question, each part once; ``finder`` knows their ranges."""

    finder: Finder
    found: dict[int, _Size] = field(default_factory=dict)

    def measure(self, expression: Expression) -> _Size:
        known = self.found.get(id(expression))
        if known is None:
            known = self.found[id(expression)] = self._measure(expression)
        return known

    def _measure(self, expression: Expression) -> _Size:
        parts = [self.measure(part) for part in parts_of(expression)]
        is_known = all(part.is_known for part in parts)
        match expression:
            case Column(table=table, name=name):
                return _Size(1, (table, name) in self.finder.columns)
            case Call(function=function):
                copies = COPIES.get(function, (1,) * len(parts))
                total = sum(part.size * times for part, times in zip(parts, copies, strict=True))
                is_plain = is_known and self._is_plain(expression)
                twice = function in GUARDED and not is_plain
                return _Size(min(1 + total * (2 if twice else 1), LARGEST + 1), is_known)
            case _:
                return _Size(1 + sum(part.size for part in parts), is_known)

    def _is_plain(self, call: Call) -> bool:
        """Tell whether arithmetic is written without a guard: its range is bounded."""
        return call.function in PLAIN and self.finder.find(call).is_bounded


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
