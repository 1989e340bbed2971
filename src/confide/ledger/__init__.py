"""The budget and its history: reserve before reading, commit before answering."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

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
from confide.ledger.verify import Recount, recount

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
    "recount",
]

_HOMES: Final = {
    "Anchor": "confide.ledger.anchors",
    "Mark": "confide.ledger.anchors",
    "SqlLedger": "confide.ledger.sql",
    "accept_lost_anchor": "confide.ledger.opening",
    "check_ledger": "confide.ledger.opening",
    "open_ledger": "confide.ledger.opening",
}


def __getattr__(name: str) -> Any:
    """Import the ledgers in databases when first used: SQLAlchemy takes a while."""
    if name not in _HOMES:
        raise AttributeError(f"module 'confide.ledger' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
