"""How PostgreSQL spells the statements that every engine runs.

Every function is written so that it fails on no row: where PostgreSQL raises an error, DuckDB's
value stands, or NULL. Texts are compared and ordered by their bytes, whatever a database's locale.
"""

from collections.abc import Callable, Mapping
from typing import Final

from sqlglot import expressions as sql

from confide.engines import guards
from confide.engines.expressions import Sql, call, case, cast, number
from confide.engines.fences import add_fences
from confide.engines.postgres_digits import text_digit
from confide.engines.postgres_texts import (
    as_text,
    bytewise,
    double_to_text,
    text_to_day,
    text_to_double,
    text_to_truth,
    text_to_whole,
)
from confide.engines.shortcuts import sort_once
from confide.engines.spelling import FINITE, Spelling, is_real, is_text, is_whole, type_of

__all__ = ["POSTGRESQL"]

T = sql.DType
OPEN: Final = "open"
"""Marks a double that may be infinite or NaN; no other can, for nothing here computes such."""

LONGEST: Final = 2**30
UNCOLLATED: Final = (sql.Cast, sql.TryCast, sql.DataType, sql.Escape, sql.Interval)
BOUNDS: Final = (-float(2**63), float(2**63))


def _add(node: sql.Add) -> Sql | None:
    return guards.add(node.this, node.expression) if _is_double(node) else None


def _subtract(node: sql.Sub) -> Sql | None:
    return guards.subtract(node.this, node.expression) if _is_double(node) else None


def _multiply(node: sql.Mul) -> Sql | None:
    return guards.multiply(node.this, node.expression) if _is_double(node) else None


def _divide(node: sql.Div) -> Sql:
    return guards.divide(node.this, node.expression)


def _is_double(node: sql.Binary) -> bool:
    return is_real(node.this) or is_real(node.expression)


def _finite(node: sql.Anonymous) -> Sql:
    """Return what is finite already, or compare it with infinity, which NaN is above."""
    (value,) = node.expressions
    if not value.meta.get(OPEN):
        return value  # type: ignore[no-any-return]
    infinity = cast(sql.Literal.string("Infinity"), "DOUBLE")
    return guards.bound(
        lambda x: case(sql.LT(this=call("ABS", x), expression=infinity), x.copy()), value
    )


def _round(node: sql.Anonymous) -> Sql | None:
    value, *places = node.expressions
    if not _are_written(places):
        return sql.Cast(this=sql.Null(), to=sql.DataType(this=type_of(value) or T.DOUBLE))
    digits = _place(places[0]) if places else 0
    if not is_whole(value):
        return guards.round_away(value, digits)
    return value if digits >= 0 else guards.bound(lambda x: _round_whole(x, -digits), value)


def _bare(node: Sql) -> Sql:
    while isinstance(node, sql.Paren | sql.Neg | sql.Cast):
        node = node.this
    return node


