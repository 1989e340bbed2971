"""The command-line interface, a thin layer over the library."""

from confide.cli.app import app, main

__all__ = ["app", "main"]
