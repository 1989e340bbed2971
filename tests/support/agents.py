"""Agent tools of a test service, called in memory through the client of the SDK."""

from typing import Any

import anyio

from confide.mcp import make_tools
from confide.server.agents import ServiceBackend
from confide.server.service import Caller, Service
from mcp import Client
from support.service import House

__all__ = ["call", "caller_of", "service_of", "text_of", "tools_of"]


def service_of(house: House) -> Service:
    """Return the service of a house, which tools call directly."""
    service: Service = house.app.state.service
    return service


def caller_of(house: House, token: str) -> Caller:
    """Return the caller with this token."""
    return service_of(house).sign_in(token)


def tools_of(house: House, token: str | None = None) -> Any:
    """Return the tools of a house for one token, by default that of the analyst ana."""
    shown = house.ana if token is None else token
    return make_tools(lambda _: ServiceBackend(service_of(house), caller_of(house, shown)))


def call(server: Any, *calls: tuple[str, dict[str, Any]]) -> list[Any]:
    """Return the results of a few calls over one connection."""

    async def run() -> list[Any]:
        async with Client(server) as client:
            return [await client.call_tool(name, given) for name, given in calls]

    return anyio.run(run)


def text_of(result: Any) -> str:
    """Return the text of a result, as a model reads it."""
    return "\n".join(part.text for part in result.content)
