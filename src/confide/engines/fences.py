"""Fences between the layers of a statement, for planners that dissolve one layer into the next.

PostgreSQL puts the expression of an inner selection wherever an outer one names it, and computes it
each time. Statements here have several layers, so an expression named twice in each of them would
be computed very often. OFFSET '0' keeps a layer whole. It is written as a text, since a number is
cast to the type of an offset, and before casts are computed PostgreSQL cannot see that nothing is
skipped: then only one process reads the table.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from sqlglot import expressions as sql

from confide.engines.expressions import Sql

__all__ = ["add_fences"]

HEAVY: Final = 12
"""From so many nodes on, an expression is not computed twice."""

Weights = Mapping[str, int]
Views = Mapping[str, sql.Select]
NO_VIEWS: Final[Views] = MappingProxyType({})
WHOLE: Final = ("group", "having", "distinct", "limit", "offset")
"""What a selection has that no planner dissolves."""


def add_fences(select: sql.Select, views: Views = NO_VIEWS) -> Weights:
    """Fence off each nested selection of which some heavy expression is named more than once.

    ``views`` are selections that tables are the names of. Returns how many nodes stand behind each
    name that the selection shows.
    """
    for part in select.ctes:
        if isinstance(part.this, sql.Select):
            add_fences(part.this, views)
    start = select.args.get("from_")
    inner = start.this if start is not None else None
    behind: Weights = {}
    for source in (inner, *(join.this for join in select.args.get("joins") or ())):
        if isinstance(source, sql.Subquery):
            behind = {**behind, **_enter(select, source, views)}
        elif isinstance(source, sql.Table) and source.name in views:
            behind = {**behind, **_look_ups(views[source.name])}
    if any(select.args.get(key) for key in WHOLE) or select.find(sql.Window, sql.AggFunc):
        return {}
    weights = dict(behind) if select.is_star else {}
    for shown in select.expressions:
        if isinstance(shown, sql.Alias):
            weights[shown.alias] = _weight(shown.this, behind)
        elif isinstance(shown, sql.Column):
            weights[shown.name] = behind.get(shown.name, 1)
    return weights


def _look_ups(view: sql.Select) -> Weights:
    """Return the columns of a view that are looked up in a long list, which is what costs most.

    What else a view computes is cheaper than a fence.
    """
    weights = {shown.alias: len(_longest_list(shown)) for shown in view.expressions}
    return {name: length for name, length in weights.items() if length >= HEAVY}


def _longest_list(shown: Sql) -> list[Sql]:
    return max((found.expressions for found in shown.find_all(sql.In)), key=len, default=[])


def _enter(select: sql.Select, source: sql.Subquery, views: Views) -> Weights:
    inner = source.this
    if not isinstance(inner, sql.Select):
        return {}
    weights = add_fences(inner, views)
    named = [node.name for node in _own_columns(select)]
    if any(weight >= HEAVY and named.count(name) > 1 for name, weight in weights.items()):
        inner.set("offset", sql.Offset(expression=sql.Literal.string("0")))
        return {}
    return weights


def _own_columns(select: sql.Select) -> list[sql.Column]:
    """Return the columns that a selection names itself, not in the selections it reads."""
    parts: list[Sql] = list(select.expressions)
    parts += [join.args["on"] for join in select.args.get("joins") or () if join.args.get("on")]
    parts += [select.args[key] for key in ("where", "group", "having") if select.args.get(key)]
    return [column for part in parts for column in part.find_all(sql.Column)]


def _weight(expression: Sql, behind: Weights) -> int:
    names = (node.name for node in expression.find_all(sql.Column))
    return sum(1 for _ in expression.walk()) + sum(behind.get(name, 1) - 1 for name in names)
