"""Processes that are killed while they run a query, and the invariants after each kill.

Run as a program, it imports everything once, forks a victim, kills it, checks the ledger, lets a
survivor run the query with the same key, and checks again, repeatedly. It prints a report.

The survivor is always a new process, since it must recover from the state that the kill left. It
then waits to become the next victim, which saves a process and a curator for most kills. Every
fourth victim is a new process instead and dies in its first query.
"""

import argparse
import gc
import json
import os
import random
import secrets
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from itertools import takewhile
from pathlib import Path
from types import FrameType
from typing import Any, Final

import duckdb
import pyarrow as pa

from confide import Budget, Curator, Float, Table
from confide import curator as curators
from confide.declare import Catalog
from confide.engines import open_engine
from confide.execution import executor
from confide.ledger import Payload, SqlLedger, open_ledger
from confide.loss import PureFilter, Share

__all__ = ["Report", "main"]

QUESTION: Final = "SELECT COUNT(*) AS n, SUM(x) AS s FROM t"
SHARE: Final = Share.floor("1/100000")
STEPS: Final = (
    *("confide.ledger.sql", "confide.ledger.rows", "confide.ledger.database"),
    *("confide.ledger.changes", "confide.ledger.database"),
    *(
        "confide.ledger.anchors",
        "confide.execution.executor",
        "confide.engines.duckdb.engine",
        "confide.release.noise",
    ),
)
CALLS: Final = ("commit", "execute", "fsync", "rollback")
LONG: Final = 60.0
DELAY: Final = 0.02
"""Seconds for which a path that answers first stays wrong, so that many kills happen then."""

MODES: Final = ("right", "answer-first", "no-keys")
READY: Final = b'"ready"\n'


@dataclass(slots=True)
class Report:
    """The number of kills by kind, and the errors found afterwards."""

    kills: int = 0
    points: int = 0
    at_points: int = 0
    delivered: int = 0
    resumed: int = 0
    wrong: list[str] = field(default_factory=list)


def run_orders(address: str, anchor: str, orders: int, results: int) -> None:
    """Open a curator and run each query ordered, until the orders end or one is the last."""
    curator = open_curator(ledger=address, anchor=anchor)
    os.write(results, READY)
    for order in read_lines(orders):
        ask(curator, results, order["key"], kill_at=order["kill_at"])
        if order["linger"] is not None:
            time.sleep(order["linger"])
            break
        os.write(results, READY)


