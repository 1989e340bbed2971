"""How much memory a statement of DuckDB may take, and the folder for rows beyond it."""

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

import duckdb

__all__ = ["EACH", "LEAST", "Memory", "make_folder", "remove_folder"]


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
