"""From a declaration file to a curator, in one place for every command."""

import os
from pathlib import Path
from typing import Final

from confide.curator import Curator
from confide.declare import Declaration, read_toml
from confide.errors import BadDeclaration

__all__ = ["FORGETFUL", "check_writable", "make_curator", "open_curator"]

FORGETFUL: Final = (
    "The ledger of this version lives in memory: what is spent here is forgotten when the command "
    "ends, and the next one begins with the whole budget. Do not give analysts this command yet."
)


def open_curator(config: Path) -> Curator:
    """Return the curator that a file declares."""
    return make_curator(read_toml(config))


def make_curator(declaration: Declaration) -> Curator:
    """Return the curator of a declaration."""
    return Curator(
        [*declaration.tables, *declaration.public_tables],
        budget=declaration.budget,
        neighbours=declaration.neighbours,
    )


def check_writable(path: Path) -> None:
    """Refuse a file that cannot be written, before anything is paid for what goes into it."""
    place = path if path.exists() else path.parent
    if path.is_dir() or not path.parent.is_dir() or not os.access(place, os.W_OK):
        raise BadDeclaration(f"{path} cannot be written; name another file")
