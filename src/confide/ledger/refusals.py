"""Refusals and faults that belong to ledgers."""

from typing import Final

from confide.errors import BadDeclaration, Fault, Refusal

__all__ = [
    "RESTORE",
    "AnsweredAlready",
    "KeyUsed",
    "LedgerBehind",
    "LedgerDamaged",
    "LedgerNewer",
    "LedgerUnavailable",
    "refuse_relation",
]


RESTORE: Final = "restore the newest back-up, and let the anchor tell whether it is new enough"
"""What to do about a ledger that contradicts itself."""


class KeyUsed(Refusal):
    """The key was used for another question, or is in use; nothing was read or spent."""

    code = "key-used"


class AnsweredAlready(Fault):
    """The charge has its answer; another one was drawn and thrown away unseen."""

    code = "answered-already"


class LedgerUnavailable(Fault):
    """The ledger cannot be reached or written; without it nothing is answered."""

    code = "ledger-unavailable"


class LedgerDamaged(Fault):
    """The ledger contradicts itself; nothing is answered until the owner has looked at it."""

    code = "ledger-damaged"


class LedgerBehind(Fault):
    """The ledger is older than its anchor: a back-up was restored, and charges are missing."""

    code = "ledger-behind"


class LedgerNewer(Fault):
    """The ledger was written by a newer confide, whose records this one may not understand."""

    code = "ledger-newer"


def refuse_relation(kept: str, asked: str) -> None:
    """Refuse losses under another relation of neighbours than the one that a ledger keeps.

    Raises:
        BadDeclaration: the two are not the same.
    """
    if kept != asked:
        raise BadDeclaration(
            f"this ledger keeps losses for neighbours = {kept!r}, and {asked!r} is declared; "
            "declare the ledger's own again, or name another ledger: losses under two relations do "
            "not add up"
        )
