"""Processes and threads that race for one budget.

Run as a program, it imports everything once and forks the racers. Each racer requests shares a
given number of times. The program prints the grants of each.
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
    """Request shares, each with its own key, retrying while the ledger is unavailable."""
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


def retry(work: Callable[[], T]) -> T:
    """Return the result of ``work``, retrying while the ledger is unavailable."""
    for _ in range(TRIES):
        try:
            return work()
        except Fault:
            time.sleep(0.01)
    return work()


def race_threads(address: str, name: str, *, threads: int, requests: int) -> list[dict[str, Any]]:
    """Race as a server does, with one ledger and several threads."""
    ledger = retry(lambda: open_ledger(address, OPENING))
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
    """Charge the inherited ledger, and draw entropy as noise does."""
    try:
        hold = ledger.reserve(QueryIdentity("SELECT 1", "v1", ""), SHARE)
    except BudgetExceeded:
        granted = list[int]()
    else:
        granted = [hold.entry]
    drawn = SYSTEM.words(2).tobytes().hex()
    return [{"granted": granted, "faults": 0, "drawn": drawn, "name": name}]


def fork_each(count: int, work: Callable[[str], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Run ``work`` in ``count`` forks at the same time; return all of their results."""
    listeners: list[int] = []
    children: list[int] = []
    for number in range(count):
        read_end, write_end = os.pipe()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.close(read_end)
                with os.fdopen(write_end, "w") as file:
                    json.dump(work(str(number)), file)
                code = 0
            finally:
                os._exit(code)
        os.close(write_end)
        listeners.append(read_end)
        children.append(child)
    found: list[dict[str, Any]] = []
    for read_end in listeners:
        with os.fdopen(read_end) as file:
            found += json.load(file)
    ends = [os.waitpid(child, 0)[1] for child in children]
    if any(ends):
        sys.exit(f"racers ended with {ends}")
    return found


def main() -> None:
    """Race or fork, depending on the arguments; print the grants."""
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    parser.add_argument("--processes", type=int, default=16)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--inherit", action="store_true")
    args = parser.parse_args()
    ledger = retry(lambda: open_ledger(args.address, OPENING))
    if args.inherit:
        rounds = [
            fork_each(20, lambda name: draw_and_reserve(ledger, name))
            for _ in range(args.processes // 20)
        ]
        found = [one for some in rounds for one in some]
    else:
        found = fork_each(
            args.processes,
            lambda name: race_threads(
                args.address, name, threads=args.threads, requests=args.requests
            ),
        )
    retry(ledger.verify)
    ledger.close()
    print(json.dumps(found))  # noqa: T201


if __name__ == "__main__":
    main()
