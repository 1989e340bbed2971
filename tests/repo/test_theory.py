"""Theory pages keep their word: each name is in the code, each test is there, each key is known."""

import ast
import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from support.tree import ROOT, reference_keys

PAGES = sorted((ROOT / "docs" / "theory").glob("*.md"))
NAME = re.compile(r"`(confide(?:\.\w+)+)`")
TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
KEY = re.compile(r"\[([A-Z]\w*\d\d[a-z]?|Lee)\](?!\()")
ROW = re.compile(
    r"^\| (?!statement|---|printed|where|document).* \| .* \| .* \| (.*) \|$", re.MULTILINE
)


def find(name: str) -> Any:
    """Return what a full name stands for."""
    parts = name.split(".")
    for place in range(len(parts), 0, -1):
        try:
            found = import_module(".".join(parts[:place]))
        except ImportError:
            continue
        for part in parts[place:]:
            found = getattr(found, part)
        return found
    raise AttributeError(name)


@cache
def named_in(path: Path) -> set[str]:
    """Return the names of the tests in a file."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_name_is_in_the_code(path: Path) -> None:
    """Each full name on the page leads to a function, a class or a method of confide."""
    for name in NAME.findall(path.read_text(encoding="utf-8")):
        assert find(name) is not None, name


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_test_is_there(path: Path) -> None:
    """Each test on the page exists in its file."""
    for file, name in TEST.findall(path.read_text(encoding="utf-8")):
        assert (ROOT / file).is_file(), file
        assert not name or name in named_in(ROOT / file), f"{file}::{name}"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_key_is_a_reference(path: Path) -> None:
    """Each source on the page is in docs/references.md."""
    assert set() == set(KEY.findall(path.read_text(encoding="utf-8"))) - set(reference_keys())


def test_statements_are_checked() -> None:
    """Nearly every row names a test; those without one say what is measured or not promised."""
    rows = [row for path in PAGES for row in ROW.findall(path.read_text(encoding="utf-8"))]
    bare = [row for row in rows if not TEST.search(row)]

    assert len(rows) > 50
    assert len(bare) <= 2
