"""Settings and options are documented on their pages, which name no others."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from confide.cli import app
from confide.declare import toml
from confide.declare.toml_reader import Field
from support.tree import ROOT

TOML = re.compile(r"^```toml\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SECTIONS: dict[str, dict[str, Field]] = {
    "budget": toml.BUDGET,
    "ledger": toml.LEDGER,
    "limits": toml.WINDOWS,
    "tables": toml.TABLE,
    "public_tables": toml.PUBLIC_TABLE,
    "analysts": toml.ANALYST,
    "purposes": toml.LIMIT,
    "server": toml.SERVER,
    "holdouts": toml.HOLDOUT,
    "record": toml.RECORD,
}
NAMED = {"tables", "public_tables", "analysts", "purposes", "holdouts"}


def read_page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def commands(group: Any, path: str = "confide") -> dict[str, Any]:
    """Return every command by its full name, including subcommands."""
    found: dict[str, Any] = {}
    for name, command in group.commands.items():
        whole = f"{path} {name}"
        found |= commands(command, whole) if hasattr(command, "commands") else {whole: command}
    return found


def options(command: Any) -> list[str]:
    """Return the long names of a command's options."""
    return [name for item in command.params for name in item.opts if name.startswith("--")]


def named_options() -> set[str]:
    """Return the options on the page of commands."""
    return set(re.findall(r"--[a-z][a-z-]*", read_page("commands.md")))


def test_the_sections_are_those_of_the_file() -> None:
    """The tests below cover every section that a declaration can have."""
    assert sorted(toml.SECTIONS) == sorted(SECTIONS)


@pytest.mark.parametrize("section", SECTIONS)
def test_every_setting_is_on_the_page(section: str) -> None:
    """Each key of a section of confide.toml appears as code on the page of the declaration."""
    words = set(
        re.findall(
            r"\w+",
            " ".join(re.findall(r"```.*?```|`[^`]+`", read_page("declaration.md"), re.DOTALL)),
        )
    )

    assert set() == {section, *SECTIONS[section]} - words


@pytest.mark.parametrize("kind", toml.COLUMNS)
def test_every_type_of_column_is_on_the_page(kind: str) -> None:
    """Each type of column is in the example, with each of its keys."""
    [example] = [
        block for block in TOML.findall(read_page("declaration.md")) if "[budget]" in block
    ]
    columns = tomllib.loads(example)["tables"]["visits"]["columns"].values()
    shown = {key for column in columns if column["type"] == kind for key in column}

    assert {"type", *toml.COLUMNS[kind][1]} == shown


def test_the_example_on_the_page_is_a_declaration(tmp_path: Path) -> None:
    """The example with every key is accepted."""
    [example] = [
        block for block in TOML.findall(read_page("declaration.md")) if "[budget]" in block
    ]

    assert toml.parse_toml(example, name="page", folder=tmp_path).budget.epsilon == 2


@pytest.mark.parametrize("name", commands(get_command(app)))
def test_every_option_is_on_the_page(name: str) -> None:
    """Each option of a command is on the page of commands."""
    found = commands(get_command(app))[name]

    assert set() == set(options(found)) - named_options() - {"--help"}


def test_the_page_names_no_other_option() -> None:
    """Every option on the page of commands exists."""
    every = {name for found in commands(get_command(app)).values() for name in options(found)}

    assert set() == named_options() - every - {"--help", "--version"}
