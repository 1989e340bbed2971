"""The only code that reads rows."""

from confide.engines.duckdb import DuckDB
from confide.engines.sealed import Groups, Sealed, open_sealed

__all__ = ["DuckDB", "Groups", "Sealed", "open_sealed"]
