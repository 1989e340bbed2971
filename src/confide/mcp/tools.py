"""The tools that a language model sees; what they do is the asker's."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import anyio.to_thread
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError

from confide.errors import BadDeclaration, Refusal, as_refusal, place_of
from confide.mcp import arguments as given
from confide.mcp import words
from confide.mcp.arguments import say, show_percents
from confide.mcp.askers import Asker
from confide.mcp.calls import Tools

__all__ = ["make_tools"]

T = TypeVar("T")
Calling = Context[Any, Any]
Told = dict[str, Any]
LOG: Final = logging.getLogger("confide.mcp")
OURS: Final = "fault: something on our side failed; the owner's log has where"


def make_tools(asker_of: Callable[[Calling], Asker]) -> MCPServer[Any]:
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
        return Tools("confide", instructions=words.INSTRUCTIONS)
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


@dataclass(frozen=True, slots=True)
class _Guard:
    """Runs the work of a tool in a thread; errors become texts that a model may read."""

    asker_of: Callable[[Calling], Asker]

    async def run(self, context: Calling, work: Callable[[Asker], T]) -> T:
        return await anyio.to_thread.run_sync(self._try, context, work)

    def _try(self, context: Calling, work: Callable[[Asker], T]) -> T:
        """Return what some work gives."""
        try:
            found: T = show_percents(work(self.asker_of(context)))
        except (Refusal, BadDeclaration) as refusal:
            raise ToolError(f"{as_refusal(refusal).code}: {refusal}") from None
        except Exception as error:  # noqa: BLE001  # whatever it is must not reach a model
            LOG.warning("a tool failed with %s", place_of(error))
            raise ToolError(OURS) from None
        return found


def _add_free(server: MCPServer[Any], guard: _Guard) -> None:
    """Add what costs nothing of the budget."""

    @server.tool(description=words.TABLES)
    async def list_tables(context: Calling) -> Told:
        return await guard.run(context, lambda asker: asker.tables())

    @server.tool(description=words.PREVIEW)
    async def preview(
        context: Calling,
        sql: given.Sql,
        share: given.Share = None,
        epsilon: given.Epsilon = None,
        error: given.Error = None,
    ) -> Told:
        asked = say(sql=sql, share=share, epsilon=epsilon, error=error)
        return await guard.run(context, lambda asker: asker.preview(asked))

    @server.tool(description=words.BUDGET)
    async def budget(context: Calling) -> Told:
        return await guard.run(context, lambda asker: asker.budget())

    @server.tool(description=words.HISTORY)
    async def history(context: Calling, limit: given.Limit = 20) -> Told:
        return {"answers": await guard.run(context, lambda asker: asker.history(limit))}

    @server.tool(description=words.HOLDOUT)
    async def holdout_ask(
        context: Calling, name: given.Board, predictions: given.Predictions
    ) -> Told:
        return await guard.run(context, lambda asker: asker.holdout_ask(name, predictions))


def _add_questions(server: MCPServer[Any], guard: _Guard) -> None:
    """Add questions in SQL: one, several together, a choice among several."""

    @server.tool(description=words.ASK)
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

    @server.tool(description=words.CHOOSE)
    async def choose(
        context: Calling,
        candidates: given.Candidates,
        share: given.Share = None,
        epsilon: given.Epsilon = None,
    ) -> Told:
        asked = say(candidates=candidates, share=share, epsilon=epsilon)
        return await guard.run(context, lambda asker: asker.choose(asked))

    @server.tool(description=words.RELEASE)
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

    @server.tool(description=words.WATCH)
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

    @server.tool(description=words.WATCH_ASK)
    async def watch_ask(
        context: Calling, watch: given.Watch, sql: given.Sql, key: given.Key = None
    ) -> Told:
        asked = say(sql=sql, key=key)
        return await guard.run(context, lambda asker: asker.watch_ask(watch, asked))


def _add_estimates(server: MCPServer[Any], guard: _Guard) -> None:
    """Add statistics of the population."""

    @server.tool(description=words.ESTIMATE)
    async def estimate(
        context: Calling,
        statistic: given.Statistic,
        table: given.Table,
        *,
        column: given.Column = None,
        columns: given.Columns = None,
        by: given.By = None,
        levels: given.Levels = None,
        formula: given.Formula = None,
        family: given.Family = None,
        bins: given.Bins = None,
        bounds: given.Ends = None,
        within: given.Ends = None,
        estimator: given.Estimator = None,
        share: given.Share = None,
        epsilon: given.Epsilon = None,
    ) -> Told:
        asked = say(statistic=statistic, table=table, column=column, columns=columns, by=by)
        asked |= say(levels=levels, formula=formula, family=family, bins=bins, bounds=bounds)
        asked |= say(within=within, estimator=estimator, share=share, epsilon=epsilon)
        return await guard.run(context, lambda asker: asker.estimate(asked))
