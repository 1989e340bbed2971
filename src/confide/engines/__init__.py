"""The only code that reads rows."""

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
