"""Synthetic people who fit a declaration, and worst-case neighboring datasets.

Rows depend on the declared columns alone. No file of the owner is opened, except those of public
tables. Rows are written to CSV files in a separate folder, so that every value, including malformed
ones, is read in the same way as the owner's files.
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, assert_never

from confide.declare import (
    Bool,
    Category,
    Column,
    Date,
    Float,
    Int,
    PublicTable,
    Row,
    Table,
    Text,
    Timestamp,
)
from confide.mechanisms import Neighbours

__all__ = ["PAIRS", "TEXT_VALUES", "Person", "World", "count_usual", "make_pair", "write_world"]

PERSON_COUNT: Final = 24
USUAL_ROWS: Final = 2
HEAVY_FACTOR: Final = 3
MAX_TARGET_ROWS: Final = 60
RARE_TEXT: Final = "only mine"
TEXT_VALUES: Final = ("common", "usual", "plain", RARE_TEXT)
ODD_VALUES: Final = ("nan", "inf", "-inf", "1e400", "not a value", "-0.0", "9" * 40)
GOLDEN_SECTION: Final = Fraction(610, 987)


class Person(StrEnum):
    """A kind of extra person, whose rows are in only one of two neighboring datasets."""

    ORDINARY = "ordinary"
    HIGH = "outlier, high"
    LOW = "outlier, low"
    HEAVY = "heavy user"
    LONE = "lone key"
    BLANK = "all NULL"
    ODD = "NaN, nonsense"


PAIRS: Final[dict[Neighbours, tuple[tuple[Person | None, Person], ...]]] = {
    Neighbours.ADD_REMOVE: tuple((None, person) for person in Person),
    Neighbours.REPLACE: (
        (Person.LOW, Person.HIGH),
        (Person.BLANK, Person.HEAVY),
        (Person.ORDINARY, Person.LONE),
        (Person.LOW, Person.ODD),
    ),
}
"""For each neighboring relation, the extra person of the first dataset and of the second.

