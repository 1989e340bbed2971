"""Notebooks run: every cell, in order, with the output that each ends with."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import nbformat
import pytest

from support.kernel import CellFailed, run_notebook
from support.tree import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def read_notebook(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def test_the_kernel_lacks_ipywidgets() -> None:
    """`pip install jupyterlab` does not install ipywidgets, and neither does this environment."""
    assert importlib.util.find_spec("ipywidgets") is None


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_every_cell_runs(path: Path, tmp_path: Path) -> None:
    """In a real kernel, all cells run in order without an error or a warning."""
    outputs = run_notebook(nbformat.read(path, as_version=4), tmp_path)
    texts = [one["text"] for shown in outputs for one in shown if one.get("name") == "stderr"]

    assert [] == texts
    assert any(outputs)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_no_output_is_kept(path: Path) -> None:
    """Notebooks in the project hold no outputs, since noise differs in every run."""
    cells = [cell for cell in read_notebook(path)["cells"] if cell["cell_type"] == "code"]

    assert len(cells) >= 5
    assert [] == [cell["id"] for cell in cells if cell["outputs"] or cell["execution_count"]]


def test_there_are_notebooks() -> None:
    """The tests above find at least three notebooks, each with a line in their README."""
    text = (ROOT / "notebooks" / "README.md").read_text(encoding="utf-8")

    assert len(NOTEBOOKS) >= 3
    assert [] == [path.name for path in NOTEBOOKS if f"]({path.name})" not in text]


@pytest.mark.parametrize("code", ["1 / 0", "import warnings; warnings.warn('late')"])
def test_a_failing_cell_is_detected(code: str, tmp_path: Path) -> None:
    """The runner above raises on an error and returns warnings."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    if "warn" in code:
        [[shown]] = run_notebook(notebook, tmp_path)
        assert "stderr" == shown["name"]
    else:
        with pytest.raises(CellFailed, match="ZeroDivisionError"):
            run_notebook(notebook, tmp_path)
