"""`confide serve`: HTTP and the page, in as many processes as wanted."""

import os
import socket
from pathlib import Path
from typing import Final

from rich.console import Console

from confide.cli.extras import import_extra
from confide.cli.screen import say
from confide.declare import read_toml
from confide.errors import BadDeclaration

__all__ = ["run_server"]

MOST_CONNECTIONS: Final = 4_096
GRACE_SECONDS: Final = 120


def run_server(console: Console, config: Path, host: str, port: int, workers: int) -> None:
    """Serve until told to stop; questions that are being answered are finished first."""
    uvicorn = import_extra("uvicorn", "server", "a server needs")
    from confide.server.opening import CONFIG, WORKERS, check_declared
    from confide.server.patience import PatientProtocol

    check_declared(read_toml(config))
    _check_address(host, port)
    os.environ[CONFIG], os.environ[WORKERS] = str(config.resolve()), str(workers)
    said = f"confide listens on http://{host}:{port} once the data is open; Ctrl-C ends it"
    say(console, said)
    console.file.flush()  # a log that is a file shows it at once
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


def _check_address(host: str, port: int) -> None:
    """Refuse an address that this machine cannot listen on, before anything says that it does."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(address)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no such name"
        raise BadDeclaration(
            f"confide cannot listen on {host}, port {port} ({reason}); say another --port or --host"
        ) from None
