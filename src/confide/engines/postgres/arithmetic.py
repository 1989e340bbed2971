"""Floating-point arithmetic that never fails, for PostgreSQL.

PostgreSQL raises an error if a result is too large for a double (it *overflows*), or is not zero
but would be rounded to zero (it *vanishes*). Here each operation is written so that it cannot fail.
It returns the result that IEEE 754 rounds to, or NULL if that is infinite. In the arguments below,
operands are compared by their absolute values.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Final

from sqlglot import expressions as sql

from confide.engines.sql.builders import (
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
from confide.engines.sql.dialect import is_integer

__all__ = [
    "add",
    "binary_logarithm",
    "bound",
    "divide",
    "exponential",
    "multiply",
    "power",
    "root",
    "round_away",
    "scaled_integer",
    "subtract",
]

MAX_DOUBLE: Final = 1.7976931348623157e308
SAFE_MAX: Final = MAX_DOUBLE * (1 - 2.0**-50)
"""A bound below which results do not overflow, even after one more rounding."""

MIN_DOUBLE: Final = 2.0**-1074
MIDDLE_MAX: Final = 1e150
"""Products and quotients of numbers from 1 / MIDDLE_MAX to MIDDLE_MAX never overflow or vanish."""

SCALE: Final = 2.0**537
"""The factor by which small numbers are scaled up, to see whether their product would vanish."""

EXPONENTS: Final = (-745.13, 709.782712893383)
"""Between these, exp is neither zero nor infinite."""

POWER_EXPONENTS: Final = (-744.4, 709.7827)
"""Between these products of an exponent and a logarithm, powers are neither zero nor infinite."""
LARGE_EXPONENT: Final = 1e300
SMALL_EXPONENT: Final = 1e-290
"""A power with an exponent below this in size rounds to 1, for every base except zero."""

SMALL_ADDEND: Final = 1e290
"""Adding a smaller number to the largest double rounds to the largest double."""

MAX_REPEATED_NODES: Final = 12
OPERANDS: Final = "operands"
RATE: Final = "rate"
"""The key under which the metadata of a product's node contains the size of its literal factor."""


def bound(build: Callable[..., Sql], *operands: Sql, always: bool = False) -> Sql:
    """Return the expression that ``build`` makes of its operands, which it may use several times.

    If an operand is large, all become columns of a subquery with an OFFSET, which PostgreSQL does
    not inline, so that each is computed once. With ``always``, small operands do too.
    """
    if not always and all(_is_small(operand) for operand in operands):
        return sql.Paren(this=build(*operands))
    names = [f"o{index}" for index in range(len(operands))]
    shown = [label(operand, name) for operand, name in zip(operands, names, strict=True)]
    rows = sql.Select(expressions=shown, offset=sql.Offset(expression=number(0)))
    value = build(*(column(name, OPERANDS) for name in names))
    return sql.Subquery(this=select([value], nested(rows, OPERANDS)))


def add(first: Sql, second: Sql) -> Sql:
    """Return a sum.

    Why: it overflows only if both operands have the same sign, and one is larger than the largest
         double minus the other. If one operand is less than SMALL_ADDEND, it never overflows. No
         sum of doubles vanishes.
    """
    if _upper_bound(first) < SMALL_ADDEND or _upper_bound(second) < SMALL_ADDEND:
        return sql.Add(this=first, expression=second)
    return bound(lambda x, y: _added(sql.Add, sql.NEQ, x, y), first, second)


def subtract(first: Sql, second: Sql) -> Sql:
    """Return a difference, which is a sum with the sign of the second operand reversed."""
    if _upper_bound(first) < SMALL_ADDEND or _upper_bound(second) < SMALL_ADDEND:
        return sql.Sub(this=first, expression=second)
    return bound(lambda x, y: _added(sql.Sub, sql.EQ, x, y), first, second)


def _added(node: type[sql.Binary], signs: type[sql.Binary], x: Sql, y: Sql) -> Sql:
    """Return a sum or difference (``node``), or NULL if it overflows.

    ``signs`` compares the signs of the operands: it holds if the result cannot overflow.
    """
    headroom = number(MAX_DOUBLE) - _size(y)
    cannot_overflow = signs(this=call("SIGN", x.copy()), expression=call("SIGN", y.copy()))
    fits = sql.Or(this=sql.LTE(this=_size(x), expression=headroom), expression=cannot_overflow)
    return case(fits, node(this=x.copy(), expression=y.copy()))


