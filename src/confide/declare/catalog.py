"""All declarations together: the names that a question may use, and their fingerprint."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType

from confide.declare.columns import Column, Text
from confide.declare.tables import PublicTable, Row, Table
from confide.errors import BadDeclaration

__all__ = ["Catalog"]


@dataclass(frozen=True, slots=True, init=False)
class Catalog:
    """The declared tables by name; names differ by more than upper and lower case.

    All private tables must have the same kind of unit: one person is protected in all of them
    together.
    """

    private: Mapping[str, Table]
    public: Mapping[str, PublicTable]

    def __init__(self, tables: Iterable[Table | PublicTable]) -> None:
        if isinstance(tables, Table | PublicTable):
            raise BadDeclaration(f"tables must be a list: write [{tables.name}]")
        if not isinstance(tables, Iterable):
            raise BadDeclaration(f"tables must be a list of Table and PublicTable, got {tables!r}")
        listed = list(tables)
        for table in listed:
            if not isinstance(table, Table | PublicTable):
                raise BadDeclaration(f"tables must be Table or PublicTable, got {table!r}")
        names = [table.name.lower() for table in listed]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise BadDeclaration(
                f"table names must differ by more than capitals, got {', '.join(twice)} more than "
                "once; rename one"
            )
        private = {table.name: table for table in listed if isinstance(table, Table)}
        if not private:
            raise BadDeclaration("at least one Table is needed; only public tables were given")
        public = {table.name: table for table in listed if isinstance(table, PublicTable)}
        object.__setattr__(self, "private", MappingProxyType(private))
        object.__setattr__(self, "public", MappingProxyType(public))

    @property
    def tables(self) -> list[Table | PublicTable]:
        """All tables, private ones first."""
        return [*self.private.values(), *self.public.values()]

    @property
    def has_open_keys(self) -> bool:
        """Whether some column has keys that are not known beforehand."""
        tables = self.private.values()
        return any(
            isinstance(column, Text) for table in tables for column in table.columns.values()
        )

    def fingerprint(self) -> str:
        """Return a digest of what noisy totals depend on, which changes when any of it does.

        ``nonnegative`` is left out: it only changes how stored totals are shown.
        """
        text = json.dumps(
            {
                "private": [_describe_table(table) for _, table in sorted(self.private.items())],
                "public": [[table.name, table.version] for _, table in sorted(self.public.items())],
            },
            sort_keys=True,
        )
        return hashlib.sha256(text.encode()).hexdigest()


def _describe_table(table: Table) -> dict[str, object]:
    return {
        "name": table.name,
        "unit": None if isinstance(table.unit, Row) else table.unit,
        "columns": {name: _describe_column(column) for name, column in table.columns.items()},
        "limits": [table.max_rows_per_unit, table.max_groups_per_unit, table.unique],
        "version": table.version,
    }


def _describe_column(column: Column) -> list[str]:
    values = (f"{field.name}={getattr(column, field.name)!r}" for field in fields(column))
    return [type(column).__name__, *values]
