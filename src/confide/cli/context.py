"""Checks and warnings that commands share, and connections to a server."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console

from confide.cli.output import print_message
from confide.client.http import NotSignedIn
from confide.errors import BadDeclaration
from confide.lazy import lazy_module
from confide.ledger import MemoryLedger

if TYPE_CHECKING:
    from confide import client
    from confide.client import Connection
else:
    client = lazy_module("confide.client")

__all__ = [
    "TOKEN",
    "check_writable",
    "open_connection",
    "read_token",
    "warn_without_ledger",
]

NO_LEDGER_WARNING: Final = (
    "No ledger is declared, so this spending is forgotten when the command ends, and the next "
    'command starts with the full budget. Add [ledger] with url = "sqlite:///ledger.db".'
)


def warn_without_ledger(console: Console, ledger: object) -> None:
    """Print a warning if the ledger is in memory and ends with the command."""
    if isinstance(ledger, MemoryLedger):
        print_message(console, NO_LEDGER_WARNING, style="yellow")


def check_writable(path: Path) -> None:
    """Raise BadDeclaration for an output file that cannot be written, before any work is done."""
    target = path if path.exists() else path.parent
    if path.is_dir() or not path.parent.is_dir() or not os.access(target, os.W_OK):
        raise BadDeclaration(f"`{path}` cannot be written. Choose another file name.")


TOKEN: Final = "CONFIDE_TOKEN"  # noqa: S105  # the variable, not the token


def read_token() -> str:
    """Return the caller's token from the environment, so that it stays out of the shell history."""
    token = os.environ.get(TOKEN, "").strip()
    if not token:
        raise NotSignedIn(
            f"Authentication is required. Set `{TOKEN}` to your token, which the owner creates "
            "with `confide token NAME`."
        )
    return token


def open_connection(url: str, *, for_tools: bool = False) -> "Connection":
    """Return a connection to the server at a URL."""
    return client.connect(url, read_token(), for_tools=for_tools)
