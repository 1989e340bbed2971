"""All queries that the curator's tests run on DuckDB, for use on other engines."""

from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa

from confide.declare import PublicTable
from curator import test_awkward_queries as awkward
from curator import test_people_queries as people
from curator import test_quantile_queries as quantiles
from curator import test_queries as plain
from curator import test_tpch_queries as tpch
from support.datasets import tpch as tpch_world
from support.noiseless import World

__all__ = ["QUESTIONS"]


def named() -> World:
    """Return undeclared strings, and a public table that contains some of them."""
    world = awkward.earned()
    words = list(awkward.KEYS[:6])
    names = pa.table({"word": words, "name": list("uvwuvw"), "size": [1, 2, 3, 4, 5, 6]})
    tables = (*world.tables, PublicTable("names", names))
    return World(tables, world.plain)


def texts_of(test: Any) -> Iterator[str]:
    """Return the queries of a test, from its only parameter."""
    ((_, texts),) = [mark.args for mark in test.pytestmark if mark.name == "parametrize"]
    return iter(texts)


QUESTIONS: Final[tuple[tuple[Callable[[], World], str], ...]] = (
    *((plain.WORLDS[name], text) for name, text in plain.CASES),
    *((plain.visits, text) for text in plain.SORTED),
    *awkward.CASES,
    *people.CASES,
    *((tpch_world, text) for text in (*tpch.ANSWERED, *tpch.OTHERS)),
    *((named, text) for text in texts_of(awkward.test_shared_strings_are_answered_as_by_duckdb)),
    *((question.maker, question.sql()) for question in quantiles.QUESTIONS),
)
"""Pairs of a world and a SQL query on it."""
