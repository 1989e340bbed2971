"""Spark SQL text.

The session has `spark.sql.ansi.enabled` off and its time zone at UTC, so that arithmetic and casts
give NULL or a number where they would else raise an error. What still differs from DuckDB has a
rule here.
"""

import math
from collections.abc import Callable
from typing import Any, Final

from sqlglot import expressions as sql

from confide.engines.sql.contribution_bounding import sort_once
from confide.engines.sql.dialect import (
    DAY,
    FINITE,
    HEX_OR_BINARY,
    INFINITE_DATE,
    NON_FINITE,
    NUMBER,
    Dialect,
    is_double,
    is_integer,
    is_text,
    literal_of,
    null_unless_listed,
    parse_boolean,
    round_double,
    round_integer,
    substring,
    type_of,
)
from confide.engines.sql.expressions import Sql, call
from confide.engines.sql.row_hash import MASK, digested

__all__ = ["SPARK", "spark_cast"]

T = sql.DataType.Type
EDGE: Final = 2.0**63
LIMB, LIMBS = 21, 3
LAST_DAY: Final = 2**31 - 1
LOWERED: Final = ("\u0130\u03a3", "i\u03c3")
"""Capitals whose small form in Java is two letters, or depends on what follows."""
RAISED: Final = ("\u00df", "\u1e9e")
"""The sharp s, whose capital in Java is two letters."""
ESCAPES: Final = "!|~^#@\x1f"


def _text(value: str) -> Sql:
    return sql.Literal.string(value)


def _real(value: float) -> Sql:
    if math.copysign(1.0, value) < 0:
        return sql.Paren(this=sql.Neg(this=_real(-value)))
    return sql.Literal.number(f"{value!r}D")


def spark_cast(value: Sql, kind: str) -> Sql:
    """Return a cast in the words of Spark, which gives NULL where it cannot be done."""
    return sql.Cast(this=value, to=sql.DataType.build(kind, dialect="spark"))


def _when(*branches: tuple[Sql, Sql], otherwise: Sql | None = None) -> Sql:
    ifs = [sql.If(this=condition, true=value) for condition, value in branches]
    return sql.Case(ifs=ifs, default=otherwise)


def _matches(text: Sql, pattern: str) -> Sql:
    """Return whether a text matches, with groups that are repeated without a way back.

    # Privacy: Java goes one call deeper for each repeat that it may take back, so that one long
    # text would end the whole session.
    """
    return sql.RegexpLike(this=text, expression=_text(pattern.replace(")*", ")*+")))


def _replaced(text: Sql, pattern: str, other: str) -> Sql:
    return call("REGEXP_REPLACE", text, _text(pattern), _text(other))


def _cast(node: Any) -> Sql | None:
    value, kind = node.this, node.to.this
    if kind is T.DOUBLE and isinstance(value, sql.Literal) and not value.is_string:
        # A literal has no zero below zero.
        return _real(float(value.name.removesuffix("D")) + 0.0)
    if kind is T.BIGINT and is_double(value):
        return spark_cast(call("RINT", value), "BIGINT")
    if kind is T.VARCHAR and is_double(value):
        return _text_of_real(value)
    return None


def _try_cast(node: Any) -> Sql | None:
    value, kind = node.this, node.to.this
    if kind is T.ENUM:
        return null_unless_listed(value, node.to.expressions)
    if kind is type_of(value):
        return value  # type: ignore[no-any-return]
    if is_text(value):
        return READERS[kind](value)
    if is_double(value) and kind in WRITERS:
        return WRITERS[kind](value)
    # Days are no numbers and numbers no days; Spark would not even look at the rows.
    is_odd = T.DATE in (kind, type_of(value)) and kind is not T.VARCHAR
    return sql.Cast(this=sql.Null() if is_odd else value, to=node.to)


