"""The door for agents: the tools of `confide.mcp`, mounted behind tokens."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp.server import MCPServer
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from confide.client.refusals import NotSignedIn
from confide.errors import Fault
from confide.mcp import Asker, make_tools
from confide.server.office import Caller, Office
from confide.server.shapes import (
    show_answer,
    show_budget,
    show_entry,
    show_preview,
    show_tables,
)

__all__ = ["AgentDoor", "OfficeAsker"]

LONGEST: int = 200


class OfficeAsker:
    """Asks on behalf of one caller, in the server's own process."""

    def __init__(self, office: Office, caller: Caller) -> None:
        self._office, self._caller = office, caller

    def tables(self) -> dict[str, Any]:
        """Return what may be asked about."""
        return show_tables(self._office.curator).model_dump()

    def preview(self, sql: str, want: dict[str, Any]) -> dict[str, Any]:
        """Return what an answer would cost."""
        with self._office.turnstile.asking(self._caller.account):
            return show_preview(self._office.preview(self._caller, sql, want)).model_dump()

    def ask(self, sql: str, want: dict[str, Any]) -> dict[str, Any]:
        """Return an answer, paid for."""
        with self._office.turnstile.asking(self._caller.account):
            answer = self._office.ask(self._caller, sql, want, key=None, fresh=False)
        return show_answer(answer, 0.95).model_dump()

    def budget(self) -> dict[str, Any]:
        """Return total, spent and left."""
        return show_budget(self._office.budget(self._caller)).model_dump()

    def history(self, limit: int) -> list[dict[str, Any]]:
        """Return what was asked, newest first."""
        found = self._office.entries(self._caller.name, limit, None)
        return [show_entry(entry).model_dump() for entry in found]

    def holdout_ask(self, name: str, predictions: list[float]) -> dict[str, Any]:
        """Return the score of predictions."""
        with self._office.turnstile.asking(self._caller.account):
            return self._office.boards.submit(name, predictions)


class AgentDoor:
    """Lets calls with a live token through to the tools, each on its caller's behalf.

    Calls share nothing: no session is kept, so none can be taken over, and any worker can answer.
    """

    def __init__(self, office: Office) -> None:
        self._office = office
        self._tools: MCPServer[Any] | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Keep the door open for as long as the application runs."""
        tools = make_tools(self._asker)
        tools.streamable_http_app(
            json_response=True,
            stateless_http=True,
            host="0.0.0.0",  # noqa: S104  # a name, not a bind
        )
        async with tools.session_manager.run():
            self._tools = tools
            yield
        self._tools = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one call."""
        headers = [value for name, value in scope["headers"] if name == b"authorization"]
        given = headers[0].decode("latin-1") if len(headers) == 1 else ""
        kind, _, text = given.partition(" ")
        if kind.lower() != "bearer" or not 0 < len(text) <= LONGEST:
            raise NotSignedIn("say who you are: send one header `Authorization: Bearer TOKEN`")
        caller = await self._office.run(lambda: self._office.sign_in(text.strip()))
        scope["state"]["caller"] = caller.name
        scope["state"]["agent"] = caller
        if self._tools is None:
            raise Fault("the door for agents is used before the application runs")
        await self._tools.session_manager.handle_request(scope, receive, send)

    def _asker(self, context: Any) -> Asker:
        request = context.request_context.request
        if not isinstance(request, Request):
            raise NotSignedIn("this call came without a request; send it over HTTP")
        return OfficeAsker(self._office, request.scope["state"]["agent"])