def ask(curator: Curator, results: int, key: str, *, kill_at: int | None) -> None:
    """Run one query with a key and deliver the answer; die at a step if one is given."""
    passed = 0

    def step(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal passed
        is_ours = event in ("call", "return") and frame.f_globals.get("__name__") in STEPS
        is_theirs = event in ("c_call", "c_return") and argument.__name__ in CALLS
        if is_ours or is_theirs:
            passed += 1
            if passed == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    if kill_at is not None:
        sys.setprofile(step)
    started = time.perf_counter()
    answer = curator.sql(QUESTION, share=SHARE.fraction, fresh=True, key=key)
    sys.setprofile(None)
    seconds = time.perf_counter() - started
    deliver(
        results, key, answer.receipt.entry, answer.totals.to_json(), passed=passed, seconds=seconds
    )


def make_table() -> Table:
    """Return a table of a few rows."""
    rows = pa.table({"who": list(range(20)), "x": [1.0] * 20})
    return Table("t", rows, unit="who", columns={"x": Float(0, 1)})


def open_curator(**where: Any) -> Curator:
    """Return a curator of a few rows."""
    return Curator([make_table()], budget=Budget(1), **where)


def warm_up() -> None:
    """Import everything that a query needs, so that no victim has to."""
    curator = open_curator()
    curator.sql(QUESTION, share=SHARE.fraction)
    curator._engine.close()


def share_engine(salt: str) -> None:
    """Give all processes one engine that has run the query; only their ledgers differ.

    It has no thread besides its caller's, so that it also works in a forked process.
    """
    duckdb.connect = partial(duckdb.connect, config={"threads": 1, "async_threads": 0})
    engine = open_engine(Catalog([make_table()]), salt=salt)
    curators.open_engine = lambda catalog, *, salt: engine  # type: ignore[attr-defined]
    open_curator().sql(QUESTION, share=SHARE.fraction)
    # A garbage collection in a fork would touch, and so copy, every inherited page.
    gc.collect()
    gc.freeze()


def deliver(
    results: int, key: str, entry: int, noisy: Payload, *, passed: int = 0, seconds: float = 0.0
) -> None:
    """Write an answer to the pipe, which delivers it to the analyst."""
    line = {"key": key, "entry": entry, "noisy": noisy, "passed": passed, "seconds": seconds}
    os.write(results, json.dumps(line).encode() + b"\n")


def break_path(mode: str, results: int) -> None:
    """Break the path in a way that the checks must notice."""
    if mode == "answer-first":
        commit = executor.Request.commit

        def shown(self: executor.Request, hold: Any, payload: Payload) -> executor.Settlement:
            deliver(results, self.options.key, hold.entry, payload)
            time.sleep(DELAY)
            return commit(self, hold, payload)

        executor.Request.commit = shown  # type: ignore[method-assign]
    elif mode == "no-keys":
        SqlLedger.resume = lambda self, question, key: None  # type: ignore[method-assign]
        reserve = SqlLedger.reserve

        def forget(self: SqlLedger, *words: Any, key: str = "", **named: Any) -> Any:
            return reserve(self, *words, **named)

        SqlLedger.reserve = forget  # type: ignore[method-assign]


@dataclass(frozen=True, slots=True)
class QueryProcess:
    """A process that runs queries on order and has opened its curator."""

    child: int
    orders: int
    listen: int
    lines: Iterator[Any]

    @classmethod
    def start(cls, address: str, anchor: str, mode: str) -> "QueryProcess":
        """Fork a process and return it once its curator is open."""
        obeyed, orders = os.pipe()
        listen, results = os.pipe()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.close(orders)
                os.close(listen)
                break_path(mode, results)
                run_orders(address, anchor, obeyed, results)
                code = 0
            finally:
                os._exit(code)
        os.close(obeyed)
        os.close(results)
        started = cls(child, orders, listen, read_lines(listen))
        started.receive()
        return started

    def order(self, key: str, *, kill_at: int | None = None, linger: float | None = None) -> None:
        """Order a query; with ``linger`` it is the last, and the process then waits that long."""
        line = {"key": key, "kill_at": kill_at, "linger": linger}
        os.write(self.orders, json.dumps(line).encode() + b"\n")

    def receive(self) -> list[Any]:
        """Return the answers delivered until the process is ready for the next order, or gone."""
        return list(takewhile(lambda line: isinstance(line, dict), self.lines))

    def end(self) -> int:
        """Return the exit status of the process after it has run out of orders."""
        os.close(self.orders)
        _, status = os.waitpid(self.child, 0)
        os.close(self.listen)
        return status


@dataclass(slots=True)
class Scene:
    """One ledger, with the processes that use it and the report."""

    address: str
    anchor: str
    mode: str
    ledger: SqlLedger
    report: Report
    waiting: QueryProcess | None = None
    """The last survivor, which is ready for another query."""

    def survive(self, key: str, *, kill_at: int | None = None) -> list[Any]:
        """Return the answers that a new process delivers, which then waits."""
        self.dismiss()
        self.waiting = QueryProcess.start(self.address, self.anchor, self.mode)
        self.waiting.order(key, kill_at=kill_at)
        return self.waiting.receive()

    def dismiss(self) -> None:
        """End the waiting process."""
        if self.waiting is not None:
            self.record_end("dismissed", self.waiting.end())
        self.waiting = None

    def kill(
        self,
        key: str,
        *,
        is_new: bool = False,
        kill_at: int | None = None,
        after: float | None = None,
        once_answered: bool = False,
    ) -> list[Any]:
        """Order a process's last query; return the answers delivered before its end.

        It is killed at a step, after ``after`` seconds, or once the answer was delivered.
        """
        if is_new:
            self.dismiss()
        victim = self.waiting or QueryProcess.start(self.address, self.anchor, self.mode)
        self.waiting, delivered = None, list[Any]()
        victim.order(key, kill_at=kill_at, linger=LONG if once_answered else after or 0.0)
        if once_answered:
            delivered.append(next(victim.lines, None))
        if after is not None:
            time.sleep(after)
        if once_answered or after is not None:
            os.kill(victim.child, signal.SIGKILL)
        delivered += victim.receive()
        self.record_end(key, victim.end())
        return [line for line in delivered if line is not None]

    def record_end(self, key: str, status: int) -> None:
        """Count a kill, and record a process that failed."""
        if os.WIFSIGNALED(status):
            self.report.kills += 1
        elif os.WEXITSTATUS(status):
            self.report.wrong.append(f"{key}: ended with {os.WEXITSTATUS(status)}")

    def kill_and_check(self, key: str, **how: Any) -> None:
        """Kill a process during a query, check, repeat the query with the same key, and check."""
        before = self.ledger.filter.spent
        delivered = self.kill(key, **how)
        between = self.check(key, delivered, before)
        self.report.delivered += bool(delivered)
        self.report.resumed += between > before and not delivered
        survivor = self.survive(key)
        after = self.check(key, [*delivered, *survivor], between)
        answers = {values(line["noisy"]) for line in [*delivered, *survivor]}
        self.expect(key, len(answers) == 1, f"{len(answers)} different answers")
        self.expect(key, after == before + SHARE, "not charged exactly once")

    def check(self, key: str, delivered: list[Any], before: Share) -> Share:
        """Compare the ledger with the delivered answers; return the spent share."""
        self.ledger.verify()
        spent = self.ledger.filter.spent
        self.expect(key, spent >= before, "spent less than before")
        for line in delivered:
            kept = self.ledger.answer(line["entry"])
            self.expect(key, kept is not None, "an answer is out that was not committed")
            is_same = kept is None or values(kept.noisy) == values(line["noisy"])
            self.expect(key, is_same, "another answer was committed")
        # Without an open connection, the first to look after the next kill has to recover the file.
        self.ledger.close()
        return spent

    def expect(self, key: str, holds: bool, what: str) -> None:
        """Record a violated invariant."""
        if not holds:
            self.report.wrong.append(f"{key}: {what}")


def values(noisy: Payload) -> str:
    """Return the values of an answer, without its encoding."""
    return json.dumps([noisy["groups"], noisy["steps"]])


def read_lines(file: int) -> Iterator[Any]:
    """Yield the lines that a process writes until it is gone."""
    with os.fdopen(os.dup(file), "rb") as lines:
        for line in lines:
            if line.endswith(b"\n"):
                yield json.loads(line)


def measure(scene: Scene) -> list[tuple[int, float]]:
    """Return the steps and the seconds of a process's later queries, and of its first one."""
    counted = [scene.survive("a", kill_at=-1), scene.kill("b", kill_at=-1)]
    timed = [scene.survive("c"), scene.kill("d")]
    first, later = (
        (int(steps[-1]["passed"]), float(seconds[-1]["seconds"]))
        for steps, seconds in zip(counted, timed, strict=True)
    )
    return [later, first]


def main(words: list[str] | None = None) -> None:
    """Kill as often as requested, first at steps and then at random times; print the report."""
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    parser.add_argument("--anchor", type=Path, required=True)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", default="confide")
    parser.add_argument("--mode", choices=MODES, default="right")
    delivered = parser.parse_args(words)
    warm_up()
    ledger = open_ledger(delivered.address, PureFilter(Fraction(1)), anchor=delivered.anchor)
    share_engine(ledger.salt)
    scene = Scene(delivered.address, str(delivered.anchor), delivered.mode, ledger, Report())
    report, draw = scene.report, random.Random(delivered.seed)
    found = measure(scene)
    report.points = sum(steps for steps, _ in found)
    places = [draw.sample(range(1, steps + 1), steps) for steps, _ in found]
    name = secrets.token_hex(4)
    for number in range(delivered.kills * 3):
        if report.kills >= delivered.kills:
            break
        key, is_new = f"{name}-{number}", number % 8 < 2
        if number % 10 == 9:
            scene.kill_and_check(key, is_new=is_new, once_answered=True)
        elif number % 2 == 0 and places[is_new]:
            report.at_points += 1
            scene.kill_and_check(key, is_new=is_new, kill_at=places[is_new].pop())
        else:
            after = draw.uniform(0, 1.5 * found[is_new][1])
            scene.kill_and_check(key, is_new=is_new, after=after)
    scene.dismiss()
    ledger.close()
    print(json.dumps({name: getattr(report, name) for name in Report.__slots__}))  # noqa: T201


if __name__ == "__main__":
    main()
