"""Conversion of the parser's nodes to typed expressions; unsupported nodes raise an error."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from sqlglot import exp

from confide.errors import UnknownName, UnsupportedQuery
from confide.expressions.construct import make_between, make_call, make_literal
from confide.expressions.functions import Function
from confide.expressions.shorthands import Shorthand, build_call
from confide.expressions.tree import Column, Expression, walk
from confide.query.scope import Scope, Unit
from confide.query.sql.functions import (
    CAST_ADVICE,
    CASTS,
    DIALECT_ARGUMENTS,
    DIRECT_FUNCTIONS,
    EXTRACTIONS,
    OPERANDS,
    PART_CALLS,
    PART_NODES,
    TRIM_FUNCTIONS,
    explain_refusal,
)
from confide.query.sql.parse import Statement
from confide.query.sql.patterns import is_registered
from confide.query.tree import fold_name

__all__ = ["Context", "read_expression", "read_integer", "resolve_name", "strip_parentheses"]

F = Function


@dataclass(frozen=True, slots=True)
class Context:
    """The clause that contains an expression, and the names that the expression can use there.

    ``aggregate`` converts aggregates, or is None where they are not allowed. ``aliases`` maps
    output names, folded to lower case, to expressions. A column that occurs in one of the group
    ``keys`` takes precedence over an alias, as in DuckDB.
    """

    statement: Statement
    scope: Scope
    clause: str
    aggregate: "Callable[[exp.Expr, Context], Expression] | None" = None
    aliases: Mapping[str, Expression] = field(default_factory=dict)
    keys: tuple[Expression, ...] = ()


Reader = Callable[[exp.Expr, Context], Expression]
"""Converts a node of one type."""


def read_expression(node: exp.Expr, context: Context) -> Expression:
    """Return the typed expression for a node, or raise an error that underlines the node."""
    with context.statement.locating(node):
        # Compare exact types: a subclass may have more meaning than its parent.
        reader = READERS.get(type(node))
        if type(node) is exp.Anonymous and node.name.upper() in PART_CALLS | EXTRACTIONS:
            reader = _read_called
        if reader is not None:
            return reader(node, context)
        if type(node) in DIRECT_FUNCTIONS:
            return _read_plain(node, context)
        if isinstance(node, AGGREGATE_NODES) or is_registered(node):
            if context.aggregate is None:
                raise UnsupportedQuery(
                    f"An aggregate cannot be used in {context.clause}. Move it to SELECT, HAVING, "
                    "or ORDER BY."
                )
            return context.aggregate(node, context)
        raise UnsupportedQuery(explain_refusal(node))


def strip_parentheses(node: exp.Expr) -> exp.Expr:
    """Return the node inside any parentheses."""
    while type(node) is exp.Paren:
        node = node.this
    return node


def read_integer(node: exp.Expr) -> int | None:
    """Return the value of an integer literal without a sign, or None for any other node."""
    text = str(node.this) if type(node) is exp.Literal and not node.args.get("is_string") else ""
    if not text.isascii() or not text.isdecimal():
        return None
    # int() raises on very long digit strings; 39 digits already exceed every limit.
    return int((text.lstrip("0") or "0")[:39])


def resolve_name(node: exp.Expr, context: Context) -> Column | Unit | None:
    """Return the column or unit that a node names, or None if it is not just a name."""
    bare = strip_parentheses(node)
    if type(bare) is not exp.Column or not isinstance(bare.this, exp.Identifier):
        return None
    with context.statement.locating(bare):
        context.statement.expect(bare, "this", "table")
        label = bare.args.get("table")
        return context.scope.find(bare.name, None if label is None else label.name)


AGGREGATE_NODES: Final = (
    exp.AggFunc,
    exp.Filter,
    exp.WithinGroup,
    exp.IgnoreNulls,
    exp.RespectNulls,
)
PREDICATES: Final = (exp.Predicate, exp.Not, exp.Connector, exp.In, exp.Between, exp.Is)
SUBQUERY_PREDICATES: Final = (exp.SubqueryPredicate,)
DEFAULT_SCALE: Final = 3
"""The decimal places of DECIMAL without parameters."""
MILLISECOND_SCALE: Final = 3
WHOLE_NUMBER: Final = re.compile(r"-?[0-9]{1,18}")
COMPARISONS: Final = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)


def _read_plain(node: exp.Expr, context: Context) -> Expression:
    """Convert a node that corresponds to a call of one function, argument by argument."""
    function, names = DIRECT_FUNCTIONS[type(node)]
    context.statement.expect(node, *names, *DIALECT_ARGUMENTS.get(type(node), ()))
    children = list(_children(node, names))
    if type(node) in COMPARISONS:
        _check_operands(children)
    return build_call(function, *(read_expression(child, context) for child in children))


def _children(node: exp.Expr, names: tuple[str, ...]) -> Iterator[exp.Expr]:
    for name in names:
        value = node.args.get(name)
        if isinstance(value, list):
            yield from value
        elif value is not None:
            yield value


def _check_operands(children: list[exp.Expr]) -> None:
    """Raise UnsupportedQuery for a = b = c and similar chains, which dialects read differently."""
    if any(
        isinstance(child, PREDICATES) and not isinstance(child, SUBQUERY_PREDICATES)
        for child in children
    ):
        raise UnsupportedQuery("A condition inside a comparison needs parentheses around it.")


def _read_paren(node: exp.Expr, context: Context) -> Expression:
    context.statement.expect(node, "this")
    return read_expression(node.this, context)


def _read_column(node: exp.Expr, context: Context) -> Expression:
    context.statement.expect(node, "this", "table")
    if not isinstance(node.this, exp.Identifier):
        raise UnsupportedQuery("Rows cannot be selected. Select aggregates of columns instead.")
    name, label = node.this.name, node.args.get("table")
    alias = context.aliases.get(fold_name(name)) if label is None else None
    if alias is not None and not _is_key_part(name, context):
        return alias
    try:
        return context.scope.column(name, None if label is None else label.name)
    except UnknownName as unknown:
        if label is None and (node.this.quoted or _is_compared(node)):
            text = name.replace("'", "''")
            advice = f"If it is a string, use single quotes: '{text}'."
            raise UnknownName(f"{unknown.message} {advice}") from None
        if label is None and context.clause == "WHERE" and _is_result(node, context.statement):
            raise UnknownName(
                f"{name!r} is a statistic of this query, and WHERE is applied before it is "
                "computed. Move this condition to HAVING, after any GROUP BY."
            ) from None
        raise


def _is_result(node: exp.Expr, statement: Statement) -> bool:
    """Return whether a name in the outer query is the alias of a statistic in its SELECT list."""
    statistics = (item for item in statement.root.expressions if item.find(*AGGREGATE_NODES))
    is_outside = node.find_ancestor(exp.Select) is statement.root
    return is_outside and fold_name(node.name) in {fold_name(item.alias) for item in statistics}


def _is_compared(node: exp.Expr) -> bool:
    """Return whether a name appears where a value is expected: after = or <>, or in an IN list."""
    parent = node.parent
    return isinstance(parent, exp.EQ | exp.NEQ | exp.In) and parent.this is not node


def _is_key_part(name: str, context: Context) -> bool:
    """Return whether a name refers to a column that occurs in a group key."""
    try:
        column = context.scope.find(name)
    except (UnknownName, UnsupportedQuery):
        return False
    return isinstance(column, Column) and any(column in walk(key) for key in context.keys)


def _read_literal(node: exp.Expr, _context: Context) -> Expression:
    text = str(node.this)
    if node.args.get("is_string"):
        return make_literal(text)
    number = read_integer(node)
    if number is not None:
        return make_literal(number)
    try:
        return make_literal(float(text))
    except ValueError:
        raise UnsupportedQuery(
            "This number cannot be read. Write it as 12, 1.5, or 2e-3."
        ) from None


def _read_null(_node: exp.Expr, _context: Context) -> Expression:
    return make_literal(None)


def _read_boolean(node: exp.Expr, _context: Context) -> Expression:
    return make_literal(bool(node.this))


def _read_connector(node: exp.Expr, context: Context) -> Expression:
    """Convert a chain of AND or of OR iteratively, because it can be long."""
    parts: list[exp.Expr] = []
    waiting = [node]
    while waiting:
        part = waiting.pop()
        if type(part) is type(node):
            context.statement.expect(part, *OPERANDS)
            waiting += [part.expression, part.this]
        else:
            parts.append(part)
    function = F.AND if type(node) is exp.And else F.OR
    return make_call(function, *(read_expression(part, context) for part in parts))


def _read_between(node: exp.Expr, context: Context) -> Expression:
    context.statement.expect(node, "this", "low", "high")
    children = list(_children(node, ("this", "low", "high")))
    _check_operands(children)
    value, low, high = (read_expression(child, context) for child in children)
    return make_between(value, low, high)


def _read_in(node: exp.Expr, context: Context) -> Expression:
    context.statement.expect(node, "this", "expressions")
    _check_operands([node.this])
    if not node.expressions:
        raise UnsupportedQuery("IN needs a list of values, such as `x IN (1, 2)`.")
    parts = (node.this, *node.expressions)
    return make_call(F.IN, *(read_expression(part, context) for part in parts))


def _read_like(node: exp.Expr, context: Context) -> Expression:
    context.statement.expect(node, *OPERANDS, "negate")
    _check_operands([node.this, node.expression])
    function = Shorthand.ILIKE if type(node) is exp.ILike else F.LIKE
    found = build_call(
        function, read_expression(node.this, context), read_expression(node.expression, context)
    )
    return make_call(F.NOT, found) if node.args.get("negate") else found


def _read_is(node: exp.Expr, context: Context) -> Expression:
    context.statement.expect(node, *OPERANDS)
    _check_operands([node.this])
    if type(node.expression) is not exp.Null:
        raise UnsupportedQuery(
            "IS can be used only with NULL. Write the condition itself, or NOT and the condition."
        )
    return make_call(F.IS_NULL, read_expression(node.this, context))


def _read_case(node: exp.Expr, context: Context) -> Expression:
    """Convert both forms of CASE; CASE x WHEN v means CASE WHEN x = v."""
    context.statement.expect(node, "this", "ifs", "default")
    subject = None if node.this is None else read_expression(node.this, context)
    parts: list[Expression] = []
    for branch in node.args["ifs"]:
        context.statement.expect(branch, "this", "true")
        condition = read_expression(branch.this, context)
        if subject is not None:
            condition = make_call(F.EQUAL, subject, condition)
        parts += [condition, read_expression(branch.args["true"], context)]
    default = node.args.get("default")
    parts.append(make_literal(None) if default is None else read_expression(default, context))
    return make_call(F.CASE, *parts)


def _read_if(node: exp.Expr, context: Context) -> Expression:
    context.statement.expect(node, "this", "true", "false")
    parts = [read_expression(part, context) for part in _children(node, ("this", "true", "false"))]
    if len(parts) == 2:
        parts.append(make_literal(None))
    return make_call(F.CASE, *parts)


def _read_nullif(node: exp.Expr, context: Context) -> Expression:
    """Convert NULLIF(x, y) to CASE WHEN x = y THEN NULL ELSE x END."""
    context.statement.expect(node, *OPERANDS)
    value, other = (read_expression(part, context) for part in (node.this, node.expression))
    return make_call(F.CASE, make_call(F.EQUAL, value, other), make_literal(None), value)


def _read_trim(node: exp.Expr, context: Context) -> Expression:
    context.statement.expect(node, *OPERANDS, "position")
    function = TRIM_FUNCTIONS[str(node.args.get("position") or "")]
    return make_call(
        function, *(read_expression(part, context) for part in _children(node, OPERANDS))
    )


def _read_cast(node: exp.Expr, context: Context) -> Expression:
    """Convert CAST, TRY_CAST, and x::type alike: failed casts yield NULL."""
    context.statement.expect(node, "this", "to", *(["safe"] if type(node) is exp.TryCast else []))
    if node.args["to"].this is exp.DType.DECIMAL:
        return _read_decimal(node, context)
    function = CASTS.get(node.args["to"].this)
    if function is None:
        raise UnsupportedQuery(CAST_ADVICE)
    context.statement.expect(node.args["to"], "this")
    return build_call(function, read_expression(node.this, context))


def _read_decimal(node: exp.Expr, context: Context) -> Expression:
    """Convert a cast to DECIMAL(width, scale), which rounds doubles to ``scale`` digits."""
    target = node.args["to"]
    context.statement.expect(target, "this", "expressions")
    digits = [read_integer(part.this) for part in target.expressions]
    scale = DEFAULT_SCALE if not digits else digits[1] if len(digits) > 1 else 0
    if scale is None:
        raise UnsupportedQuery(CAST_ADVICE)
    value = make_call(F.TO_FLOAT, read_expression(node.this, context))
    return make_call(F.ROUND, value, make_literal(scale))


def _read_milliseconds(node: exp.Expr, context: Context) -> Expression:
    """Convert EPOCH_MS, which the parser reads as a time in units of 10^-3 seconds."""
    context.statement.expect(node, "this", "scale")
    if read_integer(node.args.get("scale") or node) != MILLISECOND_SCALE:
        raise UnsupportedQuery(explain_refusal(node))
    return build_call(Shorthand.EPOCH_MS, read_expression(node.this, context))


def _read_word(node: exp.Expr) -> str:
    """Return a keyword or string such as MONTH in upper case, or "" for any other node."""
    return node.name.upper() if type(node) in (exp.Var, exp.Literal) else ""


def _read_extract(node: exp.Expr, context: Context) -> Expression:
    context.statement.expect(node, *OPERANDS)
    return _extract(_read_word(node.this), node.expression, context)


def _read_part(node: exp.Expr, context: Context) -> Expression:
    context.statement.expect(node, "this")
    return _extract(PART_NODES[type(node)], node.this, context)


def _read_called(node: exp.Expr, context: Context) -> Expression:
    """Convert a call of a date function that the parser does not know."""
    name, parts = node.name.upper(), node.expressions
    context.statement.expect(node, "this", "expressions")
    if name in PART_CALLS and len(parts) == 1:
        return _extract(name, parts[0], context)
    if name in EXTRACTIONS and len(parts) == 2:
        return _extract(_read_word(parts[0]), parts[1], context)
    raise UnsupportedQuery(explain_refusal(node))


def _extract(part: str, node: exp.Expr, context: Context) -> Expression:
    return build_call(Shorthand.EXTRACT, make_literal(part), read_expression(node, context))


def _read_truncation(node: exp.Expr, context: Context) -> Expression:
    context.statement.expect(node, "this", "unit")
    unit = make_literal(_read_word(node.args["unit"]))
    return build_call(Shorthand.TRUNCATE, unit, read_expression(node.this, context))


def _read_difference(node: exp.Expr, context: Context) -> Expression:
    """Convert DATE_DIFF(unit, first, last); the parser's node has the last date first."""
    context.statement.expect(node, *OPERANDS, "unit", "date_part_boundary")
    unit = make_literal(_read_word(node.args["unit"]) if node.args.get("unit") else "")
    first, last = (read_expression(part, context) for part in (node.expression, node.this))
    return build_call(Shorthand.DATE_DIFF, unit, first, last)


