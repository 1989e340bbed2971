"""The tools that a language model sees; what they do is the asker's."""

import logging
import traceback
from collections.abc import Callable
from typing import Annotated, Any, Final, TypeVar

import anyio.to_thread
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from confide.errors import ConfideError, Fault
from confide.mcp import words
from confide.mcp.askers import Asker

__all__ = ["make_tools"]

T = TypeVar("T")
LOG: Final = logging.getLogger("confide.mcp")
LONGEST_SQL: Final = 100_000
OURS: Final = "fault: something on our side failed; the owner's log has where"

Sql = Annotated[str, Field(max_length=LONGEST_SQL, description="one SELECT with aggregates")]
Share = Annotated[str | None, Field(max_length=60, description='part of the budget, such as "1%"')]
Epsilon = Annotated[float | None, Field(gt=0, description="epsilon of this answer, such as 0.1")]
Error = Annotated[float | None, Field(gt=0, description="half-width wanted at 95 %")]


def make_tools(asker_of: Callable[[Context[Any, Any]], Asker]) -> MCPServer[Any]:
    """Return a server of tools; ``asker_of`` tells for each call on whose behalf it is."""
    server = _make_quietly()

    async def call(context: Context[Any, Any], work: Callable[[Asker], T]) -> T:
        return await anyio.to_thread.run_sync(_guard, asker_of, context, work)

    @server.tool(description=words.TABLES)
    async def list_tables(context: Context[Any, Any]) -> dict[str, Any]:
        return await call(context, lambda asker: asker.tables())

    @server.tool(description=words.PREVIEW)
    async def preview(
        context: Context[Any, Any],
        sql: Sql,
        share: Share = None,
        epsilon: Epsilon = None,
        error: Error = None,
    ) -> dict[str, Any]:
        want = _want(share, epsilon, error)
        return await call(context, lambda asker: asker.preview(sql, want))

    @server.tool(description=words.ASK)
    async def ask(
        context: Context[Any, Any],
        sql: Sql,
        share: Share = None,
        epsilon: Epsilon = None,
        error: Error = None,
    ) -> dict[str, Any]:
        want = _want(share, epsilon, error)
        return await call(context, lambda asker: asker.ask(sql, want))

    @server.tool(description=words.BUDGET)
    async def budget(context: Context[Any, Any]) -> dict[str, Any]:
        return await call(context, lambda asker: asker.budget())

    @server.tool(description=words.HISTORY)
    async def history(
        context: Context[Any, Any], limit: Annotated[int, Field(ge=1, le=200)] = 20
    ) -> dict[str, Any]:
        return {"answers": await call(context, lambda asker: asker.history(limit))}

    @server.tool(description=words.HOLDOUT)
    async def holdout_ask(
        context: Context[Any, Any], name: str, predictions: list[float]
    ) -> dict[str, Any]:
        return await call(context, lambda asker: asker.holdout_ask(name, predictions))

    return server


def _make_quietly() -> MCPServer[Any]:
    """Return a server without tools, and leave the program's logging as it was.

    The package sets up logging for the whole program when a server is made, at a level at which
    requests are written down.
    """
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        return MCPServer("confide", instructions=words.INSTRUCTIONS)
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


def _want(share: str | None, epsilon: float | None, error: float | None) -> dict[str, Any]:
    given = {"share": share, "epsilon": epsilon, "error": error}
    return {name: value for name, value in given.items() if value is not None}


def _guard(
    asker_of: Callable[[Context[Any, Any]], Asker],
    context: Context[Any, Any],
    work: Callable[[Asker], T],
) -> T:
    """Return what some work gives; errors become texts that a model may read.

    # Privacy: of an unforeseen error its place is logged and its words are not: they may quote a
    # row.
    """
    try:
        return work(asker_of(context))
    except Fault as fault:
        LOG.warning("a tool failed with %s", fault.code)
        raise ToolError(OURS) from None
    except ConfideError as refusal:
        raise ToolError(f"{refusal.code}: {refusal}") from None
    except Exception as error:  # noqa: BLE001  # whatever it is must not reach a model
        frames = traceback.extract_tb(error.__traceback__)[-4:]
        places = " ".join(f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in frames)
        LOG.warning("a tool failed with %s at %s", type(error).__name__, places)
        raise ToolError(OURS) from None
