"""Every question that the curator's tests ask of DuckDB, to be asked of other engines too."""

from collections.abc import Callable
from typing import Final

from curator import test_awkward_queries as awkward
from curator import test_people_queries as people
from curator import test_quantile_queries as quantiles
from curator import test_queries as plain
from curator import test_tpch_queries as tpch
from support.datasets import tpch as tpch_world
from support.noiseless import World

__all__ = ["QUESTIONS"]

QUESTIONS: Final[tuple[tuple[Callable[[], World], str], ...]] = (
    *((plain.WORLDS[name], text) for name, text in plain.CASES),
    *((plain.visits, text) for text in plain.SORTED),
    *awkward.CASES,
    *people.CASES,
    *((tpch_world, text) for text in tpch.ANSWERED),
    *((question.maker, question.sql()) for question in quantiles.QUESTIONS),
)
"""The people and their tables, and a question in the words of an analyst."""
