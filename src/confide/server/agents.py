"""The MCP endpoint of the server, authenticated by token, and the backend of its tools."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
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
from confide.server.auth import MAX_TOKEN_LENGTH, validate_request
from confide.server.routes import answer_query, price_args_of
from confide.server.serialization import (
    show_budget,
    show_entry,
    show_preview,
    show_tables,
)
from confide.server.service import Caller, Service, estimate

__all__ = ["McpEndpoint", "ServiceBackend"]

PREVIEW_ADAPTER: Final = TypeAdapter(requests.QueryRequest)
QUERY_ADAPTER: Final = TypeAdapter(requests.AnswerRequest)
CHOOSE_ADAPTER: Final = TypeAdapter(requests.ChooseRequest)
RELEASE_ADAPTER: Final = TypeAdapter(requests.ReleaseRequest)
WATCH_ADAPTER: Final = TypeAdapter(requests.WatchRequest)
WATCH_QUERY_ADAPTER: Final = TypeAdapter(requests.WatchQueryRequest)


class ServiceBackend:
    """The tools' operations for one caller, run in this process by the code of the routes."""

    def __init__(self, service: Service, caller: Caller) -> None:
        self._service, self._caller = service, replace(caller, uses_tools=True)

    def tables(self) -> dict[str, Any]:
        """Return the declared tables."""
        return show_tables(self._service.curator).model_dump()

    def budget(self) -> dict[str, Any]:
        """Return the total, spent, and remaining budget."""
        return show_budget(self._service.budget(self._caller)).model_dump()

    def history(self, limit: int) -> list[dict[str, Any]]:
        """Return up to ``limit`` of the caller's newest charges, newest first."""
        found = self._service.entries(self._caller.analyst, limit, None)
        return [show_entry(entry).model_dump() for entry in found]

    def preview(self, body: RequestBody) -> dict[str, Any]:
        """Return the cost and expected error of a query."""
        request = validate_request(PREVIEW_ADAPTER, body)
        service, caller = self._service, self._caller
        return self._run(
            lambda: show_preview(service.preview(caller, request.sql, price_args_of(request)))
        )

    def ask(self, body: RequestBody) -> dict[str, Any]:
        """Return the answer to a query, and charge for it unless a stored one is reused."""
        request = validate_request(QUERY_ADAPTER, body)
        return self._run(lambda: answer_query(self._service, self._caller, request))

    def choose(self, body: RequestBody) -> dict[str, Any]:
        """Return the chosen candidate."""
        request = validate_request(CHOOSE_ADAPTER, body)
        return self._run(lambda: operations.choose(self._service, self._caller, request))

    def release(self, body: RequestBody) -> dict[str, Any]:
        """Return the answers to a batch of queries."""
        request = validate_request(RELEASE_ADAPTER, body)
        return self._run(lambda: operations.release(self._service, self._caller, request))

    def watch(self, body: RequestBody) -> dict[str, Any]:
        """Open a threshold session and return it."""
        request = validate_request(WATCH_ADAPTER, body)
        return self._run(lambda: operations.open_watch(self._service, self._caller, request))

    def watch_ask(self, watch: int, body: RequestBody) -> dict[str, Any]:
        """Return whether an answer is above the threshold of a session."""
        request = validate_request(WATCH_QUERY_ADAPTER, body)
        return self._run(lambda: operations.ask_watch(self._service, self._caller, watch, request))

    def estimate(self, body: RequestBody) -> dict[str, Any]:
        """Return an estimate of a statistic."""
        request = validate_request(requests.statistic_adapter(), body)
        return self._run(lambda: estimate(self._service, self._caller, request))

    def holdout_ask(self, name: str, predictions: list[float]) -> dict[str, Any]:
        """Return the score of predictions on a holdout."""
        with self._service.rate_limiter.query_slot(self._caller.account):
            return self._service.boards.submit(name, predictions)

    def _run(self, work: Callable[[], BaseModel]) -> dict[str, Any]:
        """Return the result of ``work``, which takes one of the caller's query slots."""
        with self._service.rate_limiter.query_slot(self._caller.account):
            return work().model_dump()


class McpEndpoint:
    """An ASGI endpoint that authenticates each call and runs its tool for the caller.

    Calls share no state: there are no sessions to hijack, and any worker can answer.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._tools: MCPServer[Any] | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Serve tool calls while the context is open."""
        tools = make_tools(self._backend)
        tools.streamable_http_app(
            json_response=True,
            stateless_http=True,
            host="0.0.0.0",  # noqa: S104  # binds no socket; tokens protect every host
        )
        async with tools.session_manager.run():
            self._tools = tools
            yield
        self._tools = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one tool call."""
        headers = [value for name, value in scope["headers"] if name == b"authorization"]
        header = headers[0].decode("latin-1") if len(headers) == 1 else ""
        scheme, _, token = header.partition(" ")
        if scheme.lower() != "bearer" or not 0 < len(token) <= MAX_TOKEN_LENGTH:
            raise NotSignedIn(
                "Authentication is required. Send exactly one `Authorization: Bearer <token>` "
                "header."
            )
        caller = await self._service.run(lambda: self._service.sign_in(token.strip()))
        scope["state"]["caller"] = caller.name
        scope["state"]["agent"] = caller
        if self._tools is None:
            raise Fault("The MCP endpoint was called before the application started. Retry later.")
        await self._tools.session_manager.handle_request(scope, receive, send)

    def _backend(self, context: Any) -> ToolBackend:
        request = context.request_context.request
        if not isinstance(request, Request):
            raise NotSignedIn("The call has no HTTP request. Send it over HTTP.")
        return ServiceBackend(self._service, request.scope["state"]["agent"])
