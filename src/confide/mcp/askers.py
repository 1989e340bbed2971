"""Whom the tools ask: a server over HTTP, or a curator in the same process."""

import secrets
from typing import Any, Protocol

from confide.client import Connection

__all__ = ["Asked", "Asker", "ConnectionAsker"]

Asked = dict[str, Any]
"""A request in the words of the server's routes; so is every answer."""


class Asker(Protocol):
    """One caller's way to a curator; everything it returns can be written as JSON."""

    def tables(self) -> dict[str, Any]:
        """Return what may be asked about."""
        ...

    def budget(self) -> dict[str, Any]:
        """Return total, spent and left."""
        ...

    def history(self, limit: int) -> list[dict[str, Any]]:
        """Return what was asked, newest first."""
        ...

    def preview(self, asked: Asked) -> dict[str, Any]:
        """Return what an answer would cost; spends nothing."""
        ...

    def ask(self, asked: Asked) -> dict[str, Any]:
        """Return an answer, paid for."""
        ...

    def choose(self, asked: Asked) -> dict[str, Any]:
        """Return one of several candidates, paid for."""
        ...

    def release(self, asked: Asked) -> dict[str, Any]:
        """Return the answers to several questions, paid for together."""
        ...

    def watch(self, asked: Asked) -> dict[str, Any]:
        """Return a session over a threshold, paid for as a whole."""
        ...

    def watch_ask(self, watch: int, asked: Asked) -> dict[str, Any]:
        """Return whether an answer is above the threshold of a session."""
        ...

    def estimate(self, asked: Asked) -> dict[str, Any]:
        """Return an estimate, paid for."""
        ...

    def holdout_ask(self, name: str, predictions: list[float]) -> dict[str, Any]:
        """Return the score of predictions."""
        ...


class ConnectionAsker:
    """Asks a server over HTTP, with the token that the agent was given."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def tables(self) -> dict[str, Any]:
        """Return what may be asked about."""
        return self._connection.send("GET", "/v1/tables")

    def budget(self) -> dict[str, Any]:
        """Return total, spent and left."""
        return self._connection.send("GET", "/v1/budget")

    def history(self, limit: int) -> list[dict[str, Any]]:
        """Return what was asked, newest first."""
        return [entry for entry, _ in zip(self._connection.answers(), range(limit), strict=False)]

    def preview(self, asked: Asked) -> dict[str, Any]:
        """Return what an answer would cost."""
        return self._connection.send("POST", "/v1/preview", asked)

    def ask(self, asked: Asked) -> dict[str, Any]:
        """Return an answer, paid for."""
        return self._pay("/v1/query", asked)

    def choose(self, asked: Asked) -> dict[str, Any]:
        """Return one of several candidates."""
        return self._pay("/v1/choose", asked)

    def release(self, asked: Asked) -> dict[str, Any]:
        """Return the answers to several questions."""
        return self._pay("/v1/release", asked)

    def watch(self, asked: Asked) -> dict[str, Any]:
        """Return a session over a threshold."""
        return self._pay("/v1/watches", asked)

    def watch_ask(self, watch: int, asked: Asked) -> dict[str, Any]:
        """Return whether an answer is above the threshold of a session."""
        return self._pay(f"/v1/watches/{watch}/ask", asked)

    def estimate(self, asked: Asked) -> dict[str, Any]:
        """Return an estimate."""
        return self._pay("/v1/statistics", asked)

    def holdout_ask(self, name: str, predictions: list[float]) -> dict[str, Any]:
        """Return the score of predictions."""
        return self._connection.holdout_ask(name, predictions)

    def _pay(self, path: str, asked: Asked) -> dict[str, Any]:
        """Return what a route answers; a key keeps a second try from paying again."""
        return self._connection.send("POST", path, {"key": secrets.token_hex(16), **asked})
