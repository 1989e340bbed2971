"""Anchors: copies of the newest link, kept outside the ledger.

A back-up of a ledger is a ledger that verifies; only something that was not restored with it can
tell that it is old.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Protocol

from sqlalchemy import Column, Connection, MetaData, Table, Text, insert, select, update
from sqlalchemy.exc import IntegrityError

from confide.errors import BadDeclaration
from confide.ledger.database import Database, wait_turn
from confide.ledger.protocol import AnchorLost, LedgerBehind, LedgerDamaged, LedgerUnavailable
from confide.ledger.schema import WHOLE

__all__ = ["Anchor", "DatabaseAnchor", "FileAnchor", "LogAnchor", "Mark", "open_anchor"]


@dataclass(frozen=True, slots=True)
class Mark:
    """How long a ledger's chain was, and the digest at its end.

    ``anchor`` is the name of the anchor that the mark is in, which the ledger records too: of two
    anchors of one ledger, only the newer one counts.
    """

    ledger: str
    records: int
    digest: str
    anchor: str

    def check(self, ledger: str, records: int, digest: str | None) -> None:
        """Refuse a ledger that is not the one marked, or is older.

        ``digest`` is that of the ledger at this mark's place, None where it has none.
        """
        self.check_owner(ledger)
        if records < self.records or digest is None:
            raise LedgerBehind(
                f"the ledger has {records:,} records, but its anchor has seen {self.records:,}: an "
                "old back-up was restored, and what was spent since then is missing. Restore a "
                "newer one"
            )
        if digest != self.digest:
            raise LedgerDamaged(
                f"the ledger and its anchor disagree about record {self.records - 1:,}: the "
                "ledger's history was written anew; restore the ledger that the anchor has seen"
            )

    def check_owner(self, ledger: str) -> None:
        """Refuse an anchor that was made for another ledger."""
        if self.ledger != ledger:
            raise LedgerBehind(
                "the anchor belongs to another ledger; name the right one, or another anchor for "
                "a new ledger: a new ledger for the same people is a second budget"
            )

    def is_newer(self, known: "Mark | None") -> bool:
        """Return whether this mark takes the place of the one that is kept, of the same ledger.

        # Privacy: an anchor that was emptied is not filled again by the way: the ledger may have
        # been replaced by an old backup since the anchor saw it.
        """
        if known is None:
            raise AnchorLost(EMPTIED)
        known.check_owner(self.ledger)
        if known.anchor != self.anchor:
            raise AnchorLost(EMPTIED)
        if known.records == self.records and known.digest != self.digest:
            known.check(self.ledger, self.records, self.digest)
        return known.records < self.records


EMPTIED: Final = (
    "the anchor was emptied or replaced while it was in use; nothing was answered: restore the "
    "anchor, open the ledger again, and ask with the same key"
)


class Anchor(Protocol):
    """Keeps the newest mark, somewhere that is not restored together with the ledger."""

    def newest(self) -> Mark | None:
        """Return the newest mark, None where there is none yet."""
        ...

    def start(self, mark: Mark) -> None:
        """Keep the first mark, durably; leave an anchor that has one as it is."""
        ...

    def keep(self, mark: Mark) -> Mark:
        """Keep a mark, durably, unless a newer one is kept already; return the newest.

        Raises:
            AnchorLost: there is no mark to take the place of, or it is of another anchor.
            LedgerBehind: it is of another ledger.
            LedgerDamaged: it is of another history.
        """
        ...


class LogAnchor:
    """Marks at the end of a file that only grows: one line each, on a disk that may forbid more."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)

    def newest(self) -> Mark | None:
        """Return the mark of the last whole line."""
        with _faults(self._path):
            try:
                with self._path.open("rb") as file:
                    return _last(file.fileno())
            except FileNotFoundError:
                return None

    def start(self, mark: Mark) -> None:
        """Write the first line."""
        with _faults(self._path), _locked(self._path) as file:
            if _last(file) is None:
                _append(file, (json.dumps(asdict(mark)) + "\n").encode())

    def keep(self, mark: Mark) -> Mark:
        """Add a line."""
        with _faults(self._path), _locked(self._path) as file:
            known = _last(file)
            if not mark.is_newer(known):
                return known or mark
            _append(file, (json.dumps(asdict(mark)) + "\n").encode())
            return mark


