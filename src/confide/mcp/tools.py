"""The tools that a language model sees, and the backends that run them."""

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
from confide.mcp import arguments as given
from confide.mcp import descriptions
from confide.mcp.arguments import say, show_percents

__all__ = ["HttpBackend", "RequestBody", "ToolBackend", "Tools", "make_tools"]

RequestBody = dict[str, Any]
"""A request in the words of the server's routes; so is every answer."""


class ToolBackend(Protocol):
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

    def preview(self, asked: RequestBody) -> dict[str, Any]:
        """Return what an answer would cost; spends nothing."""
        ...

    def ask(self, asked: RequestBody) -> dict[str, Any]:
        """Return an answer, paid for."""
        ...

    def choose(self, asked: RequestBody) -> dict[str, Any]:
        """Return one of several candidates, paid for."""
        ...

    def release(self, asked: RequestBody) -> dict[str, Any]:
        """Return the answers to several questions, paid for together."""
        ...

    def watch(self, asked: RequestBody) -> dict[str, Any]:
        """Return a session over a threshold, paid for as a whole."""
        ...

    def watch_ask(self, watch: int, asked: RequestBody) -> dict[str, Any]:
        """Return whether an answer is above the threshold of a session."""
        ...

    def estimate(self, asked: RequestBody) -> dict[str, Any]:
        """Return an estimate, paid for."""
        ...

    def holdout_ask(self, name: str, predictions: list[float]) -> dict[str, Any]:
        """Return the score of predictions."""
        ...


class HttpBackend:
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

    def preview(self, asked: RequestBody) -> dict[str, Any]:
        """Return what an answer would cost."""
        return self._connection.send("POST", "/v1/preview", asked)

    def ask(self, asked: RequestBody) -> dict[str, Any]:
        """Return an answer, paid for."""
        return self._pay("/v1/query", asked)

    def choose(self, asked: RequestBody) -> dict[str, Any]:
        """Return one of several candidates."""
        return self._pay("/v1/choose", asked)

    def release(self, asked: RequestBody) -> dict[str, Any]:
        """Return the answers to several questions."""
        return self._pay("/v1/release", asked)

    def watch(self, asked: RequestBody) -> dict[str, Any]:
        """Return a session over a threshold."""
        return self._pay("/v1/watches", asked)

    def watch_ask(self, watch: int, asked: RequestBody) -> dict[str, Any]:
        """Return whether an answer is above the threshold of a session."""
        return self._pay(f"/v1/watches/{watch}/ask", asked)

    def estimate(self, asked: RequestBody) -> dict[str, Any]:
        """Return an estimate."""
        return self._pay("/v1/statistics", asked)

    def holdout_ask(self, name: str, predictions: list[float]) -> dict[str, Any]:
        """Return the score of predictions."""
        return self._connection.holdout_ask(name, predictions)

    def _pay(self, path: str, asked: RequestBody) -> dict[str, Any]:
        """Return what a route answers; a key keeps a second try from paying again."""
        return self._connection.send("POST", path, {"key": secrets.token_hex(16), **asked})


MOST: Final = 5
Shape = dict[str, Any]
"""The arguments of a tool by name, each as its JSON schema."""


class Tools(MCPServer[Any]):
    """A server of tools that takes no argument it does not know.

    The package leaves such arguments out without a word: a model that misspells ``bounds`` would
    pay for an answer to another question.
    """

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        """Return what a tool gives, or refuse arguments that it does not take."""
        shapes = {tool.name: tool.input_schema["properties"] for tool in await self.list_tools()}
        shape: Shape = shapes.get(name, {})
        if name in shapes and (unknown := [given for given in arguments if given not in shape]):
            raise _malformed(name, [_unknown(given, shape) for given in unknown[:MOST]])
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if not isinstance(error.__cause__, ValidationError):
                raise
            raise _malformed(name, _complain(error.__cause__.errors(), shape)) from None


def _malformed(name: str, found: Sequence[str]) -> ToolError:
    return ToolError(f"Error executing tool {name}: malformed-request: {'; '.join(found)}")


def _unknown(given: str, shape: Shape) -> str:
    close = get_close_matches(given, shape, n=1)
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(shape) or 'none'}"
    return f"there is no argument {given[:80]!r}; {hint}"


def _complain(problems: Sequence[Any], shape: Shape) -> list[str]:
    """Return what is wrong with each argument, and what it is; its value is not repeated."""
    found: dict[str, str] = {}
    for problem in problems:
        place = str(problem["loc"][0])
        said = "is needed" if problem["type"] == "missing" else problem["msg"].lower()
        meant = shape.get(place, {}).get("description")
        found.setdefault(place, f"{place}: {said}" + (f" ({meant})" if meant else ""))
    return list(found.values())[:MOST]


T = TypeVar("T")
Calling = Context[Any, Any]
Told = dict[str, Any]
LOG: Final = logging.getLogger("confide.mcp")
OURS: Final = "fault: something on our side failed; the owner's log has where"


def make_tools(asker_of: Callable[[Calling], ToolBackend]) -> MCPServer[Any]:
    """Return a server of tools; ``asker_of`` tells for each call on whose behalf it is."""
    server, guard = _make_quietly(), _Guard(asker_of)
    _add_free(server, guard)
    _add_questions(server, guard)
    _add_watches(server, guard)
    _add_estimates(server, guard)
    return server


