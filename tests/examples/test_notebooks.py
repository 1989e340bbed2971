"""Notebooks run: every cell, in order, and each shows what it ends with."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from support.tree import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SHOWS = ("_repr_html_", "_repr_mimebundle_")


def read_notebook(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def cells_of(path: Path) -> list[str]:
    """Return the code of a notebook, cell by cell."""
    cells = read_notebook(path)["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def run_cell(code: str, names: dict[str, Any], label: str) -> Any:
    """Run one cell as a notebook does; return the value of its last line, if it has one."""
    tree = ast.parse(code)
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr):
        exec(compile(tree, label, "exec"), names)
        return None
    exec(compile(ast.Module(tree.body[:-1], []), label, "exec"), names)
    return eval(compile(ast.Expression(last.value), label, "eval"), names)


def show(value: Any) -> None:
    """Draw a value as a notebook would."""
    for way in SHOWS:
        if hasattr(value, way):
            getattr(value, way)()
    repr(value)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_every_cell_runs(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All cells run in order, and what each ends with can be shown."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for place, code in enumerate(cells_of(path)):
        show(run_cell(code, names, f"{path.name} {place}"))

    assert capsys.readouterr().out


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_no_output_is_kept(path: Path) -> None:
    """A notebook in the project holds no outputs: noise differs at every run."""
    cells = [cell for cell in read_notebook(path)["cells"] if cell["cell_type"] == "code"]

    assert len(cells) >= 5
    assert [] == [cell["id"] for cell in cells if cell["outputs"] or cell["execution_count"]]


def test_there_are_notebooks() -> None:
    """The tests above see at least three notebooks, each with a line in their README."""
    text = (ROOT / "notebooks" / "README.md").read_text(encoding="utf-8")

    assert len(NOTEBOOKS) >= 3
    assert [] == [path.name for path in NOTEBOOKS if f"]({path.name})" not in text]


def test_a_failing_cell_is_noticed() -> None:
    """The runner above returns a cell's last value, and lets its errors through."""
    assert 3 == run_cell("x = 1\nx + 2", {}, "cell")
    with pytest.raises(ZeroDivisionError):
        run_cell("1 / 0", {}, "cell")
