"""Tables: limits, units and names that hold together, or a refusal."""

from typing import Any

import pytest

from confide.declare import ROW, Int, PublicTable, Table, Text
from confide.declare.tables import MOST_ROWS
from confide.errors import BadDeclaration

AGE = {"age": Int(0, 120)}


def declare(**changes: Any) -> Table:
    """Return a plain table with some things said otherwise."""
    given: dict[str, Any] = {"name": "visits", "unit": "pid", "columns": AGE, **changes}
    return Table(given.pop("name"), "visits.parquet", **given)


def test_the_least_is_one_row_a_unit() -> None:
    """Who says nothing about limits gets one row and one group a unit, cut by confide."""
    table = declare()

    assert (1, 1, False) == (table.max_rows_per_unit, table.max_groups_per_unit, table.unique)


def test_groups_never_exceed_rows() -> None:
    """A unit of five rows is in five groups at most, whatever is declared."""
    assert 5 == declare(max_rows_per_unit=5).max_groups_per_unit
    assert 5 == declare(max_rows_per_unit=5, max_groups_per_unit=9).max_groups_per_unit
    assert 2 == declare(max_rows_per_unit=5, max_groups_per_unit=2).max_groups_per_unit


def test_rows_as_units_are_unique() -> None:
    """unit=ROW needs no cut: no two rows are about the same person."""
    assert declare(unit=ROW).unique


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": "two words"}, "name must be a plain name"),
        ({"name": "1st"}, "name must be a plain name"),
        ({"name": "x" * 64}, "name must be a plain name"),
        ({"name": "x\n"}, "name must be a plain name"),
        ({"unit": 'p"id'}, "unit must be a plain name"),
        ({"unit": None}, "unit must be a plain name"),
        ({"unit": "age"}, "declared as a column"),
        ({"columns": {}}, "at least one name"),
        ({"columns": [("age", Int(0, 1))]}, "at least one name"),
        ({"columns": {"age": int}}, "column 'age' must be Int"),
        ({"columns": {"a b": Text()}}, "plain name"),
        ({"columns": {"age": Text(), "AGE": Text()}}, "more than capitals"),
        ({"max_rows_per_unit": 0}, "max_rows_per_unit must be a whole number from 1"),
        ({"max_rows_per_unit": MOST_ROWS + 1}, "max_rows_per_unit must be"),
        ({"max_rows_per_unit": 2.5}, "max_rows_per_unit must be"),
        ({"max_groups_per_unit": 0}, "max_groups_per_unit must be"),
        ({"unique": True, "max_rows_per_unit": 2}, "unique=True needs max_rows_per_unit=1"),
        ({"unit": ROW, "max_rows_per_unit": 2}, "unit=ROW needs max_rows_per_unit=1"),
    ],
)
def test_a_wrong_table_is_refused_by_name(changes: dict[str, Any], said: str) -> None:
    """No table comes into being whose unit, columns or limits cannot be meant."""
    with pytest.raises(BadDeclaration) as caught:
        declare(**changes)

    assert said in str(caught.value)


def test_a_unit_differs_from_columns_by_more_than_case() -> None:
    """The engine reads AGE and age as one column, so the unit may not come back as a column."""
    with pytest.raises(BadDeclaration):
        declare(unit="AGE")


def test_columns_cannot_be_added_later() -> None:
    """What was declared stays: neither the table's mapping nor the caller's can change it."""
    given = {"age": Int(0, 120)}
    table = declare(columns=given)
    given["more"] = Int(0, 1)

    assert ["age"] == list(table.columns)
    with pytest.raises(TypeError):
        table.columns["more"] = Int(0, 1)  # type: ignore[index]


def test_a_table_does_not_show_its_source() -> None:
    """The text of a table, which may end in a message, holds no frame and no path."""
    assert "visits.parquet" not in repr(declare())
    assert "icd.csv" not in repr(PublicTable("icd", "icd.csv"))


def test_public_tables_have_plain_names() -> None:
    """A public table's name goes through the same check."""
    with pytest.raises(BadDeclaration):
        PublicTable("i c d", "icd.csv")
