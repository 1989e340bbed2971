"""Stores of a holdout session's state: in memory, in a file, or in a curator's ledger."""

import json
import os
import secrets
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn, Protocol, TypeVar

from confide.errors import BadDeclaration, Fault, Refusal
from confide.holdout.protocol import Method, Progress
from confide.lazy import lazy_module
from confide.ledger import (
    AnsweredAlready,
    Hold,
    KeyUsed,
    Ledger,
    MemoryLedger,
    Payload,
    QueryIdentity,
    StoredAnswer,
)
from confide.loss import Loss, Share
from confide.mechanisms import Neighbours

if TYPE_CHECKING:
    from confide.curator import Curator
    from confide.execution import confirmation, pricing
else:
    confirmation = lazy_module("confide.execution.confirmation")
    pricing = lazy_module("confide.execution.pricing")

__all__ = [
    "FileStore",
    "LedgerStore",
    "MemoryStore",
    "Store",
    "check_curator",
    "check_name",
    "check_not_spoiled",
]

T = TypeVar("T")

LOCK_TIMEOUT: Final = 60.0
MAX_NAME_LENGTH: Final = 100
TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS holdout_sessions "
    "(name TEXT PRIMARY KEY, terms TEXT NOT NULL, progress TEXT NOT NULL)"
)


def check_not_spoiled(progress: Progress) -> Progress:
    """Return the state of a session, or refuse if a failed query has ended the session.

    Why: after a failure there are no more queries, so the failure adds no node to the tree of
         transcripts (see `coding_bounds`), and the claim about the earlier answers still holds. If
         the session continued, every answer would depend on information that no theorem accounts
         for.
    """
    if progress.is_spoiled:
        raise Refusal(
            "This session ended when a query failed on the holdout's rows but not on the training "
            "rows. Its guarantee holds for the answers given. Plan a new session, on rows that no "
            "answer has used."
        )
    return progress


def check_name(name: object) -> str:
    """Return the name of a session, or raise BadDeclaration if it is not valid."""
    if isinstance(name, str) and 1 <= len(name) <= MAX_NAME_LENGTH and name.isprintable():
        return name
    raise BadDeclaration(
        f"`name` must be a string of 1 to {MAX_NAME_LENGTH} printable characters; got {name!r}."
    )


class Store(Protocol):
    """A store of a session's progress; changes by all processes are serialized."""

    def open(self, terms: str, start: Progress) -> None:
        """Start a session, or resume one with the same terms."""
        ...

    def change(self, body: Callable[[Progress], tuple[Progress, T]]) -> T:
        """Store the progress that ``body`` returns, then return its result.

        An error in ``body`` changes nothing. If another process was faster, ``body`` is called
        again and its earlier result is discarded unseen.
        """
        ...

    def read(self) -> Progress:
        """Return the current progress."""
        ...


class MemoryStore:
    """A store in memory, for a session that ends with its process."""

    __slots__ = ("_lock", "_process", "_progress")

    def __init__(self) -> None:
        self._lock, self._process, self._progress = threading.Lock(), os.getpid(), Progress()

    def open(self, terms: str, start: Progress) -> None:
        """Start the session."""
        del terms
        self._progress = start

    def change(self, body: Callable[[Progress], tuple[Progress, T]]) -> T:
        """Change the progress under a lock."""
        # Privacy: a copy of the session in another process would answer twice on one budget.
        if self._process != os.getpid():
            raise Fault(
                "A holdout session in memory belongs to the process that opened it. Open it with "
                "`ledger=` and a file to share it among processes."
            )
        with self._lock:
            self._progress, found = body(self._progress)
            return found

    def read(self) -> Progress:
        """Return the current progress."""
        return self._progress

    def __reduce__(self) -> NoReturn:
        """Refuse copying and pickling."""
        raise TypeError(
            "A holdout session in memory cannot be copied, because both copies would answer. Open "
            "it with `ledger=` and a file, so that copies share one state, as `n_jobs` > 1 needs."
        )

    def __copy__(self) -> NoReturn:
        self.__reduce__()

    def __deepcopy__(self, memo: object) -> NoReturn:
        self.__reduce__()


