"""An anchor in another database."""

from pathlib import Path
from typing import Final

from sqlalchemy import Column, Connection, MetaData, Table, Text, insert, select, update
from sqlalchemy.exc import IntegrityError

from confide.ledger.anchors import Mark
from confide.ledger.database import Database
from confide.ledger.tables import WHOLE

__all__ = ["DatabaseAnchor"]

TABLES: Final = MetaData()
ANCHORS: Final = Table(
    "confide_anchors",
    TABLES,
    Column("one", Text, primary_key=True),
    Column("ledger", Text, nullable=False),
    Column("records", WHOLE, nullable=False),
    Column("digest", Text, nullable=False),
)
NEWEST: Final = "newest"


class DatabaseAnchor:
    """The newest mark in a table of another database, which only moves on."""

    def __init__(self, address: str | Path, *, wait: float = 30.0) -> None:
        self._database = Database(address, wait=wait)
        self._database.change(TABLES.create_all)

    def newest(self) -> Mark | None:
        """Return the mark."""
        found = select(ANCHORS.c.ledger, ANCHORS.c.records, ANCHORS.c.digest)
        row = self._database.look(lambda connection: connection.execute(found).first())
        return None if row is None else Mark(*row)

    def keep(self, mark: Mark) -> None:
        """Move the mark on, where it is behind."""
        values = {"ledger": mark.ledger, "records": mark.records, "digest": mark.digest}
        later = update(ANCHORS).where(ANCHORS.c.one == NEWEST).values(**values)
        later = later.where(ANCHORS.c.ledger == mark.ledger, ANCHORS.c.records < mark.records)

        def move(connection: Connection) -> None:
            if connection.execute(later).rowcount:
                return
            known = connection.execute(select(ANCHORS.c.ledger)).scalar()
            if known is not None:
                mark.check_owner(known)
                return
            try:
                with connection.begin_nested():
                    connection.execute(insert(ANCHORS).values(one=NEWEST, **values))
            except IntegrityError:  # another process made the first mark at the same moment
                connection.execute(later)

        self._database.change(move)