def _read_sum(node: exp.Expr, context: Context) -> Expression:
    """Convert a sum or difference, in which an interval may be added or subtracted."""
    context.statement.expect(node, *OPERANDS)
    left, right = strip_parentheses(node.this), strip_parentheses(node.expression)
    if type(left) is exp.Interval and type(node) is exp.Add:
        left, right = right, left
    if type(right) is not exp.Interval:
        return _read_plain(node, context)
    return _add_interval(left, right, context, is_negative=type(node) is exp.Sub)


def _read_later(node: exp.Expr, context: Context) -> Expression:
    """Convert DATE_ADD(day, interval); the interval may be a number of days."""
    context.statement.expect(node, *OPERANDS)
    later = strip_parentheses(node.expression)
    if type(later) is exp.Interval:
        return _add_interval(node.this, later, context, is_negative=False)
    return make_call(F.ADD, read_expression(node.this, context), read_expression(later, context))


def _add_interval(
    day: exp.Expr, interval: exp.Expr, context: Context, *, is_negative: bool
) -> Expression:
    with context.statement.locating(interval):
        context.statement.expect(interval, "this", "unit")
        count = _read_count(interval, context)
        count = make_call(F.NEGATE, count) if is_negative else count
        unit = make_literal(_read_word(interval.args["unit"]))
        return build_call(Shorthand.INTERVAL, unit, read_expression(day, context), count)


