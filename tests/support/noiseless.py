"""Queries with almost no noise, compared with DuckDB on the same rows.

The oracle is a plain connection that contains the rows as declared, clipped here independently of
the engine. Both run the same SQL, so parsing, planning, generated SQL, grids, noise, and arithmetic
on answers are all tested at once.
"""

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cache
from typing import Any, Final

import duckdb
import pandas as pd
import pyarrow as pa

from confide.aggregates import function_of
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
    Timestamp,
)
from confide.expressions import tree
from confide.expressions.functions import Function
from confide.expressions.tree import AggregateCall, Call, Expression, Key, walk
from confide.plan.key_values import may_be_null

__all__ = [
    "BUDGETS",
    "EPSILONS",
    "Opened",
    "World",
    "ask_oracle",
    "clip_frame",
    "compare",
    "find_insensitive",
    "is_near",
    "make_world",
    "open_world",
]

Rows = list[dict[str, Any]]

EPSILONS: Final = {"pure": 1e9, "gaussian": 1e17}
"""The cost of a query: Gaussian noise falls only with the root of epsilon, so it needs more."""

BUDGETS: Final = {"pure": Budget(1e12), "gaussian": Budget(1e20, 1e-6)}
LEVEL: Final = 0.999
MAX_NOISE: Final = 5
"""The noise stays within this multiple of the interval at that level.

Why: the interval covers more than 7 scales of Laplace noise or 3 standard deviations of Gaussian
noise, so the noise exceeds five times the interval with a probability below 1e-14.
"""

RELATIVE: Final = 1e-9
"""The relative error of rounding each row to its grid, and of DuckDB's own sums of doubles."""

OFF: Final = (0.0, 0.99, 1.01)
"""Factors by which an expected number must not be wrong without being noticed."""

LIMIT: Final = re.compile(r"\sLIMIT \d+\s*$")


@dataclass(frozen=True, slots=True)
class World:
    """Declared tables and, for the oracle, the same rows clipped."""

    tables: tuple[Table | PublicTable, ...]
    plain: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """A world with a curator for it and the oracle; ``epsilon`` leaves almost no noise."""

    world: World
    curator: Curator
    oracle: duckdb.DuckDBPyConnection
    epsilon: float


@dataclass(frozen=True, slots=True)
class Cell:
    """One value of an answer, DuckDB's value, and the largest difference that noise can cause."""

    place: str
    expected: Any
    actual: Any
    slack: float

    def is_right(self) -> bool:
        """Return whether both agree."""
        return is_near(self.expected, self.actual, self.slack)

    def is_insensitive(self) -> bool:
        """Return whether the comparison would miss an error of 1% or a result of zero."""
        if not isinstance(self.expected, int | float | Decimal) or not self.expected:
            return False
        return any(is_near(float(self.expected) * off, self.actual, self.slack) for off in OFF)


@dataclass(frozen=True, slots=True)
class Compared:
    """The cells of an answer next to DuckDB's, and the errors in its rows."""

    cells: tuple[Cell, ...]
    wrong: tuple[str, ...]


@cache
def open_world(maker: Callable[[], World], accounting: str) -> Opened:
    """Return a world that is ready for queries, built once for all of them."""
    world = maker()
    oracle = duckdb.connect()
    for name, rows in world.plain.items():
        oracle.register(name, rows)
    curator = Curator(world.tables, budget=BUDGETS[accounting])
    return Opened(world, curator, oracle, EPSILONS[accounting])


def ask_oracle(oracle: duckdb.DuckDBPyConnection, text: str) -> Rows:
    """Return the rows of a query on DuckDB."""
    found = oracle.execute(text)
    names = [column[0] for column in found.description or ()]
    return [
        {name: _as_day(value) for name, value in zip(names, row, strict=True)}
        for row in found.fetchall()
    ]


def _as_day(value: Any) -> Any:
    return value.date() if isinstance(value, datetime) else value


def is_near(expected: Any, actual: Any, slack: float) -> bool:
    """Return whether two cells agree; a NULL in SQL for lack of rows may be any number."""
    if isinstance(expected, str | date | bool):
        return bool(expected == actual)
    if expected is None:
        return actual is None or math.isfinite(actual)
    return actual is not None and math.isclose(expected, actual, rel_tol=RELATIVE, abs_tol=slack)


def is_total(expression: Expression) -> bool:
    """Return whether a column is built of counts and sums that are not divided by each other.

    A total divided by a constant is still a total: one unit changes it by all of its rows.
    """
    parts = list(walk(expression))
    are_linear = all(
        function_of(part).is_linear for part in parts if isinstance(part, AggregateCall)
    )
    divisors = [
        part.arguments[1]
        for part in parts
        if isinstance(part, Call) and part.function is Function.DIVIDE
    ]
    return are_linear and not any(
        isinstance(part, AggregateCall) for divisor in divisors for part in walk(divisor)
    )


