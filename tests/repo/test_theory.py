"""Names, tests, and references on theory pages exist."""

import ast
import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from support.tree import ROOT, reference_keys

PAGES = sorted((ROOT / "docs" / "theory").glob("*.md"))
NAME = re.compile(r"`(confide(?:\.\w+)+)`")
TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
KEY = re.compile(r"\[([A-Z]\w*\d\d[a-z]?|Lee)\](?!\()")
ROW = re.compile(
    r"^\| (?!statement|---|printed|where|document).* \| .* \| .* \| (.*) \|$", re.MULTILINE
)


def find(name: str) -> Any:
    """Return the object with a full name."""
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


TEXT = "\n".join(path.read_text(encoding="utf-8") for path in PAGES)


def test_every_name_is_in_the_code() -> None:
    """Each full name on a page is a function, a class, or a method of confide."""
    names = NAME.findall(TEXT)

    assert len(names) > 50
    for name in names:
        assert find(name) is not None, name


def test_every_test_exists() -> None:
    """Each test on a page exists in its file."""
    for file, name in TEST.findall(TEXT):
        assert (ROOT / file).is_file(), file
        assert not name or name in named_in(ROOT / file), f"{file}::{name}"


def test_every_key_is_a_reference() -> None:
    """Each source on a page is in docs/references.md."""
    assert set() == set(KEY.findall(TEXT)) - set(reference_keys())


def test_statements_are_checked() -> None:
    """All rows but two name a test; those two say what is measured or not promised."""
    rows = ROW.findall(TEXT)
    bare = [row for row in rows if not TEST.search(row)]

    assert len(rows) > 50
    assert len(bare) <= 2
