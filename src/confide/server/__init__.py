"""HTTP and the page: how analysts ask who never hold the data."""

from confide.server.app import make_app, open_app
from confide.server.middleware import TimeoutProtocol
from confide.server.tokens import Role, Token, TokenStore, open_tables

__all__ = [
    "Role",
    "TimeoutProtocol",
    "Token",
    "TokenStore",
    "make_app",
    "open_app",
    "open_tables",
]
