"""Questions asked with next to no noise, and what DuckDB itself says of the same rows.

The oracle is a plain connection that holds the rows as the declaration leaves them, clipped here
by other means than the engine's. Each question is put to both in the analyst's own words, so
parsing, planning, engine SQL, grids, noise and arithmetic on answers are all on trial at once.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cache
from typing import Any, Final

import duckdb
import pandas as pd
import pyarrow as pa

from confide.curator import Curator
from confide.declare import (
    ROW,
    Bool,
    Budget,
    Category,
    Column,
    Date,
    Float,
    Int,
    PublicTable,
    Table,
    Text,
)
from confide.query.functions import Aggregation, Function
from confide.query.tree import Aggregate, Call, Expression, Key, walk

__all__ = [
    "BUDGETS",
    "EPSILON",
    "Opened",
    "World",
    "ask_oracle",
    "clip_frame",
    "compare",
    "is_near",
    "make_world",
    "open_world",
]

Rows = list[dict[str, Any]]

BUDGETS: Final = {"pure": Budget(1e12), "gaussian": Budget(1e12, 1e-6)}
EPSILON: Final = 1e9
# In parts of what one unit can change: pure noise is a few 1e-9 here, and Gaussian noise, whose
# scale falls with the root of epsilon only, 2.3e-5 times the root of the number of totals.
SLACK: Final = {"pure": 1e-6, "gaussian": 1e-3}
COUNTS: Final = (Aggregation.COUNT, Aggregation.COUNT_UNITS)
LIMIT: Final = re.compile(r"\sLIMIT \d+\s*$")
TOTALS: Final = (*COUNTS, Aggregation.SUM)


@dataclass(frozen=True, slots=True)
class World:
    """Declared tables and, for the oracle, the same rows clipped.

    ``side`` is the largest number that a row adds in any question, ``rows`` how many rows a unit
    may have in any question's source.
    """

    tables: tuple[Table | PublicTable, ...]
    plain: Mapping[str, Any] = field(repr=False)
    side: float
    rows: int = 1

    def slack(self, accounting: str, expression: Expression) -> float:
        """Return how far off a column may be: totals move by whole units, means by parts."""
        parts = [part for part in walk(expression) if isinstance(part, Aggregate)]
        side = 1.0 if all(part.function in COUNTS for part in parts) else max(1.0, self.side)
        return SLACK[accounting] * side * (self.rows if is_total(expression) else 1)


@dataclass(frozen=True, slots=True)
class Opened:
    """A world with a curator for it and the oracle."""

    world: World
    curator: Curator
    oracle: duckdb.DuckDBPyConnection
    accounting: str


@cache
def open_world(maker: Callable[[], World], accounting: str) -> Opened:
    """Return a world that can be asked; made once for all of its questions."""
    world = maker()
    oracle = duckdb.connect()
    for name, rows in world.plain.items():
        oracle.register(name, rows)
    curator = Curator(world.tables, budget=BUDGETS[accounting])
    return Opened(world, curator, oracle, accounting)


def ask_oracle(oracle: duckdb.DuckDBPyConnection, text: str) -> Rows:
    """Return DuckDB's own rows."""
    found = oracle.execute(text)
    names = [column[0] for column in found.description or ()]
    return [
        {name: _as_day(value) for name, value in zip(names, row, strict=True)}
        for row in found.fetchall()
    ]


def _as_day(value: Any) -> Any:
    return value.date() if isinstance(value, datetime) else value


def is_near(expected: Any, actual: Any, slack: float) -> bool:
    """Tell whether two cells agree; what SQL calls NULL for want of rows may be any number."""
    if isinstance(expected, str | date | bool):
        return bool(expected == actual)
    if expected is None:
        return actual is None or math.isfinite(actual)
    return actual is not None and math.isclose(expected, actual, rel_tol=1e-6, abs_tol=slack)


def is_total(expression: Expression) -> bool:
    """Tell whether a column is made of counts and sums that are not divided by each other.

    Dividing by a constant leaves a total what it is: one unit moves it by all of its rows.
    """
    parts = list(walk(expression))
    functions = {part.function for part in parts if isinstance(part, Aggregate)}
    divisors = [
        part.arguments[1]
        for part in parts
        if isinstance(part, Call) and part.function is Function.DIVIDE
    ]
    return functions <= set(TOTALS) and not any(
        isinstance(part, Aggregate) for divisor in divisors for part in walk(divisor)
    )


