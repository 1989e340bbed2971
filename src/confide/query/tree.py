"""The typed tree of a query that both front ends build, and the checks that both run."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from confide.aggregates import function_of
from confide.errors import UnsupportedQuery
from confide.expressions.construct import has_aggregate
from confide.expressions.tree import AggregateCall, Column, Expression, Key, walk

__all__ = [
    "MAX_LIMIT",
    "Join",
    "JoinKind",
    "Order",
    "Output",
    "PerUnit",
    "Query",
    "Scan",
    "Source",
    "check_counts",
    "check_key",
    "check_output_name",
    "check_outputs",
    "check_sort",
    "check_sorts",
    "find_duplicate",
    "fold_name",
    "is_selection",
]


@dataclass(frozen=True, slots=True)
class Scan:
    """All rows of a declared table; ``alias`` is its name in this query."""

    table: str
    alias: str


@dataclass(frozen=True, slots=True)
class PerUnit:
    """One row per unit, with exact statistics of the unit's rows, which are never released.

    ``outputs`` are named aggregates of the unit's rows, or functions of such aggregates.
    """

    source: "Source"
    where: Expression | None
    outputs: tuple["Output", ...]
    alias: str


class JoinKind(StrEnum):
    """The join type: whether left rows without a match are dropped or kept."""

    INNER = "inner"
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class Join:
    """Rows of ``left`` combined with rows of another table.

    A public table (``public`` is true) is joined on equality of the ``on`` pairs, left side first.
    Private tables are joined on the unit alone, and ``on`` is empty.
    """

    left: "Source"
    right: Scan | PerUnit
    kind: JoinKind
    public: bool
    on: tuple[tuple[Expression, Column], ...]


Source = Scan | PerUnit | Join


@dataclass(frozen=True, slots=True)
class Output:
    """A named column of the answer, or of a per-unit row."""

    name: str
    expression: Expression


@dataclass(frozen=True, slots=True)
class Order:
    """One sort key; ``descending`` puts the greatest value first."""

    expression: Expression
    descending: bool


@dataclass(frozen=True, slots=True)
class Query:
    """A complete query.

    ``where`` and ``keys`` are expressions over one row. ``outputs``, ``having``, and ``order`` are
    expressions over one group: functions of keys and aggregates, never of bare columns.
    """

    source: Source
    where: Expression | None
    keys: tuple[Expression, ...]
    outputs: tuple[Output, ...]
    having: Expression | None = None
    order: tuple[Order, ...] = ()
    limit: int | None = None


MAX_LIMIT: Final = 10**9

MAX_NAME_LENGTH: Final = 200
MAX_KEYS: Final = 16
MAX_OUTPUTS: Final = 200


def check_key(expression: Expression) -> Expression:
    """Return a group key, or raise UnsupportedQuery if it has an aggregate or no column."""
    if has_aggregate(expression):
        raise UnsupportedQuery(
            "A group key cannot contain an aggregate. To filter groups by an aggregate, use HAVING."
        )
    if not any(isinstance(part, Column) for part in walk(expression)):
        raise UnsupportedQuery("A group key must contain a column. Remove the constant.")
    return expression


def check_counts(keys: int, outputs: int) -> None:
    """Raise UnsupportedQuery for too many keys or columns.

    Front ends call this before the checks that compare all pairs.
    """
    if keys > MAX_KEYS or outputs > MAX_OUTPUTS:
        raise UnsupportedQuery(
            f"A query can have at most {MAX_KEYS} keys and {MAX_OUTPUTS} columns. Split the query."
        )


def check_sorts(sorts: int) -> None:
    """Raise UnsupportedQuery for too many sort keys.

    Sort keys need a limit, because each may repeat a long expression.
    """
    if sorts > MAX_OUTPUTS:
        raise UnsupportedQuery(f"A query can have at most {MAX_OUTPUTS} sort keys. Remove some.")


def check_output_name(name: str) -> str:
    """Return the name of an output column, or raise UnsupportedQuery for an unsuitable name."""
    if not name or len(name) > MAX_NAME_LENGTH or not name.isprintable():
        raise UnsupportedQuery(
            f"The name of a column must have 1 to {MAX_NAME_LENGTH} printable characters. Rename "
            "it with AS."
        )
    return name


def check_outputs(keys: Sequence[Expression], outputs: Sequence[Output]) -> None:
    """Raise UnsupportedQuery for output columns that cannot form an answer.

    That is, if there is none, if the query has neither a key nor an aggregate, if a column is
    always NULL, or if two columns have the same name.
    """
    if not outputs:
        raise UnsupportedQuery(
            "The query selects nothing. Select a key, or an aggregate such as `COUNT(*)`."
        )
    if not keys and not any(has_aggregate(output.expression) for output in outputs):
        raise UnsupportedQuery("Rows cannot be selected. Select an aggregate, such as `COUNT(*)`.")
    for output in outputs:
        if output.expression.kind is None:
            raise UnsupportedQuery(f"Column {output.name!r} is always NULL. Remove it.")
    duplicate = find_duplicate(outputs)
    if duplicate is not None:
        raise UnsupportedQuery(
            f"Two columns are called {outputs[duplicate].name!r}. Rename one of them with AS."
        )


def find_duplicate(outputs: Sequence[Output]) -> int | None:
    """Return the index of the first output with the folded name of an earlier one, or None."""
    folded = [fold_name(output.name) for output in outputs]
    return next((index for index, name in enumerate(folded) if name in folded[:index]), None)


def check_sort(expression: Expression) -> Expression:
    """Return a sort expression, or raise UnsupportedQuery if it has no key and no aggregate."""
    if not any(isinstance(part, Key | AggregateCall) for part in walk(expression)):
        raise UnsupportedQuery(
            "An answer cannot be sorted by a constant. Sort by a group key, an aggregate, or a "
            "column of the answer."
        )
    return expression


def is_selection(query: Query) -> bool:
    """Return whether a query selects the k most frequent keys and outputs nothing else.

    Such a query runs as a private selection, whose cost does not depend on the number of keys.
    """
    match query.order:
        case (Order(expression=AggregateCall() as aggregate, descending=True),):
            return (
                function_of(aggregate).is_count
                and query.limit is not None
                and query.having is None
                and all(isinstance(output.expression, Key) for output in query.outputs)
            )
        case _:
            return False


QUOTED_STRING: Final = re.compile(r"(?P<text>'[^']*')|[^']+|'")


def fold_name(name: str) -> str:
    """Return a name in lower case, except for quoted strings: 'A' and 'a' stay different.

    >>> fold_name("COUNT(*) FILTER (WHERE Ward = 'A')"), fold_name("It's N")
    ("count(*) filter (where ward = 'A')", "it's n")
    """
    return QUOTED_STRING.sub(lambda part: part[0] if part["text"] else part[0].lower(), name)
