"""`Table` and `PublicTable`, the owner's declarations of data, and the `Catalog` of all tables."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from confide.declare.columns import (
    MAX_INTEGER,
    Bool,
    Category,
    Column,
    Date,
    Float,
    Int,
    Text,
    Timestamp,
)
from confide.errors import BadDeclaration
from confide.exact import integer

__all__ = [
    "ROW",
    "Catalog",
    "PublicTable",
    "Row",
    "Table",
    "is_column_name",
    "is_parquet",
    "read_column_name",
    "read_name",
]

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}\Z")
MAX_ROWS: Final = 10**9
MAX_NAME_BYTES: Final = 63
"""The longest name that PostgreSQL keeps."""
FORBIDDEN: Final = frozenset('"`\\')
RESERVED: Final = ("the ", "stored ")
"""The beginnings of names that statements use themselves."""


class Row:
    """The unit of a table in which every row is a different person."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "ROW"


ROW: Final = Row()


@dataclass(frozen=True, slots=True, init=False)
class Table:
    """A private table, whose rows are about the people to protect.

    ``source`` is a DataFrame, a file name, or the address of a database. ``unit`` names the column
    that identifies a person, or is ``ROW`` if every row is about a different person.
    ``max_rows_per_unit`` and ``max_groups_per_unit`` limit the contribution of one unit to one
    answer; confide drops the rest. ``unique=True`` declares one row per unit; confide checks this
    and skips contribution bounding. ``nonnegative=True`` shows counts below zero as 0, which biases
    small counts. ``version`` names a state of the data; change it when rows change.
    """

    name: str
    source: Any = field(repr=False, compare=False)
    unit: str | Row
    columns: Mapping[str, Column]
    max_rows_per_unit: int
    max_groups_per_unit: int
    unique: bool
    nonnegative: bool
    version: str

    def __init__(
        self,
        name: str,
        source: Any,
        *,
        unit: str | Row,
        columns: Mapping[str, Column],
        max_rows_per_unit: int = 1,
        max_groups_per_unit: int | None = None,
        unique: bool = False,
        nonnegative: bool = False,
        version: str = "1",
    ) -> None:
        rows = integer("max_rows_per_unit", max_rows_per_unit, low=1, high=MAX_ROWS)
        groups = rows if max_groups_per_unit is None else max_groups_per_unit
        groups = min(rows, integer("max_groups_per_unit", groups, low=1, high=MAX_ROWS))
        if unique and rows != 1:
            raise BadDeclaration(f"`unique=True` needs `max_rows_per_unit=1`; got {rows}.")
        if isinstance(unit, Row) and rows != 1:
            raise BadDeclaration(f"`unit=ROW` needs `max_rows_per_unit=1`; got {rows}.")
        values = {
            "name": read_name("name", name),
            "source": source,
            "unit": unit if isinstance(unit, Row) else read_column_name("unit", unit),
            "columns": _read_columns(columns),
            "max_rows_per_unit": rows,
            "max_groups_per_unit": groups,
            "unique": bool(unique) or isinstance(unit, Row),
            "nonnegative": bool(nonnegative),
            "version": str(version),
        }
        for key, value in values.items():
            object.__setattr__(self, key, value)
        if str(self.unit).lower() in map(str.lower, self.columns) and not isinstance(unit, Row):
            raise BadDeclaration(
                f"The unit {unit!r} is also declared as a column of {name!r}. Remove it from "
                "`columns`: units can be counted and joined on, but never shown."
            )

    def names_of(self, *kinds: type[Column]) -> tuple[str, ...]:
        """Return the names of the columns that are declared as one of these types."""
        return tuple(name for name, column in self.columns.items() if isinstance(column, kinds))


@dataclass(frozen=True, slots=True, init=False)
class PublicTable:
    """A public table, which contains no personal data and may be joined."""

    name: str
    source: Any = field(repr=False, compare=False)
    version: str

    def __init__(self, name: str, source: Any, *, version: str = "1") -> None:
        object.__setattr__(self, "name", read_name("name", name))
        object.__setattr__(self, "source", source)
        object.__setattr__(self, "version", str(version))


def is_parquet(source: Any) -> bool:
    """Return whether a source is the name of a Parquet file, or a pattern such as *.parquet."""
    return isinstance(source, str | Path) and Path(source).suffix.lower() == ".parquet"


