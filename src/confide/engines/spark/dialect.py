"""Spark SQL text: a rule for each difference from DuckDB.

The session has `spark.sql.ansi.enabled` off and its time zone set to UTC. So arithmetic and casts
give NULL or a number where they would otherwise raise an error.
"""

import math
from collections.abc import Callable
from typing import Any, Final

from sqlglot import expressions as sql

from confide.engines.sql.builders import Sql, call, date_to_timestamp
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
from confide.engines.sql.row_hash import MASK, digested

__all__ = ["SPARK", "spark_cast"]

T = sql.DataType.Type
INT64_LIMIT: Final = 2.0**63
LIMB, LIMBS = 21, 3
"""The bits of each part of an integer whose parts are summed separately, and their number."""
MAX_DAY: Final = 2**31 - 1
"""The number of the date that represents infinity, counted from 1970-01-01."""
LOWER_EXCEPTIONS: Final = ("\u0130\u03a3", "i\u03c3")
"""Capitals, and their lower case here; Java's has two letters, or depends on the next letter."""
UPPER_EXCEPTIONS: Final = ("\u00df", "\u1e9e")
"""The sharp s, and its upper case here; Java's has two letters."""
ESCAPES: Final = "!|~^#@\x1f"
"""Candidates for the escape character of a LIKE, which must not occur in the pattern."""


def _string(value: str) -> Sql:
    return sql.Literal.string(value)


def _double_literal(value: float) -> Sql:
    if math.copysign(1.0, value) < 0:
        return sql.Paren(this=sql.Neg(this=_double_literal(-value)))
    return sql.Literal.number(f"{value!r}D")


def spark_cast(value: Sql, kind: str) -> Sql:
    """Return a cast in Spark's dialect, which gives NULL where a value cannot be cast."""
    return sql.Cast(this=value, to=sql.DataType.build(kind, dialect="spark"))


def _when(*branches: tuple[Sql, Sql], otherwise: Sql | None = None) -> Sql:
    ifs = [sql.If(this=condition, true=value) for condition, value in branches]
    return sql.Case(ifs=ifs, default=otherwise)


def _matches(text: Sql, pattern: str) -> Sql:
    """Return the condition that a string matches a pattern, whose repeated groups never backtrack.

    # Privacy: Java recurses once for each repetition of a group that it may backtrack into. So one
    # long string would overflow the stack, and end the session. Possessive repeats (*+) avoid that.
    """
    return sql.RegexpLike(this=text, expression=_string(pattern.replace(")*", ")*+")))


def _match_to_the_end(node: Any) -> Sql:
    """Return a match whose end is that of the string; in Java, a line break may follow a $."""
    pattern = node.expression.name.removesuffix("$")
    return sql.RegexpLike(this=node.this, expression=_string(rf"{pattern}\z"))


def _replaced(text: Sql, pattern: str, other: str) -> Sql:
    return call("REGEXP_REPLACE", text, _string(pattern), _string(other))


def _cast(node: Any) -> Sql | None:
    value, kind = node.this, node.to.this
    if kind is T.DOUBLE and isinstance(value, sql.Literal) and not value.is_string:
        # A literal is never -0.0.
        return _double_literal(float(value.name.removesuffix("D")) + 0.0)
    if kind is T.BIGINT and is_double(value):
        return spark_cast(call("RINT", value), "BIGINT")
    if kind is T.VARCHAR and is_double(value):
        return _double_to_text(value)
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
    if kind is T.TIMESTAMP and type_of(value) is T.DATE:
        return date_to_timestamp(value)
    # Spark rejects a cast between dates and numbers before it reads a row.
    is_impossible = T.DATE in (kind, type_of(value)) and kind not in (T.VARCHAR, T.TIMESTAMP)
    return sql.Cast(this=sql.Null() if is_impossible else value, to=node.to)


def _double_to_integer(value: Sql) -> Sql:
    """Return the integer nearest to a double, ties to even; NULL beyond 64 bits."""
    is_rounded = isinstance(value, sql.Anonymous) and value.name in ("FLOOR", "CEIL")
    inner = value.expressions[0] if is_rounded else value
    inside = sql.And(
        this=sql.GTE(this=inner.copy(), expression=_double_literal(-INT64_LIMIT)),
        expression=sql.LT(this=inner.copy(), expression=_double_literal(INT64_LIMIT)),
    )
    # FLOOR and CEIL of a double are 64-bit integers already.
    return _when((inside, value if is_rounded else spark_cast(call("RINT", value), "BIGINT")))


