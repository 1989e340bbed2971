"""PostgreSQL SQL text: rules for nodes and calls, optimization fences, and sorting of strings.

Every function is written so that it fails on no row: where PostgreSQL raises an error, the result
is DuckDB's, or NULL. Strings are compared and ordered by their bytes, whatever a database's locale.

PostgreSQL inlines the expressions of a subquery wherever the outer query refers to them, and
computes them each time. Statements here have several layers, so an expression that each layer uses
twice would be computed many times. An OFFSET '0' prevents inlining; it is called a *fence* here.
The zero is a string literal, which PostgreSQL parses as a bigint at once. An integer literal would
need a cast. PostgreSQL computes casts too late to see that no row is skipped, and would then read
the table with a single process.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from sqlglot import expressions as sql

from confide.engines.postgres import arithmetic
from confide.engines.postgres.types import (
    as_text,
    bytewise,
    double_to_text,
    text_to_boolean,
    text_to_date,
    text_to_double,
    text_to_integer,
    text_to_timestamp,
)
from confide.engines.sql.builders import Sql, call, case, cast, date_to_timestamp, number
from confide.engines.sql.contribution_bounding import sort_once
from confide.engines.sql.dialect import FINITE, Dialect, is_double, is_integer, is_text, type_of
from confide.engines.sql.row_hash import MASK, digested

__all__ = ["POSTGRESQL", "add_fences", "sort_by_numbers", "text_digit"]

HEAVY: Final = 12
"""The number of nodes from which an expression must not be computed twice."""

Weights = Mapping[str, int]
"""The *weight* of each column of a selection: the number of nodes of its expression."""
Views = Mapping[str, sql.Select]
NO_VIEWS: Final[Views] = MappingProxyType({})
FENCED_CLAUSES: Final = ("group", "having", "distinct", "limit", "offset")
"""Clauses that prevent inlining: PostgreSQL never inlines a selection that has one of them."""


def add_fences(select: sql.Select, views: Views = NO_VIEWS) -> Weights:
    """Add a fence to each nested selection with a heavy expression that is used more than once.

    ``views`` are the selections of the views that the statement may read, by name. Returns the
    weights of the columns that PostgreSQL may inline from the selection.
    """
    for part in select.ctes:
        if isinstance(part.this, sql.Select):
            add_fences(part.this, views)
    start = select.args.get("from_")
    inner = start.this if start is not None else None
    weights_below: Weights = {}
    for source in (inner, *(join.this for join in select.args.get("joins") or ())):
        if isinstance(source, sql.Subquery):
            weights_below = {**weights_below, **_fence(select, source, views)}
        elif isinstance(source, sql.Table) and source.name in views:
            weights_below = {**weights_below, **_lookup_weights(views[source.name])}
    if any(select.args.get(key) for key in FENCED_CLAUSES) or select.find(sql.Window, sql.AggFunc):
        return {}
    weights = dict(weights_below) if select.is_star else {}
    for shown in select.expressions:
        if isinstance(shown, sql.Alias):
            weights[shown.alias] = _weight(shown.this, weights_below)
        elif isinstance(shown, sql.Column):
            weights[shown.name] = weights_below.get(shown.name, 1)
    return weights


def _lookup_weights(view: sql.Select) -> Weights:
    """Return the weights of those columns of a view that are compared with a long list.

    Everything else that a view computes is cheaper than a fence.
    """
    weights = {shown.alias: len(_longest_list(shown)) for shown in view.expressions}
    return {name: length for name, length in weights.items() if length >= HEAVY}


def _longest_list(shown: Sql) -> list[Sql]:
    return max((found.expressions for found in shown.find_all(sql.In)), key=len, default=[])


def _fence(select: sql.Select, source: sql.Subquery, views: Views) -> Weights:
    """Add a fence to a subquery of ``select`` if needed; return the weights of its columns."""
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
    """Return the columns that a selection uses itself, outside its subqueries."""
    parts: list[Sql] = list(select.expressions)
    parts += [join.args["on"] for join in select.args.get("joins") or () if join.args.get("on")]
    parts += [select.args[key] for key in ("where", "group", "having") if select.args.get(key)]
    return [column for part in parts for column in part.find_all(sql.Column)]


def _weight(expression: Sql, weights_below: Weights) -> int:
    """Return the number of nodes of an expression after inlining the columns that it uses."""
    names = (node.name for node in expression.find_all(sql.Column))
    return sum(1 for _ in expression.walk()) + sum(weights_below.get(name, 1) - 1 for name in names)


MAX_HASHED_LENGTH: Final = 2**22
"""The number of characters that are hashed of each string, if a row has several strings.

