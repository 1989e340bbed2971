"""`Ledger`, `Hold`, `Receipt`, and the ledger's errors."""

import logging
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any, Final, NamedTuple, Protocol

from confide.declare import Limits
from confide.errors import BadDeclaration, Fault, Refusal
from confide.loss import Filter, Share

__all__ = [
    "RESTORE",
    "Allowance",
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
    "Payload",
    "QueryIdentity",
    "Receipt",
    "StoredAnswer",
    "as_fault",
    "explain",
    "refuse_relation",
]

NOTHING: Final = Share(0)

Payload = dict[str, Any]
"""A released answer as JSON can hold it, dates too; its layout belongs to release/."""


@dataclass(frozen=True, slots=True)
class QueryIdentity:
    """What is being paid for: enough to know the same question again, and no data."""

    text: str
    fingerprint: str
    analyst: str
    purpose: str = ""


@dataclass(frozen=True, slots=True)
class Receipt:
    """Proof of a charge: the entry's number, what it cost, and its link in the chain."""

    entry: int
    share: Share
    digest: str


class StoredAnswer(NamedTuple):
    """An answer that was given before, with the receipt of what was paid for it."""

    receipt: Receipt
    noisy: Payload


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the ledger, as shown to the owner.

    ``number`` is its place in the chain, in which answers stand too, so that numbers have gaps.
    ``loss`` is what the share allows, exactly; ``spent`` what was spent with this entry, in all.
    ``time`` counts microseconds since 1970, in UTC; ``before`` is the digest of the place before.
    """

    number: int
    question: QueryIdentity
    share: Share
    delta: Fraction
    state: str
    digest: str
    loss: str = ""
    key: str = ""
    spent: Share = NOTHING
    time: int = 0
    before: str = ""

    @property
    def moment(self) -> datetime:
        """The time as a date, in UTC."""
        return _moment(self.time)


@dataclass(frozen=True, slots=True)
class LostAnchor:
    """The loss of an anchor that the owner accepted: a record of the hash chain.

    ``is_anchored`` is whether another anchor was named in its place.
    """

    number: int
    time: int
    is_anchored: bool
    digest: str

    @property
    def moment(self) -> datetime:
        """The time as a date, in UTC."""
        return _moment(self.time)


def _moment(time: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time)


@dataclass(frozen=True, slots=True)
class Allowance:
    """What one may spend: within their own limits, those of the calendar, and the budget."""

    total: Share
    spent: Share
    left: Share


class Hold:
    """Budget that is spent for good: the right to read, once or as often as a mechanism needs.

    Only a ledger makes one; an engine presents it before it reads. ``readings`` is how often, or
    None for a session, whose charge covers everything it ever releases, however often it reads.
    ``delta`` is what the charge covers of failures. ``record`` is the charge as it was written.
    """

    __slots__ = ("_process", "_readings", "delta", "entry", "record", "share")

    def __init__(
        self,
        entry: int,
        share: Share,
        *,
        readings: int | None = 1,
        delta: Fraction = Fraction(0),
        record: object = None,
    ) -> None:
        self.entry, self.share, self.delta, self.record = entry, share, delta, record
        self._readings, self._process = readings, os.getpid()

    def use(self) -> None:
        """Let one reading pass, while any is left, in the process that paid for it.

        # Privacy: a fork copies a session with its noise and its count; only one may go on.
        """
        if self._process != os.getpid():
            raise Fault("this hold belongs to another process; a fork asks and pays for itself")
        if self._readings is None:
            return
        if self._readings == 0:
            raise Fault("this hold was used already; every reading needs its own")
        self._readings -= 1


class Ledger(Protocol):
    """The budget and its history.

    Whose limits a charge must keep is told by its question: the analyst and the purpose.
    """

    @property
    def filter(self) -> Filter:
        """The filter as it stands, with what is spent."""
        ...

    @property
    def opening(self) -> Filter:
        """The filter as it was opened: what each share is worth, without a look at the balance."""
        ...

    @property
    def limits(self) -> Limits:
        """The bounds below the budget."""
        ...

    @property
    def salt(self) -> str:
        """The key of the engine's cut, so that a unit is cut alike as long as the ledger lives.

        # Privacy: it is shown to no one, for with it a unit could be told which rows count.
        """
        ...

    def keep_relation(self, neighbours: str) -> None:
        """Say which neighbours the losses are meant for; refuse another relation than before.

        Raises:
            BadDeclaration: losses under another relation are kept here.
        """
        ...

    def reserve(
        self,
        question: QueryIdentity,
        share: Share,
        delta: Fraction = ...,
        *,
        readings: int | None = ...,
        key: str = ...,
    ) -> Hold:
        """Charge, durably, before anything is read; refuse what does not fit.

        Raises:
            BudgetExceeded: the budget or a limit would be passed; nothing was charged.
            KeyUsed: the key has a charge already; nothing was charged.
        """
        ...

    def commit(self, hold: Hold, noisy: Payload) -> Receipt:
        """Keep the released answer with its charge; only then may it be shown.

        Raises:
            AnsweredAlready: the charge has its answer; ``noisy`` must be thrown away.
        """
        ...

    def resume(self, question: QueryIdentity, key: str) -> Hold | StoredAnswer | None:
        """Return what the key stands for: an answer, a hold that a crash left, or nothing.

        Raises:
            KeyUsed: the key stands for another question.
        """
        ...

    def remember(self, question: QueryIdentity, key: str, receipt: Receipt) -> None:
        """Let the key stand for an answer that was given for free."""
        ...

    def stored(self, question: QueryIdentity) -> StoredAnswer | None:
        """Return the answer to the same question whose charge is the newest, if there is one."""
        ...

    def answer(self, entry: int) -> StoredAnswer | None:
        """Return the answer that an entry paid for."""
        ...

    def answers(self, question: QueryIdentity) -> list[StoredAnswer]:
        """Return all answers to the same question that are free for its analyst, oldest first."""
        ...

    def allowance(self, analyst: str = ..., purpose: str = ...) -> Allowance:
        """Return what an analyst may spend for a purpose."""
        ...

    def entries(self) -> Iterable[Entry]:
        """Return the history, oldest first."""
        ...

    def history(
        self, limit: int, *, before: int | None = ..., analyst: str | None = ...
    ) -> list[Entry]:
        """Return the newest charges first: at most ``limit``, before an entry, of one analyst."""
        ...

    def lost_anchors(self) -> list[LostAnchor]:
        """Return the losses of anchors that the owner accepted, oldest first."""
        ...

    def verify(self) -> None:
        """Recompute balance and chain, and raise a Fault where they disagree."""
        ...

    def export(self) -> Iterator[str]:
        """Yield the history as lines of JSON, without the answers' values."""
        ...


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


class AnchorLost(Fault):
    """The ledger's anchor is missing, so nothing shows whether the ledger is an old backup."""

    code = "anchor-lost"


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
    return as_fault(error)


def as_fault(error: Exception) -> LedgerUnavailable | LedgerDamaged:
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
