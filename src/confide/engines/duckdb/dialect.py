"""DuckDB SQL text: its casts by their plain names, doubles without one.

Statements are trees in DuckDB's words already. A double is a written number under a cast, since
DuckDB takes 1.5 for a decimal; it takes 1.5e0 for the same double, and sooner.
"""

from typing import Any, ClassVar, Final

from sqlglot import expressions as sql
from sqlglot.generators.duckdb import DuckDBGenerator

__all__ = ["write_duckdb"]

T = sql.DType
PLAIN: Final = frozenset({T.BIGINT, T.BOOLEAN, T.DATE, T.DOUBLE, T.INT, T.UTINYINT, T.VARCHAR})
"""Types of which the name is all there is to say."""
SIGNS: Final[dict[type[sql.Expr], str]] = {sql.Add: "+", sql.Sub: "-", sql.Mul: "*"}


def write_duckdb(select: sql.Select) -> str:
    """Return the text of a statement; the tree is used up."""
    text: str = _Words(dialect="duckdb").generate(select, copy=False)
    return text


def _write_cast(words: Any, cast: sql.Cast) -> str:
    value, kind = cast.this, cast.to.this
    if kind not in PLAIN:
        plain: str = words.cast_sql(cast)
        return plain
    if kind is T.DOUBLE and isinstance(value, sql.Literal) and not value.is_string:
        return value.name if "e" in value.name else f"{value.name}e0"
    return f"CAST({words.sql(value)} AS {kind.value})"


def _write_try(words: Any, cast: sql.TryCast) -> str:
    kind = cast.to.this
    if kind not in PLAIN:
        plain: str = words.trycast_sql(cast)
        return plain
    return f"TRY_CAST({words.sql(cast.this)} AS {kind.value})"


def _write_paren(words: Any, paren: sql.Paren) -> str:
    """Return what stands in parentheses; operations on whole numbers in 128 bits.

    # Privacy: DuckDB collects the constants of sums and products, (x * 3) * (x * 5) as
    # (x * x) * 15, so an operation may meet numbers that its range does not know of, and fail on
    # the rows that have them. Of two numbers of 64 bits none has more than 128; past 64 it is NULL.
    """
    inner = paren.this
    if paren.type is None or paren.type.this is not T.BIGINT:
        return f"({words.sql(inner)})"
    if isinstance(inner, sql.Binary):
        sign = SIGNS[type(inner)]
        found = f"{_widen(words, inner.this)} {sign} {_widen(words, inner.expression)}"
    elif isinstance(inner, sql.Neg):
        found = f"- {_widen(words, inner.this)}"
    else:
        found = f"ABS({_widen(words, inner.expressions[0])})"
    return f"TRY_CAST(({found}) AS BIGINT)"


def _widen(words: Any, value: sql.Expr) -> str:
    return f"CAST({words.sql(value)} AS HUGEINT)"


class _Words(DuckDBGenerator):
    TRANSFORMS: ClassVar[dict[type[sql.Expr], Any]] = {
        **DuckDBGenerator.TRANSFORMS,
        sql.Cast: _write_cast,
        sql.Paren: _write_paren,
        sql.TryCast: _write_try,
    }


_Words(dialect="duckdb")  # sqlglot compiled allows no such class: this fails before a charge can
