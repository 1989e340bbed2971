"""Facts about tables: stored types, ranges of public columns, and uniqueness.

Stored types are compared with the declaration when an engine opens a table. Any string may be
readable as a declared number or date. But values of some other types can never be read as the
declared type. Every value would then be NULL, and no answer would show that.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from types import MappingProxyType
from typing import Any, Final

from sqlglot import expressions as sql

from confide.declare import Catalog, Category, Column, Kind, Row, Table
from confide.engines.sql.builders import column, select, table, unit_column
from confide.errors import BadDeclaration
from confide.plan import UNBOUNDED, Range

__all__ = [
    "TableFacts",
    "ambiguous_unit_error",
    "check_readable",
    "count_units",
    "list_unique",
    "not_unique_error",
]

MAX_LISTED_VALUES: Final = 10_000
Fetch = Callable[[sql.Select], list[tuple[Any, ...]]]
"""A function that runs a statement and returns its rows."""


class TableFacts:
    """Facts about public tables, each read when it is first needed, and then cached.

    ``kinds`` gives the kinds of the columns of each table.

    # Privacy: plans depend on these facts. So an engine whose tables can change checks that the
    # facts still hold (`has_changed`) before it reads rows. Otherwise, a sum could leave its range,
    # or a row could match two rows of a public table in a join.
    """

    def __init__(self, fetch: Fetch, kinds: Mapping[str, Mapping[str, Kind]]) -> None:
        self._fetch, self.kinds = fetch, kinds
        self._ranges: dict[str, dict[str, Range]] = {}
        self._unique: dict[tuple[str, tuple[str, ...]], bool] = {}

    def ranges(self, name: str) -> Mapping[str, Range]:
        """Return the range of the values of each column of a table."""
        if name not in self._ranges:
            columns = self.kinds[name].items()
            self._ranges[name] = {
                column_name: self._range(name, column_name, kind) for column_name, kind in columns
            }
        return self._ranges[name]

    def is_unique(self, name: str, columns: Sequence[str]) -> bool:
        """Return whether no two rows have equal values in these columns."""
        key = name, tuple(columns)
        if key not in self._unique:
            self._unique[key] = self._find_unique(name, columns)
        return self._unique[key]

    def has_changed(self) -> bool:
        """Return whether any fact that was read so far has changed."""
        current = TableFacts(self._fetch, self.kinds)
        return any(current.ranges(name) != fact for name, fact in self._ranges.items()) or any(
            current.is_unique(name, columns) != fact
            for (name, columns), fact in self._unique.items()
        )

    def _find_unique(self, name: str, columns: Sequence[str]) -> bool:
        grouped = sql.select(sql.Count(this=sql.Star()).as_("rows")).from_(table(name))
        counted = grouped.group_by(*map(column, columns)).subquery("counted")
        return self._single(sql.select(sql.Max(this=column("rows"))).from_(counted)) in (None, 1)

    def _range(self, name: str, column_name: str, kind: Kind) -> Range:
        if kind is Kind.TEXT:
            return replace(UNBOUNDED, values=self._values(name, column_name))
        if kind is Kind.BOOL:
            return Range(0, 1)
        low, high = self._end(sql.Min, name, column_name), self._end(sql.Max, name, column_name)
        if low is None or high is None:
            return Range(1, 1) if kind is Kind.DATE else Range(0, 0)  # 0001-01-01, the first date
        return Range(low, high)

    def _values(self, name: str, column_name: str) -> tuple[str, ...] | None:
        """Return the distinct strings of a column, sorted; None if there are too many."""
        chosen = (
            sql.select(column(column_name))
            .distinct()
            .from_(table(name))
            .limit(MAX_LISTED_VALUES + 1)
        )
        rows = self._fetch(chosen)
        listed = sorted(value for (value,) in rows if value is not None)
        return tuple(listed) if len(rows) <= MAX_LISTED_VALUES else None

    def _end(self, end: type[sql.Min | sql.Max], name: str, column_name: str) -> int | float | None:
        """Return the least or greatest value of a column; None if every value is NULL.

        A date becomes its ordinal number.
        """
        found: Any = self._single(sql.select(end(this=column(column_name))).from_(table(name)))
        return found.toordinal() if isinstance(found, date) else found

    def _single(self, statement: sql.Select) -> Any:
        """Return the only value of a statement's result."""
        rows = self._fetch(statement)
        return rows[0][0] if rows else None


