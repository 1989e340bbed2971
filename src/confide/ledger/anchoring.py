"""Comparison of a ledger with its anchor, and the reasons to refuse the ledger."""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection

from confide.ledger import rows
from confide.ledger.anchors import Anchor, Mark
from confide.ledger.chain import AnchorRecord, Head
from confide.ledger.database import Database
from confide.ledger.protocol import AnchorLost

__all__ = ["FOREIGN", "Standing", "compare", "name_of"]

ACCEPT: Final = "accept the loss with confide ledger --accept-lost-anchor"
UNNAMED: Final = (
    "this ledger has an anchor, and none is named now, so an old backup would not be noticed; name "
    f"the anchor again, or, if it is lost, {ACCEPT}"
)
EMPTY: Final = (
    "the anchor that is named is empty, and this ledger has one with marks, so an old backup would "
    f"not be noticed; restore the anchor, or name the right one, or, if it is lost, {ACCEPT}"
)
FOREIGN: Final = (
    "the anchor that is named belongs to another ledger, so an old backup of this one would not be "
    "noticed; name this ledger's anchor, or, if it is lost, name a new one at a place of its own "
    f"and {ACCEPT}"
)
OUTDATED: Final = (
    "the anchor that is named is not the one that this ledger has now, so an old backup would not "
    f"be noticed; name the newest anchor, or, if it is lost, {ACCEPT}"
)


@dataclass(frozen=True, slots=True)
class Standing:
    """A ledger next to the anchor that is named, which ``is_named`` or is not.

    ``record`` is the newest of the ledger that names an anchor; ``mark`` is the newest in the
    anchor that is named.
    """

    ledger: str
    head: Head
    record: AnchorRecord | None
    mark: Mark | None
    is_named: bool

    @property
    def name(self) -> str:
        """The name of the ledger's own anchor; empty where it has none."""
        return name_of(self.record)

    @property
    def is_foreign(self) -> bool:
        """Whether the anchor that is named belongs to another ledger."""
        return self.mark is not None and self.mark.ledger != self.ledger

    @property
    def loss(self) -> str | None:
        """The reason why the anchor that is named does not do; None if it does."""
        if not self.name:
            return None
        if not self.is_named:
            return UNNAMED
        if self.mark is None:
            return EMPTY
        if self.is_foreign:
            return FOREIGN
        return None if self.mark.anchor == self.name else OUTDATED

    def refuse_loss(self) -> None:
        """Refuse a ledger with an anchor, which is not the one that is named."""
        if self.loss is not None:
            raise AnchorLost(self.loss)


def compare(database: Database, anchor: Anchor | None, ledger: str, start: Head) -> Standing:
    """Return how a ledger stands to the anchor that is named; refuse one that is behind it.

    # Privacy: the anchor is read first. All that it has marks of is in the ledger by then.
    """
    mark = None if anchor is None else anchor.newest()

    def look(connection: Connection) -> Standing:
        head, record = rows.read_head(connection), rows.read_anchor(connection)
        standing = Standing(ledger, head, record, mark, anchor is not None)
        if mark is None or (standing.is_foreign and standing.name):
            return standing
        last = rows.read_digest(connection, mark.records - 1) if mark.records else start.digest
        mark.check(ledger, head.records, last)
        return standing

    return database.look(look)


def name_of(record: AnchorRecord | None) -> str:
    """Return the name of the anchor that a record names; empty without one."""
    return "" if record is None else record.anchor
