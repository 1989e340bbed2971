"""The docs site contains every page and every public name, and fetches nothing."""

import doctest
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from urllib.parse import urlsplit

import pytest
from tools import list_messages, write_site
from tools import write_reference as write_reference_module
from tools.write_reference import PACKAGES, write_reference

import confide
from support.tree import ROOT, documents

FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
FETCHED = re.compile(
    r"<(?:script|link|img|iframe|source)\b[^>]*?(?:src|href)=\"(?:https?:)?//[^\"]+"
)
LINKED = re.compile(r"<a\b[^>]*?\bhref=\"([^\"]+)\"")


def nav() -> list[str]:
    """Return the pages that mkdocs.yml lists, in its order."""
    listed = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:", 1)[1]
    return re.findall(r"([\w./-]+\.md)$", listed, re.MULTILINE)


def test_every_document_is_in_the_navigation() -> None:
    """Each page of the docs and of the reference is listed once."""
    pages = [str(write_site.page_of(path)) for path in documents()]
    reference = [f"reference/{name}.md" for name in (*PACKAGES, "messages")]

    assert sorted([*pages, *reference]) == sorted(nav())


def test_every_public_name_is_in_the_reference() -> None:
    """Each name in `__all__` of confide has its own heading."""
    page = write_reference("confide")
    headings = re.findall(r"^## (\w+)$", page, re.MULTILINE)

    assert sorted(confide.__all__) == sorted(headings)


@pytest.mark.parametrize("name", PACKAGES)
def test_every_name_has_a_text(name: str) -> None:
    """Every name in the reference has a description."""
    sections = re.split(r"^## ", write_reference(name), flags=re.MULTILINE)[1:]
    texts = {part.split("\n", 1)[0]: FENCE.sub("", part.split("\n", 1)[1]) for part in sections}

    assert [] == [heading for heading, text in texts.items() if not re.search(r"\w", text)]


def dead(page: Path) -> list[tuple[str, str]]:
    """Return the relative links of a page whose target does not exist."""
    text = page.read_text(encoding="utf-8")
    links = {urlsplit(found) for found in LINKED.findall(text)}
    near = {link.path for link in links if link.path and not link.scheme and not link.netloc}
    return [(page.name, link) for link in sorted(near) if not (page.parent / link).exists()]


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_fetches_nothing(tmp_path: Path) -> None:
    """mkdocs builds every page without a warning, and no page loads external files.

    Every link within the site resolves.
    """
    write_site.main()
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir"]
    done = subprocess.run(
        [*command, str(tmp_path)], capture_output=True, text=True, check=False, cwd=ROOT
    )
    written = list(tmp_path.rglob("*.html"))
    fetching = {
        found for page in written for found in FETCHED.findall(page.read_text(encoding="utf-8"))
    }

    assert 0 == done.returncode, done.stderr
    assert len(written) > len(nav())
    assert set() == fetching
    assert [] == [found for page in written if page.name != "404.html" for found in dead(page)]


@pytest.mark.parametrize("tool", [list_messages, write_reference_module, write_site])
def test_examples_of_the_tools_run(tool: ModuleType) -> None:
    """The examples in the docstrings of the site's tools print the documented output."""
    found = doctest.testmod(tool)

    assert found.attempted
    assert 0 == found.failed


def test_an_external_resource_is_detected() -> None:
    """The pattern above detects an external script, style sheet, or image, but allows links."""
    for tag in ('<script src="https://x/y.js">', '<link href="//x/y.css">', '<img src="http://x">'):
        assert FETCHED.search(tag)
    assert not FETCHED.search('<a href="https://x">')
