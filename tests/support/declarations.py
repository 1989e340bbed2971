"""Random declarations, rows that violate them, and random queries on them.

Two private tables contain the same units, each with its own columns and limits, and a public table
is joined on a key. As in support/people.py, many worlds share one table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Final

import numpy as np
import pyarrow as pa

from confide.declare import Bool, Category, Column, Date, Float, Int, PublicTable, Table, Text
from confide.mechanisms import Neighbours
from support.people import Limits

__all__ = ["Schema", "draw_schemas", "draw_text", "draw_two", "fill"]

NAMES: Final = ("visits", "labs")
WORDS: Final = ("A", "B", "é ü", "it's", "", "n", None)
ODD: Final = (None, "Z", "12", "1e400", "nan", "a%b", "\x1e")
FAR: Final = (1e300, float("inf"), float("-inf"), float("nan"), -0.0, None)
Row = dict[str, Any]
Rng = np.random.Generator


@dataclass(frozen=True, slots=True)
class Schema:
    """A declared table: its columns, their stored types, and the values that occur."""

    name: str
    limits: Limits
    columns: Mapping[str, Column]
    stored: Mapping[str, pa.DataType]
    values: Mapping[str, Sequence[Any]]

    def of(self, *kinds: type[Column]) -> list[str]:
        """Return the columns of these kinds."""
        return [name for name, column in self.columns.items() if isinstance(column, kinds)]


def draw_schemas(rng: Rng) -> tuple[Schema, Schema]:
    """Return two tables with random columns, including at least one number and one key each."""
    return _draw_schema(rng, NAMES[0]), _draw_schema(rng, NAMES[1])


def _draw_schema(rng: Rng, name: str) -> Schema:
    most = int(rng.integers(1, 7))
    limits = Limits(most, int(rng.integers(1, most + 1)), unique=most == 1 and rng.random() < 0.5)
    kinds = [_draw_number, _draw_key, *rng.choice(np.array(DRAWN), size=int(rng.integers(1, 5)))]
    columns, stored, values = {}, {}, {}
    for place, draw in enumerate(kinds):
        column, kind, listed = draw(rng)
        label = f"{name[0]}{place}"
        columns[label], stored[label], values[label] = column, kind, listed
    return Schema(name, limits, columns, stored, values)


def _draw_number(rng: Rng) -> tuple[Column, pa.DataType, Sequence[Any]]:
    size = 10.0 ** rng.integers(-3, 7)
    low = float(np.round(rng.uniform(-size, size), 4)) if rng.random() < 0.6 else 0.0
    if rng.random() < 0.5:
        first = int(low)
        column = Int(first, first + int(rng.integers(0, max(2, int(size)))))
        inside = [column.low, column.high, (column.low + column.high) // 2, 0, 7]
        beyond = [column.low - 1, column.high + 5]
        if rng.random() < 0.5:
            return column, pa.int64(), [*inside, *beyond, None, 2**53]
        return column, pa.float64(), [*map(float, [*inside, *beyond]), 2.5, *FAR]
    step = [None, 0.5, 0.01, 0.3][int(rng.integers(4))]
    high = low + max(size, 1.0 if step else 0.0)
    real = Float(low, high) if step is None else Float(low, high, step=step)
    values = [low, high, (low + high) / 2, low - 1, high * 3, (low + high) / 3, 5e-324, *FAR]
    if rng.random() < 0.8:
        return real, pa.float64(), values
    with np.errstate(over="ignore"):
        return real, pa.float32(), [None if v is None else float(np.float32(v)) for v in values]


def _draw_key(rng: Rng) -> tuple[Column, pa.DataType, Sequence[Any]]:
    chosen = rng.permutation(len(WORDS))[: int(rng.integers(1, 4))]
    listed = [WORDS[place] for place in chosen]
    return Category(listed), pa.string(), [*listed, *ODD[:2]]


def _draw_flag(_: Rng) -> tuple[Column, pa.DataType, Sequence[Any]]:
    return Bool(), pa.bool_(), (None, True, False)


def _draw_text(_: Rng) -> tuple[Column, pa.DataType, Sequence[Any]]:
    return Text(), pa.string(), (*WORDS, *ODD)


def _draw_day(rng: Rng) -> tuple[Column, pa.DataType, Sequence[Any]]:
    first = date(1990, 1, 1) + timedelta(days=int(rng.integers(0, 12_000)))
    last = first + timedelta(days=int(rng.integers(0, 900)))
    return Date(first, last), pa.date32(), (None, first, last, date(1, 1, 1), date(9999, 12, 31))


DRAWN: Final = (_draw_number, _draw_number, _draw_key, _draw_flag, _draw_text, _draw_day)


def fill(
    schemas: Sequence[Schema], people: Mapping[str, Sequence[Sequence[Row]]], rng: Rng
) -> list[Table | PublicTable]:
    """Return the tables of these people, rows in random order, and the public one.

    ``people`` gives each unit's rows in each table; a unit's name begins with its world.
    """
    tables: list[Table | PublicTable] = []
    for place, schema in enumerate(schemas):
        rows = [
            {"pid": pid, "world": int(pid.split(":")[0]), **row}
            for pid, of_unit in people.items()
            for row in of_unit[place]
        ]
        kinds = pa.schema({"pid": pa.string(), "world": pa.int64(), **schema.stored})
        source = pa.Table.from_pylist([rows[i] for i in rng.permutation(len(rows))], schema=kinds)
        tables.append(
            Table(
                schema.name,
                source,
                unit="pid",
                columns={"world": Int(0, 199), **schema.columns},
                max_rows_per_unit=schema.limits.rows,
                max_groups_per_unit=schema.limits.groups,
                unique=schema.limits.unique,
            )
        )
    return [*tables, PublicTable("codes", CODES)]


CODES: Final = pa.table(
    {"code": ["A", "A", "B", "n", None, "Z", "it's"], "size": [1, 2, -3, 4, 5, 6, 2]},
    schema=pa.schema({"code": pa.string(), "size": pa.int64()}),
)


def draw_two(
    schemas: tuple[Schema, Schema], worlds: int, neighbours: Neighbours, rng: Rng
) -> tuple[dict[str, list[list[Row]]], dict[str, list[list[Row]]]]:
    """Return the people of many worlds, and the same with one unit removed or replaced in each."""
    before: dict[str, list[list[Row]]] = {}
    after: dict[str, list[list[Row]]] = {}
    for world in range(worlds):
        units = {f"{world}:{i}": _draw_unit(schemas, rng) for i in range(int(rng.integers(2, 5)))}
        gone = str(rng.choice(list(units)))
        before |= units
        after |= {pid: rows for pid, rows in units.items() if pid != gone}
        if neighbours is Neighbours.REPLACE:
            pid = gone if rng.random() < 0.5 else f"{world}:new"
            after[pid] = _draw_unit(schemas, rng)
    return before, after


def _draw_unit(schemas: Sequence[Schema], rng: Rng) -> list[list[Row]]:
    return [_draw_rows(schema, rng) for schema in schemas]


def _draw_rows(schema: Schema, rng: Rng) -> list[Row]:
    limits = schema.limits
    most = 1 if limits.unique else int(rng.choice([1, limits.rows, 2 * limits.rows + 2]))
    drawn = [
        {name: some[int(rng.integers(len(some)))] for name, some in schema.values.items()}
        for _ in range(int(rng.integers(0, most + 1)))
    ]
    return [drawn[0]] * len(drawn) if drawn and rng.random() < 0.2 else drawn


def draw_text(schemas: tuple[Schema, Schema], rng: Rng, *, earned: bool) -> str:
    """Return a random query; ``earned`` allows strings with undeclared values as keys."""
    first, second = schemas if rng.random() < 0.5 else schemas[::-1]
    form = rng.random()
    if form < 0.15:
        return _ask_units(first, rng)
    if form < 0.3:
        source = f"{first.name} AS a JOIN {second.name} AS b ON a.pid = b.pid"
        return _ask(_Words(rng, [("a.", first), ("b.", second)], earned), source, "a.")
    keys = first.of(Category)
    if form < 0.45:
        how = "LEFT JOIN" if rng.random() < 0.5 else "JOIN"
        source = f"{first.name} AS a {how} codes AS c ON a.{_pick(rng, keys)} = c.code"
        return _ask(_Words(rng, [("a.", first)], earned, ("c.size",)), source, "a.")
    return _ask(_Words(rng, [("", first)], earned), first.name, "")


def _ask_units(schema: Schema, rng: Rng) -> str:
    words = _Words(rng, [("", schema)], earned=False)
    inner = f"{_pick(rng, ('SUM', 'AVG', 'COUNT'))}({words.number()}) AS t"
    outer = ", ".join(f"{_pick(rng, TOTALS)}({some}) AS {some}_s" for some in ("t", "c"))
    where = f" WHERE {words.condition()}" if rng.random() < 0.3 else ""
    return (
        f"SELECT CAST(ROUND(w) AS INT) AS world, {outer} FROM (SELECT pid, AVG(world) AS w, "
        f"{inner}, COUNT(*) AS c FROM {schema.name}{where} GROUP BY pid) GROUP BY 1"
    )


def _ask(words: "_Words", source: str, alias: str) -> str:
    rng = words.rng
    keys = [f"{alias}world", *(words.key() for _ in range(int(rng.integers(0, 3))))]
    wanted = [words.statistic(f"{alias}pid") for _ in range(int(rng.integers(1, 4)))]
    shown = [f"{key} AS g{place}" for place, key in enumerate(keys)]
    shown += [f"{statistic} AS s{place}" for place, statistic in enumerate(wanted)]
    where = f" WHERE {words.condition()}" if rng.random() < 0.4 else ""
    places = ", ".join(str(place + 1) for place in range(len(keys)))
    return f"SELECT {', '.join(shown)} FROM {source}{where} GROUP BY {places}"


TOTALS: Final = ("SUM", "AVG", "VAR_SAMP", "STDDEV")


@dataclass(frozen=True, slots=True)
class _Words:
    """Random expressions over the columns of tables with these aliases."""

    rng: Rng
    tables: Sequence[tuple[str, Schema]]
    earned: bool
    public: Sequence[str] = ()

    def _columns(self, *kinds: type[Column]) -> list[str]:
        return [f"{alias}{name}" for alias, schema in self.tables for name in schema.of(*kinds)]

    def number(self) -> str:
        x, y = (_pick(self.rng, [*self._columns(Int, Float), *self.public]) for _ in range(2))
        constant = _pick(self.rng, ("0", "7", "-2.5", "100"))
        return _pick(
            self.rng,
            (
                *(x, x, f"{x} - {constant}", f"-{x}", f"{x} / 7", f"ABS({x})", f"{x} + {y}"),
                *(f"LEAST({x}, {constant})", f"GREATEST({x}, {y})", f"ROUND({x}, 1)"),
                *(f"COALESCE({x}, {constant})", f"FLOOR({x} / 3)", f"SQRT(ABS({y}))"),
                *(f"CASE WHEN {self.condition()} THEN {x} ELSE {y} END", f"{x} * {y}"),
                f"LEAST(GREATEST({x} / {y}, -3), 3)",
                f"CAST({self.condition()} AS INT)",
            ),
        )

    def condition(self) -> str:
        x, key = (
            _pick(self.rng, self._columns(Int, Float)),
            _pick(self.rng, self._columns(Category)),
        )
        options = [f"{x} > 3", f"{x} IS NULL", f"{x} BETWEEN -10 AND 1000", f"{key} <> 'A'"]
        options += [f"{key} IN ('A', 'n')", f"{key} IS NOT NULL", f"{x} / 3 < 1 OR {key} = 'B'"]
        options += [f"NOT {flag}" for flag in self._columns(Bool)]
        options += [f"{text} LIKE '_%'" for text in self._columns(Text)]
        options += [f"{day} > DATE '2005-06-07'" for day in self._columns(Date)]
        return _pick(self.rng, options)

    def key(self) -> str:
        keys = self._columns(Category)
        options = [*keys, *self._columns(Bool), f"COALESCE({keys[0]}, 'none')"]
        options += [f"CASE WHEN {self.condition()} THEN 'x' ELSE 'y' END"]
        options += [f"{whole} % 3" for whole in self._columns(Int)]
        options += [f"MONTH({day})" for day in self._columns(Date)]
        options += self._columns(Text) if self.earned else []
        return _pick(self.rng, [*options, *self.public])

    def statistic(self, unit: str) -> str:
        kind = self.rng.random()
        if kind < 0.3:
            text = "COUNT(*)" if kind < 0.2 else f"COUNT(DISTINCT {unit})"
        elif kind < 0.4:
            text = f"COUNT({self.number()})"
        else:
            text = f"{_pick(self.rng, TOTALS)}({self.number()})"
        where = f" FILTER (WHERE {self.condition()})" if self.rng.random() < 0.25 else ""
        return f"{text}{where}"


def _pick(rng: Rng, options: Sequence[str]) -> str:
    return options[int(rng.integers(len(options)))]
