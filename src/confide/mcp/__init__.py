"""Tools for language models: ask within a budget, with texts that teach the rules."""

from confide.mcp.tools import Asked, Asker, ConnectionAsker, make_tools

__all__ = ["Asked", "Asker", "ConnectionAsker", "make_tools"]