def read_name(argument: str, name: object) -> str:
    """Return ``name`` if it is plain, or raise BadDeclaration, which mentions ``argument``."""
    if not isinstance(name, str) or not NAME.match(name):
        raise BadDeclaration(
            f"`{argument}` must be a plain name of at most 63 letters, digits, and underscores, "
            f"without a digit at the start; got {name!r}."
        )
    return name


def read_column_name(argument: str, name: object) -> str:
    """Return the name of a column, which may contain spaces and signs.

    # Privacy: a name never equals one that statements use themselves, such as that of the unit.
    """
    if not isinstance(name, str) or not is_column_name(name):
        raise BadDeclaration(
            f"`{argument}` must be the name of a column: 1 to {MAX_NAME_BYTES} bytes, without "
            "quotes, backslashes, line breaks, or spaces at an end, and without 'the ' or "
            f"'stored ' at the start; got {name!r}."
        )
    return name


def is_column_name(name: str) -> bool:
    """Return whether a column of this name can be declared."""
    return (
        name.isprintable()
        and 0 < len(name.encode()) <= MAX_NAME_BYTES
        and not FORBIDDEN.intersection(name)
        and name == name.strip()
        and not name.lower().startswith(RESERVED)
    )


def _read_columns(columns: object) -> Mapping[str, Column]:
    if not isinstance(columns, Mapping) or not columns:
        raise BadDeclaration(f"`columns` must map at least one name to its type; got {columns!r}.")
    for name, column in columns.items():
        read_column_name("columns", name)
        if not isinstance(column, Int | Float | Category | Text | Bool | Date | Timestamp):
            raise BadDeclaration(
                f"Column {name!r} must be an `Int`, `Float`, `Category`, `Text`, `Bool`, "
                f"`Date`, or `Timestamp`; got {column!r}."
            )
    if len({name.lower() for name in columns}) != len(columns):
        raise BadDeclaration(
            "Column names must differ by more than case, but two are alike. Rename one, also in "
            "the source."
        )
    return MappingProxyType(dict(columns))


@dataclass(frozen=True, slots=True, init=False)
class Catalog:
    """The declared tables by name; names that differ only in case are refused.

    All private tables must have the same kind of unit, because confide protects a person across
    all of them together.
    """

    private: Mapping[str, Table]
    public: Mapping[str, PublicTable]

    def __init__(self, tables: Iterable[Table | PublicTable]) -> None:
        if isinstance(tables, Table | PublicTable):
            raise BadDeclaration(f"`tables` must be a list. Write `[{tables.name}]`.")
        if not isinstance(tables, Iterable):
            raise BadDeclaration(
                f"`tables` must be a list of `Table` and `PublicTable` objects; got {tables!r}."
            )
        listed = list(tables)
        for table in listed:
            if not isinstance(table, Table | PublicTable):
                raise BadDeclaration(
                    f"`tables` must contain `Table` and `PublicTable` objects; got {table!r}."
                )
        names = [table.name.lower() for table in listed]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise BadDeclaration(
                "Table names must differ by more than case. Rename one; got "
                f"{', '.join(twice)} more than once."
            )
        private = {table.name: table for table in listed if isinstance(table, Table)}
        if not private:
            raise BadDeclaration("At least one private table is needed. Add a `Table`.")
        public = {table.name: table for table in listed if isinstance(table, PublicTable)}
        object.__setattr__(self, "private", MappingProxyType(private))
        object.__setattr__(self, "public", MappingProxyType(public))

    @property
    def tables(self) -> list[Table | PublicTable]:
        """All tables, private ones first."""
        return [*self.private.values(), *self.public.values()]

    @property
    def has_undeclared_keys(self) -> bool:
        """Whether some column can have undeclared group keys."""
        columns = (column for table in self.private.values() for column in table.columns.values())
        return any(
            isinstance(column, Text)
            or (isinstance(column, Int) and max(-column.low, column.high) > MAX_INTEGER)
            for column in columns
        )

    def fingerprint(self) -> str:
        """Return a hash of all declarations that noisy totals depend on.

        The hash omits ``nonnegative``, which only changes the display of stored totals.
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
    values = ((field.name, getattr(column, field.name)) for field in fields(column))
    given = (f"{name}={value!r}" for name, value in values if value is not None)
    return [type(column).__name__, *given]
