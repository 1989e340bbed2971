"""Matching of parsed calls against the patterns of registered aggregates.

A pattern is SQL in which x, y, q, and unit are variables, such as "QUANTILE_CONT(x, q)". Patterns
go through the same parser as the analyst's query, so both are compared as trees.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

from confide.aggregates import AGGREGATES, AggregateFunction, Pattern

__all__ = ["PatternMatch", "is_registered", "match_aggregate", "unit_types"]

VARIABLES: Final = frozenset({"x", "y", "q", "unit"})
OPERANDS: Final = frozenset({"this", "expression", "expressions"})
MEANINGLESS: Final = frozenset({"big_int", "nulls_first"})
"""Node arguments that the parser sets and that do not change an aggregate."""


@dataclass(slots=True)
class PatternMatch:
    """A pattern that matches a call, and the nodes that match its variables (``parts``).

    ``pairs`` lists the nodes of the call that were compared. Each comes with the names of the
    arguments that it may have: those of the pattern's node, and those without meaning.
    """

    function: AggregateFunction
    pattern: Pattern
    parts: dict[str, exp.Expr] = field(default_factory=dict)
    pairs: list[tuple[exp.Expr, frozenset[str]]] = field(default_factory=list)

    @property
    def unread(self) -> int:
        """The number of arguments of the call that the pattern lacks."""
        return sum(len(_arguments(node) - known) for node, known in self.pairs)


def match_aggregate(node: exp.Expr) -> PatternMatch | None:
    """Return the most specific match of a call, or None.

    That is a match with the most nodes other than variables. Ties are broken by the fewest unread
    arguments.
    """
    matches = [match for match in _candidates() if _match_node(_template(match), node, match)]
    return max(matches, key=lambda match: (len(match.pairs), -match.unread), default=None)


def is_registered(node: exp.Expr) -> bool:
    """Return whether a node calls the same function as some aggregate pattern."""
    return any(_has_name(_template(match), node) for match in _candidates())


def unit_types() -> frozenset[type[exp.Expr]]:
    """Return the node types of the calls that aggregate one unit's rows in a per-unit subquery."""
    return frozenset(
        type(_template(match)) for match in _candidates() if match.function.unit_form is not None
    )


def _candidates() -> Iterator[PatternMatch]:
    for function in AGGREGATES.values():
        yield from (PatternMatch(function, pattern) for pattern in function.patterns)


def _template(match: PatternMatch) -> exp.Expr:
    return _parse(match.pattern.text)


@lru_cache(maxsize=1_024)
def _parse(text: str) -> exp.Expr:
    (select,) = DuckDB().parse(f"SELECT {text}")
    if select is None:
        raise ValueError(f"{text} is not SQL")
    found: exp.Expr = select.expressions[0]
    return found


def _arguments(node: exp.Expr) -> frozenset[str]:
    return frozenset(name for name, value in node.args.items() if value) - MEANINGLESS


def _has_name(template: exp.Expr, node: exp.Expr) -> bool:
    """Return whether two nodes call the same function.

    The type of a node identifies the function. If the parser does not know it, the name does.
    """
    if type(template) is not type(node):
        return False
    return type(node) is not exp.Anonymous or template.name.upper() == node.name.upper()


def _match_node(template: exp.Expr, node: exp.Expr, match: PatternMatch) -> bool:
    """Return whether two nodes match, and record in ``match`` the nodes of the variables."""
    if isinstance(template, exp.Column) and template.name in VARIABLES:
        match.parts[template.name] = node
        return True
    if not _has_name(template, node):
        return False
    known, given = _arguments(template), _arguments(node)
    if not known <= given or (given - known) & OPERANDS:
        return False
    match.pairs.append((node, known | MEANINGLESS))
    compared = known - {"this"} if type(node) is exp.Anonymous else known  # `this` is its name
    return all(_match_value(template.args[name], node.args[name], match) for name in compared)


def _match_value(template: Any, value: Any, match: PatternMatch) -> bool:
    match template, value:
        case exp.Expr(), exp.Expr():
            return _match_node(template, value, match)
        case list(), list():
            return len(template) == len(value) and all(
                _match_value(part, given, match)
                for part, given in zip(template, value, strict=True)
            )
        case _:
            return bool(template == value)
