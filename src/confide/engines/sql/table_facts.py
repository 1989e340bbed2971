"""What is known of tables: stored types, public ranges, uniqueness.

Texts are read as far as they can be, cell by cell. Of other types some can never be read as what is
declared, whatever their values are; then every value would be NULL and no answer would say so.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from types import MappingProxyType
from typing import Any, Final

from sqlglot import expressions as sql

from confide.declare import Catalog, Category, Column, Kind, Row, Table
from confide.engines.sql.expressions import column, select, table, unit_column
from confide.errors import BadDeclaration
from confide.plan import ANYTHING, Range

__all__ = [
    "TableFacts",
    "check_fit",
    "count_units",
    "list_unique",
    "not_unique_error",
    "several_texts_error",
]

MOST_VALUES: Final = 10_000
Ask = Callable[[sql.Select], list[tuple[Any, ...]]]


class TableFacts:
    """Facts about public tables, read once each by a function that runs statements.

    # Privacy: plans are made from these, so an engine over tables that live on sees that they are
    # still so (`has_changed`) where it reads rows; otherwise a sum could leave its range, or a row
    # meet two partners.
    """

    def __init__(self, ask: Ask, kinds: Mapping[str, Mapping[str, Kind]]) -> None:
        self._ask, self.kinds = ask, kinds
        self._ranges: dict[str, dict[str, Range]] = {}
        self._unique: dict[tuple[str, tuple[str, ...]], bool] = {}

    def ranges(self, name: str) -> Mapping[str, Range]:
        """Return where the values of each column lie."""
        if name not in self._ranges:
            columns = self.kinds[name].items()
            self._ranges[name] = {text: self._range(name, text, kind) for text, kind in columns}
        return self._ranges[name]

    def is_unique(self, name: str, columns: Sequence[str]) -> bool:
        """Tell whether these columns differ from row to row."""
        asked = name, tuple(columns)
        if asked not in self._unique:
            self._unique[asked] = self._find_unique(name, columns)
        return self._unique[asked]

    def has_changed(self) -> bool:
        """Tell whether anything that was told is no longer so."""
        now = TableFacts(self._ask, self.kinds)
        return any(now.ranges(name) != told for name, told in self._ranges.items()) or any(
            now.is_unique(name, columns) != told for (name, columns), told in self._unique.items()
        )

    def _find_unique(self, name: str, columns: Sequence[str]) -> bool:
        grouped = sql.select(sql.Count(this=sql.Star()).as_("rows")).from_(table(name))
        counted = grouped.group_by(*map(column, columns)).subquery("counted")
        return self._one(sql.select(sql.Max(this=column("rows"))).from_(counted)) in (None, 1)

    def _range(self, name: str, text: str, kind: Kind) -> Range:
        if kind is Kind.TEXT:
            return replace(ANYTHING, values=self._values(name, text))
        if kind is Kind.BOOL:
            return Range(0, 1)
        low, high = self._end(sql.Min, name, text), self._end(sql.Max, name, text)
        if low is None or high is None:
            return Range(1, 1) if kind is Kind.DATE else Range(0, 0)  # the first day there is
        return Range(low, high)

    def _values(self, name: str, text: str) -> tuple[str, ...] | None:
        chosen = sql.select(column(text)).distinct().from_(table(name)).limit(MOST_VALUES + 1)
        rows = self._ask(chosen)
        listed = sorted(value for (value,) in rows if value is not None)
        return tuple(listed) if len(rows) <= MOST_VALUES else None

    def _end(self, end: type[sql.Min | sql.Max], name: str, text: str) -> int | float | None:
        found: Any = self._one(sql.select(end(this=column(text))).from_(table(name)))
        return found.toordinal() if isinstance(found, date) else found

    def _one(self, statement: sql.Select) -> Any:
        rows = self._ask(statement)
        return rows[0][0] if rows else None


NUMBERS: Final = (Kind.INT, Kind.FLOAT, Kind.BOOL, Kind.TEXT)
READABLE: Final[Mapping[Kind | None, tuple[Kind, ...]]] = MappingProxyType(
    {
        Kind.INT: NUMBERS,
        Kind.FLOAT: NUMBERS,
        Kind.BOOL: NUMBERS,
        Kind.DATE: (Kind.DATE, Kind.TEXT),
        Kind.TEXT: tuple(Kind),
        None: (Kind.TEXT,),
    }
)
"""As what values of a kind can be read; as anything else they are NULL, whatever the value."""

WRITTEN: Final[Mapping[Kind | None, re.Pattern[str]]] = MappingProxyType(
    {
        Kind.INT: re.compile(r"0|-?[1-9]\d*"),
        Kind.FLOAT: re.compile(r"-?\d+(\.\d+)?(e[+-]?\d+)?|-?inf(inity)?|nan", re.IGNORECASE),
        Kind.BOOL: re.compile(r"true|false"),
        Kind.DATE: re.compile(r"-?\d+-\d\d-\d\d.*|-?infinity"),
    }
)
"""Strings that a value of a kind can have; engines write some numbers and days differently."""


def check_fit(table: str, name: str, declared: Column, said: str, stored: Kind | None) -> None:
    """See that a column can be read as declared.

    ``said`` is its type in the engine's words, and ``stored`` our word for that: days for points in
    time as well, None for what only its text can be read of, such as lists, bytes and identifiers.

    Raises:
        BadDeclaration: every value of it would be read as NULL.
    """
    readable = READABLE[stored]
    if declared.kind not in readable:
        listed = [*(str(kind) for kind in readable if kind is not Kind.TEXT), "category"]
        raise BadDeclaration(
            f"column {name!r} of table {table!r} is stored as {said}, of which no value can be "
            f"read as {declared.kind}; declare {', '.join(listed)} or text, or cast it where it is "
            "stored"
        )
    if isinstance(declared, Category) and not _can_be_listed(declared, stored):
        raise BadDeclaration(
            f"column {name!r} of table {table!r} is stored as {said}, of which no value can be "
            "read as one of those listed; list values as they are stored, or declare "
            f"{_advise(stored)}"
        )


def _can_be_listed(declared: Category, stored: Kind | None) -> bool:
    """Return whether some value of a stored kind can be one of a category's.

    The schema alone decides, never the cells: a refusal would reveal something about these.
    """
    known = [value for value in declared.values if value is not None]
    if declared.kind is Kind.INT:
        return stored is not Kind.BOOL or bool({0, 1}.intersection(known))
    pattern = WRITTEN.get(stored)
    return pattern is None or not known or any(pattern.fullmatch(str(one)) for one in known)


def _advise(stored: Kind | None) -> str:
    return {Kind.BOOL: "bool", Kind.DATE: "date"}.get(stored or Kind.TEXT, "int or float")


def several_texts_error(table: str, unit: str, said: str) -> BadDeclaration:
    """Return what the owner is told of a unit's type that has several texts for one value.

    # Privacy: units are compared as texts, so one of them would become several.
    """
    return BadDeclaration(
        f"unit {unit!r} of table {table!r} is of type {said}, which may write one value in several "
        "ways; name a column of whole numbers or of texts"
    )


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


def not_unique_error(declared: Table) -> BadDeclaration:
    """Return what the owner is told of a table with more rows than units."""
    return BadDeclaration(
        f"table {declared.name!r} is declared unique=True, but some unit has several "
        "rows; declare max_rows_per_unit instead"
    )
