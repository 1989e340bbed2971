"""Relational nodes, `Query`, and the checks across its parts."""

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
    "MOST_ROWS",
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
    "check_outputs",
    "check_sorted",
    "check_sorts",
    "find_twice",
    "fold_name",
    "is_selection",
    "name_output",
]


@dataclass(frozen=True, slots=True)
class Scan:
    """All rows of a declared table; ``alias`` is its name in this query."""

    table: str
    alias: str


@dataclass(frozen=True, slots=True)
class PerUnit:
    """One row for each unit: exact statistics of its own rows, which nobody sees.

    ``outputs`` are aggregates over the unit's rows (or functions of them) under new names.
    """

    source: "Source"
    where: Expression | None
    outputs: tuple["Output", ...]
    alias: str


class JoinKind(StrEnum):
    """Which rows of the left side survive a join without a partner."""

    INNER = "inner"
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class Join:
    """Rows of ``left`` with those of another table.

    With a public table (``public`` is true) on equality of ``on`` pairs, left side first; between
    private tables on the unit alone, where ``on`` is empty.
    """

    left: "Source"
    right: Scan | PerUnit
    kind: JoinKind
    public: bool
    on: tuple[tuple[Expression, Column], ...]


Source = Scan | PerUnit | Join


@dataclass(frozen=True, slots=True)
class Output:
    """A column of the answer (or of a per-unit row): its name and what it is."""

    name: str
    expression: Expression


@dataclass(frozen=True, slots=True)
class Order:
    """A sort by one expression; ``descending`` puts the greatest first."""

    expression: Expression
    descending: bool


@dataclass(frozen=True, slots=True)
class Query:
    """A whole question.

    ``where`` and ``keys`` are expressions of a row; ``outputs``, ``having`` and ``order`` are of a
    group: they hold keys, aggregates and functions of both, never a bare column.
    """

    source: Source
    where: Expression | None
    keys: tuple[Expression, ...]
    outputs: tuple[Output, ...]
    having: Expression | None = None
    order: tuple[Order, ...] = ()
    limit: int | None = None


MOST_ROWS: Final = 10**9

LONGEST_NAME: Final = 200
MOST_KEYS: Final = 16
MOST_OUTPUTS: Final = 200


def check_key(expression: Expression) -> Expression:
    """Return a group key, or refuse what cannot be one."""
    if has_aggregate(expression):
        raise UnsupportedQuery("groups are made of rows, before any aggregate; use HAVING")
    if not any(isinstance(part, Column) for part in walk(expression)):
        raise UnsupportedQuery("a group key must be made of columns; leave the constant out")
    return expression


def check_counts(keys: int, outputs: int) -> None:
    """Refuse more keys or columns than any answer needs, before they are compared."""
    if keys > MOST_KEYS or outputs > MOST_OUTPUTS:
        raise UnsupportedQuery(
            f"an answer has at most {MOST_KEYS} keys and {MOST_OUTPUTS} columns; ask in parts"
        )


def check_sorts(sorts: int) -> None:
    """Refuse to sort by more than any answer has: each may repeat a long column."""
    if sorts > MOST_OUTPUTS:
        raise UnsupportedQuery(f"an answer is sorted by at most {MOST_OUTPUTS} things")


def name_output(name: str) -> str:
    """Return the name of a column of the answer, or refuse one that could not be shown."""
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise UnsupportedQuery(
            f"a column of the answer needs a printable name of at most {LONGEST_NAME} characters; "
            "give it one with AS"
        )
    return name


def check_outputs(keys: Sequence[Expression], outputs: Sequence[Output]) -> None:
    """Refuse an answer without content, or with two columns of one name."""
    if not outputs:
        raise UnsupportedQuery("nothing is asked; select a key or an aggregate such as COUNT(*)")
    if not keys and not any(has_aggregate(output.expression) for output in outputs):
        raise UnsupportedQuery("rows are never shown; select an aggregate such as COUNT(*)")
    for output in outputs:
        if output.expression.kind is None:
            raise UnsupportedQuery(f"{output.name!r} is always NULL; leave it out")
    twice = find_twice(outputs)
    if twice is not None:
        raise UnsupportedQuery(
            f"two columns of the answer are called {outputs[twice].name!r}; rename one with AS"
        )


def find_twice(outputs: Sequence[Output]) -> int | None:
    """Return the place of the first column whose name another before it has."""
    folded = [fold_name(output.name) for output in outputs]
    return next((place for place, name in enumerate(folded) if name in folded[:place]), None)


def check_sorted(expression: Expression) -> Expression:
    """Return what an answer is sorted by, or refuse a constant."""
    if not any(isinstance(part, Key | AggregateCall) for part in walk(expression)):
        raise UnsupportedQuery(
            "an answer is sorted by keys, aggregates and its own columns; name one of them"
        )
    return expression


def is_selection(query: Query) -> bool:
    """Tell whether a question asks for the k most frequent keys and shows nothing else.

    Such a question is answered by private selection, whose cost does not grow with the keys.
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


QUOTED: Final = re.compile(r"(?P<text>'[^']*')|[^']+|'")


def fold_name(name: str) -> str:
    """Return a name in lower case, but for the texts that it quotes: 'A' and 'a' differ.

    >>> fold_name("COUNT(*) FILTER (WHERE Ward = 'A')"), fold_name("It's N")
    ("count(*) filter (where ward = 'A')", "it's n")
    """
    return QUOTED.sub(lambda part: part[0] if part["text"] else part[0].lower(), name)
