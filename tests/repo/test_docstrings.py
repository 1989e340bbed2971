"""Labels in docstrings are complete, and their references exist."""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from confide import mechanisms
from support.tree import LABELS, ROOT, SOURCES, docstrings, labelled, reference_keys

KEY = re.compile(r"\[([A-Z]\w*\d\d[a-z]?)\]")
PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)+\.(?:py|md)\b")
PROMISED = {"Exponential", "Gaussian", "Laplace", "PermuteAndFlip", "SparseVector"}
USES = ("release", "choose", "ask")
MECHANISMS = [
    kind
    for name in mechanisms.__all__
    if inspect.isclass(kind := getattr(mechanisms, name))
    and any(hasattr(kind, use) for use in USES)
]


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT))


def silent_tests(path: Path) -> list[str]:
    """Return the tests of a file that have no docstring."""
    found = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    tests = [node for node in found if isinstance(node, ast.FunctionDef)]
    return [node.name for node in tests if node.name[:5] == "test_" and not ast.get_docstring(node)]


def test_every_test_has_a_docstring() -> None:
    """Each test has a docstring."""
    paths = sorted((ROOT / "tests").rglob("test_*.py"))

    assert paths
    assert {} == {shown(path): silent for path in paths if (silent := silent_tests(path))}


def test_every_reference_has_one_key() -> None:
    """docs/references.md defines each key once."""
    keys = reference_keys()

    assert keys
    assert sorted(set(keys)) == sorted(keys)


def every_docstring() -> Iterator[tuple[str, str]]:
    """Yield the location and the text of each docstring in src."""
    for path in SOURCES:
        for name, text in docstrings(path):
            yield f"{shown(path)}: {name}", text


def test_sources_resolve() -> None:
    """Each key in a docstring is in docs/references.md; each Source names a key or a proof."""
    known = set(reference_keys())
    unknown, vague = {}, {}
    for place, text in every_docstring():
        if missing := set(KEY.findall(text)) - known:
            unknown[place] = missing
        source = labelled(text).get("Source")
        if source is not None and not KEY.search(source) and not PATH.search(source):
            vague[place] = source

    assert {} == unknown
    assert {} == vague


def test_pointers_resolve() -> None:
    """Each file under Source or Checked exists; a Checked names at least one."""
    broken, empty = {}, {}
    for place, text in every_docstring():
        labels = labelled(text)
        sources = PATH.findall(labels.get("Source", ""))
        checks = PATH.findall(labels.get("Checked", ""))
        if "Checked" in labels and not checks:
            empty[place] = labels["Checked"]
        lost = [one for one in sources if not is_file(one) and not is_file(f"src/confide/{one}")]
        lost += [one for one in checks if not is_file(one)]
        if lost:
            broken[place] = lost

    assert {} == broken
    assert {} == empty


def is_file(name: str) -> bool:
    """Return whether the project has a file of this name."""
    return (ROOT / name).exists()


@pytest.mark.parametrize("kind", MECHANISMS, ids=lambda kind: kind.__name__)
def test_a_mechanism_carries_all_labels(kind: type) -> None:
    """Every public mechanism has Law, Claim, Why, Source, and Checked, in this order."""
    assert list(LABELS) == list(labelled(inspect.getdoc(kind) or ""))


@pytest.mark.parametrize("kind", MECHANISMS, ids=lambda kind: kind.__name__)
def test_a_mechanism_states_its_loss(kind: type) -> None:
    """Every class that releases, chooses, or answers states its loss."""
    assert hasattr(kind, "loss")


def test_the_promised_mechanisms_exist() -> None:
    """The two tests above cover at least the mechanisms that the interface names."""
    assert set() == PROMISED - {kind.__name__ for kind in MECHANISMS}
