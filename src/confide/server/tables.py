"""The server's own tables, in the ledger's database: tokens, and a version of the layout."""

import tempfile
import weakref
from pathlib import Path
from typing import Final

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Integer,
    MetaData,
    String,
    Table,
    insert,
    select,
    text,
)

from confide.errors import Fault
from confide.ledger.database import Database
from confide.ledger.opening import refuse_foreign, refuse_tables

__all__ = ["TOKENS", "open_tables"]

VERSION: Final = 1
GATE: Final = 4_027_431_615  # a number that no one else locks in PostgreSQL
TABLES: Final = MetaData()

TOKENS: Final = Table(
    "confide_tokens",
    TABLES,
    Column("id", String(16), primary_key=True),
    Column("name", String(63), nullable=False),
    Column("label", String(63), nullable=False),
    Column("role", String(8), nullable=False),
    Column("digest", String(64), nullable=False),
    Column("made", BigInteger, nullable=False),
    Column("expires", BigInteger, nullable=False),
    Column("revoked", BigInteger),
    Column("limit_units", BigInteger),
    Column("spent_units", BigInteger, nullable=False),
    Column("parent", String(16)),
)
"""One row for each token; of its secret there is a digest and nothing else."""

LAYOUT: Final = Table(
    "confide_server",
    TABLES,
    Column("only", Integer, primary_key=True),
    Column("version", Integer, nullable=False),
)
"""One row: which layout these tables have."""


def open_tables(address: str | Path | None) -> Database:
    """Return the database of the server's tables, which are made where they are missing.

    ``address`` is that of the ledger; None keeps them in a file that goes with the process.

    Raises:
        BadDeclaration: it is a file of something else.
    """
    if address is None:
        folder = tempfile.TemporaryDirectory(prefix="confide-")
        database = Database(Path(folder.name) / "server.db")
        weakref.finalize(database, folder.cleanup)
    else:
        refuse_foreign(address)
        database = Database(address)
    found = database.change(_make)
    if found != VERSION:
        raise Fault(
            f"the server's tables have layout {found}, and this confide knows {VERSION}; use the "
            "confide that made them, or a newer one"
        )
    return database


def _make(connection: Connection) -> int:
    """Make the tables where they are missing, one process at a time; return their layout."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:gate)"), {"gate": GATE})
    refuse_tables(connection)
    TABLES.create_all(connection)
    found = connection.execute(select(LAYOUT.c.version)).scalar()
    if found is not None:
        return int(found)
    connection.execute(insert(LAYOUT).values(only=1, version=VERSION))
    return VERSION
