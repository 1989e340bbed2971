"""Run a notebook in a real kernel, and print the notebook with its outputs.

A program of its own: the client leaves sockets open, which is an error in a test.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat

__all__ = ["CellFailed", "run_notebook"]

PATIENCE = 600
"""Seconds after which a cell must hang, however busy the machine is."""
LONGEST = 60
"""Characters of a folder's path; that of a socket below it may have 107."""


class CellFailed(Exception):
    """A cell raised; the message is its traceback."""


def run_notebook(cells: Any, folder: Path) -> list[Any]:
    """Run the cells in a folder; return what each code cell printed and showed."""
    path = folder / "notebook.ipynb"
    nbformat.write(cells, path)
    done = subprocess.run(
        [sys.executable, __file__, str(path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )
    if done.returncode:
        raise CellFailed(done.stderr)
    shown = nbformat.reads(done.stdout, as_version=4)
    return [cell.outputs for cell in shown.cells if cell.cell_type == "code"]


def main(path: Path) -> None:
    """Run one notebook; its kernel listens on files in a folder, so no port has to be free."""
    from jupyter_client.manager import AsyncKernelManager
    from nbclient import NotebookClient

    cells = nbformat.read(path, as_version=4)
    usual = tempfile.gettempdir()
    place = usual if len(usual) <= LONGEST else "/tmp"
    with tempfile.TemporaryDirectory(prefix="kernel-", dir=place) as sockets:
        manager = AsyncKernelManager(transport="ipc", ip=f"{sockets}/k")
        NotebookClient(cells, km=manager, timeout=PATIENCE).execute(cwd=str(path.parent))
    sys.stdout.write(nbformat.writes(cells))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