def _double_to_text(value: Sql) -> Sql:
    """Return a double as DuckDB prints it, from the digits that Java prints.

    DuckDB prints numbers from 1e-4 up to 1e16 without an exponent, and others with a signed
    exponent of at least two digits.
    """
    java_text, size = spark_cast(value, "STRING"), call("ABS", value.copy())
    plain = _replaced(
        spark_cast(spark_cast(java_text.copy(), "DECIMAL(38, 20)"), "STRING"),
        "(\\.[0-9]+?)0+$",
        "$1",
    )
    mantissa = _replaced(java_text.copy(), "(\\.0)?E.*$", "")
    power = spark_cast(_replaced(java_text.copy(), "^.*E", ""), "INT")
    scientific = call("FORMAT_STRING", _string("%se%+03d"), mantissa, power)
    is_scientific = sql.Or(
        this=sql.LT(this=size, expression=_double_literal(1e-4)),
        expression=sql.GTE(this=size.copy(), expression=_double_literal(1e16)),
    )
    has_power = _matches(java_text.copy(), "E")
    return _when(
        (sql.And(this=has_power, expression=sql.Paren(this=is_scientific)), scientific),
        (has_power.copy(), plain),
        otherwise=java_text,
    )


def _text_to_double(text: Sql) -> Sql:
    """Return the double that a string represents, or NULL; Java accepts other strings too."""
    number = spark_cast(call("REPLACE", text.copy(), _string("_"), _string("")), "DOUBLE")
    return _when(
        (_matches(text, NUMBER), number),
        (_matches(text.copy(), NON_FINITE), spark_cast(text.copy(), "DOUBLE")),
    )


def _text_to_integer(text: Sql) -> Sql:
    """Return the integer nearest to the number in a string, halves away from zero."""
    digits = _replaced(text.copy(), "[_\\s]", "")
    # Digits that do not fit into the decimal are dropped, so that it does not round twice.
    shortened = _replaced(digits, "(\\.[0-9]{18})[0-9]+$", "$1")
    nearest = call("ROUND", spark_cast(shortened, "DECIMAL(38, 18)"), sql.Literal.number("0"))
    low, high = (spark_cast(_string(str(end)), "DECIMAL(38, 0)") for end in (-(2**63), 2**63 - 1))
    inside = sql.Between(this=nearest.copy(), low=low, high=high)
    is_integer = sql.And(this=_matches(text, NUMBER), expression=inside)
    prefix = call("SUBSTR", digits.copy(), sql.Literal.number("2"), sql.Literal.number("1"))
    base = _when(
        (sql.EQ(this=call("LOWER", prefix), expression=_string("x")), sql.Literal.number("16")),
        otherwise=sql.Literal.number("2"),
    )
    digits = call("SUBSTR", digits.copy(), sql.Literal.number("3"))
    value_in_base = spark_cast(
        call("CONV", digits, base, sql.Literal.number("10")), "DECIMAL(38, 0)"
    )
    is_in_base = sql.And(
        this=_matches(text.copy(), HEX_OR_BINARY),
        expression=sql.LTE(this=value_in_base, expression=high.copy()),
    )
    return _when(
        (is_integer, spark_cast(nearest, "BIGINT")),
        (is_in_base, spark_cast(value_in_base.copy(), "BIGINT")),
    )


def _text_to_date(text: Sql) -> Sql:
    """Return the date that a string represents, or NULL."""
    parts = [
        spark_cast(
            call("REGEXP_EXTRACT", text.copy(), _string(DAY), sql.Literal.number(index)), "INT"
        )
        for index in ("1", "3", "4")
    ]
    last = call("DATE_FROM_UNIX_DATE", sql.Literal.number(str(MAX_DAY)))
    first = call("DATE_FROM_UNIX_DATE", sql.Neg(this=sql.Literal.number(str(MAX_DAY))))
    before = sql.Like(this=text.copy(), expression=_string("%-%"))
    word = call("LOWER", call("TRIM", text.copy()))
    return _when(
        (_matches(text, DAY), call("MAKE_DATE", *parts)),
        (sql.And(this=_matches(text.copy(), INFINITE_DATE), expression=before), first),
        (_matches(text.copy(), INFINITE_DATE), last),
        (sql.EQ(this=word, expression=_string("epoch")), spark_cast(_string("1970-01-01"), "DATE")),
    )


