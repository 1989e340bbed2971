"""Canonical SQL text: equal trees yield equal text.

The ledger finds stored answers by this text, and messages quote it. It is also valid input: parsing
it returns the same tree, unless a declared column is called "unit".
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Final

from confide.aggregates import function_of
from confide.expressions.functions import Function
from confide.expressions.tree import AggregateCall, Call, Column, Expression, Key, Literal
from confide.query.scope import UNIT
from confide.query.tree import Join, JoinKind, Output, PerUnit, Query, Scan, Source, fold_name

__all__ = ["Writer", "canonical", "default_name", "short_text"]

F = Function
PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
RESERVED_WORDS: Final = frozenset(
    {
        *("alter", "and", "as", "between", "case", "create", "cross", "cube", "describe"),
        *("distinct", "drop", "else", "end", "except", "fetch", "for", "force", "from", "full"),
        *("glob", "grant", "group", "grouping", "having", "ilike", "inner", "insert", "install"),
        *("intersect", "into", "is", "join", "lateral", "left", "like", "limit", "natural"),
        *("not", "notnull", "null", "offset", "on", "only", "or", "order", "outer", "over"),
        *("partitioned_by", "positional", "qualify", "regexp", "returning", "revoke", "right"),
        *("rlike", "rollback", "rollup", "select", "summarize", "tablesample", "then", "uncache"),
        *("union", "using", "values", "when", "where", "with", "xor"),
    }
)
"""Names that are always quoted, because the parser reads them as keywords."""
MAX_QUOTED_LENGTH: Final = 70
ATOM: Final = 9
UNARY: Final = 8
COMPARISON: Final = 4
"""Precedence levels: of names and calls, of signs, and of comparisons."""
INFIX_PRECEDENCE: Final = {
    F.OR: 1,
    F.AND: 2,
    F.EQUAL: 4,
    F.UNEQUAL: 4,
    F.LESS: 4,
    F.LESS_EQUAL: 4,
    F.GREATER: 4,
    F.GREATER_EQUAL: 4,
    F.CONCAT: 5,
    F.ADD: 6,
    F.SUBTRACT: 6,
    F.MULTIPLY: 7,
    F.DIVIDE: 7,
    F.MODULO: 7,
}
"""Operator precedence, which decides which operands are put in parentheses."""
OPERAND_PRECEDENCE: Final = {
    F.NEGATE: ATOM,
    F.NOT: COMPARISON,
    F.IS_NULL: COMPARISON + 1,
    F.LIKE: COMPARISON + 1,
    F.IN: COMPARISON + 1,
}
"""Minimum precedence of the first argument of functions that are not written as name(...)."""
CAST_TYPES: Final = {
    F.TO_INT: "BIGINT",
    F.TO_FLOAT: "DOUBLE",
    F.TO_TEXT: "VARCHAR",
    F.TO_BOOL: "BOOLEAN",
    F.TO_DATE: "DATE",
}
TRUNCATION_UNITS: Final = {
    F.TRUNC_YEAR: "year",
    F.TRUNC_QUARTER: "quarter",
    F.TRUNC_MONTH: "month",
    F.TRUNC_WEEK: "week",
}


TEMPLATES: Final = {
    F.EPOCH_MS: "EPOCH_MS({})",
    F.FROM_EPOCH_MS: "EPOCH_MS({})",
    F.DAYS_BETWEEN: "DATE_DIFF('day', {}, {})",
    F.ADD_DAYS: "DATE_ADD({}, INTERVAL ({}) DAY)",
    F.ADD_MONTHS: "DATE_ADD({}, INTERVAL ({}) MONTH)",
}


def canonical(query: Query) -> str:
    """Return the query as one deterministic line of SQL."""
    writer = Writer(query.keys, first_alias=_first_alias(query.source))
    parts = ["SELECT", ", ".join(map(writer.output, query.outputs)), *_write_body(query, writer)]
    if query.keys:
        parts += ["GROUP BY", ", ".join(map(writer.write, query.keys))]
    if query.having is not None:
        parts += ["HAVING", writer.write(query.having)]
    if query.order:
        sorts = (
            writer.write(order.expression) + (" DESC" if order.descending else "")
            for order in query.order
        )
        parts += ["ORDER BY", ", ".join(sorts)]
    if query.limit is not None:
        parts.append(f"LIMIT {query.limit}")
    return " ".join(parts)


def default_name(expression: Expression) -> str:
    """Return the default name of an output without an alias.

    >>> from confide.aggregates import make_aggregate
    >>> default_name(make_aggregate("COUNT"))
    'count(*)'
    """
    writer = Writer((), first_alias="")
    match expression:
        case Column(name=name):
            return name
        case AggregateCall(arguments=arguments, where=None):
            found = function_of(expression).label(expression, list(map(writer.write, arguments)))
            return fold_name(found or writer.write(expression))
        case _:
            return fold_name(writer.write(expression))


def short_text(expression: Expression) -> str:
    """Return an expression as text for a message, truncated if it is long.

    >>> from confide.declare import Kind
    >>> short_text(Literal(3, Kind.INT))
    '3'
    """
    text = Writer((), first_alias="").write(expression)
    return text if len(text) <= MAX_QUOTED_LENGTH else f"{text[: MAX_QUOTED_LENGTH - 3]}..."


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes the expressions of one SELECT, whose group keys are ``keys``.

    ``first_alias`` is the alias of its first table, or "" to write all names without a table.
    """

    keys: Sequence[Expression]
    first_alias: str

    def output(self, output: Output) -> str:
        """Return an output column: its expression and its name."""
        return f"{self.write(output.expression)} AS {quote_name(output.name)}"

    def unit(self) -> str:
        """Return the name of the unit in the first table."""
        return f"{self.first_alias}.{UNIT}" if self.first_alias else UNIT

    def write(self, expression: Expression, min_precedence: int = 0) -> str:
        """Return an expression, in parentheses if its precedence is below ``min_precedence``."""
        text, precedence = self._write(expression)
        return text if precedence >= min_precedence else f"({text})"

    def _write(self, expression: Expression) -> tuple[str, int]:
        """Return the text of an expression, and the precedence of its outermost operator."""
        match expression:
            case Column(table=table, name=name):
                return (f"{table}." if self.first_alias else "") + quote_name(name), ATOM
            case Literal():
                text = _write_literal(expression)
                return text, UNARY if text.startswith("-") else ATOM
            case Key(index=index):
                return self._write(self.keys[index])
            case AggregateCall():
                return self._write_aggregate(expression), ATOM
            case Call(function=function, arguments=arguments) if function in INFIX_PRECEDENCE:
                return self._write_infix(function, arguments)
            case Call(function=function, arguments=arguments):
                return self._write_call(function, arguments)

    def _write_infix(self, function: Function, arguments: Sequence[Expression]) -> tuple[str, int]:
        precedence = INFIX_PRECEDENCE[function]
        # Chains of arithmetic are left-associative; comparisons do not chain.
        first = self.write(arguments[0], precedence if precedence > COMPARISON else precedence + 1)
        rest = (self.write(argument, precedence + 1) for argument in arguments[1:])
        return f" {function.upper()} ".join([first, *rest]), precedence

    def _write_call(self, function: Function, arguments: Sequence[Expression]) -> tuple[str, int]:
        # Write each argument only once: writing it twice would double the work at every level.
        min_precedence = OPERAND_PRECEDENCE.get(function, 0)
        first, *rest = self.write(arguments[0], min_precedence), *map(self.write, arguments[1:])
        match function:
            case F.NEGATE:
                return f"-{first}", UNARY
            case F.NOT:
                return f"NOT {first}", COMPARISON - 1
            case F.IS_NULL:
                return f"{first} IS NULL", COMPARISON
            case F.LIKE:
                return f"{first} LIKE {rest[0]}", COMPARISON
            case F.IN:
                return f"{first} IN ({', '.join(rest)})", COMPARISON
            case _:
                return self._write_function(function, [first, *rest]), ATOM

    def _write_function(self, function: Function, arguments: list[str]) -> str:
        if function in CAST_TYPES:
            return f"CAST({arguments[0]} AS {CAST_TYPES[function]})"
        if function in TRUNCATION_UNITS:
            return f"DATE_TRUNC('{TRUNCATION_UNITS[function]}', {arguments[0]})"
        if function in TEMPLATES:
            return TEMPLATES[function].format(*arguments)
        if function is F.CASE:
            pairs = zip(arguments[:-1:2], arguments[1::2], strict=True)
            branches = " ".join(f"WHEN {condition} THEN {value}" for condition, value in pairs)
            return f"CASE {branches} ELSE {arguments[-1]} END"
        name = "DAYOFWEEK" if function is F.WEEKDAY else function.upper()
        return f"{name}({', '.join(arguments)})"

    def _write_aggregate(self, aggregate: AggregateCall) -> str:
        arguments = list(map(self.write, aggregate.arguments))
        text = function_of(aggregate).write(aggregate, arguments, self.unit())
        if aggregate.where is None:
            return text
        return f"{text} FILTER (WHERE {self.write(aggregate.where)})"