def _round_whole(x: Sql, digits: int) -> Sql:
    """Return a whole number of at most 54 bits with so many zeros, halves away from zero."""
    if digits > 18:
        return sql.Mul(this=x, expression=number(0))
    unit = cast(number(10**digits), "BIGINT")
    half = call("SIGN", x) * number(10**digits // 2)
    moved = x.copy() + cast(half, "BIGINT")
    return sql.Div(this=sql.Paren(this=moved), expression=unit, typed=True) * unit.copy()


def _whole_already(node: sql.Anonymous) -> Sql | None:
    (value,) = node.expressions
    return value if is_whole(value) else None


def _part_of_day(name: str) -> Callable[[sql.Anonymous], Sql]:
    def write(node: sql.Anonymous) -> Sql:
        part = sql.Extract(this=sql.Var(this=name), expression=node.expressions[0])
        return cast(part, "BIGINT")

    return write


def _truncate_day(node: sql.Anonymous) -> Sql:
    unit, day = node.expressions
    moment = sql.Cast(this=day, to=sql.DataType(this=T.TIMESTAMP))
    return call("DATE_TRUNC", unit, moment)


def _change_case(name: str) -> Callable[[sql.Anonymous], Sql]:
    """Letters change one by one, as Unicode has it, whatever the locale; ß has a capital one."""

    def write(node: sql.Anonymous) -> Sql:
        (text,) = node.expressions
        if name == "UPPER":
            text = call("TRANSLATE", text, sql.Literal.string("ß"), sql.Literal.string("ẞ"))
        plain = sql.Collate(this=text, expression=sql.to_identifier("pg_c_utf8", quoted=True))
        return bytewise(call(name, sql.Paren(this=plain)))

    return write


def _substring(node: sql.Anonymous) -> Sql:
    """Return part of a text; places below zero count from its end, lengths below zero leftwards."""
    text, *written = node.expressions
    if not _are_written(written):
        return sql.Cast(this=sql.Null(), to=sql.DataType(this=T.TEXT))
    first, *length = (_place(part) for part in written)

    def build(x: Sql) -> Sql:
        start: Sql = number(first)
        if first < 0:
            start = call("LENGTH", x.copy()) + number(first + 1)
        if not length:
            return call("SUBSTR", x, start)
        if length[0] < 0:
            start = start + number(length[0])
        return call("SUBSTR", x, start, number(abs(length[0])))

    return bytewise(guards.bound(build, text))


def _are_written(parts: list[Sql]) -> bool:
    return all(isinstance(_bare(part), sql.Literal) for part in parts)


def _place(part: Sql) -> int:
    value = int(_bare(part).name) * (-1 if part.find(sql.Neg) else 1)
    return max(-LONGEST, min(value, LONGEST))


def _like(node: sql.Like) -> Sql:
    """Return a pattern in which nothing but % and _ is special."""
    return sql.Escape(
        this=sql.Like(this=node.this, expression=node.expression), expression=sql.Literal.string("")
    )


def _only_null(node: sql.Anonymous) -> Sql | None:
    """Return NULL of no type where there is nothing else, for PostgreSQL would make it a text."""
    return sql.Null() if all(isinstance(part, sql.Null) for part in node.expressions) else None


def _no_branch(node: sql.Case) -> Sql | None:
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
    if type_of(node) is not T.VARCHAR:
        return None
    if type_of(node.this) is T.ENUM or (is_text(node.this) and isinstance(node.this, sql.Column)):
        return node.this  # type: ignore[no-any-return]
    if is_real(node.this):
        return bytewise(guards.bound(double_to_text, node.this))
    return bytewise(as_text(node.this))


def _try_cast(node: sql.TryCast) -> Sql:
    wanted, found = type_of(node), type_of(node.this)
    if wanted is T.ENUM:
        return guards.bound(lambda x: _listed(x, node.to.expressions), node.this)
    rule = CASTS[wanted].get(found if found is not T.INT else T.BIGINT)
    if wanted is found:
        read = node.this
    elif rule is None:
        read = sql.Cast(this=sql.Null(), to=node.to)
    elif wanted is T.BIGINT and (scaled := guards.scaled_whole(node.this)) is not None:
        read = scaled
    else:
        read = guards.bound(rule, node.this)
    if wanted is T.DOUBLE:
        read.meta[OPEN] = True
    return read  # type: ignore[no-any-return]


def _listed(text: Sql, values: list[Sql]) -> Sql:
    return case(sql.In(this=text, expressions=[value.copy() for value in values]), text.copy())


def _double_to_whole(value: Sql) -> Sql:
    """Return the nearest whole number, halves to the even one, NULL beyond 64 bits and for NaN."""
    low, high = map(number, BOUNDS)
    inside = sql.And(
        this=sql.GTE(this=value, expression=low),
        expression=sql.LT(this=value.copy(), expression=high),
    )
    return case(inside, cast(value.copy(), "BIGINT"))


def _is_other_than_zero(value: Sql) -> Sql:
    return sql.NEQ(this=value, expression=number(0))


def _truth_to(kind: str) -> Callable[[Sql], Sql]:
    return lambda value: cast(cast(value, "INTEGER"), kind)


def _to_text(value: Sql) -> Sql:
    return bytewise(as_text(value))


def _modulo(node: sql.Mod) -> Sql | None:
    """Return a remainder of whole numbers, also where doubles hold these."""
    if not _is_double(node):
        return None
    parts = (
        guards.bound(_double_to_whole, part) if is_real(part) else part
        for part in (node.this, node.expression)
    )
    first, second = parts
    return sql.Mod(this=first, expression=second)


Casts = Mapping[sql.DType | None, Callable[[Sql], Sql]]
CASTS: Final[Mapping[sql.DType | None, Casts]] = {
    T.BIGINT: {
        T.DOUBLE: _double_to_whole,
        None: _double_to_whole,
        T.BOOLEAN: _truth_to("BIGINT"),
        T.VARCHAR: text_to_whole,
    },
    T.DOUBLE: {
        T.BIGINT: lambda value: cast(value, "DOUBLE"),
        None: lambda value: cast(value, "DOUBLE"),
        T.BOOLEAN: _truth_to("DOUBLE"),
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
        T.BIGINT: _is_other_than_zero,
        None: _is_other_than_zero,
        T.DOUBLE: _is_other_than_zero,
        T.VARCHAR: text_to_truth,
    },
    T.DATE: {T.VARCHAR: text_to_day},
}


POSTGRESQL: Final = Spelling(
    "postgres",
    nodes={
        sql.Add: _add,
        sql.Sub: _subtract,
        sql.Mul: _multiply,
        sql.Div: _divide,
        sql.Mod: _modulo,
        sql.Cast: _cast,
        sql.TryCast: _try_cast,
        sql.Case: _no_branch,
        sql.Select: sort_once,
        sql.Like: _like,
        sql.Literal: _literal,
        sql.BitwiseOr: text_digit,
    },
    calls={
        FINITE: _finite,
        "ROUND": _round,
        "EXP": lambda node: guards.exponential(*node.expressions),
        "SQRT": lambda node: guards.root(*node.expressions),
        **dict.fromkeys(("COALESCE", "GREATEST", "LEAST"), _only_null),
        "FLOOR": _whole_already,
        "CEIL": _whole_already,
        **{name: _part_of_day(name) for name in ("YEAR", "QUARTER", "MONTH", "DAY")},
        "DAYOFWEEK": _part_of_day("DOW"),
        "DATE_TRUNC": _truncate_day,
        "LOWER": _change_case("LOWER"),
        "UPPER": _change_case("UPPER"),
        "LENGTH": lambda node: cast(call("CHAR_LENGTH", *node.expressions), "BIGINT"),
        "SUBSTR": _substring,
        "BIT_COUNT": _count_bits,
        "LIST": lambda node: call("ARRAY_AGG", *node.expressions),
    },
    finish=add_fences,
)
