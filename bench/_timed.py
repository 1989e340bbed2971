"""The server as it is, which also writes down how long its curator took for each answer.

What a caller waits beyond that is what the server adds: HTTP, tokens, limits, turns.
"""

import os
import sys
import time
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI

import confide as cf
from confide.server.opening import open_app
from confide.server.patience import PatientProtocol


def open_timed() -> FastAPI:
    """Return the application of ./confide.toml; times go into a file of this process."""
    ask, path = cf.Curator.sql, Path(f"times-{os.getpid()}")

    def timed(self: cf.Curator, *given: Any, **want: Any) -> Any:
        start = time.perf_counter()
        answer = ask(self, *given, **want)
        took = time.perf_counter() - start
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{answer.receipt.entry} {took}\n")
        return answer

    cf.Curator.sql = timed  # type: ignore[method-assign]
    return open_app()


if __name__ == "__main__":
    os.environ["CONFIDE_WORKERS"] = sys.argv[2]
    uvicorn.run(
        "_timed:open_timed",
        factory=True,
        app_dir=str(Path(__file__).parent),
        port=int(sys.argv[1]),
        workers=int(sys.argv[2]),
        http=PatientProtocol,
        access_log=False,
        log_config=None,
        timeout_worker_healthcheck=120,
    )
