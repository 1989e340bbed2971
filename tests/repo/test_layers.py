"""The layer list is the architecture, whole and drawn."""

from support.tree import ROOT, layers, run_python


def test_every_module_has_a_layer() -> None:
    """Nothing stands in src/confide without a line in the list."""
    home = ROOT / "src" / "confide"
    found = {path.stem for path in home.iterdir() if path.suffix == ".py" or path.is_dir()}

    assert set() == found - set().union(*layers()) - {"__init__", "__pycache__"}


def test_the_tree_is_drawn_from_the_ground() -> None:
    """`make tree` prints one described line for each layer, errors first."""
    lines = run_python("tools/tree.py").splitlines()[2:]

    assert len(layers()) == len(lines)
    assert lines[0].startswith("errors")
    assert [] == [line for line in lines if len(line.split("  ", 1)) < 2]
