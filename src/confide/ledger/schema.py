"""SQLAlchemy tables of a ledger; migrations/ creates them.

Amounts are whole numbers of at most 63 bits, for a whole budget has fewer than 2**62 units; digests
and texts are text. Nothing here is a float, a row of the data, a value without noise or a token.
"""

from typing import Final

from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, Table, Text, text
from sqlalchemy.schema import CheckConstraint

__all__ = ["ANCHOR_RECORDS", "ANSWERS", "CHARGES", "HEAD", "KEYS", "META", "NAMED", "TABLES"]

WHOLE: Final = BigInteger().with_variant(Integer, "sqlite")  # there, such a key is the row itself
NAMED: Final = "purpose <> ''"
"""Of charges without a purpose no total is kept, so that no one looks for them by it."""
TABLES: Final = MetaData()

META: Final = Table(
    "confide_meta",
    TABLES,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)
"""What stays: the ledger's identity, its terms, its neighbours, the salt of the cut."""

HEAD: Final = Table(
    "confide_head",
    TABLES,
    Column("one", Integer, primary_key=True),
    Column("records", WHOLE, nullable=False),
    Column("digest", Text, nullable=False),
    Column("time", WHOLE, nullable=False),
    Column("spent", WHOLE, nullable=False),
    Column("delta_spent", WHOLE, nullable=False),
    Column("seal", Text, nullable=False),
    CheckConstraint("one = 1", name="confide_head_is_one"),
    postgresql_with={"fillfactor": 10},
)
"""The one row that every change locks and moves."""

CHARGES: Final = Table(
    "confide_charges",
    TABLES,
    Column("number", WHOLE, primary_key=True, autoincrement=False),
    Column("before", Text, nullable=False),
    Column("time", WHOLE, nullable=False),
    Column("text", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("analyst", Text, nullable=False),
    Column("purpose", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("units", WHOLE, nullable=False),
    Column("delta_units", WHOLE, nullable=False),
    Column("readings", Integer),
    Column("loss", Text, nullable=False),
    Column("spent", WHOLE, nullable=False),
    Column("delta_spent", WHOLE, nullable=False),
    Column("analyst_spent", WHOLE, nullable=False),
    Column("purpose_spent", WHOLE, nullable=False),
    Column("digest", Text, nullable=False),
    Index("confide_charges_time", "time", "number"),
    Index("confide_charges_analyst", "analyst", "time", "number"),
    Index(
        "confide_charges_purpose",
        "purpose",
        "time",
        "number",
        sqlite_where=text(NAMED),
        postgresql_where=text(NAMED),
    ),
)
"""One row for each charge; rows are added, never changed."""

ANSWERS: Final = Table(
    "confide_answers",
    TABLES,
    Column("entry", WHOLE, primary_key=True, autoincrement=False),
    Column("number", WHOLE, nullable=False),
    Column("before", Text, nullable=False),
    Column("time", WHOLE, nullable=False),
    Column("noisy", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("asked", Text, nullable=False),
    Column("analyst", Text, nullable=False),
    Index("confide_answers_asked", "asked", "entry"),
    Index("confide_answers_own", "asked", "analyst", "entry"),
    Index("confide_answers_number", "number"),
)
"""One row for each answer, by the charge that paid for it: so there is at most one."""

ANCHOR_RECORDS: Final = Table(
    "confide_anchor_records",
    TABLES,
    Column("number", WHOLE, primary_key=True, autoincrement=False),
    Column("before", Text, nullable=False),
    Column("time", WHOLE, nullable=False),
    Column("event", Text, nullable=False),
    Column("anchor", Text, nullable=False),
    Column("digest", Text, nullable=False),
)
"""One row each time that an anchor is named, or its loss accepted."""

KEYS: Final = Table(
    "confide_keys",
    TABLES,
    Column("analyst", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("entry", WHOLE, nullable=False),
    sqlite_with_rowid=False,
)
"""For which charge each analyst's key stands."""
