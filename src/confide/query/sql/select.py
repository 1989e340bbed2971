"""SELECT, GROUP BY, HAVING, ORDER BY, and LIMIT; entry point of the SQL front end."""

from dataclasses import replace

from sqlglot import exp

from confide.errors import UnsupportedQuery
from confide.expressions.construct import check_condition, lift_keys
from confide.expressions.tree import Expression
from confide.query.canonical import default_name
from confide.query.scope import Names, Scope
from confide.query.sql.aggregates import read_statistic
from confide.query.sql.expressions import Context, read_expression, read_integer
from confide.query.sql.from_clause import Item, read_items, read_tables, read_where
from confide.query.sql.parse import Statement, parse_statement
from confide.query.tree import (
    MAX_LIMIT,
    Order,
    Output,
    Query,
    check_counts,
    check_key,
    check_output_name,
    check_outputs,
    check_sort,
    check_sorts,
    find_duplicate,
    fold_name,
)

__all__ = ["read_sql"]


def read_sql(text: str, names: Names) -> Query:
    """Return the query in a SQL text, with every name and type resolved.

    Parsing reads no data: the result depends only on the text and on ``names``.
    Syntax without a counterpart in the tree is refused.

    Raises:
        UnsupportedQuery: the query is not supported; an excerpt underlines the reason, if possible.
        UnknownName: a table or column is unknown.
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
    duplicate = find_duplicate(outputs)
    with statement.locating(select if duplicate is None else items[duplicate].node):
        check_outputs(keys, outputs)
    context = Context(
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
        having=_read_having(select, context),
        order=_read_order(select, replace(context, clause="ORDER BY"), outputs),
        limit=_read_limit(select, statement),
    )


def _read_keys(statement: Statement, items: list[Item], scope: Scope) -> tuple[Expression, ...]:
    """Return the different keys in GROUP BY or, for SELECT DISTINCT, in the SELECT list."""
    select = statement.root
    group, distinct = select.args.get("group"), select.args.get("distinct")
    if distinct is not None:
        statement.expect(distinct)
        if group is not None:
            raise statement.refuse(distinct, "The groups are already distinct. Remove DISTINCT.")
        nodes = [item.node for item in items]
    elif group is not None:
        statement.expect(group, "expressions")
        with statement.locating(group):
            nodes = [_find_key(node, items, scope) for node in group.expressions]
    else:
        return ()
    check_counts(len(nodes), len(items))
    keys: list[Expression] = []
    for node in nodes:
        with statement.locating(node):
            key = check_key(read_expression(node, Context(statement, scope, "GROUP BY")))
        if key not in keys:
            keys.append(key)
    return tuple(keys)


def _find_key(node: exp.Expr, items: list[Item], scope: Scope) -> exp.Expr:
    """Return the node of a key in GROUP BY.

    A position in the SELECT list refers to the node of that item, and so does the item's alias if
    no column has that name.
    """
    if type(node) is exp.Literal and not node.args.get("is_string"):
        return items[_read_position(node, len(items))].node
    if type(node) is exp.Column and not node.args.get("table"):
        named = [item.node for item in items if (item.alias or "").lower() == node.name.lower()]
        if named and not any(member.find(node.name) for member in scope.members):
            return named[0]
    return node


def _read_position(node: exp.Expr, count: int) -> int:
    """Return the index that a position from 1 to ``count`` refers to."""
    position = read_integer(node)
    if position is None or not 1 <= position <= count:
        raise UnsupportedQuery(
            f"A position must be from 1 to {count}, the number of selected columns."
        )
    return position - 1


def _read_output(
    item: Item, keys: tuple[Expression, ...], statement: Statement, scope: Scope
) -> Output:
    context = Context(statement, scope, "SELECT", read_statistic)
    with statement.locating(item.node):
        expression = read_expression(item.node, context)
        name = check_output_name(item.alias or default_name(expression))
        return Output(name, lift_keys(expression, keys))


def _read_having(select: exp.Select, context: Context) -> Expression | None:
    node = select.args.get("having")
    if node is None:
        return None
    context.statement.expect(node, "this")
    with context.statement.locating(node):
        return lift_keys(check_condition(read_expression(node.this, context)), context.keys)


def _read_order(select: exp.Select, context: Context, outputs: list[Output]) -> tuple[Order, ...]:
    clause = select.args.get("order")
    if clause is None:
        return ()
    context.statement.expect(clause, "expressions")
    with context.statement.locating(clause):
        check_sorts(len(clause.expressions))
    return tuple(_read_sort(node, context, outputs) for node in clause.expressions)


def _read_sort(node: exp.Expr, context: Context, outputs: list[Output]) -> Order:
    statement = context.statement
    if type(node) is not exp.Ordered:
        raise statement.refuse(
            node, "ORDER BY takes group keys, aggregates, and columns of the answer."
        )
    statement.expect(node, "this", "desc")
    with statement.locating(node):
        return Order(
            _read_sort_expression(node.this, context, outputs), bool(node.args.get("desc"))
        )


def _read_sort_expression(node: exp.Expr, context: Context, outputs: list[Output]) -> Expression:
    """Return a sort expression: a position, an output name, or an expression over one group."""
    if type(node) is exp.Literal and not node.args.get("is_string"):
        return outputs[_read_position(node, len(outputs))].expression
    if type(node) is exp.Column and not node.args.get("table"):
        for output in outputs:
            if fold_name(output.name) == fold_name(node.name):
                return output.expression
    return check_sort(lift_keys(read_expression(node, context), context.keys))


def _read_limit(select: exp.Select, statement: Statement) -> int | None:
    node = select.args.get("limit")
    if node is None:
        return None
    if type(node) is not exp.Limit:
        raise statement.refuse(node, "FETCH is not supported. Write LIMIT and a number.", "FETCH")
    statement.expect(node, "expression")
    count = read_integer(node.expression)
    if count is None or not 1 <= count <= MAX_LIMIT:
        raise statement.refuse(node.expression, f"LIMIT takes an integer from 1 to {MAX_LIMIT:,}.")
    return count
