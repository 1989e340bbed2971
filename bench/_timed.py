"""The server as it is, which also writes down how long its engine took for each answer.

What a caller waits beyond that is what confide adds: HTTP, tokens, limits, turns, plan, ledger,
noise.
"""

import os
import threading
import time
from pathlib import Path
from typing import Any

from fastapi import FastAPI

import confide as cf
from confide.engines import DuckDB
from confide.server import open_app


def open_timed() -> FastAPI:
    """Return the application of ./confide.toml; times go into a file of this process.

    A line is an entry, the engine's seconds and the whole curator's. One question stays on one
    thread, so the engine's time is kept there until the curator is done.
    """
    ask, run, path = cf.Curator.sql, DuckDB.run, Path(f"times-{os.getpid()}")
    spent = threading.local()

    def timed_run(self: DuckDB, *given: Any) -> Any:
        start = time.perf_counter()
        try:
            return run(self, *given)
        finally:
            spent.engine = time.perf_counter() - start

    def timed_ask(self: cf.Curator, *given: Any, **want: Any) -> Any:
        start = time.perf_counter()
        answer = ask(self, *given, **want)
        took = time.perf_counter() - start
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{answer.receipt.entry} {spent.engine} {took}\n")
        return answer

    DuckDB.run = timed_run  # type: ignore[method-assign, assignment]
    cf.Curator.sql = timed_ask  # type: ignore[method-assign]
    return open_app()