READERS: Final[dict[Any, Callable[[Sql], Sql]]] = {
    T.BIGINT: _text_to_integer,
    T.DOUBLE: _text_to_double,
    T.BOOLEAN: parse_boolean,
    T.DATE: _text_to_date,
    T.TIMESTAMP: lambda text: spark_cast(text, "TIMESTAMP"),
}
"""Casts of strings, by the target type."""
WRITERS: Final[dict[Any, Callable[[Sql], Sql]]] = {
    T.BIGINT: _double_to_integer,
    T.VARCHAR: _double_to_text,
}
"""Casts of doubles, by the target type."""


def _finite(node: Any) -> Sql:
    found = node.expressions[0]
    for word in ("nan", "inf", "-inf"):
        found = sql.Nullif(this=found, expression=spark_cast(_string(word), "DOUBLE"))
    return found  # type: ignore[no-any-return]


def _is_finite(node: Any) -> Sql:
    return sql.LT(
        this=call("ABS", node.expressions[0]), expression=spark_cast(_string("inf"), "DOUBLE")
    )


def _round(node: Any) -> Sql:
    value, *arguments = node.expressions
    digits = literal_of(arguments[0]) if arguments else 0
    if not is_double(value):
        return round_integer(value, digits)
    return round_double(
        value,
        digits,
        _double_literal,
        lambda number: spark_cast(spark_cast(number, "BIGINT"), "DOUBLE"),
    )


def _like(node: Any) -> Sql:
    """Return a LIKE without an escape character.

    A pattern with several % becomes a regular expression that never backtracks, unless it has no _
    and only % at its ends.

    # Privacy: Java tries every way to divide a string among several %. One person's long string
    # would take hours, and the time would reveal it.

    Why: each part of the pattern between two % has a fixed length. If the string matches in any
         way, it also matches with each part at its first possible position, since that leaves the
         most of the string for the rest. So each part is matched at its first position, and only
         the part after the last % is matched at the end of the string.
    """
    pattern = node.expression.name
    if pattern.count("%") < 2 or ("_" not in pattern and "%" not in pattern[1:-1]):
        unused = next(character for character in ESCAPES + "\x00" if character not in pattern)
        return sql.Escape(this=node.copy(), expression=_string(unused))
    first, *middle, last = ("".join(map(_escape_mark, part)) for part in pattern.split("%"))
    atomic = "".join(f"(?>.*?{part})" for part in middle if part)
    return sql.RegexpLike(
        this=node.this.copy(), expression=_string(rf"(?s)\A{first}{atomic}.*{last}\z")
    )


def _escape_mark(character: str) -> str:
    """Return one character of a LIKE pattern as a regular expression of Java."""
    return "." if character == "_" else rf"\x{{{ord(character):x}}}"


def _sum(node: Any) -> Sql:
    """Return an exact sum.

    Claim: no sum of integers overflows as long as a group has fewer than 2^42 rows.
    Why:   a 64-bit integer consists of three parts: its lowest 21 bits, the next 21 bits, and the
           upper 22 bits with the sign. The sum of each part stays within 64 bits, and the three
           sums are combined as decimals. Summing decimals themselves, which is necessary for other
           types, takes several times as long.
    """
    if not is_integer(node.this):
        return sql.Sum(this=spark_cast(node.this, "DECIMAL(38, 0)"))
    mask = sql.Literal.number(str(2**LIMB - 1))

    def limb(index: int) -> Sql:
        value, bits = node.this.copy(), sql.Literal.number(str(index * LIMB))
        shifted = call("SHIFTRIGHT", value, bits) if index else value
        if index == LIMBS - 1:
            return shifted
        return sql.Paren(this=sql.BitwiseAnd(this=shifted, expression=mask.copy()))

    sums = [
        spark_cast(sql.Sum(this=limb(index)), "DECIMAL(20, 0)")
        * spark_cast(_string(str(2 ** (index * LIMB))), "DECIMAL(13, 0)")
        for index in range(LIMBS)
    ]
    return sql.Paren(this=sums[0] + sums[1] + sums[2])


def _subtract_dates(node: Any) -> Sql | None:
    if T.DATE not in (type_of(node.this), type_of(node.expression)) or is_integer(node.expression):
        return None
    return spark_cast(call("DATEDIFF", node.this, node.expression), "BIGINT")


def _text_digit(node: Any) -> Sql:
    """Return the last 31 bits of an MD5 (see `row_hash`), from its last hexadecimal digits."""
    digits = call("SUBSTR", call("MD5", digested(node)), *map(sql.Literal.number, ("25", "8")))
    bases = sql.Literal.number("16"), sql.Literal.number("10")
    word = spark_cast(call("CONV", digits, *bases), "BIGINT")
    return sql.BitwiseAnd(this=word, expression=sql.Literal.number(str(MASK)))