def compare(opened: Opened, text: str, expected_text: str | None = None) -> list[str]:
    """Return in which cells the answer differs from DuckDB's; nothing when all is well.

    Groups are compared by their keys. Where a group is empty SQL says NULL or leaves it out, and
    confide cannot, for whether it is empty is private: a total is then 0 and a mean anything. NULL
    as a key is answered only where the owner lists it. Which rows a LIMIT keeps is no cell: two
    groups may be nearer each other than the noise (in TPC-H the first two suppliers are), so each
    row that is kept is compared with DuckDB's row of the same keys, and as many must be kept.
    """
    answer = opened.curator.sql(text, epsilon=EPSILON)
    outputs = {output.name: output.expression for output in answer.plan.query.outputs}
    keys = [name for name, expression in outputs.items() if isinstance(expression, Key)]
    asked = expected_text or text
    found = ask_oracle(opened.oracle, asked)
    expected, actual = _by_keys(found, keys), _by_keys(answer.rows, keys)
    if is_cut := answer.plan.query.limit is not None and outputs.keys() != set(keys):
        expected = _by_keys(ask_oracle(opened.oracle, LIMIT.sub("", asked)), keys)
    missing = set() if is_cut else expected.keys() - actual.keys()
    wrong = [f"{group}: missing" for group in missing if None not in group]
    if is_cut and len(found) != len(actual):
        wrong.append(f"expected {len(found)} rows, got {len(actual)}")
    for group, row in actual.items():
        for name in outputs.keys() - set(keys):
            wanted = expected[group][name] if group in expected else None
            if wanted is None and isinstance(outputs[name], Aggregate) and is_total(outputs[name]):
                wanted = 0
            slack = opened.world.slack(opened.accounting, outputs[name])
            if not is_near(wanted, row[name], slack):
                wrong.append(f"{group}.{name}: expected {wanted!r}, got {row[name]!r}")
    return wrong


def _by_keys(rows: Rows, keys: list[str]) -> dict[tuple[Any, ...], Any]:
    return {tuple(row[key] for key in keys): row for row in rows}


def clip(column: Column, value: Any) -> Any:
    """Return a raw value as declared: clipped, or None where it is of another kind."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    match column:
        case Int(low=low, high=high):
            return int(min(max(round(value) if math.isfinite(value) else value, low), high))
        case Float(low=least, high=most):
            return float(min(max(value, float(least)), float(most)))
        case Category(values=values):
            return value if value in values else None
        case Date(low=first, high=last):
            return min(max(value, first), last)
        case Bool() | Text():
            return value


def clip_frame(frame: Any, columns: Mapping[str, Column]) -> Any:
    """Return a pandas frame with its columns as declared, and others as they are."""
    clipped = frame.copy()
    for name, column in columns.items():
        match column:
            case Int(low=low, high=high):
                clipped[name] = frame[name].astype("Int64").clip(low, high)
            case Float(low=least, high=most):
                clipped[name] = frame[name].astype("float64").clip(float(least), float(most))
            case Category(values=values):
                clipped[name] = frame[name].where(frame[name].isin(values), None)
            case Date(low=first, high=last):
                ends = pd.Timestamp(first), pd.Timestamp(last)
                clipped[name] = pd.to_datetime(frame[name]).clip(*ends)
            case Bool():
                clipped[name] = frame[name].astype("boolean")
            case Text():
                pass
    days = {name: pa.date32() for name, column in columns.items() if isinstance(column, Date)}
    table = pa.Table.from_pandas(clipped, preserve_index=False)
    fields = [(each.name, days.get(each.name, each.type)) for each in table.schema]
    return table.cast(pa.schema(fields))


PLAIN: Final = {
    "int": pa.int64(),
    "float": pa.float64(),
    "text": pa.string(),
    "bool": pa.bool_(),
    "date": pa.date32(),
}


def make_world(rows: Rows, columns: Mapping[str, Column], side: float, **limits: Any) -> World:
    """Return a world of one table ``t`` by hand, whose source is as raw as Arrow can hold.

    Whole numbers are real ones there, so that they too can be NaN or infinite. People are ``pid``.
    """
    unit = limits.pop("unit", "pid")
    who = {"pid": limits.pop("unit_type", pa.int64())} if unit != ROW else {}
    loose = {"int": pa.float64()}
    raw = who | {name: loose.get(c.kind, PLAIN[c.kind]) for name, c in columns.items()}
    table = Table(
        "t",
        pa.Table.from_pylist(rows, schema=pa.schema(raw)),
        unit=unit,
        columns=columns,
        **limits,
    )
    kept = [row for row in rows if unit is ROW or row["pid"] is not None]
    clipped = [
        {name: clip(columns[name], row[name]) if name in columns else row[name] for name in row}
        for row in kept
    ]
    exact = who | {name: PLAIN[column.kind] for name, column in columns.items()}
    plain = pa.Table.from_pylist(clipped, schema=pa.schema(exact))
    return World((table,), {"t": plain}, side, table.max_rows_per_unit)
