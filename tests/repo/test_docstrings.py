"""Mathematics beside code: labels are there, and what they point at exists."""

import ast
import inspect
import re
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


@pytest.mark.parametrize("path", sorted((ROOT / "tests").rglob("test_*.py")), ids=shown)
def test_every_test_says_what_it_shows(path: Path) -> None:
    """Each test has the sentence that turns false when it fails."""
    assert [] == silent_tests(path)


def test_every_reference_has_one_key() -> None:
    """docs/references.md defines keys, none of them twice."""
    keys = reference_keys()

    assert keys
    assert sorted(set(keys)) == sorted(keys)


@pytest.mark.parametrize("path", SOURCES, ids=shown)
def test_sources_resolve(path: Path) -> None:
    """Each key in a docstring is in docs/references.md; each Source names a key or a proof."""
    known = set(reference_keys())
    for name, text in docstrings(path):
        assert set() == set(KEY.findall(text)) - known, name
        source = labelled(text).get("Source")
        if source is not None:
            assert KEY.search(source) or PATH.search(source), f"{name}: {source}"


@pytest.mark.parametrize("path", SOURCES, ids=shown)
def test_pointers_resolve(path: Path) -> None:
    """Each file under Source or Checked exists; a Checked names at least one."""
    for name, text in docstrings(path):
        labels = labelled(text)
        source, checked = labels.get("Source", ""), labels.get("Checked")
        for pointer in PATH.findall(source):
            assert (ROOT / pointer).exists() or (ROOT / "src/confide" / pointer).exists(), name
        if checked is not None:
            pointers = PATH.findall(checked)
            assert pointers, f"{name}: {checked}"
            assert [] == [pointer for pointer in pointers if not (ROOT / pointer).exists()], name


@pytest.mark.parametrize("kind", MECHANISMS, ids=lambda kind: kind.__name__)
def test_a_mechanism_carries_all_labels(kind: type) -> None:
    """Every public mechanism states law, claim, why, source and check, in this order."""
    assert list(LABELS) == list(labelled(inspect.getdoc(kind) or ""))


@pytest.mark.parametrize("kind", MECHANISMS, ids=lambda kind: kind.__name__)
def test_a_mechanism_states_its_loss(kind: type) -> None:
    """Whatever releases, chooses or answers says what that costs."""
    assert hasattr(kind, "loss")


def test_the_promised_mechanisms_are_there() -> None:
    """The two tests above see at least the mechanisms that the interface names."""
    assert set() == PROMISED - {kind.__name__ for kind in MECHANISMS}
