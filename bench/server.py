"""Overhead of the server over the curator: queries per second, and waiting times.

Fifty analysts send 100 queries each to four workers, all at once, on SQLite and on PostgreSQL; the
total charged must be exact. For comparison, the same server runs without a curator (`_stub.py`).
Then the same analysts send queries at half the rate that was reached. A caller's waiting time minus
the engine's time for that answer (recorded by `_timed.py`) is the overhead. The target is a 95th
percentile below 100 ms, on a machine with spare cores. Clients run on the same machine and use part
of it.

`bench/server.py 10 20` runs ten analysts with twenty queries; `bench/server.py 50 100 sqlite` runs
one kind of ledger.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import httpx2
import numpy as np

from confide.ledger import open_ledger
from confide.loss import Share, auto_filter
from confide.server import TokenStore, open_tables

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support.postgres import run_postgres  # noqa: E402  # the tests' own PostgreSQL

ANALYSTS: Final = int(sys.argv[1]) if len(sys.argv) > 1 else 50
QUESTIONS: Final = int(sys.argv[2]) if len(sys.argv) > 2 else 100
LEDGERS: Final = sys.argv[3:] or ["sqlite", "postgresql"]
WORKERS: Final = 4
MAX_OVERHEAD: Final = 0.100
SHARE: Final = Fraction(1, 4 * ANALYSTS * QUESTIONS)
COUNT: Final = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
ROWS: Final = 10_000
DECLARED: Final = """\
[budget]
epsilon = 2
[ledger]
url = "{address}"
[server]
requests_per_minute = 1000000
max_concurrent_queries = 100
[tables.visits]
source = "visits.csv"
unit = "pid"
[tables.visits.columns]
ward = {{ type = "category", values = ["A", "B"] }}
"""


@contextmanager
def serve(factory: str, folder: Path, **environment: str) -> Iterator[str]:
    """Yield the URL of a server in its own processes."""
    port = free_port()
    program = str(ROOT / "bench" / "_workers.py")
    command = [sys.executable, program, factory, str(port), str(WORKERS)]
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            command, cwd=folder, stdout=log, stderr=log, env={**os.environ, **environment}
        )
    url = f"http://127.0.0.1:{port}"
    try:
        while True:
            if process.poll() is not None:
                sys.exit("the server did not start: " + (folder / "log").read_text()[-2_000:])
            try:
                if httpx2.get(f"{url}/healthz").is_success:
                    break
            except httpx2.HTTPError:
                time.sleep(0.1)
        yield url
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


def free_port() -> int:
    """Return an unused port."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


Spans = list[tuple[int, float]]
"""The ledger entry of each answer, and its caller's waiting time."""


async def ask_all(
    url: str, tokens: list[str], pause: float, questions: int = QUESTIONS
) -> tuple[Spans, float]:
    """Return the time of each query by entry, and of all; queries start ``pause`` apart."""
    limits = httpx2.Limits(max_connections=len(tokens))
    body = {"sql": COUNT, "share": str(SHARE), "fresh": True}
    spans: Spans = []

    async def ask(http: Any, token: str, place: int) -> None:
        begin = time.perf_counter() + pause * place / max(1, len(tokens))
        for turn in range(questions):
            await asyncio.sleep(max(0.0, begin + pause * turn - time.perf_counter()))
            start = time.perf_counter()
            headers = {"authorization": f"Bearer {token}"}
            answer = await http.post(f"{url}/v1/query", json=body, headers=headers)
            answer.raise_for_status()
            entry = answer.json()["receipt"]["entry"]
            spans.append((entry, time.perf_counter() - start))

    async with httpx2.AsyncClient(timeout=300, limits=limits) as http:
        start = time.perf_counter()
        await asyncio.gather(*(ask(http, token, place) for place, token in enumerate(tokens)))
        return spans, time.perf_counter() - start


def read_times(folder: Path) -> dict[int, tuple[float, float]]:
    """Return the engine's and the curator's time for each answer."""
    lines = [line for file in folder.glob("times-*") for line in file.read_text().splitlines()]
    found = [line.split() for line in lines]
    return {int(entry): (float(engine), float(curator)) for entry, engine, curator in found}


def declare(address: str, folder: Path, analysts: int) -> list[str]:
    """Write a declaration and its table into a folder; return a token for each analyst."""
    lines = "\n".join(f"{pid},{'AB'[pid % 2]}" for pid in range(ROWS))
    (folder / "visits.csv").write_text(f"pid,ward\n{lines}\n", encoding="utf-8")
    (folder / "confide.toml").write_text(DECLARED.format(address=address), encoding="utf-8")
    store = TokenStore(open_tables(address))
    return [store.make(f"analyst{number}")[0] for number in range(analysts)]


def measure(name: str, address: str, folder: Path) -> bool:
    """Print the results of one kind of ledger; return whether all targets were met."""
    tokens = declare(address, folder, ANALYSTS)
    with serve("_timed:open_timed", folder) as url:
        spans, whole = asyncio.run(ask_all(url, tokens, 0.0))
        rate = len(spans) / whole
        paced, _ = asyncio.run(ask_all(url, tokens, 2 * ANALYSTS / rate))
    with serve("_stub:open_stub", folder, CONFIDE_LEDGER=address) as url:
        stubs, stub_whole = asyncio.run(ask_all(url, tokens, 0.0))
    ledger = open_ledger(address, auto_filter(2, 0, "auto"))
    ledger.verify()
    exact = Share.floor(SHARE).fraction * (len(spans) + len(paced))
    is_exact = ledger.filter.spent.fraction == exact
    ledger.close()
    times = read_times(folder)
    overhead = float(np.quantile([span - times[entry][0] for entry, span in paced], 0.95))
    engine, curator = np.median([times[entry] for entry, _ in paced], axis=0) * 1e3
    print(
        f"{name:11} {len(spans):,} questions of {ANALYSTS} analysts: {rate:6.1f} a second, stub "
        f"{len(stubs) / stub_whole:6.1f}; at half the rate the engine takes {engine:.1f} ms and "
        f"the curator with it {curator:.1f} ms, p95 of overhead over the engine "
        f"{overhead * 1e3:.1f} ms; charges exact: {is_exact}",
        flush=True,
    )
    return is_exact and overhead < MAX_OVERHEAD


def main() -> None:
    """Measure the named kinds of ledger, or both."""
    with ExitStack() as stack:
        kept = []
        for name in LEDGERS:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            if name == "sqlite":
                address = f"sqlite:///{folder}/ledger.db"
            else:
                address = stack.enter_context(run_postgres(durable=True)).create()
            kept.append(measure(name, address, folder))
        if not all(kept):
            sys.exit("a promise of the server was missed")


def figures() -> Iterator[tuple[str, Callable[[], float]]]:
    """Yield the figures for `compare.py`: the seconds of a query, one or several at a time."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tokens = declare(f"sqlite:///{folder}/ledger.db", folder, 10)
        with serve("_timed:open_timed", folder) as url:
            asyncio.run(ask_all(url, tokens, 0.0, 10))
            yield "a question, alone", lambda: time_median(url, tokens[:1], 50)
            yield "a question, among ten", lambda: time_median(url, tokens, 15)


def time_median(url: str, tokens: list[str], questions: int) -> float:
    """Return the median waiting time of callers, in seconds."""
    spans, _ = asyncio.run(ask_all(url, tokens, 0.0, questions))
    return float(np.median([span for _, span in spans]))


if __name__ == "__main__":
    main()
