"""DuckDB SQL text: casts with plain type names, and double literals without casts.

Statements are already trees in DuckDB's dialect. In these trees, a literal of type double is a
number under a cast, since DuckDB reads 1.5 as a decimal. In the text it is written 1.5e0, which is
the same double and is parsed faster.
"""

from typing import Any, ClassVar, Final

from sqlglot import expressions as sql
from sqlglot.generators.duckdb import DuckDBGenerator

__all__ = ["write_duckdb"]

T = sql.DType
SIMPLE_TYPES: Final = frozenset(
    {T.BIGINT, T.BOOLEAN, T.DATE, T.DOUBLE, T.INT, T.TIMESTAMP, T.UTINYINT, T.VARCHAR}
)
"""Types whose names need no parameters."""
OPERATORS: Final[dict[type[sql.Expr], str]] = {sql.Add: "+", sql.Sub: "-", sql.Mul: "*"}


def write_duckdb(select: sql.Select) -> str:
    """Return the SQL of a statement; the tree is modified."""
    text: str = _Generator(dialect="duckdb").generate(select, copy=False)
    return text


def _write_cast(generator: Any, cast: sql.Cast) -> str:
    value, kind = cast.this, cast.to.this
    if kind not in SIMPLE_TYPES:
        written: str = generator.cast_sql(cast)
        return written
    if kind is T.DOUBLE and isinstance(value, sql.Literal) and not value.is_string:
        return value.name if "e" in value.name else f"{value.name}e0"
    return f"CAST({generator.sql(value)} AS {kind.value})"


def _write_try(generator: Any, cast: sql.TryCast) -> str:
    kind = cast.to.this
    if kind not in SIMPLE_TYPES:
        written: str = generator.trycast_sql(cast)
        return written
    return f"TRY_CAST({generator.sql(cast.this)} AS {kind.value})"


def _write_paren(generator: Any, paren: sql.Paren) -> str:
    """Return an expression in parentheses, with integer arithmetic in 128 bits.

    # Privacy: DuckDB reorders sums and products to combine their constants: (x * 3) * (x * 5)
    # becomes (x * x) * 15. So an operation may get numbers outside the range that was derived for
    # it, and fail on the rows that have them. Here, an operation on two 64-bit integers is done in
    # 128 bits, where it cannot fail, and its result is NULL if it exceeds 64 bits.
    """
    inner = paren.this
    if paren.type is None or paren.type.this is not T.BIGINT:
        return f"({generator.sql(inner)})"
    if isinstance(inner, sql.Binary):
        sign = OPERATORS[type(inner)]
        found = f"{_widen(generator, inner.this)} {sign} {_widen(generator, inner.expression)}"
    elif isinstance(inner, sql.Neg):
        found = f"- {_widen(generator, inner.this)}"
    else:
        found = f"ABS({_widen(generator, inner.expressions[0])})"
    return f"TRY_CAST(({found}) AS BIGINT)"


def _widen(generator: Any, value: sql.Expr) -> str:
    return f"CAST({generator.sql(value)} AS HUGEINT)"


class _Generator(DuckDBGenerator):
    TRANSFORMS: ClassVar[dict[type[sql.Expr], Any]] = {
        **DuckDBGenerator.TRANSFORMS,
        sql.Cast: _write_cast,
        sql.Paren: _write_paren,
        sql.TryCast: _write_try,
    }


# A compiled sqlglot forbids such a class; this makes the import fail, not a query.
_Generator(dialect="duckdb")
