"""Run a notebook in a real kernel, and print the notebook with its outputs.

It is a separate program, since the client leaves sockets open, which is an error in a test.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat

__all__ = ["CellFailed", "run_notebook"]

TIMEOUT = 600
"""A timeout in seconds that only a hanging cell reaches, however busy the machine is."""
MAX_PATH_LENGTH = 60
"""Maximum length of a folder's path; a socket's path below it may have 107 characters."""


class CellFailed(Exception):
    """A cell raised an exception; the message is its traceback."""


def run_notebook(cells: Any, folder: Path) -> list[Any]:
    """Run the cells in a folder; return the outputs of each code cell."""
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
    """Run one notebook, with a kernel that listens on files, so that no port has to be free."""
    from jupyter_client.manager import AsyncKernelManager
    from nbclient import NotebookClient

    cells = nbformat.read(path, as_version=4)
    usual = tempfile.gettempdir()
    place = usual if len(usual) <= MAX_PATH_LENGTH else "/tmp"
    with tempfile.TemporaryDirectory(prefix="kernel-", dir=place) as sockets:
        manager = AsyncKernelManager(transport="ipc", ip=f"{sockets}/k")
        NotebookClient(cells, km=manager, timeout=TIMEOUT).execute(cwd=str(path.parent))
    sys.stdout.write(nbformat.writes(cells))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
