"""Invented people who fit a declaration, and worst-case neighbors.

Rows follow from the declared columns alone: no file of the owner's is opened, except those of
public tables. They are written as CSV into a folder of their own, so every value, odd ones too,
takes the way of an owner's file.
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
)
from confide.mechanisms import Neighbours

__all__ = ["PAIRS", "TEXTS", "Person", "World", "count_usual", "make_pair", "write_world"]

PEOPLE: Final = 24
USUAL_ROWS: Final = 2
HEAVY: Final = 3
MOST_ROWS: Final = 60
LONE: Final = "only mine"
TEXTS: Final = ("common", "usual", "plain", LONE)
ODD: Final = ("nan", "inf", "-inf", "1e400", "not a value", "-0.0", "9" * 40)
GOLDEN: Final = Fraction(610, 987)


class Person(StrEnum):
    """Whoever is in one of two neighbouring databases and not in the other."""

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
"""For each kind of neighbours: who is in the first database, and who is in the second."""

Rows = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class World:
    """The rows of every private table, by its name."""

    rows: Rows


def make_pair(
    tables: Sequence[Table], first: Person | None, second: Person | None
) -> tuple[World, World]:
    """Return two worlds of the same people, each with one more (None: with nobody more)."""
    return _make_world(tables, first), _make_world(tables, second)


def write_world(
    world: World, tables: Sequence[Table | PublicTable], folder: Path
) -> list[Table | PublicTable]:
    """Return the declared tables over this world's rows, which are written into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    return [
        _write_table(table, world.rows[table.name], folder / f"{table.name}.csv")
        if isinstance(table, Table)
        else table
        for table in tables
    ]


def _make_world(tables: Sequence[Table], more: Person | None) -> World:
    rows: Rows = {}
    for table in tables:
        rows[table.name] = [
            _unit(table, f"u{person}") | _usual_row(table, PEOPLE * turn + person)
            for person in range(PEOPLE)
            for turn in range(1 + person % _most_usual(table))
        ]
        if more is not None:
            rows[table.name] += [_unit(table, "target") | row for row in _target_rows(table, more)]
    return World(rows)


def count_usual(table: Table) -> int:
    """Return how many rows a table has of those who are in both worlds."""
    return sum(1 + person % _most_usual(table) for person in range(PEOPLE))


def _most_usual(table: Table) -> int:
    return 1 if table.unique else min(USUAL_ROWS, table.max_rows_per_unit)


def _unit(table: Table, name: str) -> dict[str, Any]:
    return {} if isinstance(table.unit, Row) else {table.unit: name}


def _usual_row(table: Table, number: int) -> dict[str, Any]:
    columns = table.columns.items()
    return {
        name: _usual_value(column, number + 7 * place)
        for place, (name, column) in enumerate(columns)
    }


def _usual_value(column: Column, number: int) -> Any:
    """Return a value within the bounds, another one for each number."""
    part = number * GOLDEN % 1
    match column:
        case Int(low=low, high=high):
            return low + int((high - low) * part)
        case Float(low=low, high=high):
            return float(low + (high - low) * part)
        case Category(values=values):
            return values[number % len(values)]
        case Date(low=first, high=last):
            return first + timedelta(days=int((last - first).days * part))
        case Bool():
            return number % 2 == 0
        case Text():
            return TEXTS[0] if number % 3 else TEXTS[1 + number % 2]
        case _:
            assert_never(column)


def _target_rows(table: Table, person: Person) -> list[dict[str, Any]]:
    """Return the rows of whoever makes the difference."""
    is_one = table.unique
    most = 1 if is_one else min(table.max_rows_per_unit, MOST_ROWS)
    match person:
        case Person.ORDINARY:
            return [_usual_row(table, 5)]
        case Person.HIGH | Person.LOW:
            return [_edge_row(table, is_high=person is Person.HIGH)] * most
        case Person.HEAVY:
            many = 1 if is_one else HEAVY * most + 2
            return [_usual_row(table, number) for number in range(many)]
        case Person.LONE:
            return [_lone_row(table, turn) for turn in range(1 if is_one else min(most, 3))]
        case Person.BLANK:
            return [dict.fromkeys(table.columns)] * most
        case Person.ODD:
            return [_odd_row(table, turn) for turn in range(most)]
        case _:
            assert_never(person)


def _edge_row(table: Table, *, is_high: bool) -> dict[str, Any]:
    """Return a row at the bounds or beyond, in the first group of every kind."""
    row = _usual_row(table, 0)
    for name, column in table.columns.items():
        match column:
            case Int(low=low, high=high):
                row[name] = high if is_high else low
            case Float(low=low, high=high):
                row[name] = float(high) * (10 if high > 0 else 1) if is_high else float(low)
            case Date(low=first, high=last):
                row[name] = last if is_high else first
            case _:
                continue
    return row


def _lone_row(table: Table, turn: int) -> dict[str, Any]:
    columns = table.columns.items()
    lone = {name: LONE for name, column in columns if isinstance(column, Text | Category)}
    return _usual_row(table, turn) | lone


def _odd_row(table: Table, turn: int) -> dict[str, Any]:
    return {name: ODD[(turn + place) % len(ODD)] for place, name in enumerate(table.columns)}


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
