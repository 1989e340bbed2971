"""FROM, JOIN, WITH, and per-unit subqueries; SELECT lists and WHERE, also of the outer query."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from sqlglot import exp

from confide.errors import UnsupportedQuery
from confide.expressions.construct import check_condition
from confide.expressions.tree import Column, Expression, walk
from confide.query.canonical import default_name
from confide.query.scope import (
    UNIT,
    Member,
    Names,
    Pair,
    Tables,
    Unit,
    make_member,
    make_per_unit,
    start_tables,
)
from confide.query.sql.aggregates import read_own_statistic
from confide.query.sql.expressions import (
    Context,
    read_expression,
    read_integer,
    resolve_name,
    strip_parentheses,
)
from confide.query.sql.parse import Statement
from confide.query.tree import JoinKind, Output, check_output_name

__all__ = ["Item", "read_items", "read_tables", "read_where"]

SUBQUERY_ADVICE: Final = (
    "A subquery must return one row per unit: "
    "`(SELECT unit, SUM(x) AS t FROM table GROUP BY unit) AS name`."
)


@dataclass(frozen=True, slots=True)
class Item:
    """One SELECT item: its node, and its alias if it has one."""

    node: exp.Expr
    alias: str | None


@dataclass(frozen=True, slots=True)
class TableResolver:
    """The tables that FROM can name: declared tables, and the ``subqueries`` defined by WITH.

    The aliases of the tables in the tree are ``prefix`` and a number. Inside a per-unit subquery,
    ``prefix`` has more than one character.
    """

    statement: Statement
    names: Names
    subqueries: Mapping[str, exp.Select]
    prefix: str = "t"


def read_tables(statement: Statement, names: Names) -> Tables:
    """Return the tables of the outermost SELECT, or refuse a subquery in WITH that is not used."""
    resolver = TableResolver(statement, names, _read_with(statement, names))
    tables = _read_from(statement.root, resolver)
    used = {table.name.lower() for table in statement.root.find_all(exp.Table)}
    for name, select in resolver.subqueries.items():
        if name not in used:
            raise statement.refuse(select, f"The subquery {name!r} is never used. Remove it.")
    return tables


def read_items(statement: Statement, select: exp.Select) -> list[Item]:
    """Return the items of a SELECT list."""
    items = []
    for node in select.expressions:
        if type(node) is exp.Alias:
            statement.expect(node, "this", "alias")
            with statement.locating(node):
                items.append(Item(node.this, check_output_name(read_name(node.args["alias"]))))
        else:
            items.append(Item(node, None))
    return items


def read_name(node: exp.Expr) -> str:
    """Return an alias, or raise UnsupportedQuery if it needs quotes and has none."""
    if not isinstance(node, exp.Identifier) or not (node.quoted or node.name.isidentifier()):
        raise UnsupportedQuery(
            'A name that is not a single word needs double quotes, such as `AS "two words"`.'
        )
    return str(node.name)


def read_where(statement: Statement, select: exp.Select, tables: Tables) -> Expression | None:
    """Return the WHERE condition, if there is one."""
    node = select.args.get("where")
    if node is None:
        return None
    statement.expect(node, "this")
    context = Context(statement, tables.scope, "WHERE")
    with statement.locating(node):
        return check_condition(read_expression(node.this, context))


def _read_with(statement: Statement, names: Names) -> dict[str, exp.Select]:
    """Return the subqueries defined by WITH, by name in lower case."""
    clause = statement.root.args.get("with_")
    if clause is None:
        return {}
    statement.expect(clause, "expressions")
    found: dict[str, exp.Select] = {}
    for node in clause.expressions:
        statement.expect(node, "this", "alias")
        statement.expect(node.args["alias"], "this")
        name = node.alias.lower()
        if name in found or name in {table.lower() for table in names.tables}:
            raise statement.refuse(
                node, f"{node.alias!r} is already the name of a table. Use another name."
            )
        if type(node.this) is not exp.Select:
            raise statement.refuse(node, SUBQUERY_ADVICE)
        found[name] = node.this
    return found


def _read_from(select: exp.Select, resolver: TableResolver) -> Tables:
    statement = resolver.statement
    clause = select.args.get("from_")
    if clause is None:
        raise statement.refuse(select, "A query needs FROM and a declared table.")
    statement.expect(clause, "this")
    with statement.locating(clause.this):
        first = _read_member(clause.this, resolver, f"{resolver.prefix}1")
        tables = start_tables(first, resolver.prefix)
    for join in select.args.get("joins") or ():
        with statement.locating(join):
            tables = _read_join(join, tables, resolver)
    return tables


def _read_member(node: exp.Expr, resolver: TableResolver, alias: str) -> Member:
    """Convert one table or subquery in FROM."""
    statement = resolver.statement
    if type(node) is exp.Subquery:
        statement.expect(node, "this", "alias")
        if type(node.this) is not exp.Select:
            raise UnsupportedQuery(
                f"Parentheses in FROM can contain only a SELECT. {SUBQUERY_ADVICE}"
            )
        return _read_per_unit(node.this, resolver, _read_label(node, resolver) or "", alias)
    if type(node) is not exp.Table or not isinstance(node.this, exp.Identifier):
        raise UnsupportedQuery("FROM takes only declared tables, not functions, files, or values.")
    statement.expect(node, "this", "alias")
    label = _read_label(node, resolver) or node.name
    named = resolver.subqueries.get(node.name.lower())
    if named is not None:
        return _read_per_unit(named, resolver, label, alias)
    return make_member(resolver.names.table(node.name), label, alias)


def _read_label(node: exp.Expr, resolver: TableResolver) -> str | None:
    """Return the analyst's alias of a table or subquery, or None if it has none."""
    alias = node.args.get("alias")
    if alias is None:
        return None
    resolver.statement.expect(alias, "this")
    return read_name(alias.this)