def _make_quietly() -> MCPServer[Any]:
    """Return a server without tools, and leave the program's logging as it was.

    The package sets up logging for the whole program when a server is made, at a level at which
    requests are written down.
    """
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        return Tools("confide", instructions=descriptions.INSTRUCTIONS)
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


@dataclass(frozen=True, slots=True)
class _Guard:
    """Runs the work of a tool in a thread; errors become texts that a model may read."""

    asker_of: Callable[[Calling], ToolBackend]

    async def run(self, context: Calling, work: Callable[[ToolBackend], T]) -> T:
        return await anyio.to_thread.run_sync(self._try, context, work)

    def _try(self, context: Calling, work: Callable[[ToolBackend], T]) -> T:
        """Return what some work gives."""
        try:
            found: T = show_percents(work(self.asker_of(context)))
        except (Refusal, BadDeclaration) as refusal:
            raise ToolError(f"{as_refusal(refusal).code}: {refusal}") from None
        except Exception as error:  # noqa: BLE001  # whatever it is must not reach a model
            LOG.warning("a tool failed with %s", error_location(error))
            raise ToolError(OURS) from None
        return found


def _add_free(server: MCPServer[Any], guard: _Guard) -> None:
    """Add what costs nothing of the budget."""

    @server.tool(description=descriptions.TABLES)
    async def list_tables(context: Calling) -> Told:
        return await guard.run(context, lambda asker: asker.tables())

    @server.tool(description=descriptions.PREVIEW)
    async def preview(
        context: Calling,
        sql: given.Sql,
        share: given.Share = None,
        epsilon: given.Epsilon = None,
        error: given.Error = None,
    ) -> Told:
        asked = say(sql=sql, share=share, epsilon=epsilon, error=error)
        return await guard.run(context, lambda asker: asker.preview(asked))

    @server.tool(description=descriptions.BUDGET)
    async def budget(context: Calling) -> Told:
        return await guard.run(context, lambda asker: asker.budget())

    @server.tool(description=descriptions.HISTORY)
    async def history(context: Calling, limit: given.Limit = 20) -> Told:
        return {"answers": await guard.run(context, lambda asker: asker.history(limit))}

    @server.tool(description=descriptions.HOLDOUT)
    async def holdout_ask(
        context: Calling, name: given.Board, predictions: given.Predictions
    ) -> Told:
        return await guard.run(context, lambda asker: asker.holdout_ask(name, predictions))


def _add_questions(server: MCPServer[Any], guard: _Guard) -> None:
    """Add questions in SQL: one, several together, a choice among several."""

    @server.tool(description=descriptions.ASK)
    async def ask(
        context: Calling,
        sql: given.Sql,
        *,
        share: given.Share = None,
        epsilon: given.Epsilon = None,
        error: given.Error = None,
        fresh: given.Fresh = False,
    ) -> Told:
        asked = say(sql=sql, share=share, epsilon=epsilon, error=error, fresh=fresh or None)
        return await guard.run(context, lambda asker: asker.ask(asked))

    @server.tool(description=descriptions.CHOOSE)
    async def choose(
        context: Calling,
        candidates: given.Candidates,
        share: given.Share = None,
        epsilon: given.Epsilon = None,
    ) -> Told:
        asked = say(candidates=candidates, share=share, epsilon=epsilon)
        return await guard.run(context, lambda asker: asker.choose(asked))

    @server.tool(description=descriptions.RELEASE)
    async def release(
        context: Calling,
        queries: given.Queries,
        weights: given.Weights = None,
        share: given.Share = None,
        epsilon: given.Epsilon = None,
    ) -> Told:
        asked = say(queries=queries, weights=weights, share=share, epsilon=epsilon)
        return await guard.run(context, lambda asker: asker.release(asked))


def _add_watches(server: MCPServer[Any], guard: _Guard) -> None:
    """Add sessions over a threshold."""

    @server.tool(description=descriptions.WATCH)
    async def watch(
        context: Calling,
        threshold: given.Threshold,
        *,
        above: given.Above = 1,
        sensitivity: given.Sensitivity = None,
        signed: given.Signed = False,
        key: given.Key = None,
        share: given.Share = None,
        epsilon: given.Epsilon = None,
    ) -> Told:
        asked = say(threshold=threshold, above=above, sensitivity=sensitivity, signed=signed)
        asked |= say(key=key, share=share, epsilon=epsilon)
        return await guard.run(context, lambda asker: asker.watch(asked))

    @server.tool(description=descriptions.WATCH_ASK)
    async def watch_ask(
        context: Calling, watch: given.Watch, sql: given.Sql, key: given.Key = None
    ) -> Told:
        asked = say(sql=sql, key=key)
        return await guard.run(context, lambda asker: asker.watch_ask(watch, asked))


def _add_estimates(server: MCPServer[Any], guard: _Guard) -> None:
    """Add the statistics that are registered now."""

    async def estimate(context: Calling, **asked: Any) -> Told:
        return await guard.run(context, lambda asker: asker.estimate(say(**asked)))

    # The package reads a tool's arguments from the signature of its function.
    plain = inspect.signature(estimate)
    first = plain.parameters["context"]
    listed = [first, *given.statistic_parameters()]
    estimate.__signature__ = plain.replace(parameters=listed)  # type: ignore[attr-defined]
    server.tool(description=descriptions.describe_estimates())(estimate)
