"""Expression nodes, with traversal and substitution.

Nodes are frozen and typed. A tree of a query contains only declared names and the functions in
`functions`, with arguments of suitable types: they are checked when the tree is built. So code that
traverses a tree needs no further checks.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from fractions import Fraction

from confide.declare import Kind
from confide.expressions.functions import Function

__all__ = [
    "AggregateCall",
    "Call",
    "Column",
    "Expression",
    "Key",
    "Literal",
    "Value",
    "parts_of",
    "size_of",
    "substitute",
    "walk",
]

Value = int | float | str | bool | date | None


@dataclass(frozen=True, slots=True)
class Column:
    """A column of one of the query's tables, by the table's alias in this query."""

    table: str
    name: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant from the analyst's query."""

    value: Value
    kind: Kind | None  # None: the untyped NULL


@dataclass(frozen=True, slots=True)
class Call:
    """A function of other expressions.

    The arguments of CASE are condition, value, condition, value, ..., otherwise; those of IN are
    the expression and the literals. LIKE takes a literal pattern; ROUND and SUBSTR take literal
    numbers. ``size`` is the number of nodes from this one down, each counted as often as it occurs.
    It is cached, as is the hash, because one object may occur in a tree many times.
    """

    function: Function
    arguments: tuple["Expression", ...]
    kind: Kind
    size: int = field(init=False, repr=False, compare=False)
    hashed: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", 1 + sum(map(size_of, self.arguments)))
        object.__setattr__(self, "hashed", hash((self.function, self.arguments, self.kind)))

    def __hash__(self) -> int:
        return self.hashed

    def __reduce__(self) -> tuple[type["Call"], tuple[object, ...]]:
        return Call, (self.function, self.arguments, self.kind)  # hashes differ between processes


@dataclass(frozen=True, slots=True)
class Key:
    """The value of a group key, by its index among the query's keys."""

    index: int
    kind: Kind


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """An aggregate of the rows in a group for which ``where`` is true (by default, of all rows).

    ``function`` is the name of the aggregate. COUNT without an argument counts all these rows; with
    an argument, it counts those where the argument is not NULL. ``level`` is the level of a
    quantile, from 0 to 1.
    """

    function: str
    arguments: tuple["Expression", ...]
    where: "Expression | None"
    kind: Kind
    level: Fraction | None = None

    @property
    def argument(self) -> "Expression | None":
        """The first argument, which for most aggregates is the only one."""
        return self.arguments[0] if self.arguments else None


Expression = Column | Literal | Call | Key | AggregateCall


def size_of(expression: Expression) -> int:
    """Return the number of nodes of an expression, from the cached sizes of its calls."""
    match expression:
        case Call(size=size):
            return size
        case AggregateCall(arguments=arguments, where=where):
            return 1 + sum(size_of(part) for part in (*arguments, where) if part is not None)
        case Column() | Literal() | Key():
            return 1


def parts_of(expression: Expression) -> tuple[Expression, ...]:
    """Return the direct children of an expression."""
    match expression:
        case Call(arguments=arguments):
            return arguments
        case AggregateCall(arguments=arguments, where=where):
            return arguments if where is None else (*arguments, where)
        case Column() | Literal() | Key():
            return ()


def walk(expression: Expression) -> Iterator[Expression]:
    """Yield the expression and all nodes below it, each object only once and after one parent."""
    seen: set[int] = set()
    ahead = [expression]
    while ahead:
        part = ahead.pop()
        if id(part) not in seen:
            seen.add(id(part))
            yield part
            ahead.extend(reversed(parts_of(part)))


def substitute(expression: Expression, replacements: Mapping[Expression, Expression]) -> Expression:
    """Return the expression with the keys of ``replacements`` replaced by their values.

    If a node is replaced, nothing below it is. Nothing inside of an aggregate is replaced.
    """
    if expression in replacements:
        return replacements[expression]
    if isinstance(expression, Call):
        parts = tuple(substitute(argument, replacements) for argument in expression.arguments)
        return replace(expression, arguments=parts)
    return expression
