"""Cuts a query at its aggregates: below is what is measured, above is the public program."""

from dataclasses import dataclass

from confide.expressions.tree import AggregateCall, Expression, walk
from confide.query.tree import Order, Output, Query

__all__ = ["Program", "Split", "split_query"]


@dataclass(frozen=True, slots=True)
class Program:
    """The part of a query that is computed from noisy groups, for free: the public program."""

    outputs: tuple[Output, ...]
    having: Expression | None
    order: tuple[Order, ...]
    limit: int | None

    @classmethod
    def of(cls, query: Query) -> "Program":
        """Return the public program of a query."""
        return cls(query.outputs, query.having, query.order, query.limit)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns of the answer."""
        return tuple(output.name for output in self.outputs)

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """Every expression that the program computes."""
        having = () if self.having is None else (self.having,)
        return (
            *(output.expression for output in self.outputs),
            *having,
            *(order.expression for order in self.order),
        )


@dataclass(frozen=True, slots=True)
class Split:
    """A query cut at its aggregates.

    ``aggregates`` are measured over the rows and groups of ``query``, in order of first occurrence.
    """

    query: Query
    aggregates: tuple[AggregateCall, ...]
    program: Program


def split_query(query: Query) -> Split:
    """Return a query cut at its aggregates."""
    program = Program.of(query)
    parts = (part for top in program.expressions for part in walk(top))
    aggregates = dict.fromkeys(part for part in parts if isinstance(part, AggregateCall))
    return Split(query, tuple(aggregates), program)