def _write_body(query: Query | PerUnit, writer: Writer) -> list[str]:
    """Return FROM and WHERE, with their keywords, as parts to be joined by spaces."""
    parts = ["FROM", _write_source(query.source)]
    if query.where is not None:
        parts += ["WHERE", writer.write(query.where)]
    return parts


def _write_source(source: Source) -> str:
    match source:
        case Scan(table=table, alias=alias):
            return f"{quote_name(table)} AS {alias}"
        case PerUnit(alias=alias, outputs=outputs):
            writer = Writer((), first_alias=_first_alias(source.source))
            listed = ", ".join([writer.unit(), *map(writer.output, outputs)])
            body = " ".join(_write_body(source, writer))
            return f"(SELECT {listed} {body} GROUP BY {writer.unit()}) AS {alias}"
        case Join(left=left, right=right, kind=kind, on=on):
            writer = Writer((), first_alias=_first_alias(left))
            pairs = [
                f"{writer.write(expression, COMPARISON + 1)} = {writer.write(column)}"
                for expression, column in on
            ]
            condition = " AND ".join(pairs) or f"{writer.unit()} = {right.alias}.{UNIT}"
            word = "LEFT JOIN" if kind is JoinKind.LEFT else "JOIN"
            return f"{_write_source(left)} {word} {_write_source(right)} ON {condition}"


def _first_alias(source: Source) -> str:
    """Return the alias of the leftmost table of a source."""
    while isinstance(source, Join):
        source = source.left
    return source.alias


def _write_literal(literal: Literal) -> str:
    match literal.value:
        case None:
            return "NULL"
        case bool() as value:
            return "TRUE" if value else "FALSE"
        case str() as value:
            return "'" + value.replace("'", "''") + "'"
        case datetime() as value:
            return f"TIMESTAMP '{value.isoformat(' ')}'"
        case date() as value:
            return f"DATE '{value.isoformat()}'"
        case number:
            return repr(number)


def quote_name(name: str) -> str:
    """Return a name as an SQL identifier, quoted only if necessary."""
    if PLAIN_NAME.match(name) and name.lower() not in RESERVED_WORDS:
        return name
    return '"' + name.replace('"', '""') + '"'
