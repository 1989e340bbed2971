"""A server as owners run it: several processes, a declaration file, and a durable ledger."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx2

from confide.server import Role, TokenStore
from confide.server.tokens import open_tables

__all__ = ["Cluster", "run_cluster"]

DECLARED = """\
[budget]
epsilon = 2

[ledger]
url = "{address}"

[server]
requests_per_minute = 100000
max_concurrent_queries = 8

[tables.visits]
source = "visits.csv"
unit = "pid"

[tables.visits.columns]
ward = {{ type = "category", values = ["A", "B"] }}
age = {{ type = "int", low = 0, high = 120 }}

{analysts}
"""
TIMEOUT = 300.0
LISTENS = "0A"
"""The code that Linux uses for a listening socket."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running server, with its URL, its ledger's URL, and its first process."""

    url: str
    address: str
    folder: Path
    process: "subprocess.Popen[bytes]"

    def workers(self) -> list[int]:
        """Return the worker processes: children that were spawned to run the application."""
        found: list[int] = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
                words = (folder / "cmdline").read_text()
            except OSError:
                continue
            if int(parent) == self.process.pid and "spawn_main" in words:
                found.append(int(folder.name))
        return found

    def kill_worker(self) -> None:
        """Kill one worker with SIGKILL."""
        os.kill(self.workers()[0], signal.SIGKILL)


@contextmanager
def run_cluster(
    folder: Path, address: str, names: Sequence[str], *, workers: int = 4, share: str = "1"
) -> Iterator[tuple[Cluster, dict[str, str]]]:
    """Yield a server and the tokens of its analysts; "owner" is one of them."""
    rows = "\n".join(f"{pid},{'AB'[pid % 2]},{pid % 90}" for pid in range(1_000))
    (folder / "visits.csv").write_text(f"pid,ward,age\n{rows}\n", encoding="utf-8")
    analysts = "\n".join(f'[analysts.{name}]\nshare = "{share}"' for name in names)
    text = DECLARED.format(address=address, analysts=analysts)
    (folder / "confide.toml").write_text(text, encoding="utf-8")
    store = TokenStore(open_tables(address))
    tokens = {name: store.make(name)[0] for name in names}
    tokens["owner"] = store.make("owner", Role.OWNER)[0]
    options = ["serve", "--port", "0", "--workers", str(workers)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "confide", *options], cwd=folder, stdout=log, stderr=log
        )
    try:
        url = _wait(process, folder / "log")
        yield Cluster(url, address, folder, process), tokens
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _find_port(process: "subprocess.Popen[bytes]") -> int | None:
    """Return the port on which a process listens, or None if it does not listen yet."""
    sockets = set[str]()
    for file in Path(f"/proc/{process.pid}/fd").iterdir():
        with suppress(OSError):
            sockets.add(str(file.readlink()))
    for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
        _, local, _, state, *rest = line.split()
        if state == LISTENS and f"socket:[{rest[5]}]" in sockets:
            return int(local.rpartition(":")[2], 16)
    return None


def _wait(process: "subprocess.Popen[bytes]", log: Path) -> str:
    """Return the URL of a server once it responds."""
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.1)
        if (port := _find_port(process)) is None:
            continue
        url = f"http://127.0.0.1:{port}"
        with suppress(httpx2.HTTPError):
            if httpx2.get(f"{url}/healthz").is_success:
                return url
    raise RuntimeError(f"the server did not start: {log.read_text(encoding='utf-8')}")
