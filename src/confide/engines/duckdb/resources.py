"""Memory, disk and statement timeouts of DuckDB.

DuckDB knows no limit of time, but ends a statement when told to. One thread of this process looks
after the statements of all connections: it sleeps until the first could be over its time, so that
a statement in time costs two entries in a list and wakes nobody.
"""

import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from math import inf
from time import monotonic
from typing import Final, Protocol, TypeVar

import duckdb

from confide.engines.protocol import HOUR, read_seconds

__all__ = [
    "EACH",
    "LEAST",
    "TIMEOUT",
    "WATCHER",
    "Memory",
    "Watcher",
    "make_folder",
    "read_timeout",
    "remove_folder",
]

TIMEOUT: Final = "CONFIDE_STATEMENT_TIMEOUT"
AGAIN: Final = 0.05
"""Seconds after which a statement is told again, if it was between two steps the first time."""


class Interruptible(Protocol):
    """A connection whose statement can be ended from another thread."""

    def interrupt(self) -> None:
        """End the statement that runs, if any does."""
        ...


def read_timeout() -> float:
    """Return how many seconds a statement may take, as the environment says it."""
    return read_seconds(TIMEOUT, os.environ.get(TIMEOUT, str(HOUR)))


class Watcher:
    """Ends statements that take too long.

    Claim: what is interrupted is the statement that took too long, never the next.
    Why:   an entry is removed, and its connection interrupted, under one lock; and DuckDB forgets
           an interruption when the next statement begins.
    """

    def __init__(self) -> None:
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forget everything, as a forked process must: it has no thread but its own."""
        self._changed = threading.Condition(threading.Lock())
        self._running: dict[object, tuple[float, Interruptible]] = {}
        self._wakes = inf
        self._thread: threading.Thread | None = None

    @contextmanager
    def watched(self, connection: Interruptible, seconds: float) -> Iterator[None]:
        """Interrupt a connection, again and again, if the block is not done in so many seconds."""
        entry = object()
        last = monotonic() + seconds
        with self._changed:
            self._running[entry] = last, connection
            if self._thread is None:
                # A daemon: it must not keep the process from ending.
                self._thread = threading.Thread(target=self._watch, daemon=True)
                self._thread.start()
            if last < self._wakes:
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                del self._running[entry]

    def _watch(self) -> None:
        with self._changed:
            while True:
                self._wakes = self._interrupt_late()
                self._changed.wait(None if self._wakes == inf else self._wakes - monotonic())

    def _interrupt_late(self) -> float:
        """Interrupt what is over its time, and return when to look again.

        Apart from the loop, which sleeps, so that nothing keeps a connection meanwhile.
        """
        now = monotonic()
        for entry, (last, connection) in self._running.items():
            if last <= now:
                with suppress(Exception):  # whoever reads a closed one is told so
                    connection.interrupt()
                self._running[entry] = now + AGAIN, connection
        return min((last for last, _ in self._running.values()), default=inf)


WATCHER: Final = Watcher()
os.register_at_fork(after_in_child=WATCHER.begin_anew)


T = TypeVar("T")
LEAST, EACH = 140, 70
FULL: Final = (duckdb.OutOfMemoryException, duckdb.IOException)
"""What a connection says that has too little memory, or no room on the disk for what is beyond."""


class Memory:
    """What statements of one connection may take, and the folder for rows beyond it.

    They may take LEAST megabytes, or EACH for every thread where that is more. Rows beyond go into
    a folder that only this process's user can read, for as long as they are needed.

    Claim: a statement fails for want of memory only where it would without a limit.
    Why:   one that finds too little runs again without a limit, with all that DuckDB takes by
           itself, four fifths of the machine's memory; where no folder can be made there is no
           limit in the first place.

    # Privacy: so whether there is an answer does not depend on our limit. How long it takes does,
    # as it depends on the number of rows anyway (LIMITS.md, "Time and caches").
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        folder = make_folder()
        connection.execute("SET temp_directory = $folder", {"folder": folder})
        ((threads,),) = connection.execute("SELECT current_setting('threads')").fetchall()
        self._limit = f"{max(LEAST, EACH * threads)}MB" if folder else ""
        self._bound()
        self.remove = weakref.finalize(self, remove_folder, folder, os.getpid())

    def run(self, statement: Callable[[], T]) -> T:
        """Return what a statement gives within the limit, or else without one."""
        try:
            return statement()
        except FULL:
            if not self._limit:
                raise
        self._connection.execute("RESET memory_limit")
        try:
            return statement()
        finally:
            self._bound()

    def _bound(self) -> None:
        # What cannot leave the memory, of a table that is held there, goes beyond the limit.
        if self._limit:
            with suppress(duckdb.OutOfMemoryException):
                self._connection.execute("SET memory_limit = $limit", {"limit": self._limit})


def make_folder() -> str:
    """Return a new folder for the user of this process alone, or no name if there can be none."""
    try:
        return tempfile.mkdtemp(prefix="confide-")
    except OSError:
        return ""


def remove_folder(folder: str, process: int) -> None:
    """Remove a folder, unless it is that of a process from which this one was forked."""
    if folder and os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
