"""Session state in memory, in a file or in the ledger."""

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

__all__ = [
    "FileStore",
    "LedgerStore",
    "MemoryStore",
    "Store",
    "check_curator",
    "check_name",
    "check_whole",
]

T = TypeVar("T")

PATIENCE: Final = 60.0
LONGEST_NAME: Final = 100
TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS holdout_sessions "
    "(name TEXT PRIMARY KEY, terms TEXT NOT NULL, progress TEXT NOT NULL)"
)


def check_whole(progress: Progress) -> Progress:
    """Return where a session stands, or refuse one that a failure has ended.

    Why: after a failure no query is asked, so it adds no node to the tree of transcripts, and what
         was promised of the answers given still holds; going on, every answer would depend on
         something told that no theorem counted.
    """
    if progress.is_spoiled:
        raise Refusal(
            "this session ended when a query failed on the holdout's rows and not on the training "
            "rows; what it promised holds for the answers given. Plan a new session, on rows that "
            "no answer has used"
        )
    return progress


def check_name(name: object) -> str:
    """Return the name of a session, or refuse what cannot be one."""
    if isinstance(name, str) and 1 <= len(name) <= LONGEST_NAME and name.isprintable():
        return name
    raise BadDeclaration(
        f"name must be a text of 1 to {LONGEST_NAME} printable characters, got {name!r}"
    )


class Store(Protocol):
    """Where progress is kept; changes come one after the other, whoever makes them."""

    def open(self, terms: str, start: Progress) -> None:
        """Begin a session, or go on with the one begun before on the same terms."""
        ...

    def change(self, body: Callable[[Progress], tuple[Progress, T]]) -> T:
        """Keep the progress that ``body`` returns, then return what it found.

        An error in ``body`` changes nothing. ``body`` may be called again, when another process
        was faster; then what it found before is thrown away unseen.
        """
        ...

    def look(self) -> Progress:
        """Return where the session stands."""
        ...


