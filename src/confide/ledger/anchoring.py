"""Comparison of a ledger with its anchor, and the errors for a lost anchor.

An anchor stores the newest hash of the ledger's chain outside the ledger (see `anchors`).
"""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection

from confide.ledger import rows
from confide.ledger.anchors import Anchor, Mark
from confide.ledger.chain import AnchorRecord, Head
from confide.ledger.database import Database
from confide.ledger.protocol import AnchorLost

__all__ = ["FOREIGN_ANCHOR", "AnchorComparison", "anchor_name", "compare_anchor"]

ACCEPT_LOSS: Final = "accept the loss with `confide ledger --accept-lost-anchor`"
UNNAMED_ANCHOR: Final = (
    "This ledger has an anchor, but none is configured, so an old backup would go unnoticed. "
    f"Configure the anchor again. If it is lost, {ACCEPT_LOSS}."
)
EMPTY_ANCHOR: Final = (
    "The configured anchor is empty, but the anchor of this ledger has marks, so an old backup "
    "would go unnoticed. Restore the anchor, or configure the right one. If it is lost, "
    f"{ACCEPT_LOSS}."
)
FOREIGN_ANCHOR: Final = (
    "The configured anchor belongs to another ledger, so an old backup of this ledger would go "
    "unnoticed. Configure this ledger's anchor. If it is lost, configure a new anchor at a place "
    f"of its own, and {ACCEPT_LOSS}."
)
OUTDATED_ANCHOR: Final = (
    "The configured anchor is not the newest anchor of this ledger, so an old backup would go "
    f"unnoticed. Configure the newest anchor. If it is lost, {ACCEPT_LOSS}."
)


@dataclass(frozen=True, slots=True)
class AnchorComparison:
    """A ledger compared with the configured anchor; ``is_configured`` is false if there is none.

    ``ledger`` is the identity of the ledger, and ``head`` the head of its chain. ``record`` is the
    newest anchor record in the ledger, or None if it has none. ``mark`` is the newest mark in the
    configured anchor, or None if there is no mark.
    """

    ledger: str
    head: Head
    record: AnchorRecord | None
    mark: Mark | None
    is_configured: bool

    @property
    def name(self) -> str:
        """The name of the anchor that the ledger recorded; empty if it has none."""
        return anchor_name(self.record)

    @property
    def is_foreign(self) -> bool:
        """Whether the configured anchor belongs to another ledger."""
        return self.mark is not None and self.mark.ledger != self.ledger

    @property
    def loss(self) -> str | None:
        """The error message if the ledger has an anchor that is not the configured one, or None."""
        if not self.name:
            return None
        if not self.is_configured:
            return UNNAMED_ANCHOR
        if self.mark is None:
            return EMPTY_ANCHOR
        if self.is_foreign:
            return FOREIGN_ANCHOR
        return None if self.mark.anchor == self.name else OUTDATED_ANCHOR

    def refuse_loss(self) -> None:
        """Raise AnchorLost if the ledger has an anchor that is not the configured one."""
        if self.loss is not None:
            raise AnchorLost(self.loss)


def compare_anchor(
    database: Database, anchor: Anchor | None, ledger: str, start: Head
) -> AnchorComparison:
    """Return the comparison of a ledger with the configured anchor.

    ``ledger`` is the identity of the ledger, and ``start`` the head of its empty chain.

    # Privacy: the anchor is read before the ledger. A record is marked only once it is in the
    # ledger, so a ledger without a marked record is an old backup.

    Raises:
        LedgerBehind: the ledger is older than the anchor, or has recorded none and this one belongs
            to another ledger.
        LedgerDamaged: the ledger and the anchor disagree.
    """
    mark = None if anchor is None else anchor.newest()

    def read(connection: Connection) -> AnchorComparison:
        head, record = rows.read_head(connection), rows.read_anchor(connection)
        comparison = AnchorComparison(ledger, head, record, mark, anchor is not None)
        if mark is None or (comparison.is_foreign and comparison.name):
            return comparison
        digest = rows.read_digest(connection, mark.records - 1) if mark.records else start.digest
        mark.check(ledger, head.records, digest)
        return comparison

    return database.read(read)


def anchor_name(record: AnchorRecord | None) -> str:
    """Return the name in an anchor record; empty if there is no record."""
    return "" if record is None else record.anchor
