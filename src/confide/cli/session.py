"""From a declaration file to a curator, in one place for every command."""

import os
from pathlib import Path
from typing import Final

from rich.console import Console

from confide.cli.screen import say
from confide.curator import Curator, open_declared
from confide.declare import Catalog, Declaration, read_toml
from confide.errors import BadDeclaration
from confide.execution.executor import find_ledger
from confide.ledger import Ledger, MemoryLedger

__all__ = [
    "check_writable",
    "open_curator",
    "open_declared_ledger",
    "warn_forgetful",
]

FORGETFUL: Final = (
    "No ledger is declared, so what is spent here is forgotten when the command ends, and the next "
    'one begins with the whole budget: add [ledger] with url = "sqlite:///ledger.db".'
)


def open_curator(config: Path) -> Curator:
    """Return the curator that a file declares."""
    return open_declared(read_toml(config))


def open_declared_ledger(declaration: Declaration) -> Ledger:
    """Return the ledger that a file declares, without a look at the data."""
    return find_ledger(
        declaration.ledger,
        declaration.budget,
        Catalog([*declaration.tables, *declaration.public_tables]),
        declaration.limits,
        declaration.anchor,
        neighbours=declaration.neighbours,
    )


def warn_forgetful(console: Console, ledger: object) -> None:
    """Say that a ledger in memory is forgotten with the command."""
    if isinstance(ledger, MemoryLedger):
        say(console, FORGETFUL, style="yellow")


def check_writable(path: Path) -> None:
    """Refuse a file that cannot be written, before anything is done or paid for what goes in."""
    place = path if path.exists() else path.parent
    if path.is_dir() or not path.parent.is_dir() or not os.access(place, os.W_OK):
        raise BadDeclaration(f"{path} cannot be written; name another file")
