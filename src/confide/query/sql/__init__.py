"""Questions as SQL: `read_sql` makes the tree of a text, or says what to write instead."""

from confide.query.sql.select import read_sql

__all__ = ["read_sql"]
