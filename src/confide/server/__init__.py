"""The HTTP server and web UI: queries for analysts without access to the data."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from confide.server.app import make_app, open_app
from confide.server.middleware import TimeoutProtocol
from confide.server.service import Service
from confide.server.tokens import Role, Token, TokenStore, open_tables

if TYPE_CHECKING:
    from confide.server.agents import ServiceBackend

__all__ = [
    "Role",
    "Service",
    "ServiceBackend",
    "TimeoutProtocol",
    "Token",
    "TokenStore",
    "make_app",
    "open_app",
    "open_tables",
]

_HOMES: Final = {"ServiceBackend": "confide.server.agents"}


def __getattr__(name: str) -> Any:
    """Import the backend of agents when first used: it needs the package `mcp`."""
    if name not in _HOMES:
        raise AttributeError(f"module 'confide.server' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
