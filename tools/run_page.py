"""Run what a page shows: its Python examples, its commands, or the cells of a notebook.

It needs only Python and the packages that the page needs, so a page can be tested with exactly the
install that it names: ``python tools/run_page.py docs/tutorials/analyst.md``. Examples must print
the output on the page; commands must exit with the code on the page.
"""

import ast
import doctest
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

BLOCK = re.compile(r'^```(\w+)(?: title="([\w./-]+)")?\n(.*?)^```$', re.DOTALL | re.MULTILINE)
TYPED = re.compile(r"^\$ (.*?)(?:\s+# exit code (\d))?$", re.MULTILINE)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def main() -> None:
    """Run the named pages; exit with 1 at the first page whose output differs."""
    # An environment that is not activated keeps its commands in the same folder as its Python.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    for name in sys.argv[1:]:
        page = Path(name).resolve()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            run = run_notebook if page.suffix == ".ipynb" else run_document
            run(page, Path(folder))
            os.chdir(page.parent)


def run_document(page: Path, folder: Path) -> None:
    """Run the blocks of a document in order, sharing one namespace."""
    names: dict[str, Any] = {"__name__": "__page__"}
    for language, title, block in BLOCK.findall(page.read_text(encoding="utf-8")):
        if title:
            (folder / title).write_text(block, encoding="utf-8")
        elif language == "python":
            run_examples(block, names, page.name)
        elif language == "console":
            run_commands(block)


def run_examples(block: str, names: dict[str, Any], label: str) -> None:
    """Run one Python block; exit if its output differs from the page."""
    if ">>>" not in block:
        exec(compile(block, label, "exec"), names)
        return
    examples = doctest.DocTestParser().get_doctest(block, names, label, label, 0)
    if doctest.DocTestRunner(optionflags=FLAGS).run(examples, clear_globs=False).failed:
        raise SystemExit(1)
    names.update(examples.globs)


def run_commands(block: str) -> None:
    """Run the lines that follow a dollar sign; exit if an exit code differs from the page."""
    for command, code in TYPED.findall(block):
        done = subprocess.run(command, shell=True, check=False)
        if done.returncode != int(code or 0):
            raise SystemExit(f"{command} exits with {done.returncode}")


def run_notebook(page: Path, _folder: Path) -> None:
    """Run the cells of a notebook in order, and render each result."""
    names: dict[str, Any] = {"__name__": "__main__"}
    sys.displayhook = show
    for cell in json.loads(page.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            lines = ast.parse("".join(cell["source"])).body
            exec(compile(ast.Interactive(lines), page.name, "single"), names)


def show(value: object) -> None:
    """Render a value as a notebook would."""
    for way in ("_repr_html_", "_repr_mimebundle_", "__repr__"):
        if hasattr(value, way):
            getattr(value, way)()


if __name__ == "__main__":
    main()
