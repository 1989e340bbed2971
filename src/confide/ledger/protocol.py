"""`Ledger`, the values that it stores and returns, and its errors.

For each query, the executor reserves a `Hold`, reads the data with it, commits the noisy answer,
and returns the answer with a `Receipt`.
"""

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
    "key_in_use",
    "key_of_other_query",
    "refuse_relation",
]

ZERO_SHARE: Final = Share(0)

Payload = dict[str, Any]
"""A released answer as JSON values and dates; the release package defines its layout."""


@dataclass(frozen=True, slots=True)
class QueryIdentity:
    """The identity of a query: enough to recognize a repeated query, and free of data.

    ``text`` is the canonical form of the query. ``fingerprint`` is a hash of the declaration that
    the query was planned for, and of its neighboring relation.
    """

    text: str
    fingerprint: str
    analyst: str
    purpose: str = ""


@dataclass(frozen=True, slots=True)
class Receipt:
    """Proof of a charge: the number of its entry, its cost, and its hash in the chain."""

    entry: int
    share: Share
    digest: str


class StoredAnswer(NamedTuple):
    """An earlier answer, with the receipt of the charge that paid for it."""

    receipt: Receipt
    noisy: Payload


@dataclass(frozen=True, slots=True)
class Entry:
    """A charge in the ledger, as shown to the owner.

    ``number`` is the position in the chain. Numbers have gaps, because the chain contains answers
    too. ``delta`` is the charged probability of failures, and ``state`` is ``"held"`` until the
    charge has an answer, then ``"answered"``. ``loss`` describes the exact privacy loss that the
    share allows, as JSON. ``key`` is the idempotency key, and ``spent`` the total spent including
    this entry. ``time`` is in microseconds since 1970, in UTC. ``before`` is the hash of the
    previous record.
    """

    number: int
    question: QueryIdentity
    share: Share
    delta: Fraction
    state: str
    digest: str
    loss: str = ""
    key: str = ""
    spent: Share = ZERO_SHARE
    time: int = 0
    before: str = ""

    @property
    def moment(self) -> datetime:
        """The time as a timestamp in UTC."""
        return _to_datetime(self.time)


@dataclass(frozen=True, slots=True)
class LostAnchor:
    """A record of the hash chain: the owner accepted that the ledger's anchor is lost.

    ``is_anchored`` is whether another anchor replaced the lost one.
    """

    number: int
    time: int
    is_anchored: bool
    digest: str

    @property
    def moment(self) -> datetime:
        """The time as a timestamp in UTC."""
        return _to_datetime(self.time)


def _to_datetime(time: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time)


@dataclass(frozen=True, slots=True)
class Allowance:
    """The amounts that an analyst may spend, has spent, and has left.

    ``total`` is the analyst's limit over the ledger's whole life, or the whole budget without such
    a limit. ``left`` is the most that the next charge may cost under all limits and the budget.
    """

    total: Share
    spent: Share
    left: Share


