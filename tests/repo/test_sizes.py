"""Functions and modules are short enough to read on a screen."""

import ast

from support.tree import ROOT, SOURCES

MODULE_LINES = 500
BODY_LINES = 50


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the length of a function's body without its docstring."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def test_modules_and_functions_are_short() -> None:
    """A module has at most 500 lines, and a function body at most 50."""
    long = {}
    for path in SOURCES:
        text, name = path.read_text(encoding="utf-8"), str(path.relative_to(ROOT))
        if (lines := len(text.splitlines())) > MODULE_LINES:
            long[name] = lines
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if (lines := body_lines(node)) > BODY_LINES:
                long[f"{name}: {node.name}"] = lines

    assert SOURCES
    assert {} == long
