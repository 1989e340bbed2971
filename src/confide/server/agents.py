"""MCP over HTTP, behind tokens."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from mcp.server import MCPServer
from pydantic import BaseModel, TypeAdapter
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from confide.client.http import NotSignedIn
from confide.errors import Fault
from confide.mcp import RequestBody, ToolBackend, make_tools
from confide.server import requests
from confide.server import service as operations
from confide.server.auth import LONGEST, read_shape
from confide.server.routes import answer_question, want_of
from confide.server.serialization import (
    show_budget,
    show_entry,
    show_preview,
    show_tables,
)
from confide.server.service import Caller, Service, estimate

__all__ = ["AgentDoor", "ServiceBackend"]

PREVIEW: Final = TypeAdapter(requests.QueryRequest)
ASK: Final = TypeAdapter(requests.AnswerRequest)
CONTEST: Final = TypeAdapter(requests.ChooseRequest)
BATCH: Final = TypeAdapter(requests.ReleaseRequest)
WATCH: Final = TypeAdapter(requests.WatchRequest)
WATCHED: Final = TypeAdapter(requests.WatchQueryRequest)


class ServiceBackend:
    """Asks on behalf of one caller, in the server's own process, through what the routes use."""

    def __init__(self, service: Service, caller: Caller) -> None:
        self._service, self._caller = service, caller

    def tables(self) -> dict[str, Any]:
        """Return what may be asked about."""
        return show_tables(self._service.curator).model_dump()

    def budget(self) -> dict[str, Any]:
        """Return total, spent and left."""
        return show_budget(self._service.budget(self._caller)).model_dump()

    def history(self, limit: int) -> list[dict[str, Any]]:
        """Return what was asked, newest first."""
        found = self._service.entries(self._caller.analyst, limit, None)
        return [show_entry(entry).model_dump() for entry in found]

    def preview(self, asked: RequestBody) -> dict[str, Any]:
        """Return what an answer would cost."""
        said = read_shape(PREVIEW, asked)
        service, caller = self._service, self._caller
        return self._run(lambda: show_preview(service.preview(caller, said.sql, want_of(said))))

    def ask(self, asked: RequestBody) -> dict[str, Any]:
        """Return an answer, paid for."""
        said = read_shape(ASK, asked)
        return self._run(lambda: answer_question(self._service, self._caller, said))

    def choose(self, asked: RequestBody) -> dict[str, Any]:
        """Return one of several candidates."""
        said = read_shape(CONTEST, asked)
        return self._run(lambda: operations.choose(self._service, self._caller, said))

    def release(self, asked: RequestBody) -> dict[str, Any]:
        """Return the answers to several questions."""
        said = read_shape(BATCH, asked)
        return self._run(lambda: operations.release(self._service, self._caller, said))

    def watch(self, asked: RequestBody) -> dict[str, Any]:
        """Return a session over a threshold."""
        said = read_shape(WATCH, asked)
        return self._run(lambda: operations.open_watch(self._service, self._caller, said))

    def watch_ask(self, watch: int, asked: RequestBody) -> dict[str, Any]:
        """Return whether an answer is above the threshold of a session."""
        said = read_shape(WATCHED, asked)
        return self._run(lambda: operations.ask_watch(self._service, self._caller, watch, said))

    def estimate(self, asked: RequestBody) -> dict[str, Any]:
        """Return an estimate."""
        said = read_shape(requests.statistic_adapter(), asked)
        return self._run(lambda: estimate(self._service, self._caller, said))

    def holdout_ask(self, name: str, predictions: list[float]) -> dict[str, Any]:
        """Return the score of predictions."""
        with self._service.rate_limiter.asking(self._caller.account):
            return self._service.boards.submit(name, predictions)

    def _run(self, work: Callable[[], BaseModel]) -> dict[str, Any]:
        """Return what some work gives, as one of the caller's questions at once."""
        with self._service.rate_limiter.asking(self._caller.account):
            return work().model_dump()


class AgentDoor:
    """Lets calls with a live token through to the tools, each on its caller's behalf.

    Calls share nothing: no session is kept, so none can be taken over, and any worker can answer.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._tools: MCPServer[Any] | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Keep the door open for as long as the application runs."""
        tools = make_tools(self._asker)
        tools.streamable_http_app(
            json_response=True,
            stateless_http=True,
            host="0.0.0.0",  # noqa: S104  # binds nothing: whatever host is named, tokens guard
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
        caller = await self._service.run(lambda: self._service.sign_in(text.strip()))
        scope["state"]["caller"] = caller.name
        scope["state"]["agent"] = caller
        if self._tools is None:
            raise Fault("the door for agents is used before the application runs")
        await self._tools.session_manager.handle_request(scope, receive, send)

    def _asker(self, context: Any) -> ToolBackend:
        request = context.request_context.request
        if not isinstance(request, Request):
            raise NotSignedIn("this call came without a request; send it over HTTP")
        return ServiceBackend(self._service, request.scope["state"]["agent"])
