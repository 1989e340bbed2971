"""DuckDB, embedded: the default engine."""