def _whole_of_real(value: Sql) -> Sql:
    """Return the nearest whole number, ties to the even one, NULL where 64 bits have none."""
    is_cut = isinstance(value, sql.Anonymous) and value.name in ("FLOOR", "CEIL")
    inner = value.expressions[0] if is_cut else value
    inside = sql.And(
        this=sql.GTE(this=inner.copy(), expression=_real(-EDGE)),
        expression=sql.LT(this=inner.copy(), expression=_real(EDGE)),
    )
    # FLOOR and CEIL of a double are whole numbers of 64 bits already.
    return _when((inside, value if is_cut else spark_cast(call("RINT", value), "BIGINT")))


def _text_of_real(value: Sql) -> Sql:
    """Return a double in the form of DuckDB, from the digits that Java writes.

    Plain from 1e-4 up to 1e16, otherwise with an exponent of two digits or more, and a sign.
    """
    java, size = spark_cast(value, "STRING"), call("ABS", value.copy())
    plain = _replaced(
        spark_cast(spark_cast(java.copy(), "DECIMAL(38, 20)"), "STRING"), "(\\.[0-9]+?)0+$", "$1"
    )
    mantissa = _replaced(java.copy(), "(\\.0)?E.*$", "")
    power = spark_cast(_replaced(java.copy(), "^.*E", ""), "INT")
    bent = call("FORMAT_STRING", _text("%se%+03d"), mantissa, power)
    is_bent = sql.Or(
        this=sql.LT(this=size, expression=_real(1e-4)),
        expression=sql.GTE(this=size.copy(), expression=_real(1e16)),
    )
    has_power = _matches(java.copy(), "E")
    return _when(
        (sql.And(this=has_power, expression=sql.Paren(this=is_bent)), bent),
        (has_power.copy(), plain),
        otherwise=java,
    )


def _read_real(text: Sql) -> Sql:
    """Return the double that a text spells, NULL where there is none; Java reads more."""
    number = spark_cast(call("REPLACE", text.copy(), _text("_"), _text("")), "DOUBLE")
    return _when(
        (_matches(text, NUMBER), number),
        (_matches(text.copy(), NON_FINITE), spark_cast(text.copy(), "DOUBLE")),
    )


def _read_whole(text: Sql) -> Sql:
    """Return the whole number nearest to what a text spells, halves away from zero."""
    digits = _replaced(text.copy(), "[_\\s]", "")
    # Digits past those that a decimal holds are dropped, so that it does not round twice.
    short = _replaced(digits, "(\\.[0-9]{18})[0-9]+$", "$1")
    near = call("ROUND", spark_cast(short, "DECIMAL(38, 18)"), sql.Literal.number("0"))
    low, high = (spark_cast(_text(str(end)), "DECIMAL(38, 0)") for end in (-(2**63), 2**63 - 1))
    inside = sql.Between(this=near.copy(), low=low, high=high)
    is_integer = sql.And(this=_matches(text, NUMBER), expression=inside)
    prefix = call("SUBSTR", digits.copy(), sql.Literal.number("2"), sql.Literal.number("1"))
    base = _when(
        (sql.EQ(this=call("LOWER", prefix), expression=_text("x")), sql.Literal.number("16")),
        otherwise=sql.Literal.number("2"),
    )
    figures = call("SUBSTR", digits.copy(), sql.Literal.number("3"))
    based = spark_cast(call("CONV", figures, base, sql.Literal.number("10")), "DECIMAL(38, 0)")
    is_based = sql.And(
        this=_matches(text.copy(), HEX_OR_BINARY),
        expression=sql.LTE(this=based, expression=high.copy()),
    )
    return _when(
        (is_integer, spark_cast(near, "BIGINT")), (is_based, spark_cast(based.copy(), "BIGINT"))
    )


