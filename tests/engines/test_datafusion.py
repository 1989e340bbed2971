"""The worked example of docs/new-engine.md is right: DataFusion gives the integers of DuckDB."""

import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest

from confide.curator import Curator
from confide.declare import Budget, Category, Float, PublicTable, Table
from confide.errors import BadDeclaration, Fault
from confide.mechanisms import Neighbours
from contracts import test_engines as contracts
from contracts import test_readings as readings
from contracts.test_engines import CUT, crowded
from support.datafusion import DataFusion
from support.entropy import SeededEntropy
from support.families import EXPECTED, FAMILIES, families
from support.faults import ENGINE_FAULT
from support.grammar import draw_question
from support.noiseless import World
from support.people import Limits, change_one, declare_worlds, draw_worlds
from support.places import Place, pair_tables, pair_world, read_exactly
from support.reach import WORLDS, Pair, passes
from support.tables import QUESTIONS

HERE: Final = DataFusion()
LARGE: Final = ("nhanes", "nafld", "randhie", "tpch")
"""Worlds with too many rows for functions in Python."""

SMALL: Final = [(maker, text) for maker, text in QUESTIONS if maker.__name__ not in LARGE]
ROWS: Final = pa.table({"pid": [1, 2, 2], "x": [1.0, 2.0, 3.0], "k": ["a", "b", "b"]})


def declare(**changes: Any) -> Table:
    columns = changes.pop("columns", {"x": Float(0, 5), "k": Category(["a", "b"])})
    return Table("t", ROWS, unit="pid", columns=columns, **changes)


@pytest.mark.parametrize(
    ("maker", "text"),
    [*SMALL, *((crowded, text) for text in CUT)],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_datafusion_gives_the_integers_of_duckdb(maker: Callable[[], World], text: str) -> None:
    """For one plan and one salt, groups, totals, and rows per cell are equal integers."""
    pair = pair_world(maker, HERE)
    plan = pair.plan(text)

    assert read_exactly(pair.here, plan) == read_exactly(pair.there, plan)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_is_answered_as_the_matrix_says(family: str) -> None:
    """Each family of queries gives DuckDB's integers, unless the matrix lists an exception."""
    pair = pair_world(families, HERE)
    plan = pair.plan(FAMILIES[family])
    is_same = read_exactly(pair.here, plan) == read_exactly(pair.there, plan)

    assert is_same != ((family, "datafusion") in EXPECTED)


@pytest.mark.parametrize(
    "contract",
    [
        contracts.test_an_unreadable_stored_type_is_a_bad_declaration,
        contracts.test_readable_stored_types_are_read,
        contracts.test_sums_pass_64_bits,
        contracts.test_a_hold_is_needed_before_any_row_is_read,
        contracts.test_engines_can_be_closed_and_opened_again,
        contracts.test_public_tables_have_the_same_facts,
        contracts.test_a_missing_column_is_a_bad_declaration,
        contracts.test_units_that_are_not_unique_are_found,
    ],
)
def test_the_contract_of_engines_is_kept(contract: Callable[[Any], None]) -> None:
    """The engine passes each contract test that is not specific to a built-in engine."""
    contract(HERE)


def test_points_in_time_are_days_in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """A timestamp declared as a date becomes its date in UTC, in any time zone of the process."""
    contracts.test_points_in_time_are_days_in_utc(HERE, monkeypatch)


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_no_unit_moves_the_totals_further_than_planned(
    neighbours: Neighbours, entropy: SeededEntropy
) -> None:
    """For 200 neighboring pairs, exact and rounded totals change by no more than planned."""
    rng, limits = np.random.default_rng(int(entropy.words(1)[0])), Limits(3, 2)
    people = draw_worlds(rng, WORLDS, limits)
    changed = change_one(people, neighbours, limits, rng)
    before, after = (declare_worlds(some, limits, rng) for some in (people, changed))
    curator = Curator([before], budget=Budget(100, 1e-6), neighbours=neighbours)
    engines: list[Any] = [pair_tables([some], HERE).there for some in (before, after)]
    pair = Pair(curator, *engines)
    text = draw_question(rng)
    plan = pair.plan(text)

    assert passes(plan, pair.compare(plan).values()), text


def test_wrong_declarations_are_refused() -> None:
    """A missing column and a unit that is not unique are reported when the engine is opened."""
    with pytest.raises(BadDeclaration, match="no column 'kk'"):
        Curator(HERE.move([declare(columns={"kk": Float(0, 1)})]), budget=Budget(1))
    with pytest.raises(BadDeclaration, match="unique=True"):
        Curator(HERE.move([declare(unique=True)]), budget=Budget(1))


def test_a_closed_engine_raises_a_fault_without_details() -> None:
    """Errors during a query reveal nothing about rows."""
    curator = Curator(HERE.move([declare()]), budget=Budget(1))
    engine: Any = curator._engine
    engine.close()

    with pytest.raises(Fault, match=f"^{re.escape(ENGINE_FAULT)}$"):
        curator.sql("SELECT COUNT(*) AS n FROM t", epsilon=0.5)


def test_sources_of_two_engines_are_refused() -> None:
    """A source that brings its own engine cannot be combined with one that does not."""
    tables = [*HERE.move([declare()]), PublicTable("names", ROWS)]

    with pytest.raises(BadDeclaration, match="One engine must read"):
        Curator(tables, budget=Budget(1))


@pytest.mark.parametrize(
    "check",
    [
        readings.check_readings,
        readings.check_integers,
        readings.check_refusals,
        readings.check_keys,
    ],
)
def test_datafusion_reads_cells_and_keys_alike(check: Callable[[Place], None]) -> None:
    """Booleans, categories, and computed keys equal those of the other engines."""
    check(HERE)
