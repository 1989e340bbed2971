"""`COUNT(*)`, `COUNT(x)` and `COUNT(DISTINCT unit)`."""

from collections.abc import Collection, Sequence
from typing import ClassVar

from confide.aggregates.intervals import linear_interval
from confide.aggregates.needs import CountRows, CountUnits, Ends, Floats, Need, ReleasedColumns
from confide.aggregates.registry import AggregateFunction, Pattern, UnitForm, register
from confide.declare import Kind
from confide.errors import UnsupportedQuery
from confide.expressions.terms import AggregateTerm, Term, aggregate_term
from confide.expressions.tree import AggregateCall, Expression, Literal

__all__ = ["CountFunction", "CountUnitsFunction", "count", "count_units"]


@register
class CountFunction(AggregateFunction):
    """The number of rows, or of rows where the argument is not NULL."""

    name: ClassVar[str] = "COUNT"
    patterns: ClassVar[tuple[Pattern, ...]] = (Pattern("COUNT(*)"), Pattern("COUNT(x)"))
    summary: ClassVar[str] = "number of rows, or of rows where x is not NULL"
    is_linear: ClassVar[bool] = True
    is_count: ClassVar[bool] = True
    unit_form: ClassVar[UnitForm | None] = UnitForm.COUNT

    def simplify(self, arguments: tuple[Expression, ...]) -> tuple[Expression, ...]:
        """Drop a constant argument, so that COUNT(1) becomes COUNT(*), and refuse COUNT(NULL)."""
        match arguments:
            case (Literal(value=None),):
                raise UnsupportedQuery("`COUNT(NULL)` is always 0. Write `COUNT(*)`.")
            case (Literal(),):
                return ()
            case _:
                return arguments

    def result_kind(self, arguments: Sequence[Expression]) -> Kind:
        return Kind.INT

    def needs(self, call: AggregateCall, siblings: Collection[AggregateCall]) -> tuple[Need, ...]:
        return (CountRows(call.argument, call.where),)

    def estimate(self, call: AggregateCall, columns: ReleasedColumns) -> Floats:
        return columns.count(0)

    def interval(
        self,
        call: AggregateCall,
        columns: ReleasedColumns,
        noise: ReleasedColumns,
        confidence: float,
    ) -> Ends:
        return linear_interval(columns.count(0), noise.count(0), confidence)

    def explain(self, call: AggregateCall) -> str:
        return "is a noisy count of rows"

    def write(self, call: AggregateCall, arguments: Sequence[str], unit: str) -> str:
        return f"COUNT({', '.join(arguments) or '*'})"


@register
class CountUnitsFunction(CountFunction):
    """The number of units that have a row."""

    name: ClassVar[str] = "COUNT_UNITS"
    patterns: ClassVar[tuple[Pattern, ...]] = (Pattern("COUNT(DISTINCT unit)"),)
    summary: ClassVar[str] = "number of units that have a row"
    unit_form: ClassVar[UnitForm | None] = None

    def needs(self, call: AggregateCall, siblings: Collection[AggregateCall]) -> tuple[Need, ...]:
        return (CountUnits(call.where),)

    def explain(self, call: AggregateCall) -> str:
        return "is a noisy count of units"

    def write(self, call: AggregateCall, arguments: Sequence[str], unit: str) -> str:
        return f"COUNT(DISTINCT {unit})"


def count(what: Term | str | None = None) -> AggregateTerm:
    """Return the number of rows, or of rows where ``what`` is not NULL."""
    return aggregate_term(CountFunction.name, *(() if what is None else (what,)))


def count_units() -> AggregateTerm:
    """Return the number of units that have a row."""
    return aggregate_term(CountUnitsFunction.name)
