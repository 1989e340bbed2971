"""Suggested limits follow from noisy counts of people, charged once to the declared ledger."""

from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from confide.curator import open_declared_ledger
from confide.declare import Declaration
from confide.declare.toml import parse_toml
from confide.errors import BadDeclaration
from confide.intake.limits import LIMITS, clear_count, estimate_losses, suggest_limits

TOML = """
[budget]
epsilon = 1e6

[ledger]
url = "sqlite:///ledger.db"

[tables.visits]
source = "visits.parquet"
unit = "patient_id"

[tables.visits.columns]
x = { type = "int", low = 0, high = 1 }
"""
PEOPLE = 1_000


@pytest.fixture
def declaration(tmp_path: Path) -> Declaration:
    """1,000 people: 900 with 2 rows each, and 100 with 40 rows each."""
    rows = f"""
        SELECT i AS patient_id, 1 AS x FROM range({PEOPLE}) AS people(i),
        range(40) AS visits(j) WHERE j < CASE WHEN i < 900 THEN 2 ELSE 40 END
    """
    duckdb.execute(f"COPY ({rows}) TO '{tmp_path / 'visits.parquet'}'")
    return parse_toml(TOML, name="confide.toml", folder=tmp_path)


def test_a_limit_fits_most_rows(declaration: Declaration) -> None:
    """The suggested limit is the smallest that drops at most 5% of the rows."""
    found = suggest_limits(declaration, share="1%")
    by_limit = {limit.rows: limit for limit in found.limits}

    assert "visits" == found.table
    assert 0.0 == by_limit[50].units_above
    assert 0.1 == pytest.approx(by_limit[30].units_above, abs=0.001)
    assert 1.0 == pytest.approx(by_limit[1].units_above, abs=0.001)
    assert 50 == found.suggested


@pytest.mark.parametrize("unit", ["n", "N", "limit_", "Limit_", "people", "units", "my id"])
def test_a_unit_can_have_any_name(declaration: Declaration, unit: str, tmp_path: Path) -> None:
    """The names in the query never equal the name of the unit's column."""
    copy = tmp_path / "copy.parquet"
    rows = f"SELECT patient_id AS \"{unit}\", x FROM '{tmp_path / 'visits.parquet'}'"
    duckdb.execute(f"COPY ({rows}) TO '{copy}'")
    table = replace(declaration.tables[0], source=copy, unit=unit)

    assert 50 == suggest_limits(replace(declaration, tables=(table,)), share="1%").suggested


def test_counts_are_charged_once(declaration: Declaration) -> None:
    """The cost is in the declared ledger, and repeating the suggestion is free."""
    first = suggest_limits(declaration, share="1%")
    again = suggest_limits(declaration, share="1%")
    spent = open_declared_ledger(declaration).filter.spent

    assert first.limits == again.limits
    assert ("1/100", "0", "1/100") == (
        str(first.cost.share),
        str(again.cost.share),
        str(spent.fraction),
    )


def test_losses_follow_from_the_counts() -> None:
    """One group of 10 people with 4 or 5 rows: a limit of 3 drops a third of them."""
    people = [10.0 if limit == 5 else 0.0 for limit in (*LIMITS, 0)]
    by_limit = {limit.rows: limit for limit in estimate_losses(people)}

    assert (1.0, 1.5 / 4.5) == (by_limit[3].units_above, by_limit[3].rows_dropped)
    assert (0.0, 0.0) == (by_limit[5].units_above, by_limit[5].rows_dropped)


@pytest.mark.parametrize(("count", "low", "kept"), [(9, 4, 9.0), (9, -1, 0.0), (-3, -8, 0.0)])
def test_unclear_counts_are_ignored(count: int, low: int, kept: float) -> None:
    """A count whose interval reaches zero is not multiplied by many rows per person."""
    assert kept == clear_count(count, low)


def test_one_row_per_person_needs_no_limits(declaration: Declaration) -> None:
    """Tables with unique units, unknown tables, and an unclear choice are refused, unpaid."""
    [visits] = declaration.tables
    unique = replace(declaration, tables=(replace(visits, unique=True),))
    two = replace(declaration, tables=(visits, replace(visits, name="other")))

    for refused, name, words in (
        (unique, None, "needs no limits"),
        (declaration, "labs", "Unknown table"),
        (two, None, "Name one of the tables: visits, other"),
    ):
        with pytest.raises(BadDeclaration, match=words):
            suggest_limits(refused, name, share="1%")
