"""Processes and threads that race for one budget.

Run as a program, which imports everything once and forks the racers. Each asks for shares until it
has asked as often as it may; what each was granted is printed.
"""

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final, TypeVar

from confide.errors import BudgetExceeded, Fault
from confide.ledger import QueryIdentity, SqlLedger, open_ledger
from confide.loss import PureFilter, Share
from confide.noise import SYSTEM

__all__ = ["main"]

T = TypeVar("T")
SHARES: Final = 1_000
SHARE: Final = Share.floor(Fraction(1, SHARES))
OPENING: Final = PureFilter(Fraction(1))
TRIES: Final = 1_000


def race(ledger: SqlLedger, name: str, requests: int) -> dict[str, Any]:
    """Ask for shares, each with a key of its own, again while the ledger cannot be reached."""
    granted, faults = list[int](), 0
    for number in range(requests):
        key, question = f"{name}-{number}", QueryIdentity(f"SELECT {name}", "v1", "")
        for attempt in range(TRIES):
            try:
                begun = ledger.resume(question, key) if attempt else None
                hold = ledger.reserve(question, SHARE, key=key) if begun is None else begun
                granted.append(getattr(hold, "entry", -1))
                break
            except BudgetExceeded:
                break
            except Fault:
                faults += 1
                time.sleep(0.01)
    return {"granted": granted, "faults": faults}


def insist(work: Callable[[], T]) -> T:
    """Return what ``work`` returns, once the ledger can be reached."""
    for _ in range(TRIES):
        try:
            return work()
        except Fault:
            time.sleep(0.01)
    return work()


def race_threads(address: str, name: str, *, threads: int, requests: int) -> list[dict[str, Any]]:
    """Race as a server does: one ledger, several threads."""
    ledger = insist(lambda: open_ledger(address, OPENING))
    found: list[dict[str, Any]] = []

    def run(number: int) -> None:
        found.append(race(ledger, f"{name}-{number}", requests))

    runners = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for runner in runners:
        runner.start()
    for runner in runners:
        runner.join()
    ledger.close()
    return found


def draw_and_reserve(ledger: SqlLedger, name: str) -> list[dict[str, Any]]:
    """Charge with the ledger that was inherited, and draw as noise does."""
    try:
        hold = ledger.reserve(QueryIdentity("SELECT 1", "v1", ""), SHARE)
    except BudgetExceeded:
        granted = list[int]()
    else:
        granted = [hold.entry]
    drawn = SYSTEM.words(2).tobytes().hex()
    return [{"granted": granted, "faults": 0, "drawn": drawn, "name": name}]


def fork_each(count: int, work: Callable[[str], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Run ``work`` in so many forks at the same time; return all that they found."""
    listeners: list[int] = []
    children: list[int] = []
    for number in range(count):
        listen, tell = os.pipe()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.close(listen)
                with os.fdopen(tell, "w") as file:
                    json.dump(work(str(number)), file)
                code = 0
            finally:
                os._exit(code)
        os.close(tell)
        listeners.append(listen)
        children.append(child)
    found: list[dict[str, Any]] = []
    for listen in listeners:
        with os.fdopen(listen) as file:
            found += json.load(file)
    ends = [os.waitpid(child, 0)[1] for child in children]
    if any(ends):
        sys.exit(f"racers ended with {ends}")
    return found


def main() -> None:
    """Race, or fork, as the words say; print what each was granted."""
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    parser.add_argument("--processes", type=int, default=16)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--inherit", action="store_true")
    told = parser.parse_args()
    ledger = insist(lambda: open_ledger(told.address, OPENING))
    if told.inherit:
        rounds = [
            fork_each(20, lambda name: draw_and_reserve(ledger, name))
            for _ in range(told.processes // 20)
        ]
        found = [one for some in rounds for one in some]
    else:
        found = fork_each(
            told.processes,
            lambda name: race_threads(
                told.address, name, threads=told.threads, requests=told.requests
            ),
        )
    insist(ledger.verify)
    ledger.close()
    print(json.dumps(found))  # noqa: T201


if __name__ == "__main__":
    main()
