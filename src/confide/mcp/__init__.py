"""MCP tools for language models: queries within a budget, with instructions."""

from confide.mcp.tools import HttpBackend, RequestBody, ToolBackend, make_tools

__all__ = ["HttpBackend", "RequestBody", "ToolBackend", "make_tools"]
