"""`MEDIAN`, `QUANTILE_CONT`, and `PERCENTILE_CONT`."""

from collections.abc import Collection, Sequence
from fractions import Fraction
from typing import ClassVar, Final

from confide.aggregates.needs import ChooseQuantiles, Ends, Floats, Need, ReleasedColumns
from confide.aggregates.registry import AggregateFunction, Pattern, numeric_kind, register
from confide.declare import Kind
from confide.errors import refusing
from confide.exact import Number, fraction
from confide.expressions.terms import AggregateTerm, Term, aggregate_term
from confide.expressions.tree import AggregateCall, Expression

__all__ = ["QuantileFunction", "median", "quantile"]

HALF: Final = Fraction(1, 2)


@register
class QuantileFunction(AggregateFunction):
    """The value below which a given fraction of the values lies."""

    name: ClassVar[str] = "QUANTILE_CONT"
    patterns: ClassVar[tuple[Pattern, ...]] = (
        Pattern("MEDIAN(x)", level=HALF),
        Pattern("QUANTILE_CONT(x, q)"),
        Pattern("PERCENTILE_CONT(q) WITHIN GROUP (ORDER BY x)"),
        Pattern(
            "PERCENTILE_CONT(q) WITHIN GROUP (ORDER BY x DESC)", is_descending=True, is_listed=False
        ),
    )
    summary: ClassVar[str] = "value below which a fraction q of the values lies"

    def result_kind(self, arguments: Sequence[Expression]) -> Kind:
        numeric_kind(arguments)
        return Kind.FLOAT

    def needs(self, call: AggregateCall, siblings: Collection[AggregateCall]) -> tuple[Need, ...]:
        (argument,) = call.arguments
        return (ChooseQuantiles(argument, call.where, (call.level or Fraction(0),)),)

    def estimate(self, call: AggregateCall, columns: ReleasedColumns) -> Floats:
        return columns.quantile(0).values

    def interval(
        self,
        call: AggregateCall,
        columns: ReleasedColumns,
        noise: ReleasedColumns,
        confidence: float,
    ) -> Ends:
        """Return the ends chosen together with the quantile."""
        ends = columns.quantile(0).ends
        if ends is None:
            raise TypeError("A quantile must be released with the ends of its interval.")
        return ends

    def explain(self, call: AggregateCall) -> str:
        return "is chosen by the exponential mechanism from counts by value"

    def write(self, call: AggregateCall, arguments: Sequence[str], unit: str) -> str:
        return f"{self.name}({', '.join(arguments)}, {float(call.level or 0)!r})"


def median(what: Term | str) -> AggregateTerm:
    """Return the median of a column or term."""
    return aggregate_term(QuantileFunction.name, what, quantile=HALF)


@refusing
def quantile(what: Term | str, q: Number) -> AggregateTerm:
    """Return the value below which a fraction ``q`` of the values lies."""
    level = fraction("q", q, "a number from 0 to 1")
    return aggregate_term(QuantileFunction.name, what, quantile=level)
