"""Guessed types for a draft are right for plain files, and hardly depend on a single row."""

from pathlib import Path

import duckdb
import pytest

from confide.declare import Kind
from confide.errors import BadDeclaration
from confide.intake.convert import convert_csv
from confide.intake.csv_types import KINDS as READ_AS
from confide.intake.csv_types import conversion_hint, guess_formats

COLUMNS = {
    "whole": ("1", "-20", "0"),
    "real": ("1.5", "2", "1e-3"),
    "flag": ("true", "false", "true"),
    "word": ("yes", "maybe", "no"),
    "zip": ("01067", "10115", "04109"),
    "day": ("2024-01-31", "2024-02-29 10:00", "1999-12-31"),
    "empty": ("", "", ""),
}
KINDS = {
    "whole": Kind.INT,
    "real": Kind.FLOAT,
    "flag": Kind.BOOL,
    "word": Kind.TEXT,
    "zip": Kind.TEXT,
    "day": Kind.TIMESTAMP,
    "empty": None,
}


def write_csv(folder: Path, rows: list[tuple[str, ...]]) -> Path:
    lines = [",".join(row) for row in [tuple(COLUMNS), *rows]]
    (folder / "t.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder / "t.csv"


def guess_kinds(path: Path) -> dict[str, Kind | None]:
    return {name: READ_AS[shape] for name, shape in guess_formats(path).items()}


def test_plain_columns_are_recognized(tmp_path: Path) -> None:
    """Integers, doubles, dates, flags, and strings are recognized."""
    assert KINDS == guess_kinds(write_csv(tmp_path, list(zip(*COLUMNS.values(), strict=True))))


def test_one_odd_row_changes_no_guess(tmp_path: Path) -> None:
    """One row of unusual cells among a hundred changes no guess."""
    rows = list(zip(*COLUMNS.values(), strict=True)) * 33
    odd = ("x", "?", "2", "true", "3", "yesterday", "")

    assert KINDS == guess_kinds(write_csv(tmp_path, [odd, *rows]))


def test_strings_for_an_empty_cell_change_no_guess(tmp_path: Path) -> None:
    """NA, as R writes it, hides no type, however many cells have it."""
    rows = [*zip(*COLUMNS.values(), strict=True), *[("NA",) * len(COLUMNS)] * 9]

    assert KINDS == guess_kinds(write_csv(tmp_path, rows))


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_another_delimiter_is_refused_with_a_fix(tmp_path: Path, delimiter: str) -> None:
    """The refusal names the delimiter, and a command that writes a readable file."""
    path = tmp_path / "t.csv"
    path.write_text(f"Patient ID{delimiter}Paid\n1{delimiter}2\n", encoding="utf-8")
    with pytest.raises(BadDeclaration, match="confide reads only commas") as caught:
        guess_kinds(path)

    assert conversion_hint(path) in str(caught.value)
    convert_csv(path, path.with_suffix(".parquet"))
    columns = duckdb.read_parquet(str(path.with_suffix(".parquet"))).columns
    assert ["Patient_ID", "Paid"] == columns


@pytest.mark.parametrize("content", [b"", b"\xff\xfe,\n", b"\n"])
def test_a_file_without_names_is_refused(tmp_path: Path, content: bytes) -> None:
    """A file that is empty or not text is refused before anything is drafted."""
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(BadDeclaration):
        guess_kinds(tmp_path / "t.csv")


def test_names_that_differ_in_capitals_alone_are_refused(tmp_path: Path) -> None:
    """Two columns whose names differ only in case are refused, with a command that renames them."""
    (tmp_path / "t.csv").write_text("paid,Paid\n1,2\n", encoding="utf-8")
    with pytest.raises(BadDeclaration, match="confide convert"):
        guess_formats(tmp_path / "t.csv")


def test_a_name_may_go_over_two_lines(tmp_path: Path) -> None:
    """A line break inside a quoted name loses no column."""
    (tmp_path / "t.csv").write_text('a,"b\nc",d\n1,2,3\n', encoding="utf-8")

    assert ["a", "b\nc", "d"] == list(guess_formats(tmp_path / "t.csv"))


@pytest.mark.parametrize("line", ["1,2,3", "4.5,2024-01-31,", "7"])
def test_a_file_without_a_line_of_names_is_refused(tmp_path: Path, line: str) -> None:
    """A first line of numbers and dates is a row, so the file is refused."""
    (tmp_path / "t.csv").write_text(f"{line}\n{line}\n", encoding="utf-8")
    with pytest.raises(BadDeclaration, match=r"looks like a row\. Add a line of column names"):
        guess_formats(tmp_path / "t.csv")


def test_a_third_word_is_not_a_flag(tmp_path: Path) -> None:
    """A column of yes, no, and a repeated third word is text; a single odd cell is ignored."""
    cells = ["No", "Yes"] * 50
    for odd, kind in ((1, Kind.BOOL), (2, Kind.TEXT)):
        lines = ["diabetes", *cells, *["Borderline"] * odd]
        (tmp_path / "t.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")

        assert {"diabetes": kind} == guess_kinds(tmp_path / "t.csv")


def test_amounts_with_a_currency_are_converted(tmp_path: Path) -> None:
    """A conversion reads signs of currencies, commas between digits, and negative amounts."""
    amounts = ['"$1,234.50"', "$99.00", "($5.25)", "-$7", "NA", '"2,000,000.01 €"']
    (tmp_path / "t.csv").write_text("\n".join(["amount", *amounts]) + "\n", encoding="utf-8")
    convert_csv(tmp_path / "t.csv", tmp_path / "t.parquet")
    found = duckdb.read_parquet(str(tmp_path / "t.parquet")).fetchall()

    assert [1234.5, 99.0, -5.25, -7.0, None, 2_000_000.01] == [amount for (amount,) in found]