def _read_per_unit(select: exp.Select, resolver: TableResolver, label: str, alias: str) -> Member:
    """Convert a SELECT that groups by the unit alone."""
    statement = resolver.statement
    if len(resolver.prefix) > 1:
        raise UnsupportedQuery("Per-unit subqueries cannot be nested. Write one subquery.")
    statement.expect(select, "expressions", "from_", "joins", "where", "group")
    tables = _read_from(select, replace(resolver, prefix=f"{alias}u"))
    items = read_items(statement, select)
    context = Context(statement, tables.scope, "SELECT", read_own_statistic)
    _check_grouping(select, items, context)
    unit, outputs = UNIT, []
    for item in items:
        if _is_unit(item.node, context):
            unit = item.alias or strip_parentheses(item.node).name
        else:
            expression = read_expression(item.node, context)
            name = check_output_name(item.alias or default_name(expression))
            outputs.append(Output(name, expression))
    where = read_where(statement, select, tables)
    with statement.locating(select):
        return make_per_unit(tables, where, outputs, label=label, alias=alias, unit=unit)


def _check_grouping(select: exp.Select, items: list[Item], context: Context) -> None:
    """Raise UnsupportedQuery unless a subquery groups by the unit alone.

    The unit may be given by its position in the SELECT list, by an alias, or by name.
    """
    statement = context.statement
    group = select.args.get("group")
    if group is None:
        raise statement.refuse(select, _explain_ungrouped(select))
    statement.expect(group, "expressions")
    match group.expressions:
        case [only] if (position := read_integer(only)) is not None:
            node = items[position - 1].node if 1 <= position <= len(items) else only
        case [exp.Column(table="") as column] if named := _find_alias(column.name, items):
            node = named
        case [only]:
            node = only
        case _:
            raise statement.refuse(
                group, f"A subquery must be grouped by the unit alone. {SUBQUERY_ADVICE}"
            )
    if not _is_unit(node, context):
        raise statement.refuse(
            group, f"A subquery must be grouped by the unit alone. {SUBQUERY_ADVICE}"
        )


def _explain_ungrouped(select: exp.Select) -> str:
    """Return the advice for a subquery without GROUP BY."""
    if any(node.find(exp.AggFunc) for node in select.expressions):
        return SUBQUERY_ADVICE
    first = select.args["from_"].this
    named = first.name if type(first) is exp.Table else "table"
    where = " WHERE ..." if select.args.get("where") else ""
    return (
        f"Rows and columns can be selected without a subquery. Write `FROM {named}{where}`. "
        f"{SUBQUERY_ADVICE}"
    )


