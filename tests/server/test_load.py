"""Several workers, many analysts, killed workers: no charge is lost or made twice."""

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from fractions import Fraction
from itertools import count
from threading import Event

import httpx2
import pytest

from confide.client import Connection
from confide.errors import BudgetExceeded
from confide.ledger import open_ledger
from confide.loss import Share, auto_filter
from support.cluster import Cluster, run_cluster

pytestmark = pytest.mark.slow
ANALYSTS = int(os.environ.get("CONFIDE_LOAD_ANALYSTS", "20"))
QUESTIONS = int(os.environ.get("CONFIDE_LOAD_QUESTIONS", "10"))
COUNT = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
TOTAL = "SELECT COUNT(*) AS n FROM visits"
LOAD = [f"analyst{number}" for number in range(ANALYSTS)]
KILL = [f"other{number}" for number in range(6)]
PART = Fraction(1, ANALYSTS + len(KILL))
TIMEOUT = 300
"""Timeout in seconds, generous enough for a busy machine."""

Running = tuple[Cluster, dict[str, str]]


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    """Four workers on one file or on PostgreSQL, where each analyst can spend PART."""
    folder = tmp_path_factory.mktemp("cluster")
    address = f"sqlite:///{folder}/ledger.db"
    if request.param == "postgresql":
        address = request.getfixturevalue("postgres").create()
    with run_cluster(folder, address, [*LOAD, *KILL], share=str(PART)) as running:
        yield running


@contextmanager
def connected(cluster: Cluster, token: str) -> Iterator[Connection]:
    """Yield a connection with timeouts for a busy machine."""
    headers = {"authorization": f"Bearer {token}"}
    with httpx2.Client(base_url=cluster.url, headers=headers, timeout=TIMEOUT) as http:
        yield Connection(http)


def read_books(cluster: Cluster) -> tuple[Fraction, dict[int, str]]:
    """Verify the ledger; return the total spending and the state of each entry."""
    ledger = open_ledger(cluster.address, auto_filter(2, 0, "auto"))
    ledger.verify()
    states = {entry.number: entry.state for entry in ledger.entries()}
    spent = ledger.filter.spent.fraction
    ledger.close()
    return spent, states


def test_many_analysts_at_once_are_charged_exactly(running: Running) -> None:
    """Many concurrent analysts each spend exactly their own limit, to the last unit."""
    cluster, tokens = running
    before, _ = read_books(cluster)
    share = PART / QUESTIONS

    def ask_all(name: str) -> list[int]:
        with connected(cluster, tokens[name]) as connection:
            got = [
                connection.sql(COUNT, share=share, fresh=True).receipt.entry
                for _ in range(QUESTIONS)
            ]
            with pytest.raises(BudgetExceeded):
                connection.sql(COUNT, share=share, fresh=True)
            return got

    with ThreadPoolExecutor(ANALYSTS) as pool:
        delivered = [entry for entries in pool.map(ask_all, LOAD) for entry in entries]
    after, states = read_books(cluster)

    assert ANALYSTS * QUESTIONS == len(set(delivered)) == len(delivered)
    assert {"answered"} == {states[entry] for entry in delivered}
    assert Share.floor(share).fraction * len(delivered) == after - before


def test_workers_share_the_answers_of_a_watch(running: Running) -> None:
    """Twelve concurrent callers of one session get exactly as many "above" answers as were paid."""
    cluster, tokens = running
    token = tokens[KILL[0]]
    with connected(cluster, token) as connection:
        number = connection.watch(-1e9, above=5, share=PART / 100).receipt.entry

    def ask(_: int) -> bool:
        with connected(cluster, token) as connection:
            try:
                return connection.resume_watch(number).ask(TOTAL)
            except BudgetExceeded:
                return False

    with ThreadPoolExecutor(4) as pool:
        told = list(pool.map(ask, range(12)))

    assert [False] * 7 + [True] * 5 == sorted(told)


def test_a_worker_killed_under_load_loses_nothing(running: Running) -> None:
    """After kill -9, the ledger verifies, contains every delivered answer, and keys resume."""
    cluster, tokens = running
    before, old = read_books(cluster)
    share, stop, answered = PART / 10_000, Event(), list[str]()

    def ask_until(name: str) -> dict[str, int]:
        got: dict[str, int] = {}
        with connected(cluster, tokens[name]) as connection:
            for number in count():
                if stop.is_set():
                    break
                key = f"{name}-{number}"
                answer = connection.sql(COUNT, share=share, fresh=True, key=key)
                got[key] = answer.receipt.entry
                answered.append(key)
        return got

    with ThreadPoolExecutor(len(KILL)) as pool:
        asking = [pool.submit(ask_until, name) for name in KILL]

        def wait_for_more() -> None:
            """Wait until each caller has two more answers, or one of them has failed."""
            enough = len(answered) + 2 * len(KILL)
            while len(answered) < enough and not any(one.done() for one in asking):
                time.sleep(0.05)

        try:
            for _ in range(3):
                time.sleep(1)  # time for a new worker to replace the killed one
                wait_for_more()
                cluster.kill_worker()
            wait_for_more()
        finally:
            stop.set()
        got = {key: entry for one in asking for key, entry in one.result().items()}
    after, states = read_books(cluster)
    for key, entry in list(got.items())[:: max(1, len(got) // 20)]:
        with connected(cluster, tokens[key.rpartition("-")[0]]) as connection:
            again = connection.sql(COUNT, share=share, fresh=True, key=key)

            assert (entry, True) == (again.receipt.entry, again.reused)

    assert len(got) >= 8 * len(KILL)
    assert len(set(got.values())) == len(got)
    assert {"answered"} == {states[entry] for entry in got.values()}
    assert Share.floor(share).fraction * (len(states) - len(old)) == after - before
    assert after == read_books(cluster)[0]