class Hold:
    """The right to read data, paid for with budget that is never refunded.

    Only a ledger creates holds, and an engine uses one each time it reads. ``readings`` is the
    number of times that the hold can be used. It is None for a session, whose charge covers
    everything that the session ever releases. ``delta`` is the charged probability of failures.
    ``record`` is the charge as stored by the ledger.
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
        """Count one reading; raise Fault if none is left, or if another process made the hold.

        # Privacy: a fork copies a session with its noise and its count of readings. Only one of the
        # two processes may continue.
        """
        if self._process != os.getpid():
            raise Fault("This hold belongs to another process. Reserve one in this process.")
        if self._readings is None:
            return
        if self._readings == 0:
            raise Fault("This hold was already used. Reserve a hold for each reading.")
        self._readings -= 1


class Ledger(Protocol):
    """The budget and its history.

    A charge must fit the remaining budget, and the limits of its query's analyst and purpose.
    """

    @property
    def filter(self) -> Filter:
        """The filter in its current state, with everything spent so far."""
        ...

    @property
    def opening(self) -> Filter:
        """The filter before any charge; it is known without reading the balance."""
        ...

    @property
    def limits(self) -> Limits:
        """The limits on parts of the budget, such as each analyst's."""
        ...

    @property
    def salt(self) -> str:
        """The secret salt of the engine's row hash, which chooses the rows of a unit that count.

        One salt for all queries makes the same rows count in each of them.

        # Privacy: the salt is secret, because it reveals which rows of a unit count.
        """
        ...

    def keep_relation(self, neighbours: str) -> None:
        """Record which neighboring relation the privacy losses assume; refuse a different one.

        Raises:
            BadDeclaration: the losses in the ledger are for another relation.
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
        """Charge ``share`` and ``delta`` durably, and return the hold that permits reading.

        Raises:
            BudgetExceeded: the charge would exceed the budget or a limit; nothing was charged.
            KeyUsed: the key already has a charge; nothing was charged.
        """
        ...

    def commit(self, hold: Hold, noisy: Payload) -> Receipt:
        """Store an answer next to the charge that paid for it, and return the receipt.

        # Privacy: an answer is shown only after this method returns.

        Raises:
            AnsweredAlready: the charge already has an answer; ``noisy`` must be discarded.
        """
        ...

    def resume(self, question: QueryIdentity, key: str) -> Hold | StoredAnswer | None:
        """Return the answer of an earlier request with this key, or its hold if it has no answer.

        The result is None if the key is unused.

        Raises:
            KeyUsed: the key belongs to another query.
        """
        ...

    def remember(self, question: QueryIdentity, key: str, receipt: Receipt) -> None:
        """Assign the key to the earlier answer with this receipt, which was returned again.

        Raises:
            KeyUsed: the key belongs to another charge.
        """
        ...

    def stored(self, question: QueryIdentity) -> StoredAnswer | None:
        """Return the newest answer to this query that its analyst can have for free, or None."""
        ...

    def answer(self, entry: int) -> StoredAnswer | None:
        """Return the answer of an entry, or None if it has no answer."""
        ...

    def answers(self, question: QueryIdentity) -> list[StoredAnswer]:
        """Return all answers to this query that its analyst can have for free, oldest first."""
        ...

    def allowance(self, analyst: str = ..., purpose: str = ...) -> Allowance:
        """Return the allowance of an analyst for a purpose, or of the budget without an analyst."""
        ...

    def entries(self) -> Iterable[Entry]:
        """Return all charges, oldest first."""
        ...

    def history(
        self, limit: int, *, before: int | None = ..., analyst: str | None = ...
    ) -> list[Entry]:
        """Return at most ``limit`` charges, newest first.

        With ``before``, only entries with a smaller number are returned, and with ``analyst``, only
        entries of that analyst.
        """
        ...

    def lost_anchors(self) -> list[LostAnchor]:
        """Return the lost anchors whose loss was accepted, oldest first."""
        ...

    def verify(self) -> None:
        """Recompute the balance and the chain; raise a Fault if they do not match."""
        ...

    def export(self) -> Iterator[str]:
        """Yield the history as JSON lines, without the values of answers."""
        ...


RESTORE: Final = "Restore the newest backup; an anchor shows whether it is new enough."
"""The advice in messages about a ledger that contradicts itself."""


class KeyUsed(Refusal):
    """The idempotency key was used for another query, or is in use; nothing was read or spent."""

    code = "key-used"


def key_in_use(key: str) -> KeyUsed:
    """Return the error for an idempotency key that another request has."""
    return KeyUsed(
        f"Idempotency key {key!r} is in use by another request. Retry with the same key."
    )


def key_of_other_query(key: str) -> KeyUsed:
    """Return the error for an idempotency key that was used for another query."""
    return KeyUsed(
        f"Idempotency key {key!r} was already used for a different query. Use a new key."
    )


class AnsweredAlready(Fault):
    """The charge already has an answer; a second one was computed, and discarded unseen."""

    code = "answered-already"


class LedgerUnavailable(Fault):
    """The ledger cannot be reached or written, so no query is answered."""

    code = "ledger-unavailable"


class LedgerDamaged(Fault):
    """The ledger contradicts itself, so no query is answered until the owner repairs it."""

    code = "ledger-damaged"


class LedgerBehind(Fault):
    """The ledger lacks records that its anchor, or this process, has seen.

    This is also raised if a ledger without an anchor is given the anchor of another ledger.
    """

    code = "ledger-behind"


class AnchorLost(Fault):
    """The ledger's anchor is not the configured one, so an old backup would go unnoticed."""

    code = "anchor-lost"


class LedgerNewer(Fault):
    """The ledger was written by a newer version of confide, which may use other records."""

    code = "ledger-newer"


def refuse_relation(kept: str, declared: str) -> None:
    """Raise BadDeclaration if the declared neighboring relation differs from the ledger's."""
    if kept != declared:
        raise BadDeclaration(
            f"This ledger records losses for `neighbours = {kept!r}`, but {declared!r} is "
            "declared. Declare the ledger's relation again, or use another ledger; losses under "
            "two relations do not add up."
        )


OWNER_LOG: Final = logging.getLogger("confide.owner")
DAMAGE_CODES: Final = ("SQLITE_CORRUPT", "SQLITE_NOTADB")
REASONS: Final = {
    "SQLITE_BUSY": "it is locked by another program",
    "SQLITE_LOCKED": "it is locked by another program",
    "SQLITE_READONLY": "it is read-only",
    "SQLITE_FULL": "the disk is full",
    "SQLITE_IOERR": "the disk failed or is full",
    "SQLITE_CANTOPEN": "it cannot be opened",
    "SQLITE_CORRUPT": "its file is damaged",
    "SQLITE_NOTADB": "its file is damaged or not a ledger",
    "55P03": "it is locked by another program",
    "25006": "it is read-only",
    "53100": "the disk is full",
}
"""The reason for a database failure, by the prefix of SQLite's or PostgreSQL's error code."""


def explain(error: Exception) -> LedgerUnavailable | LedgerDamaged:
    """Log the message of a database error for the owner, and return a fault without it.

    # Privacy: a database message can quote stored values, so it is never shown to analysts.
    """
    original = _original(error)
    message = (str(original).splitlines() or [""])[0]
    OWNER_LOG.warning("The ledger's database failed: %s: %s", type(original).__name__, message)
    OWNER_LOG.debug("The ledger's database failed.", exc_info=error)
    return as_fault(error)


def as_fault(error: Exception) -> LedgerUnavailable | LedgerDamaged:
    """Return a fault that states the reason and the remedy, but no stored value."""
    code = _code(error)
    known = [reason for name, reason in REASONS.items() if code.startswith(name)]
    reason = known[0] if known else "its database failed"
    if code.startswith(DAMAGE_CODES):
        return LedgerDamaged(
            f"The ledger cannot be read: {reason}. No answer was returned. {RESTORE}"
        )
    return LedgerUnavailable(
        f"The ledger is unavailable: {reason}. No answer was returned, but a charge may have been "
        "made. If you retry with the same key, you will not be charged twice."
    )


def _code(error: Exception) -> str:
    original = _original(error)
    found = getattr(original, "sqlite_errorname", None) or getattr(original, "sqlstate", None)
    return str(found or "")


def _original(error: Exception) -> Exception:
    """Return the driver's error that an SQLAlchemy error wraps, or else the error itself."""
    original: Exception = getattr(error, "orig", None) or error
    return original
