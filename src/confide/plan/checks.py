"""Checks that refuse inexact integers and oversized expressions, before anything is charged.

Past 2^53, one double stands for several integers. Grouping or joining by such integers would merge
them, so `check_exact` refuses group keys and join columns that may be inexact.

Engines guard arithmetic against overflow and invalid arguments, and a guard may repeat its
argument. Nested guards can thus make the generated SQL exponentially longer than the query;
`check_sizes` limits its size.
"""

from dataclasses import dataclass, field
from typing import Final

from confide.declare import Kind
from confide.errors import UnsupportedQuery
from confide.expressions.date_formats import spell_date
from confide.expressions.functions import Function
from confide.expressions.tree import Call, Column, Expression, Literal, parts_of
from confide.plan.range_analysis import MAX_EXACT_INTEGER, RangeAnalysis, range_of
from confide.plan.range_arithmetic import UNBOUNDED, Range, Ranges
from confide.plan.text_ranges import length_range
from confide.query.canonical import short_text
from confide.query.tree import Join, PerUnit, Query, Source

__all__ = ["check_exact", "check_sizes"]

MAX_INT64: Final = 2**63 - 1
CHOICE_FUNCTIONS: Final = (Function.CASE, Function.COALESCE, Function.LEAST, Function.GREATEST)
INT64_FUNCTIONS: Final = (Function.FLOOR, Function.CEIL, Function.MODULO, Function.TO_INT)
"""Functions whose results engines hold in 64 bits; a result that does not fit becomes NULL."""


def check_exact(expression: Expression, ranges: Ranges, source: Source) -> None:
    """Refuse integers beyond 2^53 that engines may compute in doubles, which are inexact there.

    Privacy does not depend on this check, because generated SQL casts each result back to a 64-bit
    integer, so each row still has one key. But the answer would merge all integers that one double
    stands for.
    """
    if not _is_exact(expression, ranges, _per_unit_tables(source)):
        raise UnsupportedQuery(
            "Computed integers beyond 2^53 (about 9 * 10^15) are not exact, so rows cannot be "
            "grouped or joined by them. Use the column itself, or clamp the expression with "
            "`LEAST(GREATEST(expression, low), high)` and bounds closer to 0."
        )


def _is_exact(expression: Expression, ranges: Ranges, per_unit: frozenset[str]) -> bool:
    """Return whether engines compute an integer exactly, in 64 bits or in a double up to 2^53.

    An expression of any other kind counts as exact.
    """
    if expression.kind is not Kind.INT or range_of(expression, ranges).largest <= MAX_EXACT_INTEGER:
        return True
    match expression:
        case Column(table=table):
            return table not in per_unit
        case Literal(value=int(value)):
            return abs(value) <= MAX_INT64
        case Call(function=function, arguments=parts) if function in CHOICE_FUNCTIONS:
            values = [*parts[1::2], parts[-1]] if function is Function.CASE else parts
            return all(_is_exact(value, ranges, per_unit) for value in values)
        case Call(function=function):
            return function in INT64_FUNCTIONS
        case _:
            return False


def _per_unit_tables(source: Source) -> frozenset[str]:
    """Return the aliases of tables whose columns are computed per unit."""
    match source:
        case PerUnit(alias=alias):
            return frozenset({alias})
        case Join(left=left, right=right):
            return _per_unit_tables(left) | _per_unit_tables(right)
        case _:
            return frozenset()


