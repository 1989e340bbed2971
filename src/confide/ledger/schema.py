"""SQLAlchemy tables of a ledger; migrations/ creates them.

Amounts are integers in units of the budget, which has fewer than 2**62 units, so they fit in 63
bits. Hashes and queries are text. No column contains a float, a row of the data, a value without
noise, or a token.
"""

from typing import Final

from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, Table, Text, text
from sqlalchemy.schema import CheckConstraint

__all__ = ["ANCHOR_RECORDS", "ANSWERS", "CHARGES", "HAS_PURPOSE", "HEAD", "KEYS", "META", "TABLES"]

BIG_INTEGER: Final = BigInteger().with_variant(Integer, "sqlite")
"""A 64-bit integer. In SQLite it is INTEGER, because such a primary key needs no extra index."""
HAS_PURPOSE: Final = "purpose <> ''"
"""The condition of a partial index of the charges that have a purpose."""
TABLES: Final = MetaData()

META: Final = Table(
    "confide_meta",
    TABLES,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)
"""The ledger's identity, terms, neighboring relation, and salt, which never change."""

HEAD: Final = Table(
    "confide_head",
    TABLES,
    Column("one", Integer, primary_key=True),
    Column("records", BIG_INTEGER, nullable=False),
    Column("digest", Text, nullable=False),
    Column("time", BIG_INTEGER, nullable=False),
    Column("spent", BIG_INTEGER, nullable=False),
    Column("delta_spent", BIG_INTEGER, nullable=False),
    Column("seal", Text, nullable=False),
    CheckConstraint("one = 1", name="confide_head_is_one"),
    postgresql_with={"fillfactor": 10},
)
"""The head: one row, which is updated with every new record."""

CHARGES: Final = Table(
    "confide_charges",
    TABLES,
    Column("number", BIG_INTEGER, primary_key=True, autoincrement=False),
    Column("before", Text, nullable=False),
    Column("time", BIG_INTEGER, nullable=False),
    Column("text", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("analyst", Text, nullable=False),
    Column("purpose", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("units", BIG_INTEGER, nullable=False),
    Column("delta_units", BIG_INTEGER, nullable=False),
    Column("readings", Integer),
    Column("loss", Text, nullable=False),
    Column("spent", BIG_INTEGER, nullable=False),
    Column("delta_spent", BIG_INTEGER, nullable=False),
    Column("analyst_spent", BIG_INTEGER, nullable=False),
    Column("purpose_spent", BIG_INTEGER, nullable=False),
    Column("digest", Text, nullable=False),
    Index("confide_charges_time", "time", "number"),
    Index("confide_charges_analyst", "analyst", "time", "number"),
    Index(
        "confide_charges_purpose",
        "purpose",
        "time",
        "number",
        sqlite_where=text(HAS_PURPOSE),
        postgresql_where=text(HAS_PURPOSE),
    ),
)
"""One row per charge; rows are inserted, but never updated."""

ANSWERS: Final = Table(
    "confide_answers",
    TABLES,
    Column("entry", BIG_INTEGER, primary_key=True, autoincrement=False),
    Column("number", BIG_INTEGER, nullable=False),
    Column("before", Text, nullable=False),
    Column("time", BIG_INTEGER, nullable=False),
    Column("noisy", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("asked", Text, nullable=False),
    Column("analyst", Text, nullable=False),
    Index("confide_answers_asked", "asked", "entry"),
    Index("confide_answers_own", "asked", "analyst", "entry"),
    Index("confide_answers_number", "number"),
)
"""One row per answer; its key is the number of the charge that paid for it."""

ANCHOR_RECORDS: Final = Table(
    "confide_anchor_records",
    TABLES,
    Column("number", BIG_INTEGER, primary_key=True, autoincrement=False),
    Column("before", Text, nullable=False),
    Column("time", BIG_INTEGER, nullable=False),
    Column("event", Text, nullable=False),
    Column("anchor", Text, nullable=False),
    Column("digest", Text, nullable=False),
)
"""One row each time that the ledger records an anchor or an accepted loss."""

KEYS: Final = Table(
    "confide_keys",
    TABLES,
    Column("analyst", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("entry", BIG_INTEGER, nullable=False),
    sqlite_with_rowid=False,
)
"""The charge that each idempotency key of an analyst belongs to."""
