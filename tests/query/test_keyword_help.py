"""`help()` shows the arguments that set the price of an answer."""

import inspect
import pydoc
from collections.abc import Callable
from typing import Any

import pytest

from confide.client.connection import Connection
from confide.curator import Curator
from confide.query import TableQuery

COST = ["epsilon", "share"]
NEAR = [*COST, "error", "confidence"]
HOW = ["fresh", "key"]


@pytest.mark.parametrize(
    ("method", "names"),
    [
        (Curator.sql, [*NEAR, *HOW]),
        (Curator.ask, [*NEAR, *HOW]),
        (Curator.preview, NEAR),
        (Curator.explain, NEAR),
        (Curator.choose, [*COST, *HOW]),
        (Curator.release, [*COST, *HOW]),
        (Curator.watch, COST),
        (Curator.mean, [*COST, *HOW]),
        (TableQuery.ask, [*NEAR, *HOW]),
        (TableQuery.preview, NEAR),
        (Connection.sql, [*NEAR, *HOW]),
        (Connection.mean, [*COST, "confidence", *HOW]),
    ],
    ids=lambda method: getattr(method, "__qualname__", ""),
)
def test_help_shows_price_arguments(method: Callable[..., Any], names: list[str]) -> None:
    """Each price argument appears once by name, and no argument is hidden behind **."""
    shown = inspect.signature(method).parameters

    assert "want" not in shown
    assert [] == [name for name in names if name not in shown]
    assert all(f"{name}:" in pydoc.render_doc(method) for name in names)


@pytest.mark.parametrize("cls", [Curator, Connection, TableQuery])
def test_no_public_method_hides_its_arguments(cls: type) -> None:
    """Every public method that takes a price shows its arguments."""
    methods = inspect.getmembers(cls, inspect.isfunction)
    hidden = [
        name
        for name, method in methods
        if not name.startswith("_") and "want" in inspect.signature(method).parameters
    ]

    assert [] == hidden


def test_dir_lists_the_public_names() -> None:
    """`dir()` lists the public names before any of them is imported, and no private ones."""
    from support.tree import run_python

    program = (
        "import sys, confide as cf; shown = [n for n in dir(cf) if not n.startswith('_')]; "
        "print(shown == sorted(cf.__all__), 'duckdb' in sys.modules, 'sqlglot' in sys.modules)"
    )

    assert "True False False" == run_python("-c", program).strip()
