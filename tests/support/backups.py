"""Backups of a ledger in any database, and ways in which an anchor is lost."""

from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, delete, insert, inspect, select, text

from confide.ledger.database import read_address
from confide.ledger.schema import TABLES

__all__ = ["Backup", "back_up", "count_tables", "delete_anchor", "empty_anchor", "put_back"]

Backup = dict[str, list[dict[str, Any]]]


def back_up(address: str) -> Backup:
    """Return all rows of a ledger."""
    engine = create_engine(read_address(address))
    try:
        with engine.connect() as connection:
            return {
                name: [dict(row) for row in connection.execute(select(table)).mappings()]
                for name, table in TABLES.tables.items()
            }
    finally:
        engine.dispose()


def put_back(address: str, backup: Backup) -> None:
    """Replace the rows of a ledger by those of a backup."""
    engine = create_engine(read_address(address))
    try:
        with engine.begin() as connection:
            for name, table in TABLES.tables.items():
                connection.execute(delete(table))
                if backup[name]:
                    connection.execute(insert(table), backup[name])
    finally:
        engine.dispose()


def count_tables(address: str) -> int:
    """Return the number of tables in a database, 0 if its file is missing."""
    url = read_address(address)
    if url.get_backend_name() == "sqlite" and not Path(str(url.database)).exists():
        return 0
    engine = create_engine(url)
    try:
        return len(inspect(engine).get_table_names())
    finally:
        engine.dispose()


def empty_anchor(address: str) -> None:
    """Leave nothing in an anchor."""
    if "://" not in address:
        Path(address).write_bytes(b"")
        return
    _run(address, "DELETE FROM confide_anchors")


def delete_anchor(address: str) -> None:
    """Leave no anchor at its place."""
    if "://" not in address:
        Path(address).unlink()
        return
    _run(address, "DROP TABLE confide_anchors")


def _run(address: str, statement: str) -> None:
    engine = create_engine(read_address(address))
    try:
        with engine.begin() as connection:
            connection.execute(text(statement))
    finally:
        engine.dispose()