def multiply(first: Sql, second: Sql) -> Sql:
    """Return a product.

    Why: the product overflows only if both factors are at least 1, and not if one is at most
         SAFE_MAX divided by the other. It vanishes only if both factors are less than 1, and the
         exact product is at most 2^-1075. To test this, the smaller factor is multiplied by 2^537;
         if both factors are less than 2^-537, both are. So the tested product itself neither
         overflows nor vanishes.
    """
    low, high = (
        _lower_bound(first) * _lower_bound(second),
        _upper_bound(first) * _upper_bound(second),
    )
    if high <= SAFE_MAX and low >= MIN_DOUBLE:
        return sql.Mul(this=first, expression=second)
    factor_size = _literal_size(second)
    if factor_size:
        return bound(lambda x: _scaled(x, second, factor_size), first)
    return bound(_multiplied, first, second)


def _scaled(x: Sql, factor: Sql, factor_size: float) -> Sql:
    """Return the product with a literal; ``factor_size`` is its absolute value."""
    product = sql.Mul(this=x, expression=factor)
    if factor_size >= 1:
        scaled = case(sql.LTE(this=_size(x), expression=number(SAFE_MAX / factor_size)), product)
        scaled.meta[RATE] = factor_size
        return scaled
    vanished = sql.Mul(this=x.copy(), expression=number(0.0))
    return case(
        sql.GTE(this=_size(x), expression=number(_min_visible(factor_size))), product, vanished
    )


def _min_visible(factor_size: float) -> float:
    """Return the smallest double whose product with a number below 1 does not vanish.

    ``factor_size`` is that number.

    Why: a product vanishes if it is at most half of the smallest double, MIN_DOUBLE. So its other
         factor must exceed ``limit``, which ``float`` rounds to one of the adjacent doubles.
    """
    limit = Fraction(MIN_DOUBLE) / 2 / Fraction(factor_size)
    nearest = float(limit)
    return nearest if nearest > limit else math.nextafter(nearest, math.inf)


def _multiplied(x: Sql, y: Sql) -> Sql:
    """Return a product by the cases of `multiply`."""
    product = sql.Mul(this=x.copy(), expression=y.copy())
    zero, one = number(0.0), number(1.0)
    vanished = sql.Mul(this=sql.Paren(this=x.copy() * zero.copy()), expression=y.copy())
    fits = sql.LTE(this=_size(x), expression=_quotient(number(SAFE_MAX), _size(y)))
    return sql.Case(
        ifs=[
            sql.If(this=sql.And(this=_is_middle(x), expression=_is_middle(y)), true=product),
            sql.If(this=_either(x, y, zero, sql.EQ), true=product.copy()),
            sql.If(
                this=_both(x, y, one, sql.LT),
                true=case(_is_nonzero(x, y), product.copy(), vanished),
            ),
            sql.If(this=_both(x, y, one.copy(), sql.GTE), true=case(fits, product.copy())),
        ],
        default=product.copy(),
    )


def _is_nonzero(x: Sql, y: Sql) -> Sql:
    """Return the condition that the product of two numbers below 1 does not vanish."""
    larger, smaller = call("GREATEST", _size(x), _size(y)), call("LEAST", _size(x), _size(y))
    is_large = sql.GTE(this=larger, expression=number(1 / SCALE))
    once = larger.copy() * sql.Paren(this=smaller * number(SCALE))
    twice = sql.Paren(this=larger.copy() * number(SCALE)) * sql.Paren(
        this=smaller.copy() * number(SCALE)
    )
    # An engine may evaluate the parts of an AND in any order, but evaluates a CASE in sequence.
    return case(
        is_large,
        sql.GT(this=once, expression=number(1 / SCALE / 2)),
        sql.GT(this=twice, expression=number(0.5)),
    )


def scaled_integer(product: Sql) -> Sql | None:
    """Return the integer nearest to a product with a literal of 1 or more; NULL beyond 64 bits.

    Return None if ``product`` was not written by `multiply` for such a literal. One comparison of
    the other factor replaces comparing the product with both limits of 64-bit integers.
    """
    branch = product.this if isinstance(product, sql.Paren) else product
    factor_size = branch.meta.get(RATE)
    if factor_size is None:
        return None
    (branch_if,) = branch.args["ifs"]
    inside = sql.LTE(
        this=branch_if.this.this, expression=number(2.0**63 / factor_size * (1 - 2.0**-50))
    )
    return case(inside, cast(branch_if.args["true"], "BIGINT"))


