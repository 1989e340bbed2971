"""The only code that reads rows."""

from confide.engines.duckdb import DuckDB
from confide.engines.engine import Engine, SqlEngine
from confide.engines.opening import open_engine
from confide.engines.sealed import Counts, Groups, Sealed, open_counts, open_sealed

__all__ = [
    "Counts",
    "DuckDB",
    "Engine",
    "Groups",
    "Sealed",
    "SqlEngine",
    "open_counts",
    "open_engine",
    "open_sealed",
]
