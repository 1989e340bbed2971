"""Casts between texts and other types on PostgreSQL: never an error, and DuckDB's result.

PostgreSQL's own casts take other texts (such as "today"), and fail on those they do not take. Here
a text must fit a pattern before it is cast, and `pg_input_is_valid` says whether the cast will do.
"""

from typing import Final

from sqlglot import expressions as sql

from confide.engines import texts
from confide.engines.expressions import Sql, call, case, cast, number

__all__ = [
    "as_text",
    "bytewise",
    "cast_numeric",
    "double_to_text",
    "text_to_day",
    "text_to_double",
    "text_to_truth",
    "text_to_whole",
]

LARGEST_INT: Final = 2**63 - 1
DECIMAL: Final = sql.DataType(this=sql.DType.DECIMAL)
BLANK: Final = f"[{texts.BLANKS}]*"


def bytewise(text: Sql) -> Sql:
    """Return a text that is compared and ordered by its bytes."""
    return sql.Paren(this=sql.Collate(this=text, expression=sql.to_identifier("C", quoted=True)))


def as_text(value: Sql) -> Sql:
    """Return a value in the words of the engine."""
    return sql.Cast(this=value, to=sql.DataType(this=sql.DType.TEXT))


def text_to_double(text: Sql) -> Sql:
    """Return the double that a text means, infinite or zero where it is out of their range."""
    digits = _digits_of(text)
    read = _case(
        (_is_valid(digits, "double precision"), cast(digits.copy(), "DOUBLE")),
        (_is_valid(digits, "numeric"), _far(cast_numeric(digits.copy()))),
        # Beyond even what NUMERIC holds, the exponent's sign tells large from small.
        (_fits(digits, "[eE]-"), number(0.0)),
        (_fits(digits, "^-"), _double("-Infinity")),
        default=_double("Infinity"),
    )
    unreal = _case(
        (_fits(text, "[aA]"), _double("NaN")),
        (_fits(text, "-"), _double("-Infinity")),
        default=_double("Infinity"),
    )
    return _case((_fits(text, texts.NUMBER), read), (_fits(text, texts.UNREAL), unreal))


def _far(value: Sql) -> Sql:
    above = sql.GT(this=value, expression=number(1))
    below = sql.LT(this=value.copy(), expression=number(-1))
    return _case((above, _double("Infinity")), (below, _double("-Infinity")), default=number(0.0))


def text_to_whole(text: Sql) -> Sql:
    """Return the whole number nearest to what a text means, halves away from zero."""
    digits, plain = _digits_of(text), _trimmed(text)
    nearest = call("ROUND", cast_numeric(digits))
    low = sql.Paren(this=sql.Neg(this=number(LARGEST_INT + 1)))
    inside = sql.Between(this=nearest, low=low, high=number(LARGEST_INT))
    read = case(_is_valid(digits, "numeric"), case(inside, cast(nearest.copy(), "BIGINT")))
    raw = case(_is_valid(plain, "bigint"), cast(plain.copy(), "BIGINT"))
    return _case((_fits(text, texts.NUMBER), read), (_fits(text, texts.BYTES), raw))


def text_to_truth(text: Sql) -> Sql:
    """Return the truth value that a text names."""
    return _case(
        (_is_among(text, texts.TRUE), sql.true()), (_is_among(text, texts.FALSE), sql.false())
    )


def text_to_day(text: Sql) -> Sql:
    """Return the day that a text names; the years before the first are infinitely far."""
    dash = sql.Literal.string("-")
    parts = [_day_part(text, 1, 7), dash, _day_part(text, 3, 2), dash.copy(), _day_part(text, 4, 2)]
    written = call("CONCAT", *parts)
    is_early = _fits(text, f"^{BLANK}(-|0+[^0-9])")
    day = case(_is_valid(written, "date"), cast(written.copy(), "DATE"))
    return _case(
        (_fits(text, texts.DAY), case(is_early, _day("-infinity"), day)),
        (_fits(text, texts.FOREVER), case(_fits(text, "-"), _day("-infinity"), _day("infinity"))),
        (_fits(text, f"^{BLANK}[eE][pP][oO][cC][hH]{BLANK}$"), _day("1970-01-01")),
    )


def _day_part(text: Sql, place: int, width: int) -> Sql:
    pattern, chosen = sql.Literal.string(texts.DAY), sql.Literal.string(f"\\{place}")
    found = call("REGEXP_REPLACE", text.copy(), pattern, chosen)
    return call("LPAD", found, number(width), sql.Literal.string("0"))


def double_to_text(value: Sql) -> Sql:
    """Return a double's shortest text, with a point or an exponent in it.

    PostgreSQL writes numbers from 1e15 on with an exponent, DuckDB those from 1e16 on.
    """
    plain = as_text(value.copy())
    size = call("ABS", value.copy())
    is_between = sql.And(
        this=sql.GTE(this=size, expression=number(1e15)),
        expression=sql.LT(this=size.copy(), expression=number(1e16)),
    )
    spread = as_text(cast_numeric(plain.copy()))
    infinity = sql.EQ(this=value.copy(), expression=_double("Infinity"))
    minus = sql.EQ(this=value.copy(), expression=_double("-Infinity"))
    nan = sql.EQ(this=value.copy(), expression=_double("NaN"))
    return _case(
        (infinity, sql.Literal.string("inf")),
        (minus, sql.Literal.string("-inf")),
        (nan, sql.Literal.string("nan")),
        (is_between, _pointed(spread)),
        default=_pointed(plain),
    )


def _pointed(digits: Sql) -> Sql:
    whole = call("CONCAT", digits.copy(), sql.Literal.string(".0"))
    return case(_fits(digits, "[.e]"), digits, case(_fits(digits, "."), whole))


def cast_numeric(text: Sql) -> Sql:
    """Return a number of any length from a text or a number."""
    return sql.Cast(this=text, to=DECIMAL.copy())


def _case(*pairs: tuple[Sql, Sql], default: Sql | None = None) -> Sql:
    return sql.Case(ifs=[sql.If(this=one, true=value) for one, value in pairs], default=default)


def _fits(text: Sql, pattern: str) -> Sql:
    return sql.RegexpLike(this=text.copy(), expression=sql.Literal.string(pattern))


def _is_valid(text: Sql, kind: str) -> Sql:
    return call("PG_INPUT_IS_VALID", text.copy(), sql.Literal.string(kind))


def _is_among(text: Sql, words: tuple[str, ...]) -> Sql:
    listed = [sql.Literal.string(word) for word in words]
    return sql.In(this=call("LOWER", bytewise(text.copy())), expressions=listed)


def _trimmed(text: Sql) -> Sql:
    return call("BTRIM", text.copy(), sql.Literal.string(texts.BLANKS))


def _digits_of(text: Sql) -> Sql:
    """Return a text that fits `texts.NUMBER` without what PostgreSQL does not take."""
    return call("REPLACE", _trimmed(text), sql.Literal.string("_"), sql.Literal.string(""))


def _double(text: str) -> Sql:
    return cast(sql.Literal.string(text), "DOUBLE")


def _day(text: str) -> Sql:
    return cast(sql.Literal.string(text), "DATE")