def _read_day(text: Sql) -> Sql:
    """Return the day that a text spells, NULL where there is none."""
    parts = [
        spark_cast(
            call("REGEXP_EXTRACT", text.copy(), _text(DAY), sql.Literal.number(place)), "INT"
        )
        for place in ("1", "3", "4")
    ]
    last = call("DATE_FROM_UNIX_DATE", sql.Literal.number(str(LAST_DAY)))
    first = call("DATE_FROM_UNIX_DATE", sql.Neg(this=sql.Literal.number(str(LAST_DAY))))
    before = sql.Like(this=text.copy(), expression=_text("%-%"))
    word = call("LOWER", call("TRIM", text.copy()))
    return _when(
        (_matches(text, DAY), call("MAKE_DATE", *parts)),
        (sql.And(this=_matches(text.copy(), INFINITE_DATE), expression=before), first),
        (_matches(text.copy(), INFINITE_DATE), last),
        (sql.EQ(this=word, expression=_text("epoch")), spark_cast(_text("1970-01-01"), "DATE")),
    )


READERS: Final[dict[Any, Callable[[Sql], Sql]]] = {
    T.BIGINT: _read_whole,
    T.DOUBLE: _read_real,
    T.BOOLEAN: parse_boolean,
    T.DATE: _read_day,
}
WRITERS: Final[dict[Any, Callable[[Sql], Sql]]] = {
    T.BIGINT: _whole_of_real,
    T.VARCHAR: _text_of_real,
}


def _finite(node: Any) -> Sql:
    found = node.expressions[0]
    for word in ("nan", "inf", "-inf"):
        found = sql.Nullif(this=found, expression=spark_cast(_text(word), "DOUBLE"))
    return found  # type: ignore[no-any-return]


def _is_finite(node: Any) -> Sql:
    return sql.LT(
        this=call("ABS", node.expressions[0]), expression=spark_cast(_text("inf"), "DOUBLE")
    )


def _round(node: Any) -> Sql:
    value, *rest = node.expressions
    digits = literal_of(rest[0]) if rest else 0
    if not is_double(value):
        return round_integer(value, digits)
    return round_double(
        value, digits, _real, lambda some: spark_cast(spark_cast(some, "BIGINT"), "DOUBLE")
    )


def _like(node: Any) -> Sql:
    """Return a LIKE in which no character of the pattern is an escape, and that never looks twice.

    # Privacy: Java tries every way to share out a text among several %, so that one long text of
    # one person would take hours, and the time would tell of it.

    Why: parts between two % have one length each, so where any way matches, the way that takes each
         of them at its first place does too: it leaves the most to the rest. So each is taken there
         for good, and only the last part is looked for from the end.
    """
    pattern = node.expression.name
    if pattern.count("%") < 2 or ("_" not in pattern and "%" not in pattern[1:-1]):
        unused = next(mark for mark in ESCAPES + "\x00" if mark not in pattern)
        return sql.Escape(this=node.copy(), expression=_text(unused))
    first, *middle, last = ("".join(map(_read_mark, part)) for part in pattern.split("%"))
    held = "".join(f"(?>.*?{part})" for part in middle if part)
    return sql.RegexpLike(
        this=node.this.copy(), expression=_text(rf"(?s)\A{first}{held}.*{last}\z")
    )


def _read_mark(mark: str) -> str:
    """Return one character of a LIKE as Java's patterns spell it."""
    return "." if mark == "_" else rf"\x{{{ord(mark):x}}}"


def _sum(node: Any) -> Sql:
    """Return an exact sum.

    Claim: no sum overflows as long as a group has fewer than 2^42 rows.
    Why:   a whole number of 64 bits is its lowest 21 bits, the next 21 and the upper 22 with their
           sign; the sums of these stay within 64 bits, and are put together as decimals. Decimals
           alone, which are what is left for others, take several times as long.
    """
    if not is_integer(node.this):
        return sql.Sum(this=spark_cast(node.this, "DECIMAL(38, 0)"))
    mask = sql.Literal.number(str(2**LIMB - 1))

    def limb(place: int) -> Sql:
        value, bits = node.this.copy(), sql.Literal.number(str(place * LIMB))
        shifted = call("SHIFTRIGHT", value, bits) if place else value
        if place == LIMBS - 1:
            return shifted
        return sql.Paren(this=sql.BitwiseAnd(this=shifted, expression=mask.copy()))

    sums = [
        spark_cast(sql.Sum(this=limb(place)), "DECIMAL(20, 0)")
        * spark_cast(_text(str(2 ** (place * LIMB))), "DECIMAL(13, 0)")
        for place in range(LIMBS)
    ]
    return sql.Paren(this=sums[0] + sums[1] + sums[2])


