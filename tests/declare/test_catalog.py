"""The catalog has distinct names and a fingerprint of everything that matters."""

from collections.abc import Callable
from typing import Any

import pytest

from confide.declare import (
    ROW,
    Bool,
    Catalog,
    Category,
    Column,
    Date,
    Float,
    Int,
    PublicTable,
    Table,
    Text,
)
from confide.errors import BadDeclaration

BASE: dict[str, Any] = {
    "unit": "pid",
    "columns": {"age": Int(0, 120)},
    "max_rows_per_unit": 3,
    "max_groups_per_unit": 2,
}


def visits(**changes: Any) -> Table:
    given = {**BASE, **changes}
    return Table(given.pop("name", "visits"), given.pop("source", "a.csv"), **given)


def with_column(column: Column) -> str:
    return Catalog([visits(columns={"x": column})]).fingerprint()


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "stays"},
        {"unit": "other"},
        {"unit": ROW, "max_rows_per_unit": 1, "max_groups_per_unit": 1},
        {"columns": {"age": Int(0, 121)}},
        {"columns": {"age": Int(-1, 120)}},
        {"columns": {"years": Int(0, 120)}},
        {"columns": {"age": Int(0, 120), "sex": Bool()}},
        {"max_rows_per_unit": 4},
        {"max_groups_per_unit": 1},
        {"version": "2"},
    ],
)
def test_the_fingerprint_sees_every_change(changes: dict[str, Any]) -> None:
    """Every change to the meaning of an answer changes the fingerprint."""
    assert Catalog([visits()]).fingerprint() != Catalog([visits(**changes)]).fingerprint()


def test_the_fingerprint_sees_uniqueness() -> None:
    """The declaration of one row per unit is part of the fingerprint."""
    one = visits(max_rows_per_unit=1, max_groups_per_unit=1)
    vouched = visits(max_rows_per_unit=1, max_groups_per_unit=1, unique=True)

    assert Catalog([one]).fingerprint() != Catalog([vouched]).fingerprint()


def test_a_unit_column_named_row_is_not_the_unit_row() -> None:
    """A unit column named ROW has another fingerprint than the unit ROW."""
    limits = {"max_rows_per_unit": 1, "max_groups_per_unit": 1, "unique": True}
    column, rows = visits(unit="ROW", **limits), visits(unit=ROW, **limits)

    assert Catalog([column]).fingerprint() != Catalog([rows]).fingerprint()


def test_the_fingerprint_sees_every_field_of_a_column() -> None:
    """Columns that differ in type or in any field have different fingerprints."""
    columns: list[Column] = [
        Int(0, 1),
        Int(0, 2),
        Float(0, 1),
        Float(0, 1, step="1/4"),
        Float("1/2", 1),
        Category(["A"]),
        Category(["A", "B"]),
        Category(["B", "A"]),
        Category(["A", None]),
        Category(["None", "A"]),
        Category(["1", "2"]),
        Category([1, 2]),
        Category([2, 1]),
        Category([1, 2, None]),
        Text(),
        Bool(),
        Date("2020-01-01", "2021-01-01"),
        Date("2020-01-02", "2021-01-01"),
        Date("2020-01-01", "2021-01-02"),
    ]

    assert len(columns) == len(set(map(with_column, columns)))


def test_the_fingerprint_of_strings_stays() -> None:
    """The fingerprint of categories of strings equals that of existing ledgers."""
    columns: dict[str, Column] = {"ward": Category(["A", "B", None]), "code": Category(["1", "2"])}
    kept = "977d19ff70e0e869d83dce617c3f74b6fa0e285a0432cd4290fa7cab43e497cd"

    assert kept == Catalog([Table("visits", None, unit="pid", columns=columns)]).fingerprint()


def test_the_fingerprint_sees_public_tables() -> None:
    """Another public table, or another version of one, changes the fingerprint."""
    alone = Catalog([visits()])
    first = Catalog([visits(), PublicTable("icd", "icd.csv")])
    second = Catalog([visits(), PublicTable("icd", "icd.csv", version="2")])

    assert 3 == len({alone.fingerprint(), first.fingerprint(), second.fingerprint()})


def test_the_fingerprint_ignores_order_and_sources() -> None:
    """The order of tables, the order of columns, and the sources do not change the fingerprint."""
    other = visits(name="labs")
    columns = {"age": Int(0, 120), "sex": Bool()}
    turned = dict(reversed(columns.items()))

    assert Catalog([visits(), other]).fingerprint() == Catalog([other, visits()]).fingerprint()
    assert Catalog([visits()]).fingerprint() == Catalog([visits(source="b.csv")]).fingerprint()
    assert (
        Catalog([visits(columns=columns)]).fingerprint()
        == Catalog([visits(columns=turned)]).fingerprint()
    )


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Catalog([]), "At least one private table"),
        (lambda: Catalog([PublicTable("icd", "icd.csv")]), "At least one private table"),
        (lambda: Catalog([visits(), visits(name="VISITS")]), "visits more than once"),
        (lambda: Catalog([visits(), PublicTable("Visits", "x.csv")]), "visits more than once"),
        (lambda: Catalog(["visits"]), "must contain `Table` and `PublicTable` objects"),  # type: ignore[list-item]
    ],
)
def test_a_wrong_catalog_is_refused(make: Callable[[], Catalog], said: str) -> None:
    """A catalog of tables with equal names, or without a private table, is refused."""
    with pytest.raises(BadDeclaration) as caught:
        make()

    assert said in str(caught.value)
