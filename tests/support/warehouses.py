"""Copies of Arrow tables in other engines."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

import psycopg
import pyarrow as pa

from confide.declare import PublicTable, Table
from support.postgres import Postgres

__all__ = ["Warehouse", "moved"]

NUMBERS: Final = count()
TYPES: Final = {
    **dict.fromkeys(("int8", "uint8", "int16"), "smallint"),
    **dict.fromkeys(("uint16", "int32"), "integer"),
    **dict.fromkeys(("uint32", "int64"), "bigint"),
    "double": "double precision",
    "float": "real",
    **dict.fromkeys(("string", "string_view"), "text"),
    "large_string": "text",
    "bool": "boolean",
    "date32[day]": "date",
    "timestamp[us]": "timestamp",
    "timestamp[us, tz=UTC]": "timestamp with time zone",
}


def moved(declared: Table | PublicTable, source: Any) -> Table | PublicTable:
    """Return the same declaration with another source."""
    if isinstance(declared, PublicTable):
        return PublicTable(declared.name, source, version=declared.version)
    return Table(
        declared.name,
        source,
        unit=declared.unit,
        columns=declared.columns,
        max_rows_per_unit=declared.max_rows_per_unit,
        max_groups_per_unit=declared.max_groups_per_unit,
        unique=declared.unique,
        nonnegative=declared.nonnegative,
        version=declared.version,
    )


@dataclass(frozen=True, slots=True)
class Warehouse:
    """A PostgreSQL database into which tables are copied."""

    address: str

    @classmethod
    def of(cls, server: Postgres) -> "Warehouse":
        """Return a new, empty database."""
        return cls(server.create())

    def connect(self) -> "psycopg.Connection[Any]":
        """Return a connection that commits each statement."""
        return psycopg.connect(self.address, autocommit=True)

    def at(self, table: str) -> str:
        """Return the URL of a table."""
        return f"{self.address}&table={table}"

    def copy(self, rows: pa.Table) -> str:
        """Return the URL of a new table that contains these rows."""
        name = f"copy{next(NUMBERS)}"
        listed = ", ".join(f'"{field.name}" {_type(field.type)}' for field in rows.schema)
        with self.connect() as connection:
            connection.execute(f"CREATE TABLE {name} ({listed})")
            with connection.cursor().copy(f"COPY {name} FROM STDIN") as copier:
                for row in rows.to_pylist():
                    copier.write_row([_value(value) for value in row.values()])
            connection.execute(f"ANALYZE {name}")
        return self.at(name)

    def move(self, tables: Iterable[Table | PublicTable]) -> list[Table | PublicTable]:
        """Return the same declarations over copies of their rows."""
        return [moved(table, self.copy(as_arrow(table.source))) for table in tables]


def as_arrow(source: Any) -> pa.Table:
    """Return the rows of a source."""
    if isinstance(source, pa.Table):
        return source
    import duckdb

    if isinstance(source, str) or hasattr(source, "__fspath__"):
        return duckdb.execute("SELECT * FROM read_parquet(?)", [str(source)]).to_arrow_table()
    return pa.Table.from_pandas(source, preserve_index=False)


def _type(kind: pa.DataType) -> str:
    if pa.types.is_decimal(kind):
        return f"numeric({kind.precision},{kind.scale})"
    if pa.types.is_dictionary(kind):
        return _type(kind.value_type)
    return TYPES[str(kind)]


def _value(value: Any) -> Any:
    """Return a value that PostgreSQL can store, whose strings have no NUL character."""
    return value.replace("\0", "") if isinstance(value, str) else value
