"""Calls of tools whose arguments are wrong: refused in the words of all other refusals."""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, Final

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import ValidationError

__all__ = ["Tools"]

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
