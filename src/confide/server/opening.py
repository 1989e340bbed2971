"""From a declaration file to an application, in one place for every worker."""

import logging
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

from fastapi import FastAPI

from confide.curator import Curator, open_declared
from confide.declare import Declaration, read_toml
from confide.errors import BadDeclaration
from confide.server.application import make_app
from confide.server.tables import open_tables
from confide.server.tokens import TokenStore

__all__ = [
    "CONFIG",
    "WORKERS",
    "check_declared",
    "open_app",
    "open_curator",
    "open_tokens",
]

CONFIG: Final = "CONFIDE_CONFIG"
WORKERS: Final = "CONFIDE_WORKERS"


def open_app() -> FastAPI:
    """Return the application of the declaration file that the environment names."""
    declaration = read_toml(Path(os.environ.get(CONFIG, "confide.toml")))
    _log_lines()
    curator, tokens = open_curator(declaration), open_tokens(declaration)
    service = replace(declaration.service, workers=int(os.environ.get(WORKERS, "1")))
    return make_app(curator, tokens, service, declaration.boards)


def check_declared(declaration: Declaration) -> None:
    """Refuse a declaration that cannot be served, before any worker starts."""
    open_tokens(declaration)
    open_curator(declaration)


def open_curator(declaration: Declaration) -> Curator:
    """Return the curator of a declaration, whose ledger must outlive the process."""
    _address(declaration)
    return open_declared(declaration)


def open_tokens(declaration: Declaration) -> TokenStore:
    """Return the tokens that lie beside a declaration's ledger."""
    return TokenStore(open_tables(_address(declaration)))


def _address(declaration: Declaration) -> str:
    if declaration.ledger is None:
        raise BadDeclaration(
            "a server needs a ledger that outlives it: add a section [ledger] with "
            'url = "sqlite:///ledger.db" to the declaration'
        )
    return declaration.ledger


def _log_lines() -> None:
    """Write the server's log to the standard output, one JSON value a line."""
    log = logging.getLogger("confide.server")
    if not log.handlers:
        writer = logging.StreamHandler(sys.stdout)
        writer.setFormatter(logging.Formatter("%(message)s"))
        log.addHandler(writer)
    log.setLevel(logging.INFO)
    log.propagate = False
