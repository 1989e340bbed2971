"""Anchors: copies of the newest hash, stored outside the ledger.

A restored backup of a ledger passes verification, because its chain is intact. Only a hash that is
stored elsewhere, and not restored together with the ledger, reveals that the backup is old.
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
from confide.ledger.schema import BIG_INTEGER

__all__ = ["Anchor", "DatabaseAnchor", "FileAnchor", "LogAnchor", "Mark", "open_anchor"]


@dataclass(frozen=True, slots=True)
class Mark:
    """The length of a ledger's chain at some time, and the hash at its end.

    ``anchor`` is the name of the anchor that contains the mark. The ledger records this name too,
    so that only the newest anchor of a ledger counts.
    """

    ledger: str
    records: int
    digest: str
    anchor: str

    def check(self, ledger: str, records: int, digest: str | None) -> None:
        """Raise an error if a ledger is older than this mark, or is not the marked one.

        ``ledger`` and ``records`` are the ledger's identity and its number of records. ``digest``
        is the hash of the record that was the newest when the mark was made, or None if the ledger
        lacks that record.
        """
        self.check_owner(ledger)
        if records < self.records or digest is None:
            raise LedgerBehind(
                f"The ledger has {records:,} records, but its anchor has seen {self.records:,}. An "
                "old backup was restored, so later charges are missing. Restore a newer backup."
            )
        if digest != self.digest:
            raise LedgerDamaged(
                f"The ledger and its anchor disagree about record {self.records - 1:,}, so the "
                "ledger's history was rewritten. Restore the ledger that the anchor has seen."
            )

    def check_owner(self, ledger: str) -> None:
        """Raise LedgerBehind if the anchor belongs to another ledger."""
        if self.ledger != ledger:
            raise LedgerBehind(
                "The anchor belongs to another ledger. Configure this ledger's anchor, or another "
                "anchor for a new ledger. A new ledger for the same people is a second budget."
            )

    def is_newer(self, known: "Mark | None") -> bool:
        """Return whether this mark is newer than ``known``, the mark that the anchor has.

        Raises an error if there is no such mark, if it is of another ledger or anchor, or if it has
        as many records as this mark but another hash.

        # Privacy: an emptied anchor is never refilled implicitly. The ledger may have been replaced
        # by an old backup after the anchor's last mark.
        """
        if known is None:
            raise AnchorLost(REPLACED_ANCHOR)
        known.check_owner(self.ledger)
        if known.anchor != self.anchor:
            raise AnchorLost(REPLACED_ANCHOR)
        if known.records == self.records and known.digest != self.digest:
            known.check(self.ledger, self.records, self.digest)
        return known.records < self.records


REPLACED_ANCHOR: Final = (
    "The anchor was emptied or replaced while it was in use, so no answer was returned. Restore "
    "the anchor, open the ledger again, and retry with the same key."
)


class Anchor(Protocol):
    """Storage for the newest mark, in a place that is not restored together with the ledger."""

    def newest(self) -> Mark | None:
        """Return the newest mark, or None if there is none yet."""
        ...

    def start(self, mark: Mark) -> None:
        """Store the first mark durably; do nothing if the anchor already has one."""
        ...

    def keep(self, mark: Mark) -> Mark:
        """Store a mark durably, unless the stored one is as new or newer; return the newest mark.

        Raises:
            AnchorLost: there is no stored mark, or it is from another anchor.
            LedgerBehind: the stored mark is from another ledger.
            LedgerDamaged: the stored mark has as many records, but another hash.
        """
        ...


class LogAnchor:
    """An anchor in a file with one line per mark.

    The file is only appended to, which a file system can enforce.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)

    def newest(self) -> Mark | None:
        """Return the mark in the last complete line."""
        with _explain_errors(self._path):
            try:
                with self._path.open("rb") as file:
                    return _read_last_line(file.fileno())
            except FileNotFoundError:
                return None

    def start(self, mark: Mark) -> None:
        """Write the first line; do nothing if there is one."""
        with _explain_errors(self._path), _lock_file(self._path) as file:
            if _read_last_line(file) is None:
                _append_line(file, (json.dumps(asdict(mark)) + "\n").encode())

    def keep(self, mark: Mark) -> Mark:
        """Append a line if the mark is newer than the last one."""
        with _explain_errors(self._path), _lock_file(self._path) as file:
            known = _read_last_line(file)
            if not mark.is_newer(known):
                return known or mark
            _append_line(file, (json.dumps(asdict(mark)) + "\n").encode())
            return mark


