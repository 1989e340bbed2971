"""Functions and modules stay small enough to finish on a screen."""

import ast
from pathlib import Path

import pytest

from support.tree import ROOT, SOURCES

MODULE_LINES = 400
BODY_LINES = 50


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the length of a function's body without its docstring."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_and_functions_are_short(path: Path) -> None:
    """A module has at most 400 lines and no function body more than 50."""
    text = path.read_text(encoding="utf-8")
    functions = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]

    assert len(text.splitlines()) <= MODULE_LINES
    assert [] == [node.name for node in functions if body_lines(node) > BODY_LINES]
