"""Tools for language models: ask within a budget, with texts that teach the rules."""

from confide.mcp.tools import HttpBackend, RequestBody, ToolBackend, make_tools

__all__ = ["HttpBackend", "RequestBody", "ToolBackend", "make_tools"]
