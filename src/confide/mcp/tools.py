"""The tools for language models, and the backends that run them."""

import inspect
import logging
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final, Protocol, TypeVar

import anyio.to_thread
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import ValidationError

from confide.client import Connection
from confide.errors import BadDeclaration, Refusal, as_refusal, error_location
from confide.mcp import arguments as args
from confide.mcp import descriptions
from confide.mcp.arguments import omit_none, show_percents

__all__ = ["HttpBackend", "RequestBody", "ToolBackend", "Tools", "make_tools"]

RequestBody = dict[str, Any]
"""The JSON body of a request to a route of the server; results have the format of its response."""


class ToolBackend(Protocol):
    """Runs the tools' operations for one caller; all results are JSON values.

    Repeated queries, choices, batches, and estimates are free.
    """

    def tables(self) -> dict[str, Any]:
        """Return the declared tables."""
        ...

    def budget(self) -> dict[str, Any]:
        """Return the total, spent, and remaining budget."""
        ...

    def history(self, limit: int) -> list[dict[str, Any]]:
        """Return at most ``limit`` charges of the caller, newest first."""
        ...

    def preview(self, body: RequestBody) -> dict[str, Any]:
        """Return the cost and margins of error of a query; spends nothing."""
        ...

    def ask(self, body: RequestBody) -> dict[str, Any]:
        """Return the answer to a query, and charge for it."""
        ...

    def choose(self, body: RequestBody) -> dict[str, Any]:
        """Return the chosen candidate, and charge for it."""
        ...

    def release(self, body: RequestBody) -> dict[str, Any]:
        """Return the answers to a batch of queries, and charge for them once."""
        ...

    def watch(self, body: RequestBody) -> dict[str, Any]:
        """Open a threshold session, and charge for it once."""
        ...

    def watch_ask(self, watch: int, body: RequestBody) -> dict[str, Any]:
        """Return whether an answer is above the threshold of a session."""
        ...

    def estimate(self, body: RequestBody) -> dict[str, Any]:
        """Return an estimate, and charge for it."""
        ...

    def holdout_ask(self, name: str, predictions: list[float]) -> dict[str, Any]:
        """Return the score of predictions on a holdout."""
        ...