A character has up to four bytes, so 64 such strings are a gigabyte, PostgreSQL's limit.
"""
TEXT_HASH: Final = "HASHTEXTEXTENDED"
"""PostgreSQL's own hash of a string, which it also uses for grouping."""


def sort_by_numbers(select: sql.Select) -> sql.Select:
    """Return a statement that sorts string units by a number first, and then by the string.

    Why: rows with equal strings have equal numbers, so the partitions of window functions are the
         same, and nothing depends on their order. Numbers are compared faster than strings with a
         common prefix.
    """
    for window in select.find_all(sql.Window):
        (unit,) = window.args["partition_by"]
        window.set("partition_by", [call(TEXT_HASH, unit.copy(), number(0)), unit])
    return select


def text_digit(node: sql.BitwiseOr) -> Sql:
    """Return the last 31 bits of an MD5 (see `row_hash`), from its last hexadecimal digits.

    # Privacy: if the strings of a row exceed a gigabyte together, joining them fails, and the error
    # would reveal something about the row. So only a prefix of each string is joined.
    """
    text = digested(node)
    if text.find(sql.DPipe):
        for part in list(text.find_all(sql.Column)):
            part.replace(_prefix(part))
    digits = call("RIGHT", call("MD5", text), number(8))
    # NULL stays NULL.
    hexadecimal = sql.DPipe(this=sql.Literal.string("0x"), expression=digits)
    return sql.BitwiseAnd(this=cast(hexadecimal, "BIGINT"), expression=number(MASK))


def _prefix(text: Sql) -> Sql:
    """Return the first characters of a string, or the string itself if it has few bytes."""
    is_long = sql.GT(this=call("OCTET_LENGTH", text.copy()), expression=number(MAX_HASHED_LENGTH))
    return case(is_long, call("LEFT", text.copy(), number(MAX_HASHED_LENGTH)), text.copy())


T = sql.DType
MAYBE_NON_FINITE: Final = "open"
"""The key under which a node's metadata says that its double may be infinite or NaN.

Only casts produce such doubles here.
"""

MAX_POSITION: Final = 2**30
UNCOLLATED: Final = (sql.Cast, sql.TryCast, sql.DataType, sql.Escape, sql.Interval)
"""Nodes whose string literals must not have a collation."""
BOUNDS: Final = (-float(2**63), float(2**63))
"""The bounds of 64-bit integers as doubles: the first is such an integer, the second is not."""


def _add(node: sql.Add) -> Sql | None:
    return arithmetic.add(node.this, node.expression) if _is_double(node) else None


def _subtract(node: sql.Sub) -> Sql | None:
    return arithmetic.subtract(node.this, node.expression) if _is_double(node) else None


def _multiply(node: sql.Mul) -> Sql | None:
    return arithmetic.multiply(node.this, node.expression) if _is_double(node) else None


def _divide(node: sql.Div) -> Sql:
    return arithmetic.divide(node.this, node.expression)


def _is_double(node: sql.Binary) -> bool:
    return is_double(node.this) or is_double(node.expression)


