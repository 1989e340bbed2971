"""The command line: one door among several, with no arithmetic of its own."""

from confide.cli.app import app, main

__all__ = ["app", "main"]