def _read_count(interval: exp.Expr, context: Context) -> Expression:
    """Convert the number of an interval, which may be a literal, a string, or an expression."""
    number = interval.this
    if not interval.args.get("unit"):
        raise UnsupportedQuery(
            "An interval has one number and one unit. Add several, as in "
            "`day + INTERVAL 1 MONTH + INTERVAL 3 DAY`."
        )
    if type(number) is not exp.Literal:
        return read_expression(number, context)
    text = str(number.this)
    if not WHOLE_NUMBER.fullmatch(text):
        raise UnsupportedQuery("The number of an interval must be an integer, such as 7.")
    return make_literal(int(text))


READERS: Final[dict[type[exp.Expr], Reader]] = {
    exp.Paren: _read_paren,
    exp.Column: _read_column,
    exp.Literal: _read_literal,
    exp.Null: _read_null,
    exp.Boolean: _read_boolean,
    exp.And: _read_connector,
    exp.Or: _read_connector,
    exp.Between: _read_between,
    exp.In: _read_in,
    exp.Like: _read_like,
    exp.ILike: _read_like,
    exp.Trim: _read_trim,
    exp.Is: _read_is,
    exp.Case: _read_case,
    exp.If: _read_if,
    exp.Nullif: _read_nullif,
    exp.Cast: _read_cast,
    exp.TryCast: _read_cast,
    exp.Add: _read_sum,
    exp.Sub: _read_sum,
    exp.DateAdd: _read_later,
    exp.DateDiff: _read_difference,
    exp.Extract: _read_extract,
    exp.UnixToTime: _read_milliseconds,
    **dict.fromkeys(PART_NODES, _read_part),
    exp.DateTrunc: _read_truncation,
    exp.TimestampTrunc: _read_truncation,
}