class MemoryStore:
    """Progress of one process, gone with it."""

    __slots__ = ("_lock", "_process", "_progress")

    def __init__(self) -> None:
        self._lock, self._process, self._progress = threading.Lock(), os.getpid(), Progress()

    def open(self, terms: str, start: Progress) -> None:
        """Begin the session."""
        del terms
        self._progress = start

    def change(self, body: Callable[[Progress], tuple[Progress, T]]) -> T:
        """Change the state under a lock."""
        # Privacy: two copies of a session would answer twice on one budget.
        if self._process != os.getpid():
            raise Fault(
                "a holdout session in memory belongs to the process that opened it; open it with "
                "ledger= a file to share it among processes"
            )
        with self._lock:
            self._progress, found = body(self._progress)
            return found

    def look(self) -> Progress:
        """Return where the session stands."""
        return self._progress

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied or pickled."""
        raise TypeError(
            "a holdout session in memory cannot be copied: both copies would answer; open it with "
            "ledger= a file, and copies share one state (n_jobs > 1 needs that)"
        )

    def __copy__(self) -> NoReturn:
        self.__reduce__()

    def __deepcopy__(self, memo: object) -> NoReturn:
        self.__reduce__()


class FileStore:
    """Progress in a SQLite file: it outlives the process, and all processes take turns at it.

    The file holds counts, and for Thresholdout the noisy threshold, without which "the guess
    stands" would not stay free. It is made readable for its owner alone.
    """

    __slots__ = ("_name", "_path")

    def __init__(self, path: str | Path, name: str) -> None:
        if "://" in str(path):
            raise BadDeclaration(
                f"ledger must be the path of a file, such as 'holdout.db', got {str(path)!r}; a "
                "session in a database belongs to a curator: open that with it, and give curator="
            )
        self._path, self._name = Path(path).absolute(), name
        if not self._path.parent.is_dir():
            raise BadDeclaration(f"ledger must lie in a folder that exists, got {str(path)!r}")

    def open(self, terms: str, start: Progress) -> None:
        """Begin the session, or go on with the one of this name."""
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
                    f"the session {self._name!r} was opened on other terms ({found[0]}), got "
                    f"{terms}; open it as it was, or give another name="
                )
            connection.execute(
                "INSERT OR IGNORE INTO holdout_sessions VALUES (?, ?, ?)",
                (self._name, terms, json.dumps(asdict(start))),
            )

    def change(self, body: Callable[[Progress], tuple[Progress, T]]) -> T:
        """Change the state inside a transaction that shuts out all others."""
        with self._connect() as connection:
            progress, found = body(self._read(connection))
            connection.execute(
                "UPDATE holdout_sessions SET progress = ? WHERE name = ?",
                (json.dumps(asdict(progress)), self._name),
            )
        return found

    def look(self) -> Progress:
        """Return where the session stands."""
        with (
            self._faults(),
            closing(sqlite3.connect(self._path, timeout=PATIENCE)) as connection,
        ):
            return self._read(connection)

    def _read(self, connection: sqlite3.Connection) -> Progress:
        row = connection.execute(
            "SELECT progress FROM holdout_sessions WHERE name = ?", (self._name,)
        ).fetchone()
        if row is None:
            raise Fault(
                f"the session {self._name!r} is no longer in its file; restore the file that it "
                "was opened with"
            )
        return Progress(**json.loads(row[0]))

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise Fault(
                f"the session's file {self._path.name} cannot be used; nothing was answered: see "
                "that it is the file that the session was opened with, may be written, has room on "
                "its disk and is held by no other program"
            ) from error

    @contextmanager
    def _connect(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection inside a write transaction, committed at the end or undone."""
        with (
            self._faults(),
            closing(
                sqlite3.connect(self._path, timeout=PATIENCE, isolation_level=None)
            ) as connection,
        ):
            connection.execute("PRAGMA synchronous = FULL")
            # Privacy: the lock is taken before the state is read, so no two turns see the same.
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                with suppress(sqlite3.Error):  # where SQLite has undone it already
                    connection.execute("ROLLBACK")
                raise
            # Privacy: what was used is on disk before the answer is returned.
            connection.execute("COMMIT")


Result = TypeVar("Result")


def check_curator(curator: "Curator", method: Method) -> Loss:
    """Return the loss of a session; refuse what a curator could not state it for."""
    if method.loss is None:
        raise BadDeclaration(
            f"{method.name} promises validity, not privacy; inside a curator use "
            "method='thresholdout' or method='gaussian'"
        )
    if curator.neighbours is not Neighbours.REPLACE:
        raise BadDeclaration(
            "a holdout's loss is stated for one row replaced; open the curator with "
            "neighbours='replace'"
        )
    return method.loss


