"""Names that a query can refer to."""

import pytest

from confide.declare import Kind
from confide.errors import UnknownName, UnsupportedQuery
from confide.expressions.tree import Column
from confide.query.scope import Names, Scope, Unit, make_member, match_name, suggest_name
from support.questions import CATALOG, NAMES


def test_tables_are_found_in_any_case() -> None:
    """Table names are case-insensitive, and lookups return the declared spelling."""
    assert "visits" == NAMES.table("VISITS").name


def test_only_declared_tables_are_known() -> None:
    """Exactly the declared tables, private and public, are known."""
    assert {*CATALOG.private, *CATALOG.public} == set(NAMES.tables)
    with pytest.raises(UnknownName, match="Unknown table 'sqlite_master'"):
        NAMES.table("sqlite_master")


def test_a_unit_is_not_a_column() -> None:
    """The unit is found under its own name and as "unit", but never as a column."""
    scope = Scope((make_member(NAMES.table("visits"), "v", "t1"),))

    assert Unit(scope.members[0]) == scope.find("Patient_ID")
    assert Unit(scope.members[0]) == scope.find("unit", "V")
    assert Column("t1", "age", Kind.INT) == scope.find("AGE")
    with pytest.raises(UnsupportedQuery, match="cannot be selected"):
        scope.column("patient_id")


def test_public_tables_have_no_unit() -> None:
    """A public table has no unit."""
    scope = Scope((make_member(NAMES.table("icd"), "icd", "t1"),))

    with pytest.raises(UnknownName):
        scope.find("unit")


def test_columns_that_differ_only_in_case_need_exact_spelling() -> None:
    """If a file has "a" and "A", each is found by its exact spelling and neither by any other."""
    assert ["a", "A", None] == [
        match_name("a", ["a", "A"]),
        match_name("A", ["a", "A"]),
        match_name("aa", ["aA", "Aa"]),
    ]


def test_suggestions_are_declared_names() -> None:
    """A near miss suggests the closest declared name; any other name gets a short list."""
    many = [f"column{number}" for number in range(99)]

    assert "Did you mean 'ward'?" == suggest_name("WRAD", ["ward", "age"])
    assert "Declared: ward, age." == suggest_name("x" * 10_000, ["ward", "age"])
    assert suggest_name("zzz", many).endswith("column11, and others.")


def test_columns_of_public_tables_are_known_if_given() -> None:
    """A public table without known columns suggests none."""
    assert {} == dict(Names(CATALOG).table("icd").columns)
