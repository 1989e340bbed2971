"""`SUM` and `AVG`."""

from collections.abc import Collection, Sequence
from typing import ClassVar

from confide.aggregates.intervals import linear_interval, mean_interval
from confide.aggregates.needs import (
    CountRows,
    Ends,
    Floats,
    Mask,
    Need,
    ReleasedColumns,
    SumValues,
)
from confide.aggregates.registry import (
    AggregateFunction,
    Pattern,
    UnitForm,
    function_of,
    numeric_kind,
    register,
)
from confide.declare import Kind
from confide.expressions.construct import make_call
from confide.expressions.functions import Function
from confide.expressions.terms import AggregateTerm, Term, aggregate_term
from confide.expressions.tree import AggregateCall, Expression

__all__ = ["MeanFunction", "SumFunction", "mean", "sum"]


def _as_number(arguments: tuple[Expression, ...]) -> tuple[Expression, ...]:
    """Return the arguments with integers 0 and 1 for a Boolean."""
    return tuple(
        make_call(Function.TO_INT, argument) if argument.kind is Kind.BOOL else argument
        for argument in arguments
    )


@register
class SumFunction(AggregateFunction):
    """The sum of the values.

    If the query also has a mean, variance, or standard deviation of the same values in the same
    rows, the sum follows from totals that both need: the count, and the centered sum.
    """

    name: ClassVar[str] = "SUM"
    patterns: ClassVar[tuple[Pattern, ...]] = (Pattern("SUM(x)"),)
    summary: ClassVar[str] = "sum of the values"
    is_linear: ClassVar[bool] = True
    unit_form: ClassVar[UnitForm | None] = UnitForm.SUM

    def simplify(self, arguments: tuple[Expression, ...]) -> tuple[Expression, ...]:
        return _as_number(arguments)

    def result_kind(self, arguments: Sequence[Expression]) -> Kind:
        return numeric_kind(arguments)

    def needs(self, call: AggregateCall, siblings: Collection[AggregateCall]) -> tuple[Need, ...]:
        (argument,) = call.arguments
        is_shared = any(
            function_of(other).is_centered
            and (other.arguments, other.where) == (call.arguments, call.where)
            for other in siblings
        )
        if not is_shared:
            return (SumValues(argument, call.where, centered=False),)
        return CountRows(argument, call.where), SumValues(argument, call.where)

    def estimate(self, call: AggregateCall, columns: ReleasedColumns) -> Floats:
        """Return the unbiased sum; if the total is centered, add count times center."""
        if len(columns) == 1:
            total = columns.sum(0)
            return total.steps * total.step
        total = columns.sum(1)
        return total.steps * total.step + total.center * columns.count(0)

    def interval(
        self,
        call: AggregateCall,
        columns: ReleasedColumns,
        noise: ReleasedColumns,
        confidence: float,
    ) -> Ends:
        estimate, added = self.estimate(call, columns), self.estimate(call, noise)
        return linear_interval(estimate, added, confidence)

    def explain(self, call: AggregateCall) -> str:
        return "adds up the values"


@register
class MeanFunction(AggregateFunction):
    """The mean of the values, which stays within their range."""

    name: ClassVar[str] = "AVG"
    patterns: ClassVar[tuple[Pattern, ...]] = (Pattern("AVG(x)"),)
    summary: ClassVar[str] = "mean of the values"
    is_centered: ClassVar[bool] = True
    unit_form: ClassVar[UnitForm | None] = UnitForm.MEAN

    def simplify(self, arguments: tuple[Expression, ...]) -> tuple[Expression, ...]:
        return _as_number(arguments)

    def result_kind(self, arguments: Sequence[Expression]) -> Kind:
        numeric_kind(arguments)
        return Kind.FLOAT

    def needs(self, call: AggregateCall, siblings: Collection[AggregateCall]) -> tuple[Need, ...]:
        (argument,) = call.arguments
        return CountRows(argument, call.where), SumValues(argument, call.where)

    def estimate(self, call: AggregateCall, columns: ReleasedColumns) -> Floats:
        return columns.sum(1).mean(columns.count(0))

    def interval(
        self,
        call: AggregateCall,
        columns: ReleasedColumns,
        noise: ReleasedColumns,
        confidence: float,
    ) -> Ends:
        total = columns.sum(1)
        low, high = mean_interval(
            total, columns.count(0), noise.sum(1).steps, noise.count(0), confidence
        )
        return total.center + total.step * low, total.center + total.step * high

    def explain(self, call: AggregateCall) -> str:
        return "divides a noisy sum, taken about the middle of the range, by a noisy count"

    def is_clipped(self, call: AggregateCall, columns: ReleasedColumns) -> Mask:
        return columns.sum(1).is_outside(columns.count(0))


def sum(what: Term | str) -> AggregateTerm:  # noqa: A001  # the word that users know
    """Return the sum of a column or term."""
    return aggregate_term(SumFunction.name, what)


def mean(what: Term | str) -> AggregateTerm:
    """Return the mean of a column or term."""
    return aggregate_term(MeanFunction.name, what)
