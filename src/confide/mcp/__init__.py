"""MCP tools for language models: queries within a token's budget, with instructions.

`confide mcp` serves the tools on standard streams; the HTTP server serves them at ``/mcp``.
"""

from confide.mcp.tools import HttpBackend, RequestBody, ToolBackend, make_tools

__all__ = ["HttpBackend", "RequestBody", "ToolBackend", "make_tools"]