def _find_alias(name: str, items: list[Item]) -> exp.Expr | None:
    matches = (item.node for item in items if (item.alias or "").lower() == name.lower())
    return next(matches, None)


def _is_unit(node: exp.Expr, context: Context) -> bool:
    """Return whether a node names the unit of a table whose rows are never missing."""
    found = resolve_name(node, context)
    return isinstance(found, Unit) and found.member.optional is False


JOIN_KINDS: Final = {
    ("", ""): JoinKind.INNER,
    ("", "INNER"): JoinKind.INNER,
    ("LEFT", ""): JoinKind.LEFT,
    ("LEFT", "OUTER"): JoinKind.LEFT,
}


def _read_join(node: exp.Expr, tables: Tables, resolver: TableResolver) -> Tables:
    resolver.statement.expect(node, "this", "side", "kind", "on", "using")
    style = (str(node.args.get("side") or ""), str(node.args.get("kind") or ""))
    kind = JOIN_KINDS.get(style)
    if kind is None:
        raise UnsupportedQuery(
            "Only INNER and LEFT joins are supported. Write `JOIN` or `LEFT JOIN`."
        )
    member = _read_member(node.this, resolver, tables.alias())
    using = node.args.get("using") or []
    if using:
        names = [_read_using(name) for name in using]
        pairs = [(tables.scope.find(name), _find(member, name)) for name in names]
        merged = frozenset(name.lower() for name in names)
        return tables.join(member, kind, pairs, merged)
    if node.args.get("on") is None:
        raise UnsupportedQuery(
            "A join needs a condition, such as `JOIN table ON left.x = table.y`."
        )
    both = Context(resolver.statement, tables.scope.plus(member), "ON")
    found: list[Pair] = []
    for part in _conjuncts(node.args["on"], resolver.statement):
        with resolver.statement.locating(part):
            found.append(_read_pair(part, both))
    return tables.join(member, kind, found)


def _read_using(node: exp.Expr) -> str:
    if not isinstance(node, exp.Identifier):
        raise UnsupportedQuery("USING takes the names of columns.")
    return str(node.name)


def _find(member: Member, name: str) -> Column | Unit:
    found = member.find(name)
    if found is None:
        raise UnsupportedQuery(
            f"Unknown column {name!r} in {member.label!r}. Join on a declared column."
        )
    return found


def _conjuncts(node: exp.Expr, statement: Statement) -> list[exp.Expr]:
    """Return the conditions that AND connects in an ON clause."""
    parts, waiting = [], [node]
    while waiting:
        part = strip_parentheses(waiting.pop())
        if type(part) is exp.And:
            statement.expect(part, "this", "expression")
            waiting += [part.expression, part.this]
        else:
            parts.append(part)
    return parts


def _read_pair(node: exp.Expr, both: Context) -> Pair:
    """Convert one equality in ON.

    It compares an expression over earlier tables with a column of the new one, or two units.
    """
    if type(node) is not exp.EQ:
        raise UnsupportedQuery(
            "Tables can be joined only on equal columns. Write `ON left.x = table.y`."
        )
    both.statement.expect(node, "this", "expression")
    new = both.scope.members[-1]
    sides = [node.this, node.expression]
    for left, right in (sides, sides[::-1]):
        column = resolve_name(right, both)
        if isinstance(column, Unit) and column.member == new:
            other = resolve_name(left, both)
            if isinstance(other, Unit) and other.member != new:
                return other, column
        if isinstance(column, Column) and column.table == new.source.alias:
            expression = read_expression(left, both)
            if _is_before(expression, new.source.alias):
                return expression, column
    raise UnsupportedQuery(
        "Each join condition must compare an expression over the earlier tables with a column of "
        f"{new.label!r}. Private tables must be joined on the unit alone."
    )


def _is_before(expression: Expression, alias: str) -> bool:
    """Return whether an expression has columns, but none of the table ``alias``."""
    tables = {part.table for part in walk(expression) if isinstance(part, Column)}
    return bool(tables) and alias not in tables
