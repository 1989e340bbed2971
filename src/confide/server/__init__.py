"""The HTTP server and web UI: queries for analysts without access to the data."""

from typing import TYPE_CHECKING, Final

from confide.lazy import import_late
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
__getattr__ = import_late(__name__, _HOMES)