class HttpBackend:
    """Sends the tools' operations to a server over HTTP, with the agent's token."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def tables(self) -> dict[str, Any]:
        """Return the declared tables."""
        return self._connection.send("GET", "/v1/tables")

    def budget(self) -> dict[str, Any]:
        """Return the total, spent, and remaining budget."""
        return self._connection.send("GET", "/v1/budget")

    def history(self, limit: int) -> list[dict[str, Any]]:
        """Return at most ``limit`` charges of the caller, newest first."""
        return [entry for entry, _ in zip(self._connection.answers(), range(limit), strict=False)]

    def preview(self, body: RequestBody) -> dict[str, Any]:
        """Return the cost and margins of error of a query."""
        return self._connection.send("POST", "/v1/preview", body)

    def ask(self, body: RequestBody) -> dict[str, Any]:
        """Return the answer to a query, and charge for it."""
        return self._post_idempotently("/v1/query", body)

    def choose(self, body: RequestBody) -> dict[str, Any]:
        """Return the chosen candidate, and charge for it."""
        return self._post_idempotently("/v1/choose", body)

    def release(self, body: RequestBody) -> dict[str, Any]:
        """Return the answers to a batch of queries, and charge for them once."""
        return self._post_idempotently("/v1/release", body)

    def watch(self, body: RequestBody) -> dict[str, Any]:
        """Open a threshold session, and charge for it once."""
        return self._post_idempotently("/v1/watches", body)

    def watch_ask(self, watch: int, body: RequestBody) -> dict[str, Any]:
        """Return whether an answer is above the threshold of a session."""
        return self._post_idempotently(f"/v1/watches/{watch}/ask", body)

    def estimate(self, body: RequestBody) -> dict[str, Any]:
        """Return an estimate, and charge for it."""
        return self._post_idempotently("/v1/statistics", body)

    def holdout_ask(self, name: str, predictions: list[float]) -> dict[str, Any]:
        """Return the score of predictions on a holdout."""
        return self._connection.holdout_ask(name, predictions)

    def _post_idempotently(self, path: str, body: RequestBody) -> dict[str, Any]:
        """Return a route's response.

        If the body has no idempotency key, it gets a random one, so that a retry by the connection
        is not charged again.
        """
        return self._connection.send("POST", path, {"key": secrets.token_hex(16), **body})


MAX_PROBLEMS: Final = 5
ArgumentSchemas = dict[str, Any]
"""The arguments of a tool by name, each as its JSON schema."""


class Tools(MCPServer[Any]):
    """An MCP server that rejects unknown arguments.

    The MCP package silently drops unknown arguments: a model that misspells ``bounds`` would pay
    for an answer to a different query.
    """

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        """Return the result of a tool, or raise `ToolError` for unknown or malformed arguments."""
        schemas = {tool.name: tool.input_schema["properties"] for tool in await self.list_tools()}
        schema: ArgumentSchemas = schemas.get(name, {})
        if name in schemas and (unknown := [given for given in arguments if given not in schema]):
            raise _malformed(name, [_unknown(given, schema) for given in unknown[:MAX_PROBLEMS]])
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if not isinstance(error.__cause__, ValidationError):
                raise
            raise _malformed(name, _describe_problems(error.__cause__.errors(), schema)) from None


def _malformed(name: str, found: Sequence[str]) -> ToolError:
    return ToolError(f"Error executing tool {name}: malformed-request: {'; '.join(found)}.")


def _unknown(given: str, schema: ArgumentSchemas) -> str:
    close = get_close_matches(given, schema, n=1)
    listed = ", ".join(f"`{name}`" for name in schema) or "none"
    hint = f"did you mean `{close[0]}`?" if close else f"arguments: {listed}"
    return f"unknown argument {given[:80]!r} ({hint})"


def _describe_problems(problems: Sequence[Any], schema: ArgumentSchemas) -> list[str]:
    """Return messages for the first malformed arguments, with descriptions but without values."""
    found: dict[str, str] = {}
    for problem in problems:
        argument = str(problem["loc"][0])
        problem_text = "is required" if problem["type"] == "missing" else problem["msg"].lower()
        description = schema.get(argument, {}).get("description")
        found.setdefault(
            argument, f"`{argument}`: {problem_text}" + (f" ({description})" if description else "")
        )
    return list(found.values())[:MAX_PROBLEMS]


T = TypeVar("T")
ToolContext = Context[Any, Any]
ToolResult = dict[str, Any]
LOG: Final = logging.getLogger("confide.mcp")
FAULT_MESSAGE: Final = (
    "fault: The server failed; its log has the location of the error. A query may have been "
    "charged; check history before you repeat it."
)


def make_tools(backend_of: Callable[[ToolContext], ToolBackend]) -> MCPServer[Any]:
    """Return an MCP server with all tools; ``backend_of`` returns the backend of each call."""
    server, runner = _make_server(), _ToolRunner(backend_of)
    _add_free_tools(server, runner)
    _add_query_tools(server, runner)
    _add_watch_tools(server, runner)
    _add_estimate_tool(server, runner)
    return server


def _make_server() -> MCPServer[Any]:
    """Return a server without tools.

    When the MCP package creates a server, it configures the root logger, at a level that logs
    requests. This function restores the configuration.
    """
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        return Tools("confide", instructions=descriptions.INSTRUCTIONS)
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


@dataclass(frozen=True, slots=True)
class _ToolRunner:
    """Runs a tool in a thread, and turns exceptions into messages that are safe to show."""

    backend_of: Callable[[ToolContext], ToolBackend]

    async def run(self, context: ToolContext, work: Callable[[ToolBackend], T]) -> T:
        """Return the result of ``work``, which is called with the backend of the tool call."""
        return await anyio.to_thread.run_sync(self._run_in_thread, context, work)

    def _run_in_thread(self, context: ToolContext, work: Callable[[ToolBackend], T]) -> T:
        """Return the result of ``work``, with shares in percent."""
        try:
            found: T = show_percents(work(self.backend_of(context)))
        except (Refusal, BadDeclaration) as refusal:
            raise ToolError(f"{as_refusal(refusal).code}: {refusal}") from None
        except Exception as error:  # noqa: BLE001  # no exception details may reach a model
            LOG.warning("a tool failed with %s", error_location(error))
            raise ToolError(FAULT_MESSAGE) from None
        return found


def _add_free_tools(server: MCPServer[Any], runner: _ToolRunner) -> None:
    """Add the tools that spend nothing from the privacy budget."""

    @server.tool(description=descriptions.TABLES)
    async def list_tables(context: ToolContext) -> ToolResult:
        return await runner.run(context, lambda backend: backend.tables())

    @server.tool(description=descriptions.PREVIEW)
    async def preview(
        context: ToolContext,
        sql: args.Sql,
        share: args.Share = None,
        epsilon: args.Epsilon = None,
        error: args.Error = None,
    ) -> ToolResult:
        body = omit_none(sql=sql, share=share, epsilon=epsilon, error=error)
        return await runner.run(context, lambda backend: backend.preview(body))

    @server.tool(description=descriptions.BUDGET)
    async def budget(context: ToolContext) -> ToolResult:
        return await runner.run(context, lambda backend: backend.budget())

    @server.tool(description=descriptions.HISTORY)
    async def history(context: ToolContext, limit: args.Limit = 20) -> ToolResult:
        return {"answers": await runner.run(context, lambda backend: backend.history(limit))}

    @server.tool(description=descriptions.HOLDOUT)
    async def holdout_ask(
        context: ToolContext, name: args.Board, predictions: args.Predictions
    ) -> ToolResult:
        return await runner.run(context, lambda backend: backend.holdout_ask(name, predictions))


def _add_query_tools(server: MCPServer[Any], runner: _ToolRunner) -> None:
    """Add the tools for SQL queries: single queries, choices, and batches."""

    @server.tool(description=descriptions.ASK)
    async def ask(
        context: ToolContext,
        sql: args.Sql,
        *,
        share: args.Share = None,
        epsilon: args.Epsilon = None,
        error: args.Error = None,
        fresh: args.Fresh = False,
        confirm: args.Confirm = False,
    ) -> ToolResult:
        body = omit_none(sql=sql, share=share, epsilon=epsilon, error=error, fresh=fresh or None)
        body |= omit_none(confirm=confirm or None)
        return await runner.run(context, lambda backend: backend.ask(body))

    @server.tool(description=descriptions.CHOOSE)
    async def choose(
        context: ToolContext,
        candidates: args.Candidates,
        share: args.Share = None,
        epsilon: args.Epsilon = None,
        *,
        confirm: args.Confirm = False,
    ) -> ToolResult:
        body = omit_none(candidates=candidates, share=share, epsilon=epsilon)
        body |= omit_none(confirm=confirm or None)
        return await runner.run(context, lambda backend: backend.choose(body))

    @server.tool(description=descriptions.RELEASE)
    async def release(
        context: ToolContext,
        queries: args.Queries,
        weights: args.Weights = None,
        share: args.Share = None,
        epsilon: args.Epsilon = None,
        *,
        confirm: args.Confirm = False,
    ) -> ToolResult:
        body = omit_none(queries=queries, weights=weights, share=share, epsilon=epsilon)
        body |= omit_none(confirm=confirm or None)
        return await runner.run(context, lambda backend: backend.release(body))


def _add_watch_tools(server: MCPServer[Any], runner: _ToolRunner) -> None:
    """Add the tools for threshold sessions."""

    @server.tool(description=descriptions.WATCH)
    async def watch(
        context: ToolContext,
        threshold: args.Threshold,
        *,
        above: args.Above = 1,
        sensitivity: args.Sensitivity = None,
        signed: args.Signed = False,
        key: args.Key = None,
        share: args.Share = None,
        epsilon: args.Epsilon = None,
        confirm: args.Confirm = False,
    ) -> ToolResult:
        body = omit_none(threshold=threshold, above=above, sensitivity=sensitivity, signed=signed)
        body |= omit_none(key=key, share=share, epsilon=epsilon, confirm=confirm or None)
        return await runner.run(context, lambda backend: backend.watch(body))

    @server.tool(description=descriptions.WATCH_ASK)
    async def watch_ask(
        context: ToolContext, watch: args.Watch, sql: args.Sql, key: args.Key = None
    ) -> ToolResult:
        body = omit_none(sql=sql, key=key)
        return await runner.run(context, lambda backend: backend.watch_ask(watch, body))


def _add_estimate_tool(server: MCPServer[Any], runner: _ToolRunner) -> None:
    """Add the tool for the currently registered statistics."""

    async def estimate(context: ToolContext, **body: Any) -> ToolResult:
        return await runner.run(context, lambda backend: backend.estimate(omit_none(**body)))

    # The MCP package derives a tool's arguments from the signature of its function.
    plain = inspect.signature(estimate)
    first = plain.parameters["context"]
    listed = [first, *args.statistic_parameters()]
    estimate.__signature__ = plain.replace(parameters=listed)  # type: ignore[attr-defined]
    server.tool(description=descriptions.describe_estimates())(estimate)