class FileStore:
    """A store in a SQLite file, which outlives the process and which several processes can share.

    The file contains the session's terms and progress, including the noisy threshold of
    Thresholdout. If that threshold leaked, accepted guesses would no longer be free. So a new file
    can be read by its owner only.
    """

    __slots__ = ("_name", "_path")

    def __init__(self, path: str | Path, name: str) -> None:
        if "://" in str(path):
            raise BadDeclaration(
                "`ledger` must be the path of a file, such as 'holdout.db'. To keep a session in a "
                "database, open a curator with this ledger and pass `curator=`; got "
                f"{str(path)!r}."
            )
        self._path, self._name = Path(path).absolute(), name
        if not self._path.parent.is_dir():
            raise BadDeclaration(f"`ledger` must be in a folder that exists; got {str(path)!r}.")

    def open(self, terms: str, start: Progress) -> None:
        """Start the session, or resume the one with this name; refuse other terms."""
        if not self._path.exists():
            with self._faults():
                os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
        with self._connect() as connection:
            connection.execute(TABLE)
            found = connection.execute(
                "SELECT terms FROM holdout_sessions WHERE name = ?", (self._name,)
            ).fetchone()
            if found is not None and found[0] != terms:
                raise BadDeclaration(
                    f"The session {self._name!r} was opened with other terms ({found[0]}). Open it "
                    f"with these terms, or pass another `name=`; got {terms}."
                )
            connection.execute(
                "INSERT OR IGNORE INTO holdout_sessions VALUES (?, ?, ?)",
                (self._name, terms, json.dumps(asdict(start))),
            )

    def change(self, body: Callable[[Progress], tuple[Progress, T]]) -> T:
        """Change the progress in an exclusive transaction."""
        with self._connect() as connection:
            progress, found = body(self._read_row(connection))
            connection.execute(
                "UPDATE holdout_sessions SET progress = ? WHERE name = ?",
                (json.dumps(asdict(progress)), self._name),
            )
        return found

    def read(self) -> Progress:
        """Return the current progress."""
        with (
            self._faults(),
            closing(sqlite3.connect(self._path, timeout=LOCK_TIMEOUT)) as connection,
        ):
            return self._read_row(connection)

    def _read_row(self, connection: sqlite3.Connection) -> Progress:
        row = connection.execute(
            "SELECT progress FROM holdout_sessions WHERE name = ?", (self._name,)
        ).fetchone()
        if row is None:
            raise Fault(
                f"The session {self._name!r} is no longer in its file. Restore the file with which "
                "the session was opened."
            )
        return Progress(**json.loads(row[0]))

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise Fault(
                f"The session's file `{self._path.name}` cannot be used, so nothing was answered. "
                "Check that it is the file with which the session was opened, that it can be "
                "written, that its disk has space, and that no other program has locked it."
            ) from error

    @contextmanager
    def _connect(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection in a write transaction; then commit, or roll back on an error."""
        with (
            self._faults(),
            closing(
                sqlite3.connect(self._path, timeout=LOCK_TIMEOUT, isolation_level=None)
            ) as connection,
        ):
            connection.execute("PRAGMA synchronous = FULL")
            # Privacy: lock before reading, so that two changes never start from the same state.
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                with suppress(sqlite3.Error):  # SQLite may have rolled back already
                    connection.execute("ROLLBACK")
                raise
            # Privacy: the new state is on disk before the answer is returned.
            connection.execute("COMMIT")


Result = TypeVar("Result")


def check_curator(curator: "Curator", method: Method) -> Loss:
    """Return the loss of a session, or raise BadDeclaration if the curator cannot charge it."""
    if method.loss is None:
        raise BadDeclaration(
            f"Method {method.name!r} guarantees validity, not privacy. With `curator=`, use "
            "`method='thresholdout'` or `method='gaussian'`."
        )
    if curator.neighbours is not Neighbours.REPLACE:
        raise BadDeclaration(
            "The privacy loss of a holdout session is that of replacing one row. Open the curator "
            "with `neighbours='replace'`."
        )
    return method.loss


class LedgerStore:
    """A store in a curator's ledger, with a charge and an answer for each step of the session.

    Opening the session is step 0, which is charged with the loss of the whole session. Each change
    of the progress is a later step, which costs nothing more. A step is found by its key. The
    ledger assigns each key to one charge, and each charge to one answer: the progress.

    Claim:   all answers of the session and all other answers of the curator, before, after, and in
             between, stay within the curator's budget. No two answers of the session come from the
             same step, even if several processes share the session or one of them crashes. If the
             ledger is rolled back to an older copy, this is detected as for any other answer.
    Why:     the session's loss is fixed in advance. It bounds what an analyst learns from the
             session, even if the analyst sees all other answers too, and the filter is valid for
             concurrent sessions. The result of a step is shown only after its commit. A second
             commit of the same step is refused, and its random draw is discarded unseen. Steps are
             ordinary records of the chain, so the anchor covers them.
    Source:  [HSTVVXZ23], docs/proofs/loss-filters.md, docs/ledger.md.
    Checked: tests/holdout/test_curator.py.
    """

    __slots__ = (
        *("_analyst", "_entry", "_is_confirmed", "_ledger", "_loss", "_name", "_purpose"),
        "_terms",
    )

    def __init__(
        self, curator: "Curator", name: str, loss: Loss, *, is_confirmed: bool = False
    ) -> None:
        self._ledger: Ledger = curator.ledger
        self._terms, self._is_confirmed = curator.terms, is_confirmed
        self._name, self._loss, self._entry = name, loss, -1
        self._analyst, self._purpose = curator.analyst, curator.purpose

    def open(self, terms: str, start: Progress) -> None:
        """Charge for the session and start it, or resume the one with this name.

        Raises:
            BadDeclaration: the session was opened with other terms.
            BudgetExceeded: the session costs more than the remaining budget; nothing was read.
            ConfirmationRequired: the session costs more than the owner's limit for one query.
        """
        identity, key = self._identify({"terms": terms}), self._key(0)
        try:
            earlier = self._ledger.resume(identity, key)
        except KeyUsed:
            raise BadDeclaration(
                f"The session {self._name!r} was opened with other terms. Open it with the same "
                "terms, or pass another `name=`."
            ) from None
        if isinstance(earlier, StoredAnswer):
            self._entry = earlier.receipt.entry
            return
        # Privacy: charge before the session exists; after a crash, the key finds the charge again.
        price = self._ledger.opening.price(self._loss)
        if earlier is None:
            budget = pricing.Pricing(self._terms, self._ledger)
            confirmation.check_confirmed(budget, identity, *price, is_confirmed=self._is_confirmed)
        self._entry, _ = self._commit_once(identity, key, _step(0, start), price)

    def change(self, body: Callable[[Progress], tuple[Progress, Result]]) -> Result:
        """Store the next step; if another process stored it first, try again after that step."""
        identity = self._identify({"paid": self._entry})
        while True:
            step, progress = self._newest(identity)
            after, found = body(progress)
            # Privacy: return the result only if the ledger stored this commit.
            if self._commit_once(identity, self._key(step + 1), _step(step + 1, after))[1]:
                return found

    def read(self) -> Progress:
        """Return the current progress."""
        return self._newest(self._identify({"paid": self._entry}))[1]

    def _commit_once(
        self,
        identity: QueryIdentity,
        key: str,
        noisy: Payload,
        price: tuple[Share, Fraction] = (Share(0), Fraction(0)),
    ) -> tuple[int, bool]:
        """Store a step unless it exists; return its entry and whether this call stored the step."""
        hold: Hold | StoredAnswer | None
        try:
            hold = self._ledger.reserve(identity, *price, readings=None, key=key)
        except KeyUsed:
            hold = self._ledger.resume(identity, key)
        if isinstance(hold, StoredAnswer):
            return hold.receipt.entry, False
        if hold is None:
            raise Fault(
                "A step of a holdout session is in use and cannot be found. Retry, and verify the "
                "ledger if the error persists."
            )
        try:
            return self._ledger.commit(hold, noisy).entry, True
        except AnsweredAlready:
            return hold.entry, False

    def _newest(self, identity: QueryIdentity) -> tuple[int, Progress]:
        """Return the number of the last step and the progress after it."""
        kept = self._ledger.stored(identity) or self._ledger.answer(self._entry)
        if kept is None:
            raise Fault(
                f"The session {self._name!r} is no longer in its ledger. Restore the ledger with "
                "which the session was opened."
            )
        return int(kept.noisy["step"]), Progress(**kept.noisy["progress"])

    def _identify(self, details: dict[str, object]) -> QueryIdentity:
        """Return an identity for steps in the ledger, which no query outside the session has."""
        text = json.dumps({"holdout": self._name} | details)
        return QueryIdentity(text, "holdout", self._analyst, self._purpose)

    def _key(self, step: int) -> str:
        # Callers' keys are printable, so they cannot collide with this one.
        return f"holdout\n{self._name}: {step}"

    def __getstate__(self) -> tuple[None, dict[str, object]]:
        """Refuse to be copied or pickled if the ledger is in memory: both copies would answer."""
        if isinstance(self._ledger, MemoryLedger):
            raise TypeError(
                "A holdout session on a ledger in memory cannot be copied, because both copies "
                "would answer. Open the curator with `ledger=` and a file or a database, as "
                "`n_jobs` > 1 needs."
            )
        return None, {name: getattr(self, name) for name in self.__slots__}


def _step(number: int, progress: Progress) -> Payload:
    """Return a step as the ledger stores it.

    # Privacy: progress may contain a secret, and exports show a hash of the step. The 256 fresh
    # random bits prevent an attacker from finding the secret by hashing every candidate.
    """
    return {"step": number, "progress": asdict(progress), "blind": secrets.token_hex(32)}
