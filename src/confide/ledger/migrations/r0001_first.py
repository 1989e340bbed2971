"""The first version of the tables: meta, head, charges, answers, anchor records, and keys."""

from alembic import op
from sqlalchemy import BigInteger, CheckConstraint, Column, Integer, Text, text

revision = "0001a"
down_revision = None

WHOLE = BigInteger().with_variant(Integer, "sqlite")


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "confide_meta",
        Column("name", Text, primary_key=True),
        Column("value", Text, nullable=False),
    )
    op.create_table(
        "confide_head",
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
    _make_charges()
    _make_answers()
    op.create_table(
        "confide_anchor_records",
        Column("number", WHOLE, primary_key=True, autoincrement=False),
        Column("before", Text, nullable=False),
        Column("time", WHOLE, nullable=False),
        Column("event", Text, nullable=False),
        Column("anchor", Text, nullable=False),
        Column("digest", Text, nullable=False),
    )
    op.create_table(
        "confide_keys",
        Column("analyst", Text, primary_key=True),
        Column("name", Text, primary_key=True),
        Column("entry", WHOLE, nullable=False),
        sqlite_with_rowid=False,
    )


def _make_charges() -> None:
    op.create_table(
        "confide_charges",
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
    )
    op.create_index("confide_charges_time", "confide_charges", ["time", "number"])
    op.create_index("confide_charges_analyst", "confide_charges", ["analyst", "time", "number"])
    is_named = text("purpose <> ''")
    op.create_index(
        "confide_charges_purpose",
        "confide_charges",
        ["purpose", "time", "number"],
        sqlite_where=is_named,
        postgresql_where=is_named,
    )


def _make_answers() -> None:
    op.create_table(
        "confide_answers",
        Column("entry", WHOLE, primary_key=True, autoincrement=False),
        Column("number", WHOLE, nullable=False),
        Column("before", Text, nullable=False),
        Column("time", WHOLE, nullable=False),
        Column("noisy", Text, nullable=False),
        Column("digest", Text, nullable=False),
        Column("asked", Text, nullable=False),
        Column("analyst", Text, nullable=False),
    )
    op.create_index("confide_answers_asked", "confide_answers", ["asked", "entry"])
    op.create_index("confide_answers_own", "confide_answers", ["asked", "analyst", "entry"])
    op.create_index("confide_answers_number", "confide_answers", ["number"])
