"""The only code that reads rows."""

from confide.engines.duckdb.engine import DuckDB
from confide.engines.protocol import Counts, Groups, Sealed, open_counts, open_sealed
from confide.engines.registry import open_engine
from confide.engines.sql.engine import Engine, SqlEngine

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
