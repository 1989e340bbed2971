"""Why the database of a ledger failed, in our words; its own go to the owner's log."""

import logging
from typing import Final

from confide.ledger.refusals import LedgerDamaged, LedgerUnavailable

__all__ = ["explain", "put_in_words"]

OWNER_LOG: Final = logging.getLogger("confide.owner")
SPOILT: Final = ("SQLITE_CORRUPT", "SQLITE_NOTADB")
REASONS: Final = {
    "SQLITE_BUSY": "it is locked by another program",
    "SQLITE_LOCKED": "it is locked by another program",
    "SQLITE_READONLY": "it may not be written",
    "SQLITE_FULL": "the disk is full",
    "SQLITE_IOERR": "the disk failed or is full",
    "SQLITE_CANTOPEN": "it cannot be opened",
    "SQLITE_CORRUPT": "its file is damaged",
    "SQLITE_NOTADB": "its file is damaged, or is no ledger",
    "55P03": "it is locked by another program",
    "25006": "it may not be written",
    "53100": "the disk is full",
}
"""Why a database does not answer: the first part of its code, in our words."""


def explain(error: Exception) -> LedgerUnavailable | LedgerDamaged:
    """Return a fault in our words; those of the database go to the owner's log.

    # Privacy: the words of a database may quote what was written, so no analyst sees them.
    """
    original = _original(error)
    said = (str(original).splitlines() or [""])[0]
    OWNER_LOG.warning("the ledger's database failed: %s: %s", type(original).__name__, said)
    OWNER_LOG.debug("the ledger's database failed", exc_info=error)
    return put_in_words(error)


def put_in_words(error: Exception) -> LedgerUnavailable | LedgerDamaged:
    """Return a fault that tells what can be done about it, and nothing that was written."""
    code = _code(error)
    known = [reason for name, reason in REASONS.items() if code.startswith(name)]
    reason = known[0] if known else "its database failed"
    if code.startswith(SPOILT):
        return LedgerDamaged(
            f"the ledger cannot be read: {reason}; nothing was answered. Restore the newest "
            "back-up, and let the anchor tell whether it is new enough"
        )
    return LedgerUnavailable(
        f"the ledger cannot be used: {reason}; nothing was answered. A charge may have been made: "
        "ask again with the same key, if you gave one"
    )


def _code(error: Exception) -> str:
    original = _original(error)
    found = getattr(original, "sqlite_errorname", None) or getattr(original, "sqlstate", None)
    return str(found or "")


def _original(error: Exception) -> Exception:
    """Return the driver's own error, if there is one."""
    original: Exception = getattr(error, "orig", None) or error
    return original