None means that a dataset has no extra person.
"""

Rows = dict[str, list[dict[str, Any]]]
"""Rows by table name, each with its values by column."""


@dataclass(frozen=True, slots=True)
class World:
    """A synthetic dataset: the rows of every private table, by table name."""

    rows: Rows


def make_pair(
    tables: Sequence[Table], first: Person | None, second: Person | None
) -> tuple[World, World]:
    """Return two worlds of the same people, each with its own extra person unless that is None."""
    return _make_world(tables, first), _make_world(tables, second)


def write_world(
    world: World, tables: Sequence[Table | PublicTable], folder: Path
) -> list[Table | PublicTable]:
    """Write a world's rows into a folder and return private tables that read them.

    Public tables are returned unchanged.
    """
    folder.mkdir(parents=True, exist_ok=True)
    return [
        _write_table(table, world.rows[table.name], folder / f"{table.name}.csv")
        if isinstance(table, Table)
        else table
        for table in tables
    ]


def _make_world(tables: Sequence[Table], extra: Person | None) -> World:
    rows: Rows = {}
    for table in tables:
        rows[table.name] = [
            _unit(table, f"u{person}") | _usual_row(table, PERSON_COUNT * turn + person)
            for person in range(PERSON_COUNT)
            for turn in range(1 + person % _max_usual_rows(table))
        ]
        if extra is not None:
            rows[table.name] += [_unit(table, "target") | row for row in _target_rows(table, extra)]
    return World(rows)


def count_usual(table: Table) -> int:
    """Return the number of rows in a table that do not belong to the extra person."""
    return sum(1 + person % _max_usual_rows(table) for person in range(PERSON_COUNT))


def _max_usual_rows(table: Table) -> int:
    return 1 if table.unique else min(USUAL_ROWS, table.max_rows_per_unit)


def _unit(table: Table, name: str) -> dict[str, Any]:
    return {} if isinstance(table.unit, Row) else {table.unit: name}


def _usual_row(table: Table, number: int) -> dict[str, Any]:
    """Return a row with values within the bounds; ``number`` determines them."""
    columns = table.columns.items()
    return {
        name: _usual_value(column, number + 7 * index)
        for index, (name, column) in enumerate(columns)
    }


def _usual_value(column: Column, number: int) -> Any:  # noqa: PLR0911  # one for each type
    """Return a value within the bounds that depends on ``number``."""
    fraction = number * GOLDEN_SECTION % 1
    match column:
        case Int(low=low, high=high):
            return low + int((high - low) * fraction)
        case Float(low=low, high=high):
            return float(low + (high - low) * fraction)
        case Category(values=values):
            return values[number % len(values)]
        case Date(low=first, high=last):
            return first + timedelta(days=int((last - first).days * fraction))
        case Timestamp(low=low, high=high):
            return low + (high - low) * float(fraction)
        case Bool():
            return number % 2 == 0
        case Text():
            return TEXT_VALUES[0] if number % 3 else TEXT_VALUES[1 + number % 2]
        case _:
            assert_never(column)


def _target_rows(table: Table, person: Person) -> list[dict[str, Any]]:
    """Return the rows of the extra person."""
    is_unique = table.unique
    limit = 1 if is_unique else min(table.max_rows_per_unit, MAX_TARGET_ROWS)
    match person:
        case Person.ORDINARY:
            return [_usual_row(table, 5)]
        case Person.HIGH | Person.LOW:
            return [_edge_row(table, is_high=person is Person.HIGH)] * limit
        case Person.HEAVY:
            count = 1 if is_unique else HEAVY_FACTOR * limit + 2
            return [_usual_row(table, number) for number in range(count)]
        case Person.LONE:
            return [_lone_row(table, turn) for turn in range(1 if is_unique else min(limit, 3))]
        case Person.BLANK:
            return [dict.fromkeys(table.columns)] * limit
        case Person.ODD:
            return [_odd_row(table, turn) for turn in range(limit)]
        case _:
            assert_never(person)


def _edge_row(table: Table, *, is_high: bool) -> dict[str, Any]:
    """Return a row with numbers, dates, and timestamps at one bound, and with usual keys.

    If ``is_high``, a float with a positive upper bound is ten times that bound.
    """
    row = _usual_row(table, 0)
    for name, column in table.columns.items():
        match column:
            case Int(low=low, high=high):
                row[name] = high if is_high else low
            case Float(low=low, high=high):
                row[name] = float(high) * (10 if high > 0 else 1) if is_high else float(low)
            case Date(low=first, high=last) | Timestamp(low=first, high=last):
                row[name] = last if is_high else first
            case _:
                continue
    return row


def _lone_row(table: Table, turn: int) -> dict[str, Any]:
    """Return a row whose string and category columns have a value that no other person has."""
    columns = table.columns.items()
    lone = {name: RARE_TEXT for name, column in columns if isinstance(column, Text | Category)}
    return _usual_row(table, turn) | lone


def _odd_row(table: Table, turn: int) -> dict[str, Any]:
    """Return a row of NaN, infinities, and other odd or malformed values."""
    return {
        name: ODD_VALUES[(turn + index) % len(ODD_VALUES)]
        for index, name in enumerate(table.columns)
    }


def _write_table(table: Table, rows: Sequence[Mapping[str, Any]], path: Path) -> Table:
    unit = [] if isinstance(table.unit, Row) else [table.unit]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [*unit, *table.columns], lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _write_value(value) for name, value in row.items()} for row in rows)
    return Table(
        table.name,
        str(path),
        unit=table.unit,
        columns=dict(table.columns),
        max_rows_per_unit=table.max_rows_per_unit,
        max_groups_per_unit=table.max_groups_per_unit,
        unique=table.unique,
    )


def _write_value(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date) else value
