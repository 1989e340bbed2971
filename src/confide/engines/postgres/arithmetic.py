"""Floating-point arithmetic that never raises, for engines that do.

PostgreSQL raises an error where a result is too large or too small for a double. Here each
operation is written so that it cannot: it gives the result that IEEE 754 rounds to, and NULL where
that is infinite.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Final

from sqlglot import expressions as sql

from confide.engines.sql.dialect import is_integer
from confide.engines.sql.expressions import (
    Sql,
    call,
    case,
    cast,
    column,
    is_known,
    label,
    nested,
    number,
    select,
)

__all__ = [
    "add",
    "bound",
    "divide",
    "exponential",
    "multiply",
    "root",
    "round_away",
    "scaled_whole",
    "subtract",
]

LARGEST: Final = 1.7976931348623157e308
SAFE: Final = LARGEST * (1 - 2.0**-50)
"""What is not above this does not overflow, after a rounding more or less."""

LEAST: Final = 2.0**-1074
MIDDLE: Final = 1e150
SCALE: Final = 2.0**537
EXPONENTS: Final = (-745.13, 709.782712893383)
"""Between these exp is neither zero nor infinite."""

SMALL_ADDEND: Final = 1e290
FEW: Final = 12
OPERANDS: Final = "operands"
RATE: Final = "rate"
"""Marks a product with a written number."""


def bound(build: Callable[..., Sql], *operands: Sql, always: bool = False) -> Sql:
    """Return an expression that names its operands several times but computes them once.

    Large operands become columns of a subquery, which OFFSET keeps the planner from dissolving.
    """
    if not always and all(_is_small(operand) for operand in operands):
        return sql.Paren(this=build(*operands))
    names = [f"o{place}" for place in range(len(operands))]
    shown = [label(operand, name) for operand, name in zip(operands, names, strict=True)]
    rows = sql.Select(expressions=shown, offset=sql.Offset(expression=number(0)))
    value = build(*(column(name, OPERANDS) for name in names))
    return sql.Subquery(this=select([value], nested(rows, OPERANDS)))


def add(first: Sql, second: Sql) -> Sql:
    """Return a sum.

    Why: it overflows only where both have one sign and one is larger than what the other leaves;
         a small number added to the largest double rounds to that.
    """
    if _largest(first) < SMALL_ADDEND or _largest(second) < SMALL_ADDEND:
        return sql.Add(this=first, expression=second)
    return bound(lambda x, y: _added(sql.Add, sql.NEQ, x, y), first, second)


def subtract(first: Sql, second: Sql) -> Sql:
    """Return a difference, like a sum."""
    if _largest(first) < SMALL_ADDEND or _largest(second) < SMALL_ADDEND:
        return sql.Sub(this=first, expression=second)
    return bound(lambda x, y: _added(sql.Sub, sql.EQ, x, y), first, second)


def _added(node: type[sql.Binary], signs: type[sql.Binary], x: Sql, y: Sql) -> Sql:
    room = number(LARGEST) - _size(y)
    apart = signs(this=call("SIGN", x.copy()), expression=call("SIGN", y.copy()))
    fits = sql.Or(this=sql.LTE(this=_size(x), expression=room), expression=apart)
    return case(fits, node(this=x.copy(), expression=y.copy()))


def multiply(first: Sql, second: Sql) -> Sql:
    """Return a product.

    Why: it overflows only where both are at least 1, and then not if one is at most SAFE over the
         other; it vanishes only where both are below 1 and it is not above 2^-1075. That is seen
         with the smaller one scaled up by 2^537, or both where both are below 2^-537, so that no
         product in between overflows or vanishes itself.
    """
    least, largest = _least(first) * _least(second), _largest(first) * _largest(second)
    if largest <= SAFE and least >= LEAST:
        return sql.Mul(this=first, expression=second)
    rate = _literal(second)
    if rate:
        return bound(lambda x: _scaled(x, second, rate), first)
    return bound(_multiplied, first, second)


def _scaled(x: Sql, factor: Sql, rate: float) -> Sql:
    """Return the product with a written number, whose size is ``rate``."""
    product = sql.Mul(this=x, expression=factor)
    if rate >= 1:
        scaled = case(sql.LTE(this=_size(x), expression=number(SAFE / rate)), product)
        scaled.meta[RATE] = rate
        return scaled
    vanished = sql.Mul(this=x.copy(), expression=number(0.0))
    return case(sql.GTE(this=_size(x), expression=number(_visible(rate))), product, vanished)


def _visible(rate: float) -> float:
    """Return the smallest double whose product with a rate below 1 does not round to zero.

    Why: a product rounds to zero where it is at most half of the least double, exactly. So its
         other factor must be above ``limit``, and ``float`` rounds that to one of its neighbors.
    """
    limit = Fraction(LEAST) / 2 / Fraction(rate)
    nearest = float(limit)
    return nearest if nearest > limit else math.nextafter(nearest, math.inf)


def _multiplied(x: Sql, y: Sql) -> Sql:
    product = sql.Mul(this=x.copy(), expression=y.copy())
    zero, one = number(0.0), number(1.0)
    vanished = sql.Mul(this=sql.Paren(this=x.copy() * zero.copy()), expression=y.copy())
    fits = sql.LTE(this=_size(x), expression=_quotient(number(SAFE), _size(y)))
    return sql.Case(
        ifs=[
            sql.If(this=sql.And(this=_is_middle(x), expression=_is_middle(y)), true=product),
            sql.If(this=_either(x, y, zero, sql.EQ), true=product.copy()),
            sql.If(
                this=_both(x, y, one, sql.LT),
                true=case(_is_seen(x, y), product.copy(), vanished),
            ),
            sql.If(this=_both(x, y, one.copy(), sql.GTE), true=case(fits, product.copy())),
        ],
        default=product.copy(),
    )


def _is_seen(x: Sql, y: Sql) -> Sql:
    """Return whether a product of numbers below 1 is not zero."""
    larger, smaller = call("GREATEST", _size(x), _size(y)), call("LEAST", _size(x), _size(y))
    near = sql.GTE(this=larger, expression=number(1 / SCALE))
    once = larger.copy() * sql.Paren(this=smaller * number(SCALE))
    twice = sql.Paren(this=larger.copy() * number(SCALE)) * sql.Paren(
        this=smaller.copy() * number(SCALE)
    )
    # An engine may take the parts of an AND in any order, but those of a CASE in theirs only.
    return case(
        near,
        sql.GT(this=once, expression=number(1 / SCALE / 2)),
        sql.GT(this=twice, expression=number(0.5)),
    )


def scaled_whole(product: Sql) -> Sql | None:
    """Return a product by `multiply` with a large number as a whole one, NULL beyond 64 bits.

    None stands for all other nodes. The product is compared once, not for both of its limits.
    """
    branch = product.this if isinstance(product, sql.Paren) else product
    rate = branch.meta.get(RATE)
    if rate is None:
        return None
    (only,) = branch.args["ifs"]
    inside = sql.LTE(this=only.this.this, expression=number(2.0**63 / rate * (1 - 2.0**-50)))
    return case(inside, cast(only.args["true"], "BIGINT"))


def divide(first: Sql, second: Sql) -> Sql:
    """Return a quotient; the divisor is not zero.

    Why: it overflows only where the divisor is below 1, and then not if the dividend is at most
         SAFE times the divisor; it vanishes only where the dividend is below 1 and the divisor is
         not, and then not if the dividend is above 2^-1075 times the divisor, which is compared
         after both are scaled by powers of 2.
    """
    return bound(_divided, first, second)


def _divided(x: Sql, y: Sql) -> Sql:
    quotient, one = _quotient(x.copy(), y.copy()), number(1.0)
    vanished = sql.Paren(this=x.copy() * number(0.0))  # with the sign of what vanishes
    fits = sql.LTE(this=_size(x), expression=number(SAFE) * _size(y))
    scaled = _size(y) * number(1 / SCALE / 2)
    visible = sql.GT(this=_size(x) * number(SCALE), expression=scaled)
    return sql.Case(
        ifs=[
            sql.If(this=sql.And(this=_is_middle(x), expression=_is_middle(y)), true=quotient),
            sql.If(this=sql.EQ(this=x.copy(), expression=number(0.0)), true=quotient.copy()),
            sql.If(this=sql.LT(this=_size(y), expression=one), true=case(fits, quotient.copy())),
            sql.If(
                this=sql.LT(this=_size(x), expression=one.copy()),
                true=sql.Case(
                    ifs=[
                        sql.If(this=visible, true=quotient.copy()),
                        sql.If(this=is_known(y.copy()), true=_quotient(vanished, y.copy())),
                    ]
                ),
            ),
        ],
        default=quotient.copy(),
    )


def exponential(power: Sql) -> Sql:
    """Return e to a power: zero and NULL beyond what doubles hold."""
    low, high = map(number, EXPONENTS)

    def build(x: Sql) -> Sql:
        below = sql.If(this=sql.LT(this=x, expression=low), true=number(0.0))
        inside = sql.LTE(this=x.copy(), expression=high)
        return sql.Case(ifs=[below, sql.If(this=inside, true=call("EXP", x.copy()))])

    return bound(build, power)


def root(value: Sql) -> Sql:
    """Return a square root, NULL of what is below zero."""
    zero = number(0.0)
    return bound(lambda x: case(sql.GTE(this=x, expression=zero), call("SQRT", x.copy())), value)


def round_away(value: Sql, digits: int = 0) -> Sql:
    """Return a double rounded to so many decimal places, halves away from zero.

    Why: a double less its whole part is exact. With places, the value is scaled by a power of ten,
         rounded and scaled back, as DuckDB does it; where a step overflows, the value itself, or
         zero if the places are left of the point, stands for the result.
    """
    if digits == 0:
        return bound(_rounded, value)
    rate = 10.0 ** min(abs(digits), 400) if abs(digits) < 309 else None
    if digits > 0:
        return value if rate is None else bound(lambda x: _rounded_right(x, rate), value)
    return bound(lambda x: _rounded_left(x, rate), value)


def _rounded(x: Sql) -> Sql:
    whole = call("TRUNC", x)
    part = call("ABS", x.copy() - whole.copy())
    is_far = sql.GTE(this=part, expression=number(0.5))
    return whole + case(is_far, call("SIGN", x.copy()), number(0.0))


def _rounded_right(x: Sql, rate: float) -> Sql:
    fits = sql.LTE(this=_size(x), expression=number(SAFE / rate))
    rounded = bound(_rounded, x.copy() * number(rate))
    return case(fits, _quotient(rounded, number(rate)), x.copy())


def _rounded_left(x: Sql, rate: float | None) -> Sql:
    zero = sql.Mul(this=x.copy(), expression=number(0.0))  # NULL stays NULL
    if rate is None:
        return zero
    fits = sql.Between(this=_size(x), low=number(rate / 4), high=number(max(0.0, SAFE - rate)))
    rounded = bound(_rounded, _quotient(x.copy(), number(rate)))
    return case(fits, rounded * number(rate), zero)


def _quotient(x: Sql, y: Sql) -> Sql:
    return sql.Div(this=x, expression=y, typed=True)


def _size(x: Sql) -> Sql:
    return call("ABS", x.copy())


def _is_middle(x: Sql) -> Sql:
    return sql.Between(this=_size(x), low=number(1 / MIDDLE), high=number(MIDDLE))


def _both(x: Sql, y: Sql, limit: Sql, compare: type[sql.Binary]) -> Sql:
    first = compare(this=_size(x), expression=limit)
    return sql.And(this=first, expression=compare(this=_size(y), expression=limit.copy()))


def _either(x: Sql, y: Sql, limit: Sql, compare: type[sql.Binary]) -> Sql:
    first = compare(this=x.copy(), expression=limit)
    return sql.Or(this=first, expression=compare(this=y.copy(), expression=limit.copy()))


def _is_small(node: Sql) -> bool:
    """Tell whether writing a node several times is cheaper than binding it."""
    return not node.find(sql.Case, sql.Subquery) and sum(1 for _ in node.walk()) <= FEW


def _bare(node: Sql) -> Sql:
    while isinstance(node, sql.Paren | sql.Neg | sql.Nullif):
        node = node.this
    return node


def _literal(node: Sql) -> float | None:
    """Return the size of a written number."""
    found = _bare(node)
    if isinstance(found, sql.Cast):
        found = _bare(found.this)
    is_number = isinstance(found, sql.Literal) and not found.is_string
    return float(found.name) if is_number else None


def _is_counted(node: Sql) -> bool:
    """Tell whether a double holds a whole number of 64 bits."""
    found = _bare(node)
    return isinstance(found, sql.Cast) and is_integer(_bare(found.this))


def _least(node: Sql) -> float:
    """Return a number that the size of a node is not below, unless it is zero."""
    known = _literal(node)
    if known is not None:
        return known or 1.0
    return 1.0 if _is_counted(node) else LEAST


def _largest(node: Sql) -> float:
    """Return a number that the size of a node is not above."""
    known = _literal(node)
    if known is not None:
        return known
    return 2.0**63 if _is_counted(node) else float("inf")
