"""Examples in the docs run, and links resolve."""

import doctest
import re
from pathlib import Path
from typing import Any

import pytest
from tools.try_installs import installs

from support.tree import ROOT, documents

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)[^)]*\)")
# Its examples show style; they name parts of a system, not a program.
FRAGMENTS = {ROOT / "docs" / "style.md"}
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def with_examples() -> list[Path]:
    pages = (path for path in documents() if path not in FRAGMENTS)
    return [path for path in pages if BLOCK.search(path.read_text(encoding="utf-8"))]


def run_block(block: str, names: dict[str, Any], page: str, line: int) -> str:
    """Run one example with the names of earlier ones; return the error, or an empty string."""
    if ">>>" not in block:
        exec(compile(block, page, "exec"), names)
        return ""
    runner = doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
    found = doctest.DocTestParser().get_doctest(block, names, page, page, line)
    complaints: list[str] = []
    runner.run(found, out=complaints.append, clear_globs=False)
    names.update(found.globs)
    return "".join(complaints)


@pytest.mark.usefixtures("spending_guard")
@pytest.mark.parametrize("path", with_examples(), ids=lambda path: str(path.relative_to(ROOT)))
def test_examples_run(path: Path) -> None:
    """Every Python example on the page runs in order and prints the documented output."""
    text = path.read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": "__page__"}
    for block in BLOCK.finditer(text):
        line = text.count("\n", 0, block.start(1))

        assert "" == run_block(block[1], names, path.name, line)


def test_links_lead_somewhere() -> None:
    """Every link to a file of the project resolves."""
    links = {path: LINK.findall(path.read_text(encoding="utf-8")) for path in documents()}

    assert sum(map(len, links.values())) > 100
    assert [] == [
        (path.name, link)
        for path, found in links.items()
        for link in found
        if not (path.parent / link).exists()
    ]


def test_a_wrong_example_is_detected() -> None:
    """The runner above fails if a page shows another output."""
    assert "" == run_block(">>> 1 + 1\n2\n", {}, "page", 0)
    assert "Expected" in run_block(">>> 1 + 1\n3\n", {}, "page", 0)


def test_the_changelog_opens_with_privacy() -> None:
    """The first heading under each version is *Privacy*."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.split(r"^## ", text, flags=re.MULTILINE)[1:]

    assert versions
    assert {"Privacy"} == {re.findall(r"^### (.+)$", part, re.MULTILINE)[0] for part in versions}


def test_tutorials_and_notebooks_name_their_install() -> None:
    """Each tutorial and notebook says "Needs `pip install ...`" as `make matrix` expects."""
    tutorials = set((ROOT / "docs" / "tutorials").glob("*.md"))
    notebooks = set((ROOT / "notebooks").glob("*.ipynb"))

    assert tutorials | notebooks <= {page for pages in installs().values() for page in pages}


def test_limits_are_on_the_first_screen() -> None:
    """README links LIMITS.md within its first 40 lines."""
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:40]

    assert any("(LIMITS.md)" in line for line in lines)
