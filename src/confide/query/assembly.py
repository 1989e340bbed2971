"""The last step of every front end: the parts of a question, checked against each other."""

from collections.abc import Sequence
from typing import Final

from confide.errors import UnsupportedQuery
from confide.query.canonical import fold_name
from confide.query.construction import has_aggregate
from confide.query.functions import Aggregation
from confide.query.tree import (
    Aggregate,
    Column,
    Expression,
    Key,
    Order,
    Output,
    Query,
    walk,
)

__all__ = [
    "MOST_ROWS",
    "check_counts",
    "check_key",
    "check_outputs",
    "check_sorted",
    "check_sorts",
    "find_twice",
    "is_selection",
    "name_output",
]

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
    if not any(isinstance(part, Key | Aggregate) for part in walk(expression)):
        raise UnsupportedQuery(
            "an answer is sorted by keys, aggregates and its own columns; name one of them"
        )
    return expression


def is_selection(query: Query) -> bool:
    """Tell whether a question asks for the k most frequent keys and shows nothing else.

    Such a question is answered by private selection, whose cost does not grow with the keys.
    """
    match query.order:
        case (Order(expression=Aggregate(function=function), descending=True),):
            return (
                function in (Aggregation.COUNT, Aggregation.COUNT_UNITS)
                and query.limit is not None
                and query.having is None
                and all(isinstance(output.expression, Key) for output in query.outputs)
            )
        case _:
            return False
