"""The real server, instrumented to record the engine's time for each answer.

The rest of a caller's wait is the overhead of confide: HTTP, tokens, limits, queues, planning,
ledger, and noise.
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
    """Return the application of ./confide.toml, which logs times to one file per process.

    Each line has the ledger entry, the engine's seconds, and the curator's seconds. A query stays
    on one thread, so the engine's time is stored per thread until the curator is done.
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