class FileAnchor:
    """An anchor in a small file that contains only the newest mark and is replaced atomically."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._lock_path = self._path.with_name(self._path.name + ".lock")

    def newest(self) -> Mark | None:
        """Return the mark in the file."""
        with _explain_errors(self._path):
            try:
                content = self._path.read_bytes()
            except FileNotFoundError:
                return None
        return _parse_mark(content) if content else None

    def start(self, mark: Mark) -> None:
        """Write the file if it has no mark."""
        with _explain_errors(self._path), _lock_file(self._lock_path):
            if self.newest() is None:
                self._replace(mark)

    def keep(self, mark: Mark) -> Mark:
        """Replace the file if the mark is newer."""
        with _explain_errors(self._path), _lock_file(self._lock_path):
            known = self.newest()
            if not mark.is_newer(known):
                return known or mark
            self._replace(mark)
            return mark

    def _replace(self, mark: Mark) -> None:
        temporary = self._path.with_name(self._path.name + ".part")
        with temporary.open("wb") as file:
            file.write((json.dumps(asdict(mark)) + "\n").encode())
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._path)
        _sync_folder(self._path.parent)


def open_anchor(address: str | Path) -> Anchor:
    """Return the anchor at an address.

    A path that ends in ``.log`` or ``.jsonl`` is an append-only log; any other path is a small
    file. ``sqlite:///...`` and ``postgresql://...`` are tables in another database.
    """
    text = str(address)
    if "://" in text:
        return DatabaseAnchor(text)
    if not text.strip():
        raise BadDeclaration(
            "The address of an anchor must be a path or the URL of a database, such as "
            "`anchor.log`; got nothing."
        )
    return LogAnchor(text) if Path(text).suffix in (".log", ".jsonl") else FileAnchor(text)


@contextmanager
def _explain_errors(path: Path) -> Iterator[None]:
    """Raise LedgerUnavailable for errors of the operating system."""
    try:
        yield
    except OSError as error:
        raise LedgerUnavailable(
            f"The anchor `{path.name}` cannot be used ({error.strerror}), so no answer was "
            "returned. Make it readable and writable for the user that runs confide, and retry "
            "with the same key."
        ) from error


@contextmanager
def _lock_file(path: Path) -> Iterator[int]:
    """Open a file for appending, and hold its exclusive lock."""
    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file
    finally:
        os.close(file)


def _append_line(file: int, line: bytes) -> None:
    size = os.fstat(file).st_size
    if size and os.pread(file, 1, size - 1) != b"\n":
        line = b"\n" + line  # terminate a line that a crash left incomplete
    while line:
        line = line[os.write(file, line) :]
    os.fsync(file)


def _read_last_line(file: int) -> Mark | None:
    """Return the mark in the last complete line, or None if no line was ever completed."""
    size = os.fstat(file).st_size
    length = min(size, 4_096)
    lines = os.pread(file, length, size - length).split(b"\n")
    if length == size and len(lines) == 1 and lines[0].startswith(b"{"):
        return None  # a crash in `start`: the first mark was not on disk, so nothing was shown
    complete = [line for line in lines[:-1] if line.startswith(b"{") and line.endswith(b"}")]
    if not complete and size:
        raise LedgerDamaged("The anchor contains no mark. Restore it, or configure a new anchor.")
    return _parse_mark(complete[-1]) if complete else None


def _parse_mark(line: bytes) -> Mark:
    try:
        values = json.loads(line)
        ledger, digest, anchor = (str(values[name]) for name in ("ledger", "digest", "anchor"))
        return Mark(ledger, int(values["records"]), digest, anchor)
    except (ValueError, KeyError, TypeError):
        raise LedgerDamaged(
            "The anchor contains no mark. Restore it, or configure a new anchor."
        ) from None


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


TABLES: Final = MetaData()
ANCHORS: Final = Table(
    "confide_anchors",
    TABLES,
    Column("one", Text, primary_key=True),
    Column("ledger", Text, nullable=False),
    Column("records", BIG_INTEGER, nullable=False),
    Column("digest", Text, nullable=False),
    Column("anchor", Text, nullable=False),
)
ROW_NAME: Final = "newest"


class DatabaseAnchor:
    """An anchor in another database: a table whose only row is the newest mark."""

    def __init__(self, address: str | Path, *, wait: float = 30.0) -> None:
        self._database = Database(address, wait=wait)
        self._database.change(_create_tables)

    def newest(self) -> Mark | None:
        """Return the mark in the row."""
        return self._database.read(_find_mark)

    def start(self, mark: Mark) -> None:
        """Insert the row if there is none."""

        def add(connection: Connection) -> None:
            if _find_mark(connection) is None:
                # If another process inserts the row at the same time, its mark stays.
                with suppress(IntegrityError), connection.begin_nested():
                    connection.execute(insert(ANCHORS).values(one=ROW_NAME, **asdict(mark)))

        self._database.change(add)

    def keep(self, mark: Mark) -> Mark:
        """Update the row if the mark is newer."""
        query = update(ANCHORS).where(ANCHORS.c.one == ROW_NAME).values(**asdict(mark))
        query = query.where(ANCHORS.c.ledger == mark.ledger, ANCHORS.c.anchor == mark.anchor)
        query = query.where(ANCHORS.c.records < mark.records)

        def replace(connection: Connection) -> Mark:
            if connection.execute(query).rowcount:
                return mark
            known = _find_mark(connection)
            mark.is_newer(known)
            return known or mark

        return self._database.change(replace)


def _create_tables(connection: Connection) -> None:
    wait_turn(connection)
    TABLES.create_all(connection)


def _find_mark(connection: Connection) -> Mark | None:
    columns = (ANCHORS.c.ledger, ANCHORS.c.records, ANCHORS.c.digest, ANCHORS.c.anchor)
    row = connection.execute(select(*columns)).first()
    return None if row is None else Mark(*row)
