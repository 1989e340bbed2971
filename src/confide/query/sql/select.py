"""SELECT, GROUP BY, HAVING, ORDER BY and LIMIT."""

from dataclasses import replace

from sqlglot import exp

from confide.errors import UnsupportedQuery
from confide.expressions.construct import check_condition, lift_keys
from confide.expressions.tree import Expression
from confide.query.canonical import describe
from confide.query.scope import Names, Scope
from confide.query.sql.aggregates import read_statistic
from confide.query.sql.expressions import Here, read_expression, read_whole
from confide.query.sql.from_clause import Item, read_items, read_tables, read_where
from confide.query.sql.parse import Statement, parse_statement
from confide.query.tree import (
    MOST_ROWS,
    Order,
    Output,
    Query,
    check_counts,
    check_key,
    check_outputs,
    check_sorted,
    check_sorts,
    find_twice,
    fold_name,
    name_output,
)

__all__ = ["read_sql"]


def read_sql(text: str, names: Names) -> Query:
    """Return the question that a text asks, with every name and type known.

    Reads no data: what is accepted depends on the text and the declared names alone. Everything
    that has no place in the tree is refused.

    Raises:
        UnsupportedQuery: something in the text is not answered; the message underlines it.
        UnknownName: a table or column was never declared.
    """
    statement = parse_statement(text)
    select = statement.root
    statement.expect(
        select,
        *("with_", "expressions", "distinct", "from_", "joins", "where", "group"),
        *("having", "order", "limit"),
    )
    tables = read_tables(statement, names)
    where = read_where(statement, select, tables)
    items = read_items(statement, select)
    keys = _read_keys(statement, items, tables.scope)
    check_counts(len(keys), len(items))
    outputs = [_read_output(item, keys, statement, tables.scope) for item in items]
    twice = find_twice(outputs)
    with statement.placing(select if twice is None else items[twice].node):
        check_outputs(keys, outputs)
    here = Here(
        statement,
        tables.scope,
        "HAVING",
        read_statistic,
        {fold_name(output.name): output.expression for output in outputs},
        keys,
    )
    return Query(
        source=tables.source,
        where=where,
        keys=keys,
        outputs=tuple(outputs),
        having=_read_having(select, here),
        order=_read_order(select, replace(here, clause="ORDER BY"), outputs),
        limit=_read_limit(select, statement),
    )


def _read_keys(statement: Statement, items: list[Item], scope: Scope) -> tuple[Expression, ...]:
    """Read GROUP BY, or SELECT DISTINCT keys, which asks for the same groups."""
    select = statement.root
    group, distinct = select.args.get("group"), select.args.get("distinct")
    if distinct is not None:
        statement.expect(distinct)
        if group is not None:
            raise statement.refuse(distinct, "groups are distinct already; leave DISTINCT out")
        nodes = [item.node for item in items]
    elif group is not None:
        statement.expect(group, "expressions")
        with statement.placing(group):
            nodes = [_find_key(node, items, scope) for node in group.expressions]
    else:
        return ()
    check_counts(len(nodes), len(items))
    keys: list[Expression] = []
    for node in nodes:
        with statement.placing(node):
            key = check_key(read_expression(node, Here(statement, scope, "GROUP BY")))
        if key not in keys:
            keys.append(key)
    return tuple(keys)


def _find_key(node: exp.Expr, items: list[Item], scope: Scope) -> exp.Expr:
    """Return what a key stands for: a place in SELECT, or a name given there that is no column."""
    if type(node) is exp.Literal and not node.args.get("is_string"):
        return items[_read_place(node, len(items))].node
    if type(node) is exp.Column and not node.args.get("table"):
        named = [item.node for item in items if (item.alias or "").lower() == node.name.lower()]
        if named and not any(member.find(node.name) for member in scope.members):
            return named[0]
    return node


def _read_place(node: exp.Expr, count: int) -> int:
    place = read_whole(node)
    if place is None or not 1 <= place <= count:
        raise UnsupportedQuery(f"places of what is selected go from 1 to {count}")
    return place - 1


def _read_output(
    item: Item, keys: tuple[Expression, ...], statement: Statement, scope: Scope
) -> Output:
    here = Here(statement, scope, "SELECT", read_statistic)
    with statement.placing(item.node):
        expression = read_expression(item.node, here)
        name = name_output(item.alias or describe(expression))
        return Output(name, lift_keys(expression, keys))


def _read_having(select: exp.Select, here: Here) -> Expression | None:
    node = select.args.get("having")
    if node is None:
        return None
    here.statement.expect(node, "this")
    with here.statement.placing(node):
        return lift_keys(check_condition(read_expression(node.this, here)), here.keys)


def _read_order(select: exp.Select, here: Here, outputs: list[Output]) -> tuple[Order, ...]:
    clause = select.args.get("order")
    if clause is None:
        return ()
    here.statement.expect(clause, "expressions")
    with here.statement.placing(clause):
        check_sorts(len(clause.expressions))
    return tuple(_read_sort(node, here, outputs) for node in clause.expressions)


def _read_sort(node: exp.Expr, here: Here, outputs: list[Output]) -> Order:
    statement = here.statement
    if type(node) is not exp.Ordered:
        raise statement.refuse(node, "ORDER BY takes keys, aggregates and names of the answer")
    statement.expect(node, "this", "desc")
    with statement.placing(node):
        return Order(_read_sorted(node.this, here, outputs), bool(node.args.get("desc")))


def _read_sorted(node: exp.Expr, here: Here, outputs: list[Output]) -> Expression:
    """Read what to sort by: a place, a name of the answer, or any expression of a group."""
    if type(node) is exp.Literal and not node.args.get("is_string"):
        return outputs[_read_place(node, len(outputs))].expression
    if type(node) is exp.Column and not node.args.get("table"):
        for output in outputs:
            if fold_name(output.name) == fold_name(node.name):
                return output.expression
    return check_sorted(lift_keys(read_expression(node, here), here.keys))


def _read_limit(select: exp.Select, statement: Statement) -> int | None:
    node = select.args.get("limit")
    if node is None:
        return None
    if type(node) is not exp.Limit:
        raise statement.refuse(node, "write LIMIT and a number", "FETCH")
    statement.expect(node, "expression")
    count = read_whole(node.expression)
    if count is None or not 1 <= count <= MOST_ROWS:
        raise statement.refuse(
            node.expression, f"LIMIT takes a whole number from 1 to {MOST_ROWS:,}"
        )
    return count