def _finite(node: sql.Anonymous) -> Sql:
    """Return a double, or NULL if it is infinite or NaN; see MAYBE_NON_FINITE."""
    (value,) = node.expressions
    if not value.meta.get(MAYBE_NON_FINITE):
        return value  # type: ignore[no-any-return]
    infinity = cast(sql.Literal.string("Infinity"), "DOUBLE")
    return arithmetic.bound(
        lambda x: case(sql.LT(this=call("ABS", x), expression=infinity), x.copy()), value
    )


def _round(node: sql.Anonymous) -> Sql | None:
    value, *arguments = node.expressions
    if not _are_literals(arguments):
        return sql.Cast(this=sql.Null(), to=sql.DataType(this=type_of(value) or T.DOUBLE))
    digits = _position(arguments[0]) if arguments else 0
    if not is_integer(value):
        return arithmetic.round_away(value, digits)
    return value if digits >= 0 else arithmetic.bound(lambda x: _round_to_zeros(x, -digits), value)


def _bare(node: Sql) -> Sql:
    while isinstance(node, sql.Paren | sql.Neg | sql.Cast):
        node = node.this
    return node


def _round_to_zeros(x: Sql, digits: int) -> Sql:
    """Return an integer rounded so that it ends in ``digits`` zeros, halves away from zero.

    The integer has at most 54 bits, so no operation overflows.
    """
    if digits > 18:
        return sql.Mul(this=x, expression=number(0))
    unit = cast(number(10**digits), "BIGINT")
    half = call("SIGN", x) * number(10**digits // 2)
    shifted = x.copy() + cast(half, "BIGINT")
    return sql.Div(this=sql.Paren(this=shifted), expression=unit, typed=True) * unit.copy()


def _drop_if_integer(node: sql.Anonymous) -> Sql | None:
    (value,) = node.expressions
    return value if is_integer(value) else None


def _date_part(name: str) -> Callable[[sql.Anonymous], Sql]:
    def write(node: sql.Anonymous) -> Sql:
        part = sql.Extract(this=sql.Var(this=name), expression=node.expressions[0])
        return cast(part, "BIGINT")

    return write


def _microseconds(node: sql.Anonymous) -> Sql:
    """Return the microseconds since 1970 of a finite timestamp, computed in decimals."""
    seconds = sql.Extract(this=sql.Var(this="EPOCH"), expression=node.expressions[0])
    return cast(sql.Paren(this=sql.Mul(this=seconds, expression=number(1_000_000))), "BIGINT")


def _divide_integers(node: sql.IntDiv) -> Sql:
    return sql.Div(this=node.this, expression=node.expression, typed=True)


def _truncate_date(node: sql.Anonymous) -> Sql:
    unit, day = node.expressions
    timestamp = sql.Cast(this=day, to=sql.DataType(this=T.TIMESTAMP))
    return call("DATE_TRUNC", unit, timestamp)


def _change_case(name: str) -> Callable[[sql.Anonymous], Sql]:
    """Return a rule that changes the case of each letter as Unicode defines it; ß becomes ẞ."""

    def write(node: sql.Anonymous) -> Sql:
        (text,) = node.expressions
        if name == "UPPER":
            text = call("TRANSLATE", text, sql.Literal.string("ß"), sql.Literal.string("ẞ"))
        collated = sql.Collate(this=text, expression=sql.to_identifier("pg_c_utf8", quoted=True))
        return bytewise(call(name, sql.Paren(this=collated)))

    return write


def _substring(node: sql.Anonymous) -> Sql:
    """Return a substring; negative positions count from the end, negative lengths extend left."""
    text, *arguments = node.expressions
    if not _are_literals(arguments):
        return sql.Cast(this=sql.Null(), to=sql.DataType(this=T.TEXT))
    first, *length = (_position(part) for part in arguments)

    def build(x: Sql) -> Sql:
        start: Sql = number(first)
        if first < 0:
            start = call("LENGTH", x.copy()) + number(first + 1)
        if not length:
            return call("SUBSTR", x, start)
        if length[0] < 0:
            start = start + number(length[0])
        return call("SUBSTR", x, start, number(abs(length[0])))

    return bytewise(arithmetic.bound(build, text))


def _are_literals(parts: list[Sql]) -> bool:
    return all(isinstance(_bare(part), sql.Literal) for part in parts)


def _position(part: Sql) -> int:
    value = int(_bare(part).name) * (-1 if part.find(sql.Neg) else 1)
    return max(-MAX_POSITION, min(value, MAX_POSITION))


def _like(node: sql.Like) -> Sql:
    """Return a LIKE without an escape character, so that only % and _ are special."""
    return sql.Escape(
        this=sql.Like(this=node.this, expression=node.expression), expression=sql.Literal.string("")
    )


def _untyped_null(node: sql.Anonymous) -> Sql | None:
    """Return NULL for a call whose arguments are all NULL, which PostgreSQL would take for text."""
    return sql.Null() if all(isinstance(part, sql.Null) for part in node.expressions) else None


def _untyped_null_case(node: sql.Case) -> Sql | None:
    values = [branch.args["true"] for branch in node.args["ifs"]]
    default = node.args.get("default") or sql.Null()
    return sql.Null() if all(isinstance(one, sql.Null) for one in (*values, default)) else None


def _literal(node: sql.Literal) -> Sql | None:
    if not node.is_string or isinstance(node.parent, UNCOLLATED):
        return None
    if isinstance(node.parent, sql.Anonymous) and node.parent.name == "DATE_TRUNC":
        return None
    return bytewise(as_text(sql.Literal.string(node.name)))


def _count_bits(node: sql.Anonymous) -> Sql:
    bits = sql.DataType.build("BIT(64)", dialect="postgres")
    return call("BIT_COUNT", sql.Cast(this=cast(node.expressions[0], "BIGINT"), to=bits))


def _cast(node: sql.Cast) -> Sql | None:
    """Return the replacement of a cast to a string, or None for any other cast."""
    if type_of(node) is not T.VARCHAR:
        return None
    if type_of(node.this) is T.ENUM or (is_text(node.this) and isinstance(node.this, sql.Column)):
        return node.this  # type: ignore[no-any-return]
    if is_double(node.this):
        return bytewise(arithmetic.bound(double_to_text, node.this))
    return bytewise(as_text(node.this))


def _try_cast(node: sql.TryCast) -> Sql:
    """Return a cast that never fails, by the rules in CASTS; NULL if there is no rule."""
    target, found = type_of(node), type_of(node.this)
    if target is T.ENUM:
        return arithmetic.bound(lambda x: _listed(x, node.to.expressions), node.this)
    rule = CASTS[target].get(found if found is not T.INT else T.BIGINT)
    if target is found:
        read = node.this
    elif rule is None:
        read = sql.Cast(this=sql.Null(), to=node.to)
    elif target is T.BIGINT and (scaled := arithmetic.scaled_integer(node.this)) is not None:
        read = scaled
    else:
        read = arithmetic.bound(rule, node.this)
    if target is T.DOUBLE:
        read.meta[MAYBE_NON_FINITE] = True
    return read  # type: ignore[no-any-return]


def _listed(text: Sql, values: list[Sql]) -> Sql:
    return case(sql.In(this=text, expressions=[value.copy() for value in values]), text.copy())


def _double_to_integer(value: Sql) -> Sql:
    """Return the integer nearest to a double, ties to even; NULL beyond 64 bits and for NaN."""
    low, high = map(number, BOUNDS)
    inside = sql.And(
        this=sql.GTE(this=value, expression=low),
        expression=sql.LT(this=value.copy(), expression=high),
    )
    return case(inside, cast(value.copy(), "BIGINT"))


def _is_nonzero(value: Sql) -> Sql:
    return sql.NEQ(this=value, expression=number(0))


def _boolean_to(kind: str) -> Callable[[Sql], Sql]:
    return lambda value: cast(cast(value, "INTEGER"), kind)


def _to_text(value: Sql) -> Sql:
    return bytewise(as_text(value))


def _modulo(node: sql.Mod) -> Sql | None:
    """Return a remainder of integers, of which one or both are represented as doubles."""
    if not _is_double(node):
        return None
    parts = (
        arithmetic.bound(_double_to_integer, part) if is_double(part) else part
        for part in (node.this, node.expression)
    )
    first, second = parts
    return sql.Mod(this=first, expression=second)


Casts = Mapping[sql.DType | None, Callable[[Sql], Sql]]
CASTS: Final[Mapping[sql.DType | None, Casts]] = {
    T.BIGINT: {
        T.DOUBLE: _double_to_integer,
        None: _double_to_integer,
        T.BOOLEAN: _boolean_to("BIGINT"),
        T.VARCHAR: text_to_integer,
    },
    T.DOUBLE: {
        T.BIGINT: lambda value: cast(value, "DOUBLE"),
        None: lambda value: cast(value, "DOUBLE"),
        T.BOOLEAN: _boolean_to("DOUBLE"),
        T.VARCHAR: text_to_double,
    },
    T.VARCHAR: {
        T.BIGINT: _to_text,
        None: _to_text,
        T.BOOLEAN: _to_text,
        T.DATE: _to_text,
        T.DOUBLE: lambda value: bytewise(double_to_text(value)),
    },
    T.BOOLEAN: {
        T.BIGINT: _is_nonzero,
        None: _is_nonzero,
        T.DOUBLE: _is_nonzero,
        T.VARCHAR: text_to_boolean,
    },
    T.DATE: {T.VARCHAR: text_to_date},
    T.TIMESTAMP: {
        T.VARCHAR: text_to_timestamp,
        T.DATE: date_to_timestamp,
    },
}
"""Functions that cast a value and never fail, by the target type and the type of the value.

None is an unknown type.
"""


POSTGRESQL: Final = Dialect(
    "postgres",
    nodes={
        sql.Add: _add,
        sql.Sub: _subtract,
        sql.Mul: _multiply,
        sql.Div: _divide,
        sql.IntDiv: _divide_integers,
        sql.Mod: _modulo,
        sql.Cast: _cast,
        sql.TryCast: _try_cast,
        sql.Case: _untyped_null_case,
        sql.Select: sort_once,
        sql.Like: _like,
        sql.Literal: _literal,
        sql.BitwiseOr: text_digit,
    },
    calls={
        FINITE: _finite,
        "ROUND": _round,
        "EXP": lambda node: arithmetic.exponential(*node.expressions),
        "SQRT": lambda node: arithmetic.root(*node.expressions),
        "POWER": lambda node: arithmetic.power(*node.expressions),
        "LOG2": lambda node: arithmetic.binary_logarithm(*node.expressions),
        "LOG10": lambda node: call("LOG", *node.expressions),
        **dict.fromkeys(("COALESCE", "GREATEST", "LEAST"), _untyped_null),
        "FLOOR": _drop_if_integer,
        "CEIL": _drop_if_integer,
        **{name: _date_part(name) for name in ("YEAR", "QUARTER", "MONTH", "DAY")},
        "DAYOFWEEK": _date_part("DOW"),
        "DAYOFYEAR": _date_part("DOY"),
        "WEEK": _date_part("WEEK"),
        "ISOYEAR": _date_part("ISOYEAR"),
        "EPOCH_US": _microseconds,
        "TO_MONTHS": lambda node: call("MAKE_INTERVAL", number(0), *node.expressions),
        "DATE_TRUNC": _truncate_date,
        "LOWER": _change_case("LOWER"),
        "UPPER": _change_case("UPPER"),
        "LENGTH": lambda node: cast(call("CHAR_LENGTH", *node.expressions), "BIGINT"),
        "SUBSTR": _substring,
        "TRIM": lambda node: call("BTRIM", *node.expressions),
        "STRPOS": lambda node: cast(call("STRPOS", *node.expressions), "BIGINT"),
        "BIT_COUNT": _count_bits,
        "LIST": lambda node: call("ARRAY_AGG", *node.expressions),
    },
    finish=add_fences,
)
