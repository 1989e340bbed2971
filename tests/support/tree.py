"""The project's own files, as the tests of the repository read them."""

import ast
import importlib
import pkgutil
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import confide

__all__ = [
    "LABELS",
    "ROOT",
    "SOURCES",
    "docstrings",
    "documents",
    "labelled",
    "layers",
    "make_targets",
    "modules",
    "project",
    "reference_keys",
    "run_python",
]

ROOT: Final = Path(__file__).parents[2]
SOURCES: Final = sorted((ROOT / "src").rglob("*.py"))
LABELS: Final = ("Law", "Claim", "Why", "Source", "Checked")
LABEL: Final = re.compile(rf"^[ ]*({'|'.join(LABELS)}):", re.MULTILINE)


def project() -> dict[str, Any]:
    """Return the parsed pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def layers() -> list[set[str]]:
    """Return the packages of each layer, lowest layer first."""
    contract, *_ = project()["tool"]["importlinter"]["contracts"]
    return [set(re.findall(r"\w+", layer)) for layer in reversed(contract["layers"])]


def modules() -> list[ModuleType]:
    """Return every module of confide, imported."""
    names = (found.name for found in pkgutil.walk_packages(confide.__path__, "confide."))
    imported = [importlib.import_module(name) for name in names if not name.endswith("__main__")]
    return [confide, *imported]


@cache
def docstrings(path: Path) -> tuple[tuple[str, str], ...]:
    """Return (name, docstring) of a file's module, classes, and functions."""
    return tuple(
        (getattr(node, "name", path.stem), text)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and (text := ast.get_docstring(node))
    )


def labelled(docstring: str) -> dict[str, str]:
    r"""Return the text after each of our labels, up to the next label or a blank line.

    >>> labelled("Do it.\n\nClaim:  private,\n        truly.\nSource: [DR14].\n\nMore.")
    {'Claim': 'private,\n        truly.', 'Source': '[DR14].'}
    """
    _, *parts = LABEL.split(docstring)
    texts = (re.split(r"\n[ ]*\n", text.strip())[0] for text in parts[1::2])
    return dict(zip(parts[::2], texts, strict=True))


def reference_keys() -> list[str]:
    """Return the keys that docs/references.md defines."""
    text = (ROOT / "docs" / "references.md").read_text(encoding="utf-8")
    return re.findall(r"^- \*\*\[(\w+)\]\*\*", text, re.MULTILINE)


def documents() -> list[Path]:
    """Return every page of the docs."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "bench/README.md"])


def make_targets() -> set[str]:
    """Return the targets of the Makefile that `make help` lists."""
    lines = (ROOT / "Makefile").read_text(encoding="utf-8").splitlines()
    return {match[1] for line in lines if (match := re.match(r"([a-z-]+):.*## ", line))}


def run_python(*arguments: str) -> str:
    """Return the output of a new interpreter."""
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return done.stdout
