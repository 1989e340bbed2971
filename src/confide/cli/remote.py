"""Commands on a server somewhere else: the address is typed, the token is in the environment."""

import os
from typing import TYPE_CHECKING, Final

from confide.client.http import NotSignedIn

if TYPE_CHECKING:
    from confide.client import Connection

__all__ = ["TOKEN", "open_connection", "read_token"]

TOKEN: Final = "CONFIDE_TOKEN"  # noqa: S105  # where the token is, not the token


def read_token() -> str:
    """Return the token of whoever runs the command; it is not typed, so no history keeps it."""
    token = os.environ.get(TOKEN, "").strip()
    if not token:
        raise NotSignedIn(
            f"set {TOKEN} to your token; the owner makes one with `confide token NAME`"
        )
    return token


def open_connection(url: str) -> "Connection":
    """Return a connection to the server at an address."""
    from confide.client import connect

    return connect(url, read_token())