def _parenthesized(node: Any) -> Sql:
    """Return a node in parentheses, because Spark's bit operators have another precedence."""
    return sql.Paren(this=node.copy())


def _trim(position: str) -> Callable[[Any], Sql]:
    """Return a rule that trims characters; Spark's own functions take those characters first."""

    def write(node: Any) -> Sql:
        text, characters = node.expressions
        return sql.Trim(this=text, expression=characters, position=position)

    return write


def _translate(text: Sql, letters: tuple[str, str]) -> Sql:
    return call("TRANSLATE", text, *map(_string, letters))


def _single_argument(node: Any) -> Sql | None:
    """Return the argument of a LEAST or GREATEST with only one, since Spark requires two."""
    return node.expressions[0] if len(node.expressions) == 1 else None


def _typed_condition(node: Any) -> None:
    """Give a NULL that is used as a condition the type BOOLEAN."""
    if isinstance(node.this, sql.Null):
        node.set("this", spark_cast(sql.Null(), "BOOLEAN"))


def _without_materialized(node: Any) -> None:
    node.set("materialized", None)


def _divide_integers(node: Any) -> Sql:
    """Return a quotient of integers without its fraction, computed in decimals."""
    exact = spark_cast(node.this, "DECIMAL(20, 0)")
    return spark_cast(sql.Paren(this=sql.Div(this=exact, expression=node.expression)), "BIGINT")


def _date_part(name: str, first: int = 0) -> Callable[[Any], Sql]:
    def write(node: Any) -> Sql:
        part = spark_cast(call(name, *node.expressions), "BIGINT")
        return sql.Paren(this=part - sql.Literal.number(str(first))) if first else part

    return write


def _rename(name: str) -> Callable[[Any], Sql]:
    return lambda node: call(name, *node.expressions)


SPARK: Final = Dialect(
    dialect="spark",
    nodes={
        sql.Cast: _cast,
        sql.TryCast: _try_cast,
        sql.Sub: _subtract_dates,
        sql.IntDiv: _divide_integers,
        sql.Sum: _sum,
        sql.Like: _like,
        sql.RegexpLike: _match_to_the_end,
        sql.BitwiseRightShift: _parenthesized,
        sql.BitwiseOr: _text_digit,
        sql.BitwiseXor: _parenthesized,
        sql.BitwiseAnd: _parenthesized,
        sql.BitwiseLeftShift: _parenthesized,
        sql.CTE: _without_materialized,
        sql.Select: sort_once,
        sql.If: _typed_condition,
    },
    calls={
        FINITE: _finite,
        "ISFINITE": _is_finite,
        "ROUND": _round,
        "SUBSTR": lambda node: substring(
            node.expressions[0], [literal_of(index) for index in node.expressions[1:]]
        ),
        "LOWER": lambda node: call("LOWER", _translate(node.expressions[0], LOWER_EXCEPTIONS)),
        "UPPER": lambda node: call("UPPER", _translate(node.expressions[0], UPPER_EXCEPTIONS)),
        "TRIM": _trim("BOTH"),
        "LTRIM": _trim("LEADING"),
        "RTRIM": _trim("TRAILING"),
        "STRPOS": _date_part("INSTR"),
        "LENGTH": _date_part("CHAR_LENGTH"),
        "YEAR": _date_part("YEAR"),
        "QUARTER": _date_part("QUARTER"),
        "MONTH": _date_part("MONTH"),
        "DAY": _date_part("DAY"),
        "DAYOFWEEK": _date_part("DAYOFWEEK", 1),
        "DAYOFYEAR": _date_part("DAYOFYEAR"),
        "WEEK": _date_part("WEEKOFYEAR"),
        "ISOYEAR": lambda node: spark_cast(
            call("DATE_PART", _string("YEAROFWEEK"), *node.expressions), "BIGINT"
        ),
        "EPOCH_US": _rename("UNIX_MICROS"),
        "TO_MONTHS": lambda node: call(
            "MAKE_YM_INTERVAL", sql.Literal.number("0"), *node.expressions
        ),
        "DATE_TRUNC": lambda node: call("TRUNC", *reversed(node.expressions)),
        "LEAST": _single_argument,
        "GREATEST": _single_argument,
        "LIST": _rename("COLLECT_LIST"),
    },
)
