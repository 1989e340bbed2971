"""SQL front end: `read_sql` parses a query, or raises an error that suggests a fix."""

from confide.query.sql.select import read_sql

__all__ = ["read_sql"]
