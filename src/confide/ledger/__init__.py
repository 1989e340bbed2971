"""The privacy budget and its history.

Every query reserves its cost here before any row is read, and commits its answer before the answer
is shown.
"""

from typing import TYPE_CHECKING, Final

from confide.lazy import import_late
from confide.ledger.memory import MemoryLedger
from confide.ledger.protocol import (
    Allowance,
    AnchorLost,
    AnsweredAlready,
    Entry,
    Hold,
    KeyUsed,
    Ledger,
    LedgerBehind,
    LedgerDamaged,
    LedgerNewer,
    LedgerUnavailable,
    LostAnchor,
    Payload,
    QueryIdentity,
    Receipt,
    StoredAnswer,
)
from confide.ledger.verify import Export, Recount, read_export, recount

if TYPE_CHECKING:
    from confide.ledger.anchors import Anchor, Mark
    from confide.ledger.opening import accept_lost_anchor, check_ledger, open_ledger
    from confide.ledger.sql import SqlLedger

__all__ = [
    "Allowance",
    "Anchor",
    "AnchorLost",
    "AnsweredAlready",
    "Entry",
    "Export",
    "Hold",
    "KeyUsed",
    "Ledger",
    "LedgerBehind",
    "LedgerDamaged",
    "LedgerNewer",
    "LedgerUnavailable",
    "LostAnchor",
    "Mark",
    "MemoryLedger",
    "Payload",
    "QueryIdentity",
    "Receipt",
    "Recount",
    "SqlLedger",
    "StoredAnswer",
    "accept_lost_anchor",
    "check_ledger",
    "open_ledger",
    "read_export",
    "recount",
]

_HOMES: Final = {
    "Anchor": "confide.ledger.anchors",
    "Mark": "confide.ledger.anchors",
    "accept_lost_anchor": "confide.ledger.opening",
    "check_ledger": "confide.ledger.opening",
    "open_ledger": "confide.ledger.opening",
    "SqlLedger": "confide.ledger.sql",
}
__getattr__ = import_late(__name__, _HOMES)