class FileAnchor:
    """The newest mark alone, in a small file that is replaced as a whole."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._guard = self._path.with_name(self._path.name + ".lock")

    def newest(self) -> Mark | None:
        """Return the mark."""
        with _faults(self._path):
            try:
                content = self._path.read_bytes()
            except FileNotFoundError:
                return None
        return _read(content) if content else None

    def start(self, mark: Mark) -> None:
        """Write the file, if it is not there."""
        with _faults(self._path), _locked(self._guard):
            if self.newest() is None:
                self._replace(mark)

    def keep(self, mark: Mark) -> Mark:
        """Put the mark in the place of an older one."""
        with _faults(self._path), _locked(self._guard):
            known = self.newest()
            if not mark.is_newer(known):
                return known or mark
            self._replace(mark)
            return mark

    def _replace(self, mark: Mark) -> None:
        part = self._path.with_name(self._path.name + ".part")
        with part.open("wb") as file:
            file.write((json.dumps(asdict(mark)) + "\n").encode())
            file.flush()
            os.fsync(file.fileno())
        part.replace(self._path)
        _sync_folder(self._path.parent)


def open_anchor(address: str | Path) -> Anchor:
    """Return the anchor at an address.

    A path that ends in ``.log`` or ``.jsonl`` is a log that only grows, another path a small file;
    ``sqlite:///...`` and ``postgresql://...`` are tables of another database.
    """
    text = str(address)
    if "://" in text:
        return DatabaseAnchor(text)
    if not text.strip():
        raise BadDeclaration(
            "the address of an anchor must be a path or a database, got nothing; write one such as "
            "'anchor.log'"
        )
    return LogAnchor(text) if Path(text).suffix in (".log", ".jsonl") else FileAnchor(text)


@contextmanager
def _faults(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise LedgerUnavailable(
            f"the anchor {path.name} cannot be used ({error.strerror}); nothing was answered: make "
            "it readable and writable for whoever runs confide, and ask with the same key again"
        ) from error


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """Open a file for adding to it, and let no one else do so meanwhile."""
    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file
    finally:
        os.close(file)


def _append(file: int, line: bytes) -> None:
    size = os.fstat(file).st_size
    if size and os.pread(file, 1, size - 1) != b"\n":
        line = b"\n" + line  # a line that a crash cut off ends here
    while line:
        line = line[os.write(file, line) :]
    os.fsync(file)


def _last(file: int) -> Mark | None:
    """Return the mark of the last line that is whole."""
    size = os.fstat(file).st_size
    taken = min(size, 4_096)
    lines = os.pread(file, taken, size - taken).split(b"\n")
    whole = [line for line in lines[:-1] if line.startswith(b"{") and line.endswith(b"}")]
    if not whole and size:
        raise LedgerDamaged("the anchor holds no mark; restore it, or name a new one")
    return _read(whole[-1]) if whole else None


def _read(line: bytes) -> Mark:
    try:
        values = json.loads(line)
        ledger, digest, anchor = (str(values[name]) for name in ("ledger", "digest", "anchor"))
        return Mark(ledger, int(values["records"]), digest, anchor)
    except (ValueError, KeyError, TypeError):
        raise LedgerDamaged("the anchor holds no mark; restore it, or name a new one") from None


def _sync_folder(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


TABLES: Final = MetaData()
ANCHORS: Final = Table(
    "confide_anchors",
    TABLES,
    Column("one", Text, primary_key=True),
    Column("ledger", Text, nullable=False),
    Column("records", WHOLE, nullable=False),
    Column("digest", Text, nullable=False),
    Column("anchor", Text, nullable=False),
)
NEWEST: Final = "newest"


class DatabaseAnchor:
    """The newest mark in a table of another database, which only moves on."""

    def __init__(self, address: str | Path, *, wait: float = 30.0) -> None:
        self._database = Database(address, wait=wait)
        self._database.change(_make_tables)

    def newest(self) -> Mark | None:
        """Return the mark."""
        return self._database.look(_find_mark)

    def start(self, mark: Mark) -> None:
        """Write the row, if it is not there."""

        def add(connection: Connection) -> None:
            if _find_mark(connection) is None:
                # Another process may add the row at the same moment; then that one stays.
                with suppress(IntegrityError), connection.begin_nested():
                    connection.execute(insert(ANCHORS).values(one=NEWEST, **asdict(mark)))

        self._database.change(add)

    def keep(self, mark: Mark) -> Mark:
        """Move the mark on, where it is behind."""
        later = update(ANCHORS).where(ANCHORS.c.one == NEWEST).values(**asdict(mark))
        later = later.where(ANCHORS.c.ledger == mark.ledger, ANCHORS.c.anchor == mark.anchor)
        later = later.where(ANCHORS.c.records < mark.records)

        def move(connection: Connection) -> Mark:
            if connection.execute(later).rowcount:
                return mark
            known = _find_mark(connection)
            mark.is_newer(known)
            return known or mark

        return self._database.change(move)


def _make_tables(connection: Connection) -> None:
    wait_turn(connection)
    TABLES.create_all(connection)


def _find_mark(connection: Connection) -> Mark | None:
    columns = (ANCHORS.c.ledger, ANCHORS.c.records, ANCHORS.c.digest, ANCHORS.c.anchor)
    row = connection.execute(select(*columns)).first()
    return None if row is None else Mark(*row)
