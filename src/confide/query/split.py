"""Splits a query at its aggregates into a measured part and a public program.

The planner measures the aggregates over the rows, with noise. The public program then computes the
outputs, HAVING, ORDER BY, and LIMIT from the keys and the noisy aggregates, at no further cost.
"""

from dataclasses import dataclass

from confide.expressions.tree import AggregateCall, Expression, walk
from confide.query.tree import Order, Output, Query

__all__ = ["Program", "Split", "split_query"]


@dataclass(frozen=True, slots=True)
class Program:
    """The public program: the part of a query that is computed from noisy groups."""

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
    """A query split at its aggregates.

    ``aggregates`` are measured over the rows and groups of ``query``. They are distinct, in the
    order of their first occurrence in ``program``.
    """

    query: Query
    aggregates: tuple[AggregateCall, ...]
    program: Program


def split_query(query: Query) -> Split:
    """Return a query split at its aggregates."""
    program = Program.of(query)
    parts = (part for top in program.expressions for part in walk(top))
    aggregates = dict.fromkeys(part for part in parts if isinstance(part, AggregateCall))
    return Split(query, tuple(aggregates), program)
