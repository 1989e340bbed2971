"""The page docs/attacks.md names the test of every attack, and only existing tests."""

import re
from pathlib import Path
from typing import Final

from support.tree import ROOT

PAGE: Final = ROOT / "docs" / "attacks.md"
NAMED: Final = re.compile(r"\[(test_\w+)\]\(\.\./(tests/[\w/]+\.py)\)")
TESTS: Final = re.compile(r"^def (test_\w+)", re.MULTILINE)


def list_tests(path: Path) -> set[str]:
    """Return the names of the tests in a file."""
    return set(TESTS.findall(path.read_text(encoding="utf-8")))


def test_every_named_test_exists() -> None:
    """Each test on the page is in the file that it links to."""
    named = NAMED.findall(PAGE.read_text(encoding="utf-8"))

    assert [] == [name for name, path in named if name not in list_tests(ROOT / path)]


def test_every_attack_is_named() -> None:
    """Each test of this folder, except those of this file, is on the page."""
    written = set().union(*map(list_tests, Path(__file__).parent.glob("test_*.py")))
    named = {name for name, _ in NAMED.findall(PAGE.read_text(encoding="utf-8"))}

    assert written - list_tests(Path(__file__)) <= named
