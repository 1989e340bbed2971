"""The only code that reads rows."""

from confide.engines.duckdb import DuckDB
from confide.engines.sealed import Sealed, open_sealed

__all__ = ["DuckDB", "Sealed", "open_sealed"]
