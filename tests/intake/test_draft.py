"""Drafts decide nothing for the owner, and no name can escape from its comment."""

import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from confide.declare import Kind
from confide.declare.tables import NAME
from confide.declare.toml import parse_toml
from confide.errors import BadDeclaration
from confide.intake.draft import DraftTable, draft_toml, guess_unit, name_table

KINDS: list[Kind | None] = [*Kind, None]
TABLE = DraftTable("visits", "data/visits.parquet", {f"c{i}": k for i, k in enumerate(KINDS)})


def test_a_draft_leaves_unit_and_budget_to_the_owner() -> None:
    """An unedited draft is refused for the missing facts that only the owner knows."""
    with pytest.raises(BadDeclaration) as caught:
        parse_toml(draft_toml([TABLE]), name="confide.toml", folder=Path())

    assert "epsilon is missing" in str(caught.value)
    assert "unit is missing" in str(caught.value)


def test_a_draft_holds_no_bounds() -> None:
    """A column of a type that needs bounds appears only in a comment."""
    columns = tomllib.loads(draft_toml([TABLE]))["tables"]["visits"]["columns"]

    assert {"text", "bool"} == {column["type"] for column in columns.values()}
    assert not {"low", "high", "values"} & {key for column in columns.values() for key in column}


def test_a_finished_draft_is_a_declaration() -> None:
    """With its placeholders filled in and uncommented, a draft is accepted."""
    text = draft_toml([TABLE])
    text = re.sub(r"^# (?=\w+ = )", "", text, flags=re.MULTILINE)
    text = text.replace("YYYY-MM-DD", "2020-01-01").replace("LOW", "0").replace("HIGH", "9")
    text = text.replace('"TYPE"', '"bool"')
    [table] = parse_toml(text, name="confide.toml", folder=Path("/home")).tables

    assert "COLUMN" == table.unit
    assert list(TABLE.columns) == list(table.columns)


def test_guessed_types_stay_comments() -> None:
    """A type that was guessed from rows stays a comment until the owner uncomments it."""
    guessed = replace(TABLE, is_guessed=True)

    assert {} == tomllib.loads(draft_toml([guessed]))["tables"]["visits"]["columns"]
    assert "guessed from the first rows" in draft_toml([guessed])


@pytest.mark.parametrize(
    ("unit", "names"),
    [
        ("patient", ["age", "patient"]),
        ("CustomerID", ["id", "CustomerID"]),
        ("id", ["visit_id", "id"]),
        (None, ["visit_id", "age", "ward"]),
    ],
)
def test_a_unit_is_proposed_by_its_name(unit: str | None, names: list[str]) -> None:
    """A column named for a person is proposed as the unit, and not as a column."""
    table = DraftTable("t", "t.csv", dict.fromkeys(names, Kind.TEXT))
    text = draft_toml([table])
    columns = tomllib.loads(text)["tables"]["t"]["columns"]

    assert f'# unit = "{unit or "COLUMN"}" ' in text
    assert [name for name in names if name != unit] == list(columns)


@pytest.mark.parametrize(
    ("unit", "columns"),
    [
        ("Rider_ID", {"member": Kind.BOOL, "Rider_ID": Kind.TEXT}),
        ("user_id", {"user": Kind.TEXT, "user_id": Kind.INT}),
        ("client", {"id": Kind.INT, "client": Kind.TEXT}),
        (None, {"member": Kind.BOOL, "patient": Kind.DATE, "id": Kind.FLOAT}),
        ("person", {"person": None}),
    ],
)
def test_unsuitable_columns_are_not_proposed_as_the_unit(
    unit: str | None, columns: dict[str, Kind | None]
) -> None:
    """Flags, dates, and measurements are not proposed, and an ID of a person comes first."""
    assert unit == guess_unit(columns)


@given(
    names=st.lists(st.text(min_size=1, max_size=12), max_size=5),
    source=st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
)
def test_no_name_breaks_out_of_its_line(names: list[str], source: str) -> None:
    """For any names of columns and files, a draft is TOML without further keys."""
    table = DraftTable("t", source, dict.fromkeys(names, Kind.TEXT))
    found = tomllib.loads(draft_toml([table]))

    assert {"budget", "ledger", "tables"} == set(found)
    assert source == found["tables"]["t"]["source"]
    asked = {name for name in names if NAME.match(name)} - {guess_unit(table.columns)}
    assert asked == set(found["tables"]["t"]["columns"])


@given(stems=st.lists(st.text(max_size=80), max_size=6))
def test_every_file_gets_a_plain_name_of_its_own(stems: list[str]) -> None:
    """Table names are plain and distinct, ignoring case."""
    names: list[str] = []
    for stem in stems:
        names.append(name_table(stem, names))

    assert all(NAME.match(name) for name in names)
    assert len(names) == len({name.lower() for name in names})


def test_a_draft_omits_the_column_of_a_proposed_unit() -> None:
    """A proposed unit has no column below; the comment says to delete that of another unit."""
    guessed = draft_toml([DraftTable("t", "t.csv", {"patient": Kind.TEXT, "age": Kind.INT})])
    open_ = draft_toml([DraftTable("t", "t.csv", {"visit": Kind.TEXT, "age": Kind.INT})])

    assert "It has no line below" in guessed
    assert "Take its line below away" not in guessed
    assert "Take its line below away" in open_
    assert "unique = true" in open_


def test_a_guessed_flag_may_be_a_category() -> None:
    """A flag that was guessed from strings shows the alternative; a stored flag does not."""
    table = DraftTable("t", "t.csv", {"smoker": Kind.BOOL}, is_guessed=True)

    assert '# smoker = { type = "bool" }  # or { type = "category"' in draft_toml([table])
    assert 'smoker = { type = "bool" }\n' in draft_toml([replace(table, is_guessed=False)])
