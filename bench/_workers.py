"""Serve an application of this folder as `confide serve` does."""

import os
import sys
from pathlib import Path

import uvicorn

from confide.server import TimeoutProtocol

if __name__ == "__main__":
    factory, port, workers = sys.argv[1:]
    os.environ["CONFIDE_WORKERS"] = workers
    uvicorn.run(
        factory,
        factory=True,
        app_dir=str(Path(__file__).parent),
        port=int(port),
        workers=int(workers),
        http=TimeoutProtocol,
        access_log=False,
        log_config=None,
        timeout_worker_healthcheck=120,
    )
