"""Processes that are killed at a given use of an anchor.

They are forked from a process without threads. A fork of the test process, whose threads belong to
DuckDB and others, can crash by itself.
"""

import os
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Final, TypeVar

from confide.ledger import Mark, accept_lost_anchor, open_ledger
from confide.ledger.anchors import LogAnchor
from support.ledgers import LONG, WHOLE

__all__ = ["accept_dying", "is_killed", "open_dying"]

T = TypeVar("T")
KILL_CODE: Final = 9
FORKS: Final = get_context("forkserver")
FORKS.set_forkserver_preload(["confide.ledger.opening"])


class DyingAnchor(LogAnchor):
    """An anchor whose process is killed at a given step, before or after a use of the anchor."""

    def __init__(self, path: Path, step: int) -> None:
        super().__init__(path)
        self._left = step

    def newest(self) -> Mark | None:
        return self._between(super().newest)

    def start(self, mark: Mark) -> None:
        first = super().start
        self._between(lambda: first(mark))

    def keep(self, mark: Mark) -> Mark:
        later = super().keep
        return self._between(lambda: later(mark))

    def _between(self, act: Callable[[], T]) -> T:
        self._step()
        result = act()
        self._step()
        return result

    def _step(self) -> None:
        if self._left == 0:
            os._exit(KILL_CODE)
        self._left -= 1


def open_dying(address: str, path: Path, step: int) -> None:
    """Open a ledger, unless the process is killed during it."""
    open_ledger(address, WHOLE, anchor=DyingAnchor(path, step), wait=LONG).close()


def accept_dying(address: str, path: Path, step: int) -> None:
    """Accept the loss of an anchor, unless the process is killed during it."""
    accept_lost_anchor(address, WHOLE, anchor=DyingAnchor(path, step), wait=LONG)


def is_killed(act: Callable[[str, Path, int], None], address: str, path: Path, step: int) -> bool:
    """Return whether a child process is killed while it runs a function."""
    child = FORKS.Process(target=act, args=(address, path, step))
    child.start()
    child.join()
    assert child.exitcode in (0, KILL_CODE)
    return child.exitcode == KILL_CODE
