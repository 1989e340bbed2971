"""The only code that reads rows."""

from confide.engines.duckdb import DuckDB
from confide.engines.sealed import Counts, Groups, Sealed, open_counts, open_sealed

__all__ = ["Counts", "DuckDB", "Groups", "Sealed", "open_counts", "open_sealed"]
