"""Drafts decide nothing for the owner, and no name can escape from its comment."""

import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from confide.declare import Kind
from confide.declare.tables import NAME, is_column_name
from confide.declare.toml import parse_toml
from confide.errors import BadDeclaration
from confide.intake.draft import DraftColumn, DraftTable, draft_toml, guess_unit, name_table

KINDS: list[Kind | None] = [*Kind, None]
TABLE = DraftTable(
    "visits", "data/visits.parquet", {f"c{i}": DraftColumn(k) for i, k in enumerate(KINDS)}
)


def test_a_draft_leaves_unit_and_budget_to_the_owner() -> None:
    """An unedited draft is refused for the missing facts that only the owner knows."""
    with pytest.raises(BadDeclaration) as caught:
        parse_toml(draft_toml([TABLE]), name="confide.toml", folder=Path())

    assert "`epsilon` is missing" in str(caught.value)
    assert "`unit` is missing" in str(caught.value)


def test_a_draft_holds_no_bounds() -> None:
    """A column of a type that needs bounds appears only in a comment, also with a hint."""
    aged = replace(TABLE, columns={**TABLE.columns, "age": DraftColumn(Kind.INT)})
    columns = tomllib.loads(draft_toml([aged]))["tables"]["visits"]["columns"]

    assert {"text", "bool"} == {column["type"] for column in columns.values()}
    assert not {"low", "high", "values"} & {key for column in columns.values() for key in column}


def test_a_finished_draft_is_a_declaration() -> None:
    """With its placeholders filled in and uncommented, a draft is accepted."""
    text = draft_toml([TABLE])
    text = re.sub(r"^# (?=\w+ = )", "", text.replace("# unique", "##"), flags=re.MULTILINE)
    text = text.replace("YYYY-MM-DD", "2020-01-01").replace("LOW", "0").replace("HIGH", "9")
    text = text.replace('"TYPE"', '"bool"')
    [table] = parse_toml(text, name="confide.toml", folder=Path("/home")).tables

    assert "COLUMN" == table.unit
    assert list(TABLE.columns) == list(table.columns)


def test_guessed_types_stay_comments() -> None:
    """A type that was guessed from rows stays a comment until the owner uncomments it."""
    columns = {name: replace(one, is_guessed=True) for name, one in TABLE.columns.items()}
    guessed = replace(TABLE, columns=columns)

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
    table = DraftTable("t", "t.csv", dict.fromkeys(names, DraftColumn(Kind.TEXT)))
    text = draft_toml([table])
    columns = tomllib.loads(text)["tables"]["t"]["columns"]

    assert f'# unit = "{unit or "COLUMN"}"\n' in text
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
    many = DraftColumn(Kind.TEXT, note="a note", values=900, rows=1_000)
    table = DraftTable("t", source, dict.fromkeys(names, many))
    found = tomllib.loads(draft_toml([table]))

    assert {"budget", "ledger", "record", "tables"} == set(found)
    assert source == found["tables"]["t"]["source"]
    asked = {name for name in names if is_column_name(name)} - {
        guess_unit(dict.fromkeys(names, Kind.TEXT))
    }
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
    """A proposed unit has no column below; otherwise, the comment says to remove its line."""
    age = DraftColumn(Kind.INT)
    guessed = draft_toml(
        [DraftTable("t", "t.csv", {"patient": DraftColumn(Kind.TEXT), "age": age})]
    )
    open_ = draft_toml([DraftTable("t", "t.csv", {"visit": DraftColumn(Kind.TEXT), "age": age})])

    assert "Suggested by its name: patient." in guessed
    assert "Below, delete the line of the column" not in guessed
    assert "Below, delete the line of the column" in open_
    assert "unique = true" in open_


def test_a_code_with_few_values_is_not_a_unit() -> None:
    """A column named like an identifier is not proposed if its few values repeat very often."""
    party = DraftColumn(Kind.INT, values=7, rows=944)
    patients = DraftColumn(Kind.INT, values=300, rows=944)

    assert '# unit = "COLUMN"' in draft_toml([DraftTable("t", "t.csv", {"PID": party})])
    assert '# unit = "PID"' in draft_toml([DraftTable("t", "t.csv", {"PID": patients})])


@pytest.mark.parametrize(
    ("column", "sentence"),
    [
        (DraftColumn(Kind.INT, values=90, rows=90), "never repeat, so `unique = true` may hold"),
        (DraftColumn(Kind.INT, values=60, rows=90), "repeat, so people have several rows"),
        (DraftColumn(Kind.INT), "Suggested by its name: id.\n"),
    ],
)
def test_a_draft_says_whether_units_repeat(column: DraftColumn, sentence: str) -> None:
    """The comment on a proposed unit follows from the number of its values, if it is known."""
    assert sentence in draft_toml([DraftTable("t", "t.csv", {"id": column})])


def test_columns_that_may_identify_people_are_listed() -> None:
    """Without a proposed unit, the draft lists columns with many values and with unique values."""
    columns = {
        "rownames": DraftColumn(Kind.INT, values=5_000, rows=5_000),
        "tail": DraftColumn(Kind.TEXT, values=400, rows=5_000),
        "origin": DraftColumn(Kind.TEXT, values=3, rows=5_000),
    }
    text = draft_toml([DraftTable("t", "t.csv", columns)])

    assert "# Every row has its own value of rownames.\n" in text
    assert "# Columns with many different values: tail.\n" in text


def test_bounds_are_suggested_by_name_only() -> None:
    """A well-known name has bounds in its comment; others have placeholders."""
    columns = {"age": DraftColumn(Kind.INT), "income": DraftColumn(Kind.INT)}
    text = draft_toml([DraftTable("t", "t.csv", columns)])

    assert '# age = { type = "int", low = 0, high = 120 }  # bounds suggested by the name' in text
    assert '# income = { type = "int", low = LOW, high = HIGH }\n' in text
