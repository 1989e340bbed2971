"""Statements as DuckDB reads them soonest: its casts by their plain names, doubles without one.

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


class _Words(DuckDBGenerator):
    TRANSFORMS: ClassVar[dict[type[sql.Expr], Any]] = {
        **DuckDBGenerator.TRANSFORMS,
        sql.Cast: _write_cast,
        sql.TryCast: _write_try,
    }