def compare(opened: Opened, text: str, expected_text: str | None = None) -> list[str]:
    """Return the cells in which the answer differs from DuckDB's."""
    compared = _compare(opened, text, expected_text or text)
    differing = [cell for cell in compared.cells if not cell.is_right()]
    return [
        *compared.wrong,
        *(f"{cell.place}: expected {cell.expected!r}, got {cell.actual!r}" for cell in differing),
    ]


def find_insensitive(opened: Opened, text: str) -> list[str]:
    """Return the cells whose comparison would miss an error of 1%."""
    return [
        f"{cell.place}: {cell.expected!r} is compared to within {cell.slack!r}"
        for cell in _compare(opened, text, text).cells
        if cell.is_insensitive()
    ]


@cache
def _compare(opened: Opened, text: str, expected_text: str) -> Compared:
    """Return an answer next to DuckDB's.

    Groups are compared by their keys. For an empty group, SQL returns NULL or no row, but confide
    cannot, since emptiness is private: a total is then 0, and a mean can be any number. The rows
    that a LIMIT keeps are not compared as such, since two groups may differ by less than the noise
    (as the first two suppliers in TPC-H do). Instead, each kept row is compared with DuckDB's row
    of the same keys, and the number of rows must match.
    """
    answer = opened.curator.sql(text, epsilon=opened.epsilon)
    query = answer.plan.query
    outputs = {output.name: output.expression for output in query.outputs}
    keys = {
        name: query.keys[expression.index]
        for name, expression in outputs.items()
        if isinstance(expression, Key)
    }
    found = ask_oracle(opened.oracle, expected_text)
    rows = [row | ends for row, ends in zip(answer.rows, answer.interval_rows(LEVEL), strict=True)]
    expected, actual = _by_keys(found, keys), _by_keys(rows, keys)
    wrong = []
    if query.limit is not None and outputs.keys() != keys.keys():
        expected = _by_keys(ask_oracle(opened.oracle, LIMIT.sub("", expected_text)), keys)
        if len(found) != len(actual):
            wrong.append(f"expected {len(found)} rows, got {len(actual)}")
    else:
        missing = expected.keys() - actual.keys()
        wrong += [
            f"{group}: missing"
            for group in missing
            if not _is_null_group(group, list(keys.values()), actual)
        ]
    cells = []
    for group, row in actual.items():
        for name in outputs.keys() - keys.keys():
            wanted = expected[group][name] if group in expected else None
            if (
                wanted is None
                and isinstance(outputs[name], AggregateCall)
                and is_total(outputs[name])
            ):
                wanted = 0
            cells.append(Cell(f"{group}.{name}", wanted, row[name], _slack_of(row, name)))
    return Compared(tuple(cells), tuple(wrong))


def _slack_of(row: Mapping[str, Any], name: str) -> float:
    """Return the largest difference that noise can cause, from the answer's own interval."""
    ends = [row.get(f"{name}_{side}") for side in ("low", "high")]
    return MAX_NOISE * max((abs(end - row[name]) for end in ends if end is not None), default=0.0)


def _is_null_group(group: tuple[Any, ...], keys: list[Expression], actual: Collection[Any]) -> bool:
    """Return whether a group is missing because NULL is not a value of one of its keys.

    For a column, NULL is answered only if the owner lists it, and the same holds for some CASE
    expressions. There is no excuse if NULL is answered in another group.
    """
    return any(
        value is None
        and _may_leave_null_out(keys[place])
        and all(other[place] is not None for other in actual)
        for place, value in enumerate(group)
    )


def _may_leave_null_out(key: Expression) -> bool:
    """Return whether NULL comes from a column, without a group; a CASE without ELSE has one."""
    return isinstance(key, tree.Column) or not may_be_null(key, frozenset())


def _by_keys(rows: Rows, keys: Iterable[str]) -> dict[tuple[Any, ...], Any]:
    return {tuple(row[key] for key in keys): row for row in rows}


def clip(column: Column, value: Any) -> Any:  # noqa: PLR0911  # one for each type
    """Return a raw value as declared: clipped, or None if it is of another kind."""
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
        case Timestamp(low=low, high=high):
            clipped = min(max(value, low), high)
            size = abs(clipped - EPOCH) // timedelta(milliseconds=1)  # toward 1970
            return EPOCH + (1 if clipped > EPOCH else -1) * timedelta(milliseconds=size)
        case Bool() | Text():
            return value


def clip_frame(frame: Any, columns: Mapping[str, Column]) -> Any:
    """Return a pandas DataFrame with its columns as declared, and the others unchanged."""
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
            case Text() | Timestamp():
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
    "timestamp": pa.timestamp("us"),
}
EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001  # timestamps have no time zone


def make_world(rows: Rows, columns: Mapping[str, Column], **limits: Any) -> World:
    """Return a world with one table ``t``, whose source is as raw as Arrow allows.

    Integers are stored as floats, so that they can be NaN or infinite too. The unit is ``pid``.
    """
    unit = limits.pop("unit", "pid")
    who = {"pid": limits.pop("unit_type", pa.int64())} if unit != ROW else {}
    loose = {"int": pa.float64(), "timestamp": pa.timestamp("us", "UTC")}
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
    return World((table,), {"t": plain})
