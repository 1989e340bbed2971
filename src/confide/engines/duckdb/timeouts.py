"""Statement timeouts for DuckDB.

DuckDB has no timeout, but another thread can interrupt a statement. One thread of this process
watches the statements of all connections. It sleeps until the first deadline, so a statement that
ends in time costs an entry in a dictionary, but usually no wakeup. The function that runs after a
fork keeps the imports of this module alive until the process ends, so the module does not import
duckdb.
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


RETRY_SECONDS: Final = 0.05
"""Seconds until a statement is interrupted again, in case it missed the first interrupt."""


class Interruptible(Protocol):
    """A connection whose running statement can be interrupted from another thread."""

    def interrupt(self) -> None:
        """Interrupt the running statement, if any."""
        ...


def read_timeout() -> float:
    """Return the number of seconds that a statement may take, from the environment."""
    return read_seconds(TIMEOUT, os.environ.get(TIMEOUT, str(HOUR)))


class Watcher:
    """Interrupts statements that take too long.

    Claim: only the statement that took too long is interrupted, never the next statement.
    Why:   removing the entry of a statement and interrupting its connection need the same lock, so
           no interrupt follows the removal. An interrupt that comes just after the statement ends
           is discarded by DuckDB when the next statement begins.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all statements and the thread, as a forked process must: it lacks the thread."""
        self._changed = threading.Condition(threading.Lock())
        self._running: dict[object, tuple[float, Interruptible]] = {}
        self._next_deadline = inf
        self._thread: threading.Thread | None = None

    @contextmanager
    def watched(self, connection: Interruptible, seconds: float) -> Iterator[None]:
        """Interrupt a connection repeatedly if the block takes longer than ``seconds``."""
        entry = object()
        deadline = monotonic() + seconds
        with self._changed:
            self._running[entry] = deadline, connection
            if self._thread is None:
                # Daemon thread, so that it cannot block interpreter exit.
                self._thread = threading.Thread(target=self._watch, daemon=True)
                self._thread.start()
            if deadline < self._next_deadline:
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                del self._running[entry]

    def _watch(self) -> None:
        with self._changed:
            while True:
                self._next_deadline = self._interrupt_overdue()
                self._changed.wait(
                    None if self._next_deadline == inf else self._next_deadline - monotonic()
                )

    def _interrupt_overdue(self) -> float:
        """Interrupt overdue statements, and return the next deadline.

        This is a function of its own, because its variables would keep connections alive while the
        loop of `_watch` sleeps.
        """
        now = monotonic()
        for entry, (deadline, connection) in self._running.items():
            if deadline <= now:
                with suppress(Exception):  # a closed connection raises for its user anyway
                    connection.interrupt()
                self._running[entry] = now + RETRY_SECONDS, connection
        return min((deadline for deadline, _ in self._running.values()), default=inf)


WATCHER: Final = Watcher()
os.register_at_fork(after_in_child=WATCHER.reset)