def divide(first: Sql, second: Sql) -> Sql:
    """Return a quotient; the divisor is not zero.

    Why: the quotient overflows only if the divisor is less than 1, and not if the dividend is at
         most SAFE_MAX times the divisor. It vanishes only if the dividend is less than 1 and the
         divisor is not, and not if the dividend exceeds 2^-1075 times the divisor. Both sides of
         this comparison are scaled by 2^537.
    """
    return bound(_divided, first, second)


def _divided(x: Sql, y: Sql) -> Sql:
    """Return a quotient by the cases of `divide`."""
    quotient, one = _quotient(x.copy(), y.copy()), number(1.0)
    vanished = sql.Paren(this=x.copy() * number(0.0))  # a zero with the sign of the quotient
    fits = sql.LTE(this=_size(x), expression=number(SAFE_MAX) * _size(y))
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
    """Return e to a power: zero if it is too small for a double, and NULL if it is too large."""
    low, high = map(number, EXPONENTS)

    def build(x: Sql) -> Sql:
        below = sql.If(this=sql.LT(this=x, expression=low), true=number(0.0))
        inside = sql.LTE(this=x.copy(), expression=high)
        return sql.Case(ifs=[below, sql.If(this=inside, true=call("EXP", x.copy()))])

    return bound(build, power)


def root(value: Sql) -> Sql:
    """Return a square root, NULL for negative values."""
    zero = number(0.0)
    return bound(lambda x: case(sql.GTE(this=x, expression=zero), call("SQRT", x.copy())), value)


def power(base: Sql, exponent: Sql) -> Sql:
    """Return a power; zero if it is too small for a double, NULL if it is too large or undefined.

    Why: PostgreSQL fails where the result is infinite, or zero for a base other than zero. The
         product of the exponent and the logarithm of the base decides this beforehand. It neither
         overflows nor vanishes itself, because exponents that large or small are replaced first.
    """
    return bound(_powered, base, exponent, always=True)


def _powered(x: Sql, y: Sql) -> Sql:
    zero, one = number(0.0), number(1.0)
    is_zero = sql.EQ(this=x, expression=zero)
    at_zero = sql.Case(
        ifs=[
            sql.If(this=sql.GT(this=y, expression=zero.copy()), true=zero.copy()),
            sql.If(this=sql.EQ(this=y.copy(), expression=zero.copy()), true=one),
        ]
    )
    is_root = sql.And(
        this=sql.LT(this=x.copy(), expression=zero.copy()),
        expression=sql.NEQ(this=call("FLOOR", y.copy()), expression=y.copy()),
    )
    limited = call(
        "LEAST", call("GREATEST", y.copy(), number(-LARGE_EXPONENT)), number(LARGE_EXPONENT)
    )
    size = limited * call("LN", _size(x))
    is_tiny = sql.LT(this=_size(y), expression=number(SMALL_EXPONENT))
    low, high = map(number, POWER_EXPONENTS)
    found = sql.Case(
        ifs=[
            sql.If(this=is_zero, true=at_zero),
            sql.If(this=is_root, true=sql.Null()),
            sql.If(this=is_tiny, true=one.copy()),
            sql.If(this=sql.GT(this=size, expression=high), true=sql.Null()),
            sql.If(this=sql.LT(this=size.copy(), expression=low), true=zero.copy()),
        ],
        default=call("POWER", x.copy(), y.copy()),
    )
    are_known = sql.And(this=is_known(x.copy()), expression=is_known(y.copy()))
    return case(are_known, found)  # LEAST and GREATEST skip NULL


def binary_logarithm(value: Sql) -> Sql:
    """Return the logarithm to base 2 of a positive number."""
    return sql.Paren(this=_quotient(call("LN", value), number(math.log(2))))


def round_away(value: Sql, digits: int = 0) -> Sql:
    """Return a double rounded to ``digits`` decimal places, halves away from zero.

    Why: subtracting the integer part of a double is exact. For decimal places, the value is scaled
         by a power of ten, rounded, and scaled back, as DuckDB does. If scaling could overflow, the
         result is the value itself; with negative ``digits`` (places left of the decimal point), it
         is zero.
    """
    if digits == 0:
        return bound(_rounded, value)
    factor_size = 10.0 ** min(abs(digits), 400) if abs(digits) < 309 else None
    if digits > 0:
        return (
            value if factor_size is None else bound(lambda x: _rounded_right(x, factor_size), value)
        )
    return bound(lambda x: _rounded_left(x, factor_size), value)


