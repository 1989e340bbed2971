"""Engines under test: how tables get to each of them, and how to read exact results."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Protocol

import pytest

from confide.curator import Curator
from confide.declare import Catalog, PublicTable, Table
from confide.engines import Engine, SqlEngine, open_engine
from confide.expressions.functions import Function
from confide.ledger import Hold
from confide.loss import Share
from confide.plan import Plan
from confide.query.sql import read_sql
from confide.release.unseal import unseal
from support.noiseless import BUDGETS, World
from support.warehouses import Warehouse

__all__ = [
    "COLUMNS",
    "INEXACT_FUNCTIONS",
    "PLACES",
    "SALT",
    "SHARE",
    "SLOW_PLACES",
    "Exact",
    "Pairing",
    "Place",
    "find_place",
    "pair_tables",
    "pair_world",
    "read_exactly",
]

Tables = Iterable[Table | PublicTable]
SHARE: Final = Share.floor("1/100")
SALT: Final = "grain"
PLACES: Final = ("duckdb", "postgresql", "spark")
"""The places of the engines that must fulfill the contracts."""

COLUMNS: Final = (*PLACES, "datafusion")
"""The places of the engine matrix, which includes the worked example."""

SLOW_PLACES: Final = frozenset({"spark"})
"""The places that are too slow for as many random cases as the others."""

F = Function
CURVES: Final = frozenset(
    {
        *(F.POWER, F.LOG2, F.LOG10, F.SIN, F.COS, F.TAN),
        *(F.ASIN, F.ACOS, F.ATAN, F.ATAN2),
    }
)
INEXACT_FUNCTIONS: Final = {
    "spark": CURVES | {F.LN, F.EXP},
    "postgresql": CURVES,
}
"""Functions whose last bit may differ: Java and PostgreSQL compute some curves in other ways."""

Exact = tuple[dict[Any, tuple[int, ...]], list[dict[Any, tuple[list[int], list[int]]]]]


class Place(Protocol):
    """A destination for declared tables."""

    def move(self, tables: Tables) -> list[Table | PublicTable]:
        """Return the same declarations over copies of their rows."""
        ...

    def __hash__(self) -> int: ...


class Here:
    """The memory of this process, which DuckDB reads."""

    def move(self, tables: Tables) -> list[Table | PublicTable]:
        """Return the declarations unchanged."""
        return list(tables)


def find_place(name: str, request: pytest.FixtureRequest) -> Place:
    """Return a place by its name, starting its server if necessary."""
    match name:
        case "duckdb":
            return Here()
        case "postgresql":
            return Warehouse.of(request.getfixturevalue("postgres"))
        case _:
            place: Place = request.getfixturevalue(name)
            return place


def read_exactly(engine: Engine, plan: Plan) -> Exact:
    """Return the integers that an engine finds, which only a test may read."""
    sealed = engine.run(plan.measurement, Hold(0, SHARE))
    counts = [
        {group: (cells.tolist(), rows.tolist()) for group, (cells, rows) in found.items()}
        for found in unseal(sealed).counts
    ]
    return unseal(sealed).groups, counts


@dataclass(frozen=True, slots=True)
class Pairing:
    """A world read by DuckDB and by another engine, with one salt."""

    curator: Curator
    here: SqlEngine
    there: SqlEngine

    def plan(self, text: str) -> Plan:
        """Return the curator's plan for a query."""
        return self.curator._planner.plan(read_sql(text, self.curator.names), SHARE)


def pair_tables(tables: Tables, place: Place) -> Pairing:
    """Return both engines over the same rows."""
    listed = list(tables)
    curator = Curator(listed, budget=BUDGETS["gaussian"])
    here, there = (open_engine(Catalog(some), salt=SALT) for some in (listed, place.move(listed)))
    assert isinstance(here, SqlEngine)
    assert isinstance(there, SqlEngine)
    return Pairing(curator, here, there)


@cache
def pair_world(maker: Callable[[], World], place: Place) -> Pairing:
    """Return both engines over a world, which is copied once for all of its queries."""
    return pair_tables(maker().tables, place)
