"""Commands in the docs exist, and existing commands are in the docs."""

import re
from pathlib import Path

from typer.main import get_command

from confide.cli import app
from support.tree import ROOT, documents, make_targets

CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)


def named(path: Path, program: str) -> set[str]:
    """Return the words that follow ``program`` in the code on a page."""
    code = "\n".join(CODE.findall(path.read_text(encoding="utf-8")))
    return set(re.findall(rf"(?:^|[`(\s]){program} ([a-z][a-z-]*)", code))


def test_every_target_on_a_page_exists() -> None:
    """Each `make word` on a page is a target of the Makefile."""
    targets = make_targets()

    assert {} == {
        path.name: unknown for path in documents() if (unknown := named(path, "make") - targets)
    }


def test_every_target_is_on_a_page() -> None:
    """CONTRIBUTING.md names each target."""
    assert make_targets() - {"help"} == named(ROOT / "CONTRIBUTING.md", "make")


def test_the_page_lists_exactly_the_commands() -> None:
    """docs/commands.md has a row for each command of confide, and no other row."""
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| `confide ([a-z -]+)` \|", page, re.MULTILINE))
    command = get_command(app)

    assert set(getattr(command, "commands", {})) == rows
