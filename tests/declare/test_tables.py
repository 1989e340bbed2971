"""Tables have consistent limits, units, and names, or are refused."""

from typing import Any

import pytest

from confide.declare import ROW, Int, PublicTable, Table, Text
from confide.declare.tables import MAX_ROWS
from confide.errors import BadDeclaration

AGE = {"age": Int(0, 120)}


def declare(**changes: Any) -> Table:
    """Return a plain table with some arguments replaced."""
    given: dict[str, Any] = {"name": "visits", "unit": "pid", "columns": AGE, **changes}
    return Table(given.pop("name"), "visits.parquet", **given)


def test_the_default_is_one_row_per_unit() -> None:
    """The default limits are one row and one group per unit, enforced by confide."""
    table = declare()

    assert (1, 1, False) == (table.max_rows_per_unit, table.max_groups_per_unit, table.unique)


def test_groups_never_exceed_rows() -> None:
    """The declared number of groups is capped at the number of rows per unit."""
    assert 5 == declare(max_rows_per_unit=5).max_groups_per_unit
    assert 5 == declare(max_rows_per_unit=5, max_groups_per_unit=9).max_groups_per_unit
    assert 2 == declare(max_rows_per_unit=5, max_groups_per_unit=2).max_groups_per_unit


def test_rows_as_units_are_unique() -> None:
    """unit=ROW needs no contribution bounding, because no two rows share a unit."""
    assert declare(unit=ROW).unique


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": "two words"}, "`name` must be a plain name"),
        ({"name": "1st"}, "`name` must be a plain name"),
        ({"name": "x" * 64}, "`name` must be a plain name"),
        ({"name": "x\n"}, "`name` must be a plain name"),
        ({"unit": 'p"id'}, "`unit` must be the name of a column"),
        ({"unit": None}, "`unit` must be the name of a column"),
        ({"unit": "age"}, "also declared as a column"),
        ({"columns": {}}, "at least one name"),
        ({"columns": [("age", Int(0, 1))]}, "at least one name"),
        ({"columns": {"age": int}}, "Column 'age' must be an `Int`"),
        ({"columns": {"a b ": Text()}}, "must be the name of a column"),
        ({"columns": {"The unit": Text()}}, "must be the name of a column"),
        ({"columns": {"stored x": Text()}}, "must be the name of a column"),
        ({"columns": {"a`b": Text()}}, "must be the name of a column"),
        ({"columns": {"a\nb": Text()}}, "must be the name of a column"),
        ({"columns": {"ä" * 32: Text()}}, "must be the name of a column"),
        ({"columns": {"age": Text(), "AGE": Text()}}, "more than case"),
        ({"max_rows_per_unit": 0}, "`max_rows_per_unit` must be an integer from 1"),
        ({"max_rows_per_unit": MAX_ROWS + 1}, "`max_rows_per_unit` must be"),
        ({"max_rows_per_unit": 2.5}, "`max_rows_per_unit` must be"),
        ({"max_groups_per_unit": 0}, "`max_groups_per_unit` must be"),
        ({"unique": True, "max_rows_per_unit": 2}, "`unique=True` needs `max_rows_per_unit=1`"),
        ({"unit": ROW, "max_rows_per_unit": 2}, "`unit=ROW` needs `max_rows_per_unit=1`"),
    ],
)
def test_a_wrong_table_is_refused_by_name(changes: dict[str, Any], said: str) -> None:
    """An impossible unit, column, or limit raises an error that names the argument."""
    with pytest.raises(BadDeclaration) as caught:
        declare(**changes)

    assert said in str(caught.value)


def test_a_unit_differs_from_columns_by_more_than_case() -> None:
    """A column that differs from the unit only in case is refused, as engines ignore case."""
    with pytest.raises(BadDeclaration):
        declare(unit="AGE")


def test_columns_cannot_be_added_later() -> None:
    """Neither the table's mapping nor the caller's can change the declared columns."""
    given = {"age": Int(0, 120)}
    table = declare(columns=given)
    given["more"] = Int(0, 1)

    assert ["age"] == list(table.columns)
    with pytest.raises(TypeError):
        table.columns["more"] = Int(0, 1)  # type: ignore[index]


def test_a_table_does_not_show_its_source() -> None:
    """The representation of a table, which messages may contain, has no DataFrame and no path."""
    assert "visits.parquet" not in repr(declare())
    assert "icd.csv" not in repr(PublicTable("icd", "icd.csv"))


def test_public_tables_have_plain_names() -> None:
    """The name of a public table is checked as well."""
    with pytest.raises(BadDeclaration):
        PublicTable("i c d", "icd.csv")
