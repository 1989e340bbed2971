"""`confide init --interactive` writes a declaration that needs no editing."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from confide.declare import Category, Date, Float, Int, Kind, Table
from confide.declare.toml import parse_toml
from confide.errors import BadDeclaration
from confide.intake.draft import DraftColumn, DraftTable
from confide.intake.interview import complete_draft

TABLE = DraftTable(
    "visits",
    "visits.csv",
    {
        "patient_id": DraftColumn(Kind.INT, values=60, rows=90),
        "age": DraftColumn(Kind.INT),
        "cost": DraftColumn(Kind.FLOAT),
        "ward": DraftColumn(Kind.TEXT),
        "grade": DraftColumn(Kind.INT),
        "day": DraftColumn(Kind.DATE),
        "notes": DraftColumn(Kind.TEXT),
        "rent per month": DraftColumn(Kind.INT),
        "not\\a\\name": DraftColumn(Kind.TEXT),
    },
)
ANSWERS = {
    "Smallest possible cost": "0",
    "Largest possible cost": "5000.5",
    "Column ward": "category",
    "All values of ward": 'A, B, the "C"',
    "Column grade": "category",
    "All values of grade": "1, 2,3",
    "First possible day": "2020-01-01",
    "Last possible day": "2026-12-31",
    "Column notes": "skip",
    "Smallest possible rent": "0",
    "Largest possible rent": "9000",
}


def complete(table: DraftTable, answers: dict[str, str]) -> tuple[Table, list[str]]:
    """Return the declared table if the owner accepts every default, and all questions."""
    asked: list[str] = []

    def ask(question: str, default: str) -> str:
        asked.append(question)
        return next((text for start, text in answers.items() if start in question), default)

    text = complete_draft([table], ask)
    [declared] = parse_toml(text, name="confide.toml", folder=Path("/home")).tables
    return declared, asked


def test_answers_become_a_declaration() -> None:
    """With defaults accepted, units come from the name and bounds from general knowledge."""
    declared, asked = complete(TABLE, ANSWERS)

    assert ("patient_id", 10, 3) == (
        declared.unit,
        declared.max_rows_per_unit,
        declared.max_groups_per_unit,
    )
    assert {
        "age": Int(0, 120),
        "cost": Float(0, 5_000.5),
        "ward": Category(["A", "B", 'the "C"']),
        "grade": Category([1, 2, 3]),
        "day": Date("2020-01-01", "2026-12-31"),
        "rent per month": Int(0, 9_000),
    } == dict(declared.columns)
    assert any("Its values repeat" in question for question in asked)
    assert not any("a\\name" in question for question in asked)


def test_units_without_repeats_may_be_unique() -> None:
    """For a column that never repeats, the default answer declares one row per person."""
    columns = {"id": DraftColumn(Kind.INT, values=9, rows=9), "age": DraftColumn(Kind.INT)}
    declared, _ = complete(DraftTable("t", "t.csv", columns), {})

    assert declared.unique


def test_rows_may_be_people() -> None:
    """Without a column that identifies people, every row is a person by default."""
    declared, asked = complete(DraftTable("t", "t.csv", {"age": DraftColumn(Kind.INT)}), {})

    assert not isinstance(declared.unit, str)
    assert not any("rows of one person" in question for question in asked)


def test_a_wrong_answer_is_asked_again() -> None:
    """An unusable answer is asked for again with a reason, and given up after a few attempts."""
    given: Iterator[str] = iter(["much", "-1", "1/2", "05"])
    asked: list[str] = []

    def ask(question: str, default: str) -> str:
        asked.append(question)
        return next(given) if "epsilon" in question else default

    table = DraftTable("t", "t.csv", {"age": DraftColumn(Kind.INT)})
    assert "epsilon = 5\n" in complete_draft([table], ask)
    assert asked[1].startswith("That is not a number above 0.")
    with pytest.raises(BadDeclaration, match="No usable answer"):
        complete_draft([table], lambda question, default: "?")


@pytest.mark.parametrize("typed", ["1,2,3", "[1, 2, 3]", " 1 , 2,3,"])
def test_values_may_have_brackets(typed: str) -> None:
    """A list of values is read with or without the brackets of TOML."""
    table = DraftTable("t", "t.csv", {"grade": DraftColumn(Kind.INT)})
    declared, _ = complete(table, {"Column grade": "cat", "All values of grade": typed})

    assert {"grade": Category([1, 2, 3])} == dict(declared.columns)


def test_every_number_is_valid_toml() -> None:
    """Numbers such as .5 and 05, and bounds in the wrong order, make no invalid file."""
    table = DraftTable("t", "t.csv", {"cost": DraftColumn(Kind.FLOAT)})
    typed = {"Smallest possible cost": ".5", "Largest possible cost": "1,000"}
    declared, _ = complete(table, typed)

    assert {"cost": Float(0.5, 1_000)} == dict(declared.columns)
    with pytest.raises(BadDeclaration, match="Largest possible cost"):
        complete(table, {"Smallest possible cost": "5", "Largest possible cost": "2"})