def _rounded(x: Sql) -> Sql:
    """Return a double rounded to an integer, halves away from zero."""
    integer = call("TRUNC", x)
    fraction = call("ABS", x.copy() - integer.copy())
    rounds_up = sql.GTE(this=fraction, expression=number(0.5))
    return integer + case(rounds_up, call("SIGN", x.copy()), number(0.0))


def _rounded_right(x: Sql, factor_size: float) -> Sql:
    """Return a double rounded to places right of the decimal point."""
    fits = sql.LTE(this=_size(x), expression=number(SAFE_MAX / factor_size))
    rounded = bound(_rounded, x.copy() * number(factor_size))
    return case(fits, _quotient(rounded, number(factor_size)), x.copy())


def _rounded_left(x: Sql, factor_size: float | None) -> Sql:
    """Return a double rounded to places left of the decimal point.

    ``factor_size`` is None if the power of ten is too large for a double.
    """
    zero = sql.Mul(this=x.copy(), expression=number(0.0))  # NULL stays NULL
    if factor_size is None:
        return zero
    fits = sql.Between(
        this=_size(x), low=number(factor_size / 4), high=number(max(0.0, SAFE_MAX - factor_size))
    )
    rounded = bound(_rounded, _quotient(x.copy(), number(factor_size)))
    return case(fits, rounded * number(factor_size), zero)


def _quotient(x: Sql, y: Sql) -> Sql:
    return sql.Div(this=x, expression=y, typed=True)


def _size(x: Sql) -> Sql:
    """Return the absolute value of a number."""
    return call("ABS", x.copy())


def _is_middle(x: Sql) -> Sql:
    """Return the condition that a number is between the limits of MIDDLE_MAX."""
    return sql.Between(this=_size(x), low=number(1 / MIDDLE_MAX), high=number(MIDDLE_MAX))


def _both(x: Sql, y: Sql, limit: Sql, compare: type[sql.Binary]) -> Sql:
    """Return the condition that the absolute values of both operands compare with a limit."""
    first = compare(this=_size(x), expression=limit)
    return sql.And(this=first, expression=compare(this=_size(y), expression=limit.copy()))


def _either(x: Sql, y: Sql, limit: Sql, compare: type[sql.Binary]) -> Sql:
    """Return the condition that one of the operands, with its sign, compares with a limit."""
    first = compare(this=x.copy(), expression=limit)
    return sql.Or(this=first, expression=compare(this=y.copy(), expression=limit.copy()))


def _is_small(node: Sql) -> bool:
    """Return whether computing a node several times is cheaper than a subquery for it."""
    return (
        not node.find(sql.Case, sql.Subquery) and sum(1 for _ in node.walk()) <= MAX_REPEATED_NODES
    )


def _unwrapped(node: Sql) -> Sql:
    """Return a node without parentheses, negation, and NULLIF, which keep its absolute value."""
    while isinstance(node, sql.Paren | sql.Neg | sql.Nullif):
        node = node.this
    return node


def _literal_size(node: Sql) -> float | None:
    """Return the absolute value of a node if it is a numeric literal, else None."""
    found = _unwrapped(node)
    if isinstance(found, sql.Cast):
        found = _unwrapped(found.this)
    is_number = isinstance(found, sql.Literal) and not found.is_string
    return float(found.name) if is_number else None


def _is_integer_valued(node: Sql) -> bool:
    """Return whether a double was cast from a 64-bit integer."""
    found = _unwrapped(node)
    return isinstance(found, sql.Cast) and is_integer(_unwrapped(found.this))


def _lower_bound(node: Sql) -> float:
    """Return a lower bound on the absolute value of a node that is not zero."""
    size = _literal_size(node)
    if size is not None:
        return size or 1.0
    return 1.0 if _is_integer_valued(node) else MIN_DOUBLE


def _upper_bound(node: Sql) -> float:
    """Return an upper bound on the absolute value of a node."""
    size = _literal_size(node)
    if size is not None:
        return size
    return 2.0**63 if _is_integer_valued(node) else float("inf")
