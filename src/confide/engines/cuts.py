"""Which rows of a unit stay: so many groups and rows, by keyed hash."""

from collections.abc import Sequence
from typing import Final

from sqlglot import expressions as sql

from confide.engines.expressions import Sql, call, cast, number
from confide.engines.fragments import column, label, unit_column
from confide.plan import Contribution

__all__ = ["cut_rows"]

SEPARATOR: Final = "\x1f"
MISSING: Final = "\x1e"


def cut_rows(
    rows: sql.Select,
    limits: Contribution,
    keys: Sequence[str],
    parts: Sequence[str],
    salt: str,
) -> sql.Select:
    """Keep so many groups and rows of each unit, first by keyed hash, then by what they hold.

    ``keys`` and ``parts`` name all the columns of ``rows`` but the unit; groups differ in keys.

    # Privacy: ties are between equal rows only, so which rows of a unit stay is a function of that
    # unit's rows, whatever else is in the table.
    """
    held = [*keys, *parts]
    if keys and limits.groups < limits.rows:
        rank = _ranked("DENSE_RANK", keys, f"{salt} groups")
        rows = _first(rows, held, rank, limits.groups)
    return _first(rows, held, _ranked("ROW_NUMBER", held, f"{salt} rows"), limits.rows)


def _ranked(function: str, names: Sequence[str], salt: str) -> Sql:
    texts = [
        call("COALESCE", cast(column(name), "VARCHAR"), sql.Literal.string(MISSING))
        for name in names
    ]
    unit = cast(unit_column(), "VARCHAR")
    separator, key = sql.Literal.string(SEPARATOR), sql.Literal.string(salt)
    digest = call("MD5", call("CONCAT_WS", separator, key, unit, *texts))
    order = [sql.Ordered(this=part) for part in (digest, *map(column, names))]
    ranks = sql.Order(expressions=order)
    return sql.Window(this=call(function), partition_by=[unit_column()], order=ranks)


def _first(rows: sql.Select, held: Sequence[str], rank: Sql, most: int) -> sql.Select:
    columns = [unit_column(), *map(column, held)]
    ranked = sql.select(*columns, label(rank, "place")).from_(rows.subquery("rows"))
    inside = sql.LTE(this=column("place"), expression=number(most))
    return sql.select(*columns).from_(ranked.subquery("ranked")).where(inside)
