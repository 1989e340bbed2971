"""Random sources of queries, from one table to statistics of joined units.

Tables are those of support/people.py: ``visits`` and ``labs`` have the same columns and people, and
``wards`` and ``bands`` are public. In ``wards`` a key has several lines, so that a row matches more
than one of them; in ``bands`` it has one.
"""

import re
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from support.grammar import CONDITIONS, KEYS, NUMBERS, Words, draw_wanted, pick

__all__ = ["PUBLIC", "SHAPES", "draw_joined"]

# Some lines match no row, some lack the join key, and one has no values.
PUBLIC: Final = {
    "wards": pa.table(
        {
            "ward": ["A", "A", "B", "Z", None, "A", "B", "B", "é ü"],
            "size": [1, 2, 3, 4, 5, 2, None, 0, 1],
            "score": [0.5, -2.0, None, 1.0, 9.0, 4.0, 0.0, 2.5, 3.0],
        },
        schema=pa.schema({"ward": pa.string(), "size": pa.int64(), "score": pa.float64()}),
    ),
    "bands": pa.table(
        {
            "band": [0, 1, 2, None, 60],
            "size": [3, None, 5, 1, 2],
            "score": [1.0, 2.0, -3.0, 0.0, 1.5],
        },
        schema=pa.schema({"band": pa.int64(), "size": pa.int64(), "score": pa.float64()}),
    ),
}
SHAPES: Final = (
    "rows",
    "lines",
    "bands",
    "people",
    "people and lines",
    "units",
    "units of joins",
    "units and lines",
    "people and units",
)
COLUMN: Final = re.compile(r"\b(age|cost|price|ward|place|smoker|day|words)\b")
LINES: Final = Words(
    numbers=(
        "o.size",
        "o.score",
        "o.size * v.cost",
        "v.age - o.size",
        "COALESCE(o.score, v.price)",
    ),
    conditions=("o.size > 1", "o.score < v.age", "o.size IS NULL", "NOT o.size = 2"),
    keys=("o.size", "o.size > 1", "COALESCE(o.size, 9)"),
)
UNITS: Final = Words(
    numbers=(
        "o.t",
        "o.c",
        "o.m",
        "-o.t",
        "o.t - o.c",
        "ABS(o.m)",
        "LEAST(o.t, 5)",
        "COALESCE(o.t, 1)",
        "CASE WHEN o.c > 1 THEN o.m END",
        "CASE WHEN o.t > 0 THEN o.c ELSE o.m END",
        "o.c * o.c",
    ),
    conditions=("o.c > 1", "o.t <= 20", "o.m IS NULL", "NOT o.m > 3", "o.t IS NOT NULL OR o.c = 0"),
    keys=("o.c", "o.c > 1", "o.t > 5", "CASE WHEN o.m > 3 THEN 'much' ELSE 'little' END"),
)
EARNED: Final = Words((), (), ("v.words", "LOWER(v.words)"))
"""Undeclared keys, for budgets that allow partition selection."""

BESIDE: Final = Words(("p.size", "p.score * o.c"), ("p.score > 0",), ("p.size",))
INNER: Final = ("COUNT(*)", "COUNT({})", "SUM({})", "AVG({})")


@dataclass(frozen=True, slots=True)
class Shape:
    """A source with the expressions for its rows; ``head`` is a WITH before the query."""

    source: str
    world: str
    unit: str
    words: Words
    head: str = ""


def draw_joined(family: str, rng: np.random.Generator, *, earned: bool = False) -> str:
    """Return a random query on a source of that family, some with undeclared keys."""
    shape = _draw_shape(family, rng)
    words = shape.words | EARNED if earned and shape.unit == "v.pid" else shape.words
    return shape.head + draw_wanted(rng, words, shape.source, shape.world, shape.unit)


def _draw_shape(family: str, rng: np.random.Generator) -> Shape:
    """Return a random source of a family, in which every unit stays in one world."""
    kind = pick(rng, ("JOIN", "LEFT JOIN"))
    people = f"visits AS v {kind} labs AS w ON v.pid = w.pid"
    match family:
        case "rows":
            source, words = "visits AS v", _of_tables(rng, "v")
        case "lines":
            on = pick(rng, ("v.ward = o.ward", "v.age = o.size", "v.age % 3 = o.size"))
            source = f"visits AS v {kind} wards AS o ON {on}"
            words = _of_tables(rng, "v") | LINES
        case "bands":
            on = pick(rng, ("v.age = o.band", "v.age % 3 = o.band"))
            source = f"visits AS v {kind} bands AS o ON {on}"
            words = _of_tables(rng, "v") | LINES
        case "people":
            source, words = people, _of_tables(rng, "v", "w")
        case "people and lines":
            second = pick(rng, ("JOIN", "LEFT JOIN"))
            source = f"{people} {second} wards AS o ON w.ward = o.ward"
            words = _of_tables(rng, "v", "w") | LINES
        case "people and units":
            inner = _draw_units(rng, "labs AS w", "w")
            source = f"visits AS v {kind} ({inner}) AS o ON v.pid = o.pid"
            words = _of_tables(rng, "v") | UNITS
        case _:
            return _draw_shape_of_units(family, kind, rng)
    return Shape(source, "v.world", "v.pid", words)


def _draw_shape_of_units(family: str, kind: str, rng: np.random.Generator) -> Shape:
    """Return a source of one row per unit, inline or as a named subquery."""
    match family:
        case "units of joins" if rng.random() < 0.5:
            inner = _draw_units(rng, f"visits AS v {kind} labs AS w ON v.pid = w.pid", "v", "w")
        case "units of joins":
            inner = _draw_units(rng, f"visits AS v {kind} wards AS q ON v.ward = q.ward", "v")
        case _:
            inner = _draw_units(rng, "visits AS v", "v")
    words, joined = UNITS, ""
    if family == "units and lines":
        table = pick(rng, ("wards AS p ON o.c = p.size", "bands AS p ON o.c = p.band"))
        words, joined = UNITS | BESIDE, f" {kind} {table}"
    is_named = rng.random() < 0.5
    return Shape(
        f"{'per_unit' if is_named else f'({inner})'} AS o{joined}",
        "CAST(ROUND(o.w) AS INT)",
        "o.pid",
        words,
        f"WITH per_unit AS ({inner}) " if is_named else "",
    )


def _of_tables(rng: np.random.Generator, *names: str) -> Words:
    """Return the expressions for these tables' rows, each column from one of them."""

    def name(texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(COLUMN.sub(lambda one: f"{pick(rng, names)}.{one[0]}", text) for text in texts)

    return Words(name(NUMBERS), name(CONDITIONS), name(KEYS))


def _draw_units(rng: np.random.Generator, source: str, *names: str) -> str:
    """Return a query on each unit's own rows, or on some of them.

    World is the same in all rows of a unit, so its mean over them is the world again.
    """
    words, unit = _of_tables(rng, *names), names[0]
    wanted = []
    for column in ("t", "c", "m"):
        options = INNER[:2] if column == "c" else INNER
        text = pick(rng, options).format(pick(rng, words.numbers))
        filtered = f" FILTER (WHERE {pick(rng, words.conditions)})" if rng.random() < 0.3 else ""
        wanted.append(f"{text}{filtered} AS {column}")
    where = f" WHERE {pick(rng, words.conditions)}" if rng.random() < 0.4 else ""
    return (
        f"SELECT {unit}.pid, AVG({unit}.world) AS w, {', '.join(wanted)} "
        f"FROM {source}{where} GROUP BY {unit}.pid"
    )
