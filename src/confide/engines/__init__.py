"""Engines: the only code that reads rows.

An engine turns a measurement into SQL, runs it on DuckDB, PostgreSQL, or Spark, and returns sealed
results.
"""

from confide.engines.duckdb.engine import DuckDB
from confide.engines.protocol import Counts, Engine, Groups, Sealed
from confide.engines.registry import find_engine, open_engine
from confide.engines.sql.engine import SqlEngine

__all__ = [
    "Counts",
    "DuckDB",
    "Engine",
    "Groups",
    "Sealed",
    "SqlEngine",
    "find_engine",
    "open_engine",
]