def _days(node: Any) -> Sql | None:
    if T.DATE not in (type_of(node.this), type_of(node.expression)) or is_integer(node.expression):
        return None
    return spark_cast(call("DATEDIFF", node.this, node.expression), "BIGINT")


def _text_digit(node: Any) -> Sql:
    """Return the last 31 bits of an MD5, by reading the last of its figures."""
    figures = call("SUBSTR", call("MD5", digested(node)), *map(sql.Literal.number, ("25", "8")))
    places = sql.Literal.number("16"), sql.Literal.number("10")
    word = spark_cast(call("CONV", figures, *places), "BIGINT")
    return sql.BitwiseAnd(this=word, expression=sql.Literal.number(str(MASK)))


def _wrapped(node: Any) -> Sql:
    """Return a node in parentheses: Spark binds bits in another order."""
    return sql.Paren(this=node.copy())


def _trimmed(node: Any) -> Sql:
    """Return a string without the characters at its end; Spark's RTRIM has them in front."""
    text, characters = node.expressions
    return sql.Trim(this=text, expression=characters, position="TRAILING")


def _translated(text: Sql, letters: tuple[str, str]) -> Sql:
    return call("TRANSLATE", text, *map(_text, letters))


def _extreme(node: Any) -> Sql | None:
    """Return the only argument of LEAST or GREATEST, where there is one."""
    return node.expressions[0] if len(node.expressions) == 1 else None


def _branch(node: Any) -> None:
    """Give NULL as a condition its type."""
    if isinstance(node.this, sql.Null):
        node.set("this", spark_cast(sql.Null(), "BOOLEAN"))


def _inlined(node: Any) -> None:
    node.set("materialized", None)


def _part_of_day(name: str, first: int = 0) -> Callable[[Any], Sql]:
    def write(node: Any) -> Sql:
        part = spark_cast(call(name, *node.expressions), "BIGINT")
        return sql.Paren(this=part - sql.Literal.number(str(first))) if first else part

    return write


def _renamed(name: str) -> Callable[[Any], Sql]:
    return lambda node: call(name, *node.expressions)


SPARK: Final = Dialect(
    dialect="spark",
    nodes={
        sql.Cast: _cast,
        sql.TryCast: _try_cast,
        sql.Sub: _days,
        sql.Sum: _sum,
        sql.Like: _like,
        sql.BitwiseRightShift: _wrapped,
        sql.BitwiseOr: _text_digit,
        sql.BitwiseXor: _wrapped,
        sql.BitwiseAnd: _wrapped,
        sql.BitwiseLeftShift: _wrapped,
        sql.CTE: _inlined,
        sql.Select: sort_once,
        sql.If: _branch,
    },
    calls={
        FINITE: _finite,
        "ISFINITE": _is_finite,
        "ROUND": _round,
        "SUBSTR": lambda node: substring(
            node.expressions[0], [literal_of(place) for place in node.expressions[1:]]
        ),
        "LOWER": lambda node: call("LOWER", _translated(node.expressions[0], LOWERED)),
        "UPPER": lambda node: call("UPPER", _translated(node.expressions[0], RAISED)),
        "RTRIM": _trimmed,
        "LENGTH": _part_of_day("CHAR_LENGTH"),
        "YEAR": _part_of_day("YEAR"),
        "QUARTER": _part_of_day("QUARTER"),
        "MONTH": _part_of_day("MONTH"),
        "DAY": _part_of_day("DAY"),
        "DAYOFWEEK": _part_of_day("DAYOFWEEK", 1),
        "DATE_TRUNC": lambda node: call("TRUNC", *reversed(node.expressions)),
        "LEAST": _extreme,
        "GREATEST": _extreme,
        "LIST": _renamed("COLLECT_LIST"),
    },
)