NUMERIC: Final = (Kind.INT, Kind.FLOAT, Kind.BOOL, Kind.TEXT)
READABLE: Final[Mapping[Kind | None, tuple[Kind, ...]]] = MappingProxyType(
    {
        Kind.INT: NUMERIC,
        Kind.FLOAT: NUMERIC,
        Kind.BOOL: NUMERIC,
        Kind.DATE: (Kind.DATE, Kind.TIMESTAMP, Kind.TEXT),
        Kind.TEXT: tuple(Kind),
        None: (Kind.TEXT,),
    }
)
"""For each stored kind, the kinds that its values can be read as.

Read as any other kind, every value would be NULL.
"""

STORED_PATTERNS: Final[Mapping[Kind | None, re.Pattern[str]]] = MappingProxyType(
    {
        Kind.INT: re.compile(r"0|-?[1-9]\d*"),
        Kind.FLOAT: re.compile(r"-?\d+(\.\d+)?(e[+-]?\d+)?|-?inf(inity)?|nan", re.IGNORECASE),
        Kind.BOOL: re.compile(r"true|false"),
        Kind.DATE: re.compile(r"-?\d+-\d\d-\d\d.*|-?infinity"),
    }
)
"""For each stored kind, the strings that engines may write for its values.

Engines write some numbers and dates differently.
"""


def check_readable(
    table: str, name: str, declared: Column, native: str, stored: Kind | None
) -> None:
    """Check that a column can be read as declared.

    ``native`` is the engine's name of the column's type, and ``stored`` our kind for that type:
    DATE for timestamps too, and None for types that can be read only as text, such as lists, bytes,
    and UUIDs.

    Raises:
        BadDeclaration: every value of the column would be read as NULL.
    """
    readable = READABLE[stored]
    if declared.kind not in readable:
        listed = [*(str(kind) for kind in readable if kind is not Kind.TEXT), "category"]
        choices = f"{', '.join(listed)}, or text" if len(listed) > 1 else "category or text"
        raise BadDeclaration(
            f"Column {name!r} of table {table!r} is stored as {native}, so no value can be read as "
            f"{declared.kind}. Declare {choices}; or cast the column where it "
            "is stored."
        )
    if isinstance(declared, Category) and not _can_be_listed(declared, stored):
        raise BadDeclaration(
            f"Column {name!r} of table {table!r} is stored as {native}, so no value can be one of "
            "the listed values. List values as they are stored, or declare "
            f"{_advise(stored)}."
        )


def _can_be_listed(declared: Category, stored: Kind | None) -> bool:
    """Return whether some value of a stored kind can be one of a category's values.

    The schema alone decides, never the cells: an error would reveal something about the cells.
    """
    known = [value for value in declared.values if value is not None]
    if declared.kind is Kind.INT:
        return stored is not Kind.BOOL or bool({0, 1}.intersection(known))
    pattern = STORED_PATTERNS.get(stored)
    return pattern is None or not known or any(pattern.fullmatch(str(one)) for one in known)


def _advise(stored: Kind | None) -> str:
    """Return the types to declare instead of a category, for a stored kind."""
    return {Kind.BOOL: "bool", Kind.DATE: "date"}.get(stored or Kind.TEXT, "int or float")


def ambiguous_unit_error(table: str, unit: str, native: str) -> BadDeclaration:
    """Return the error for a unit whose type may write one value as different strings.

    # Privacy: units are compared as strings, so one unit would become several.
    """
    return BadDeclaration(
        f"Unit {unit!r} of table {table!r} has type {native}, which may write one value in several "
        "ways. Use a column of integers or strings."
    )


def list_unique(catalog: Catalog) -> list[Table]:
    """Return the tables whose units are declared unique, except those whose unit is the row."""
    return [
        declared
        for declared in catalog.private.values()
        if declared.unique and not isinstance(declared.unit, Row)
    ]


def count_units(declared: Table) -> sql.Select:
    """Return the statement that counts the rows and the units of a table."""
    units = sql.Count(this=sql.Distinct(expressions=[unit_column()]))
    return select([sql.Count(this=sql.Star()), units], table(declared.name))


def not_unique_error(declared: Table) -> BadDeclaration:
    """Return the error for a table declared unique that has more rows than units."""
    return BadDeclaration(
        f"Table {declared.name!r} is declared `unique=True`, but some unit has several rows. "
        "Declare `max_rows_per_unit` instead."
    )
