"""Units declared unique: every one of them must have one row, for what they add is never cut."""

from sqlglot import expressions as sql

from confide.declare import Catalog, Row, Table
from confide.engines.fragments import select, table, unit_column
from confide.errors import BadDeclaration

__all__ = ["count_units", "list_unique", "say_not_unique"]


def list_unique(catalog: Catalog) -> list[Table]:
    """Return the tables whose units are declared unique; rows as units are so by nature."""
    return [
        declared
        for declared in catalog.private.values()
        if declared.unique and not isinstance(declared.unit, Row)
    ]


def count_units(declared: Table) -> sql.Select:
    """Return the statement that counts the rows and the units of a table."""
    units = sql.Count(this=sql.Distinct(expressions=[unit_column()]))
    return select([sql.Count(this=sql.Star()), units], table(declared.name))


def say_not_unique(declared: Table) -> BadDeclaration:
    """Return what the owner is told of a table with more rows than units."""
    return BadDeclaration(
        f"table {declared.name!r} is declared unique=True, but some unit has several "
        "rows; declare max_rows_per_unit instead"
    )
