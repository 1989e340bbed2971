"""How long a statement of DuckDB may take.

DuckDB knows no limit of time, but ends a statement when told to. One thread of this process looks
after the statements of all connections: it sleeps until the first could be over its time, so that
a statement in time costs two entries in a list and wakes nobody. What runs after a fork is held to
the end of the process with all that its module imports, so nothing here imports duckdb.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from math import inf
from time import monotonic
from typing import Final, Protocol

from confide.engines.protocol import HOUR, read_seconds

__all__ = ["TIMEOUT", "WATCHER", "Watcher", "read_timeout"]

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
