"""The layer list is the architecture, whole and drawn; names in it mean one thing."""

import ast
from collections import Counter

from support.tree import ROOT, SOURCES, layers, run_python


def test_every_module_has_a_layer() -> None:
    """Nothing stands in src/confide without a line in the list."""
    home = ROOT / "src" / "confide"
    found = {path.stem for path in home.iterdir() if path.suffix == ".py" or path.is_dir()}

    assert set() == found - set().union(*layers()) - {"__init__", "__pycache__"}


def test_the_tree_shows_every_module_with_its_purpose() -> None:
    """`make tree` prints the layers, lowest first, and each module of a package in one line."""
    lines = run_python("tools/tree.py").splitlines()
    shown = [line.split() for line in lines if line.startswith("    ")]
    home = ROOT / "src" / "confide"
    inside = [path for path in SOURCES if path.name != "__init__.py" and path.parent != home]

    assert [sorted(names) for names in layers()] == [
        [line.partition(":")[0]] for line in lines[1:] if line and not line.startswith(" ")
    ]
    assert {".".join(path.relative_to(home).with_suffix("").parts) for path in inside} == {
        words[0] for words in shown
    }
    assert [] == [words for words in shown if len(words) < 2]


def test_a_class_name_means_one_thing() -> None:
    """No two classes of confide have one name, be they private."""
    found = Counter(
        node.name
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    )

    assert len(found) > 200
    assert [] == [name for name, times in found.items() if times > 1]