MAX_EXPRESSION_SIZE: Final = 2_000
GUARDED_FUNCTIONS: Final = frozenset(
    {
        *(Function.ADD, Function.SUBTRACT, Function.MULTIPLY, Function.DIVIDE, Function.MODULO),
        *(Function.NEGATE, Function.ABS, Function.ROUND, Function.SQRT, Function.EXP, Function.LN),
        *(Function.TO_FLOAT, Function.TO_DATE, Function.LOG2, Function.LOG10, Function.POWER),
        *(Function.ASIN, Function.ACOS, Function.ADD_DAYS, Function.ADD_MONTHS),
    }
)
"""Functions whose guards may repeat their argument."""
ARGUMENT_COPIES: Final[dict[Function, tuple[int, ...]]] = {
    Function.DIVIDE: (1, 2),
    Function.MODULO: (1, 3),
    **dict.fromkeys((Function.LN, Function.LOG2, Function.LOG10), (2,)),
    Function.POWER: (4, 4),
    Function.ADD_DAYS: (2, 2),
    Function.ADD_MONTHS: (5, 2),
    Function.TO_DATE: (4,),
}
"""How often each argument counts, before a guard doubles the size; once in other functions."""
LENGTHENING_FUNCTIONS: Final = (Function.CONCAT, Function.REPLACE)
MAX_TEXT_LENGTH: Final = 65_536
"""The maximum number of characters of a row's string after a lengthening function."""
UNGUARDED_IF_BOUNDED: Final = frozenset(
    {
        *(Function.ADD, Function.SUBTRACT, Function.MULTIPLY, Function.DIVIDE),
        *(Function.NEGATE, Function.ABS),
    }
)
"""Guarded functions that need no guard if the result is known to be bounded."""


def check_sizes(query: Query, ranges: Ranges | None = None) -> None:
    """Refuse expressions that are too large once all guards are added, and overlong strings.

    ``ranges`` of the source's columns show where arithmetic stays bounded and needs no guard.
    """
    sizes = _Sizes(RangeAnalysis(_Columns(ranges or {})))
    if any(sizes.measure(top).size > MAX_EXPRESSION_SIZE for top in _expressions(query)):
        raise UnsupportedQuery(
            "This expression is too deep or too long. Nest fewer divisions, roots, and casts, and "
            "keep lists under 1,500 values. `BETWEEN` can replace a list."
        )


class _Columns(dict[tuple[str, str], Range]):
    """The known ranges of columns; any other column is unbounded."""

    def __missing__(self, key: tuple[str, str]) -> Range:
        return UNBOUNDED


@dataclass(frozen=True, slots=True)
class _Size:
    """An expression's size in nodes, with guards, and whether its columns' ranges are known."""

    size: int
    is_known: bool = True


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Measures the expressions of one query, each subexpression once.

    ``analysis`` holds their ranges, and ``found`` caches sizes by the `id` of the expression.
    """

    analysis: RangeAnalysis
    found: dict[int, _Size] = field(default_factory=dict)

    def measure(self, expression: Expression) -> _Size:
        """Return the size of an expression; that of a call is clipped to just above the limit."""
        known = self.found.get(id(expression))
        if known is None:
            known = self.found[id(expression)] = self._measure(expression)
        return known

    def _measure(self, expression: Expression) -> _Size:
        parts = [self.measure(part) for part in parts_of(expression)]
        is_known = all(part.is_known for part in parts)
        match expression:
            case Column(table=table, name=name):
                return _Size(1, (table, name) in self.analysis.columns)
            case Call(function=Function.STRFTIME, arguments=(day, Literal(value=str(form)))):
                return self.measure(spell_date(day, form))
            case Call(function=function):
                if function in LENGTHENING_FUNCTIONS:
                    self._check_length(expression)
                copies = ARGUMENT_COPIES.get(function, (1,) * len(parts))
                total = sum(part.size * times for part, times in zip(parts, copies, strict=True))
                is_unguarded = is_known and self._is_unguarded(expression)
                is_guarded = function in GUARDED_FUNCTIONS and not is_unguarded
                return _Size(
                    min(1 + total * (2 if is_guarded else 1), MAX_EXPRESSION_SIZE + 1), is_known
                )
            case _:
                return _Size(1 + sum(part.size for part in parts), is_known)

    def _check_length(self, call: Call) -> None:
        """Refuse a string that may exceed MAX_TEXT_LENGTH; it could fill an engine's memory."""
        if length_range(self.analysis.find(call)).high > MAX_TEXT_LENGTH:
            raise UnsupportedQuery(
                f"`{short_text(call)}` may have more than {MAX_TEXT_LENGTH:,} characters. "
                "Shorten its parts, as in `LEFT(x, 100)`, or declare `max_length` for the column."
            )

    def _is_unguarded(self, call: Call) -> bool:
        """Return whether arithmetic needs no guard, because its range is bounded."""
        return call.function in UNGUARDED_IF_BOUNDED and self.analysis.find(call).is_bounded


def _expressions(query: Query) -> list[Expression]:
    """Return every expression of a query that is not inside another one."""
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
