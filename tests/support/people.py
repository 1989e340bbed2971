"""Invented people with every awkward value, in many small databases at once.

One table holds many *worlds*: small databases that share nothing, distinguished by the column
``world``. A unit lives in one world only. So one statement grouped by world gives the exact totals
of all of them, and thousands of neighboring pairs cost a few statements.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

import numpy as np
import pyarrow as pa

from confide.declare import Bool, Category, Column, Date, Float, Int, Table, Text
from confide.mechanisms import Neighbours

__all__ = [
    "COLUMNS",
    "Limits",
    "Person",
    "change_one",
    "declare_worlds",
    "draw_orphans",
    "draw_person",
    "draw_worlds",
    "to_arrow",
]

COLUMNS: Final[dict[str, Column]] = {
    "age": Int(0, 120),
    "cost": Float(-50, 1_000),
    "price": Float(0, 10, step=0.01),
    "ward": Category(["A", "B", "é ü"]),
    "place": Category(["x", "y", None]),
    "smoker": Bool(),
    "day": Date("2020-01-15", "2020-12-31"),
    "words": Text(),
}
"""Declared columns; ``age`` is stored as floats, so that it can be infinite or NaN too."""

VALUES: Final[dict[str, Sequence[Any]]] = {
    "age": (None, 0.0, 120.0, 60.0, 61.0, 2.5, -7.0, 1e300, math.inf, math.nan, 33.0),
    "cost": (None, -50.0, 1_000.0, 0.0, -0.0, 5e-324, 475.0, math.inf, -math.inf, math.nan, 3.75),
    "price": (None, 0.0, 10.0, 0.005, 9.994999, 5.0, -1.0, 4.2),
    "ward": (None, "A", "B", "é ü", "Z", "", "a"),
    "place": (None, "x", "y", "z"),
    "smoker": (None, True, False),
    "day": (None, date(2020, 1, 15), date(2020, 12, 31), date(1, 1, 1), date(9999, 12, 31)),
    "words": (None, "", "12", "1e400", "nan", "a%b", "2020-02-30", "-7.5", "true", "\x1e", "ß"),
}
SCHEMA: Final = pa.schema(
    {
        "pid": pa.string(),
        "world": pa.int64(),
        "tag": pa.int64(),
        "age": pa.float64(),
        "cost": pa.float64(),
        "price": pa.float64(),
        "ward": pa.string(),
        "place": pa.string(),
        "smoker": pa.bool_(),
        "day": pa.date32(),
        "words": pa.string(),
    }
)
MAX_TAG: Final = 9_999


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits that the owner declares for one unit."""

    rows: int
    groups: int
    unique: bool = False


@dataclass(frozen=True, slots=True)
class Person:
    """A unit with all its rows, or without a ``pid``, rows that belong to no unit."""

    pid: str | None
    world: int
    rows: tuple[dict[str, Any], ...]


def declare_worlds(
    people: Iterable[Person], limits: Limits, rng: np.random.Generator, name: str = "visits"
) -> Table:
    """Return the table of these people, with rows in random order."""
    return Table(
        name,
        to_arrow(people, rng),
        unit="pid",
        columns={"world": Int(0, 199), "tag": Int(0, MAX_TAG), **COLUMNS},
        max_rows_per_unit=limits.rows,
        max_groups_per_unit=limits.groups,
        unique=limits.unique,
    )


def to_arrow(people: Iterable[Person], rng: np.random.Generator) -> pa.Table:
    """Return all rows in random order."""
    rows = [
        {"pid": person.pid, "world": person.world, **row}
        for person in people
        for row in person.rows
    ]
    return pa.Table.from_pylist([rows[i] for i in rng.permutation(len(rows))], schema=SCHEMA)


def draw_worlds(rng: np.random.Generator, count: int, limits: Limits) -> list[Person]:
    """Return the people of ``count`` worlds: two to five in each, some far beyond their limits."""
    return [
        draw_person(rng, f"{world}:{place}", world, limits)
        for world in range(count)
        for place in range(int(rng.integers(2, 6)))
    ]


def draw_orphans(rng: np.random.Generator, count: int) -> list[Person]:
    """Return rows that belong to no unit, some in each world; they count for nothing."""
    limits = Limits(2, 1)
    return [draw_person(rng, None, world, limits) for world in range(count) if rng.random() < 0.7]


def draw_person(rng: np.random.Generator, pid: str | None, world: int, limits: Limits) -> Person:
    """Return a person with one row, as many as allowed, or many more."""
    most = 1 if limits.unique else int(rng.choice([1, limits.rows, 2 * limits.rows + 2]))
    few = [_draw_row(rng) for _ in range(int(rng.integers(1, 4)))]
    alike = rng.random() < 0.3  # rows that repeat each other
    rows = [
        few[int(rng.integers(len(few)))] if alike else _draw_row(rng)
        for _ in range(int(rng.integers(1, most + 1)))
    ]
    return Person(pid, world, tuple({**row, "tag": None} for row in rows))


def _draw_row(rng: np.random.Generator) -> dict[str, Any]:
    return {name: values[int(rng.integers(len(values)))] for name, values in VALUES.items()}


def change_one(
    people: Sequence[Person], neighbours: Neighbours, limits: Limits, rng: np.random.Generator
) -> list[Person]:
    """Return neighbors of all worlds: in each, one unit is added, removed, or replaced."""
    changed: list[Person] = []
    for world in range(max(person.world for person in people) + 1):
        members = [person for person in people if person.world == world]
        chosen = int(rng.integers(len(members)))
        changed += [person for place, person in enumerate(members) if place != chosen]
        if neighbours is Neighbours.REPLACE:
            pid = members[chosen].pid if rng.random() < 0.5 else f"{world}:new"
            changed.append(draw_person(rng, pid, world, limits))
    return changed
