"""Memory limit and spill folder of DuckDB."""

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

import duckdb

__all__ = ["MEGABYTES_PER_THREAD", "MIN_MEGABYTES", "Memory", "make_folder", "remove_folder"]


T = TypeVar("T")
MIN_MEGABYTES, MEGABYTES_PER_THREAD = 140, 70
OUT_OF_SPACE: Final = (duckdb.OutOfMemoryException, duckdb.IOException)
"""Errors of a connection that has too little memory, or too little disk space for spilled rows."""


class Memory:
    """The memory limit and the spill folder of one connection.

    Statements may use MIN_MEGABYTES, or MEGABYTES_PER_THREAD for each thread if that is more. Rows
    that do not fit are spilled to a folder that only this process's user can read, for as long as
    they are needed.

    Claim: a statement runs out of memory only if it would also do so without our limit.
    Why:   a statement that runs out of memory is repeated without our limit, under DuckDB's default
           limit of 80% of the machine's memory. If no folder can be created, we set no limit.

    # Privacy: so whether there is an answer does not depend on our limit. The running time does,
    # as it depends on the number of rows anyway (LIMITS.md, "Time and caches").
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        folder = make_folder()
        connection.execute("SET temp_directory = $folder", {"folder": folder})
        ((threads,),) = connection.execute("SELECT current_setting('threads')").fetchall()
        self._limit = f"{max(MIN_MEGABYTES, MEGABYTES_PER_THREAD * threads)}MB" if folder else ""
        self._set_limit()
        self.remove = weakref.finalize(self, remove_folder, folder, os.getpid())

    def run(self, statement: Callable[[], T]) -> T:
        """Return the result of a statement, run within the limit if possible, else without it."""
        try:
            return statement()
        except OUT_OF_SPACE:
            if not self._limit:
                raise
        self._connection.execute("RESET memory_limit")
        try:
            return statement()
        finally:
            self._set_limit()

    def _set_limit(self) -> None:
        # An in-memory table that cannot be spilled may exceed the limit already.
        if self._limit:
            with suppress(duckdb.OutOfMemoryException):
                self._connection.execute("SET memory_limit = $limit", {"limit": self._limit})


def make_folder() -> str:
    """Return a new folder for this process's user only, or "" if none can be created."""
    try:
        return tempfile.mkdtemp(prefix="confide-")
    except OSError:
        return ""


def remove_folder(folder: str, process: int) -> None:
    """Remove a folder, unless it belongs to the parent of a forked process."""
    if folder and os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