class LedgerStore:
    """Progress as answers in a curator's ledger, one for each step of the session.

    The first step is the charge for all that the session will ever tell; later ones cost nothing
    more. A step is found by its key, and the ledger gives each key to one charge and each charge to
    one answer.

    Claim:   everything the session tells, and everything else the curator answers, before, after
             and in between, stays within the curator's budget; and no two answers of the session
             come from the same step, also when processes share it or one of them crashes. An older
             copy of the ledger is noticed wherever the ledger itself notices it.
    Why:     the session's loss is fixed beforehand and holds against an analyst who sees all other
             answers too; the filter is valid for sessions that run side by side. What a step found
             is shown after its commit, and a second commit of one step is refused: its draw is
             thrown away unseen, whatever it was. Steps are records of the chain like any other, so
             the anchor covers them.
    Source:  [HSTVVXZ23], docs/proofs/loss-filters.md, docs/ledger.md.
    Checked: tests/holdout/test_curator.py.
    """

    __slots__ = ("_analyst", "_entry", "_ledger", "_loss", "_name", "_purpose")

    def __init__(self, curator: "Curator", name: str, loss: Loss) -> None:
        self._ledger: Ledger = curator.ledger
        self._name, self._loss, self._entry = name, loss, -1
        self._analyst, self._purpose = curator.analyst, curator.purpose

    def open(self, terms: str, start: Progress) -> None:
        """Charge the session and begin it, or go on with the one of this name.

        Raises:
            BudgetExceeded: the session costs more than is left; nothing was read or begun.
        """
        question, key = self._name_step({"terms": terms}), self._key(0)
        try:
            begun = self._ledger.resume(question, key)
        except KeyUsed:
            raise BadDeclaration(
                f"the session {self._name!r} was opened on other terms; open it as it was, or give "
                "another name="
            ) from None
        if isinstance(begun, StoredAnswer):
            self._entry = begun.receipt.entry
            return
        # Privacy: charged before the session exists; after a crash the charge is found again.
        price = self._ledger.opening.price(self._loss)
        self._entry, _ = self._keep(question, key, _step(0, start), price)

    def change(self, body: Callable[[Progress], tuple[Progress, Result]]) -> Result:
        """Take the next step; when another process was faster, the one after that."""
        question = self._name_step({"paid": self._entry})
        while True:
            step, progress = self._newest(question)
            after, found = body(progress)
            # Privacy: what was found is shown only if this commit is the one that is kept.
            if self._keep(question, self._key(step + 1), _step(step + 1, after))[1]:
                return found

    def look(self) -> Progress:
        """Return where the session stands."""
        return self._newest(self._name_step({"paid": self._entry}))[1]

    def _keep(
        self,
        question: QueryIdentity,
        key: str,
        noisy: Payload,
        price: tuple[Share, Fraction] = (Share(0), Fraction(0)),
    ) -> tuple[int, bool]:
        """Keep a step unless there is one; return its entry, and whether this one was kept."""
        hold: Hold | StoredAnswer | None
        try:
            hold = self._ledger.reserve(question, *price, readings=None, key=key)
        except KeyUsed:
            hold = self._ledger.resume(question, key)
        if isinstance(hold, StoredAnswer):
            return hold.receipt.entry, False
        if hold is None:
            raise Fault(
                "a step of a holdout session is in use, and cannot be found; ask again, and verify "
                "the ledger if that does not help"
            )
        try:
            return self._ledger.commit(hold, noisy).entry, True
        except AnsweredAlready:
            return hold.entry, False

    def _newest(self, question: QueryIdentity) -> tuple[int, Progress]:
        """Return the last step and where it led."""
        kept = self._ledger.stored(question) or self._ledger.answer(self._entry)
        if kept is None:
            raise Fault(
                f"the session {self._name!r} is no longer in its ledger; restore the ledger that "
                "it was opened with"
            )
        return int(kept.noisy["step"]), Progress(**kept.noisy["progress"])

    def _name_step(self, what: dict[str, object]) -> QueryIdentity:
        """Return what the ledger writes down: text that no other question has."""
        text = json.dumps({"holdout": self._name} | what)
        return QueryIdentity(text, "holdout", self._analyst, self._purpose)

    def _key(self, step: int) -> str:
        # Callers' keys are printable, so none of theirs can stand in the way of a step.
        return f"holdout\n{self._name}: {step}"

    def __getstate__(self) -> tuple[None, dict[str, object]]:
        """Refuse to be copied with a ledger in memory: both copies would answer."""
        if isinstance(self._ledger, MemoryLedger):
            raise TypeError(
                "a holdout session on a ledger in memory cannot be copied: both copies would "
                "answer; open the curator with ledger= a file or a database (n_jobs > 1 needs that)"
            )
        return None, {name: getattr(self, name) for name in self.__slots__}


def _step(number: int, progress: Progress) -> Payload:
    """Return a step as the ledger keeps it.

    # Privacy: progress may hold a secret, and exports show a digest of it; with 256 fresh bits
    # beside it nobody can find the one that has this digest.
    """
    return {"step": number, "progress": asdict(progress), "blind": secrets.token_hex(32)}
