"""HTTP and the page: how analysts ask who never hold the data."""

from confide.server.app import make_app, open_app
from confide.server.tokens import Role, Token, TokenStore

__all__ = ["Role", "Token", "TokenStore", "make_app", "open_app"]
