"""No code under src/ can make noise predictable."""

import ast
from collections.abc import Iterator

import pytest

from support.tree import ROOT, SOURCES

BANNED = {"random", "default_rng", "RandomState", "getrandbits", "Philox", "PCG64", "MT19937"}


def words(node: ast.AST) -> Iterator[str]:
    """Yield the names that one node of a program binds, reads, or imports."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
            yield name
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.alias(name=name):
            yield from name.split(".")
        case ast.ImportFrom(module=str(name)):
            yield from name.split(".")
        case ast.keyword(arg=str(name)):
            yield name
        case _:
            return


def suspects(program: str) -> list[str]:
    """Return the names in a program that refer to seeds or to insecure generators."""
    found = [name for node in ast.walk(ast.parse(program)) for name in words(node)]
    return [name for name in found if name in BANNED or "seed" in name.lower()]


def test_nothing_is_seeded() -> None:
    """No file names a seed, or a generator other than the operating system's and ours."""
    found = {
        str(path.relative_to(ROOT)): suspects(path.read_text(encoding="utf-8")) for path in SOURCES
    }

    assert found
    assert {} == {path: names for path, names in found.items() if names}


@pytest.mark.parametrize(
    "program",
    [
        "import random",
        "from random import Random",
        "import numpy as np\nx = np.random.normal()",
        "from numpy.random import default_rng",
        "def draw(seed): ...",
        "draw(seed=3)",
        "self._seed = 3",
    ],
)
def test_a_seed_is_detected(program: str) -> None:
    """The check above detects every usual way to make noise predictable."""
    assert suspects(program)
