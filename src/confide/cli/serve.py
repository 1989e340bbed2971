"""`confide serve`: HTTP and the page, in as many processes as wanted."""

import os
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from confide.declare import read_toml
from confide.errors import BadDeclaration

__all__ = ["run_server"]

MOST_CONNECTIONS: Final = 4_096
GRACE_SECONDS: Final = 120


def run_server(console: Console, config: Path, host: str, port: int, workers: int) -> None:
    """Serve until told to stop; questions that are being answered are finished first."""
    uvicorn: Any = _import_uvicorn()
    from confide.server.opening import CONFIG, WORKERS, check_declared
    from confide.server.patience import PatientProtocol

    check_declared(read_toml(config))
    os.environ[CONFIG], os.environ[WORKERS] = str(config.resolve()), str(workers)
    console.print(f"confide listens on http://{host}:{port}", markup=False, highlight=False)
    uvicorn.run(
        "confide.server:open_app",
        factory=True,
        host=host,
        port=port,
        workers=workers,
        http=PatientProtocol,
        ws="none",
        access_log=False,
        log_config=None,
        server_header=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=GRACE_SECONDS,
        timeout_worker_healthcheck=GRACE_SECONDS,  # a worker opens its data before it answers
    )


def _import_uvicorn() -> Any:
    try:
        import uvicorn
    except ImportError:
        raise BadDeclaration(
            'a server needs more packages; install them with pip install "confide[server]"'
        ) from None
    return uvicorn
