"""What a session has used so far, kept in memory or in a file that several processes share."""

import json
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, NoReturn, Protocol, TypeVar

from confide.errors import BadDeclaration, Fault, Refusal

__all__ = ["FileStore", "MemoryStore", "Progress", "Store", "check_name", "check_whole"]

T = TypeVar("T")

PATIENCE: Final = 60.0
LONGEST_NAME: Final = 100
TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS holdout_sessions "
    "(name TEXT PRIMARY KEY, terms TEXT NOT NULL, progress TEXT NOT NULL)"
)


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a session stands.

    ``nats`` is the code length of the transcript so far, ``level`` the best level of a board.
    ``secret`` is the noisy threshold in steps: as secret as the rows. ``is_spoiled`` says that a
    query failed on the holdout's rows alone, which ended the session.
    """

    queries: int = 0
    overfits: int = 0
    nats: float = 0.0
    level: int = 0
    secret: int | None = None
    is_spoiled: bool = False


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
