"""Processes that ask a question and are killed on the way, and what must hold after each kill.

Run as a program, which imports everything once, forks a victim, kills it, looks at the ledger, lets
a survivor ask with the same key, looks again, and does so over and over. It prints what it found.
"""

import argparse
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
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pyarrow as pa

from confide import Budget, Curator, Float, Table, desk
from confide.ledger import Noisy, SqlLedger, open_ledger
from confide.loss import PureFilter, Share

__all__ = ["Report", "main"]

QUESTION: Final = "SELECT COUNT(*) AS n, SUM(x) AS s FROM t"
SHARE: Final = Share.floor("1/100000")
STEPS: Final = (
    *("confide.ledger.sql", "confide.ledger.rows", "confide.ledger.database"),
    *("confide.ledger.changes", "confide.ledger.lines"),
    *("confide.ledger.anchors", "confide.desk", "confide.engines.duckdb", "confide.release.noise"),
)
CALLS: Final = ("commit", "execute", "fsync", "rollback")
LONG: Final = 60.0
WIDE: Final = 0.02
"""Seconds for which a path that answers first stays wrong, so that many kills fall into them."""

MODES: Final = ("right", "answer-first", "no-keys")


@dataclass(slots=True)
class Report:
    """How many were killed where, and what was wrong afterwards."""

    kills: int = 0
    points: int = 0
    at_points: int = 0
    delivered: int = 0
    resumed: int = 0
    wrong: list[str] = field(default_factory=list)


def ask(
    address: str, anchor: str, tell: int, key: str, *, kill_at: int | None, linger: float
) -> None:
    """Ask one question with a key and tell the answer; die at a step if one is named."""
    curator = open_curator(ledger=address, anchor=anchor)
    os.write(tell, b'"ready"\n')
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
        tell, key, answer.receipt.entry, answer.totals.to_json(), passed=passed, seconds=seconds
    )
    time.sleep(linger)


def open_curator(**where: Any) -> Curator:
    """Return a curator of a few rows."""
    rows = pa.table({"who": list(range(20)), "x": [1.0] * 20})
    table = Table("t", rows, unit="who", columns={"x": Float(0, 1)})
    return Curator([table], budget=Budget(1), **where)


def warm_up() -> None:
    """Import whatever a question needs, so that no victim has to; leave no thread behind."""
    curator = open_curator()
    curator.sql(QUESTION, share=SHARE.fraction)
    curator._engine.close()


def deliver(
    tell: int, key: str, entry: int, noisy: Noisy, *, passed: int = 0, seconds: float = 0.0
) -> None:
    """Hand an answer to the analyst: from here on it is out."""
    line = {"key": key, "entry": entry, "noisy": noisy, "passed": passed, "seconds": seconds}
    os.write(tell, json.dumps(line).encode() + b"\n")


def break_path(mode: str, tell: int) -> None:
    """Make the path wrong in a way that the checks must notice."""
    if mode == "answer-first":
        commit = desk.Request.commit

        def shown(self: desk.Request, hold: Any, noisy: Noisy) -> desk.Settled:
            deliver(tell, self.manner.key, hold.entry, noisy)
            time.sleep(WIDE)
            return commit(self, hold, noisy)

        desk.Request.commit = shown  # type: ignore[method-assign]
    elif mode == "no-keys":
        SqlLedger.resume = lambda self, question, key: None  # type: ignore[method-assign]
        reserve = SqlLedger.reserve

        def forget(self: SqlLedger, *words: Any, key: str = "", **named: Any) -> Any:
            return reserve(self, *words, **named)

        SqlLedger.reserve = forget  # type: ignore[method-assign]


@dataclass(slots=True)
class Scene:
    """One ledger, with those who ask of it and those who kill them."""

    address: str
    anchor: str
    mode: str
    ledger: SqlLedger
    report: Report

    def run(
        self,
        key: str,
        *,
        kill_at: int | None = None,
        after: float | None = None,
        once_told: bool = False,
    ) -> list[Any]:
        """Fork one who asks; return the lines that were told before the end.

        It is killed at a step, ``after`` so many seconds, or ``once_told`` the answer is out.
        """
        listen, tell = os.pipe()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.close(listen)
                break_path(self.mode, tell)
                linger = LONG if once_told else after or 0.0
                ask(self.address, self.anchor, tell, key, kill_at=kill_at, linger=linger)
                code = 0
            finally:
                os._exit(code)
        os.close(tell)
        lines = read_lines(listen)
        told = [next(lines, None)]
        if once_told:
            told.append(next(lines, None))
        if after is not None:
            time.sleep(after)
        if once_told or after is not None:
            os.kill(child, signal.SIGKILL)
        told += list(lines)
        os.close(listen)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            self.report.kills += 1
        elif os.WEXITSTATUS(status):
            self.report.wrong.append(f"{key}: ended with {os.WEXITSTATUS(status)}")
        return [line for line in told if isinstance(line, dict)]

    def kill_and_check(self, key: str, **how: Any) -> None:
        """Kill one who asks, look, let a survivor ask with the same key, and look again."""
        before = self.ledger.filter.spent
        told = self.run(key, **how)
        between = self.check(key, told, before)
        self.report.delivered += bool(told)
        self.report.resumed += between > before and not told
        survivor = self.run(key)
        after = self.check(key, [*told, *survivor], between)
        answers = {values(line["noisy"]) for line in [*told, *survivor]}
        self.expect(key, len(answers) == 1, f"{len(answers)} different answers")
        self.expect(key, after == before + SHARE, "not charged exactly once")

    def check(self, key: str, told: list[Any], before: Share) -> Share:
        """Compare the ledger with what was told; return what is spent."""
        self.ledger.verify()
        spent = self.ledger.filter.spent
        self.expect(key, spent >= before, "spent less than before")
        for line in told:
            kept = self.ledger.answer(line["entry"])
            self.expect(key, kept is not None, "an answer is out that was not committed")
            is_same = kept is None or values(kept.noisy) == values(line["noisy"])
            self.expect(key, is_same, "another answer was committed")
        return spent

    def expect(self, key: str, holds: bool, what: str) -> None:
        """Note what does not hold."""
        if not holds:
            self.report.wrong.append(f"{key}: {what}")


def values(noisy: Noisy) -> str:
    """Return what an answer says, without the steps in which it is written."""
    return json.dumps([noisy["groups"], noisy["steps"]])


def read_lines(file: int) -> Iterator[Any]:
    """Yield what a process tells, line by line, until it is gone."""
    with os.fdopen(os.dup(file), "rb") as lines:
        for line in lines:
            if line.endswith(b"\n"):
                yield json.loads(line)


def measure(scene: Scene) -> tuple[int, float]:
    """Return how many steps an undisturbed question takes, and how many seconds."""
    counted, timed = (scene.run(name, kill_at=at)[-1] for name, at in (("a", -1), ("b", None)))
    return int(counted["passed"]), float(timed["seconds"])


def main(words: list[str] | None = None) -> None:
    """Kill as often as asked, first at steps and then at random moments; print the report."""
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    parser.add_argument("--anchor", type=Path, required=True)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", default="confide")
    parser.add_argument("--mode", choices=MODES, default="right")
    told = parser.parse_args(words)
    warm_up()
    ledger = open_ledger(told.address, PureFilter(Fraction(1)), anchor=told.anchor)
    scene = Scene(told.address, str(told.anchor), told.mode, ledger, Report())
    report, draw = scene.report, random.Random(told.seed)
    report.points, seconds = measure(scene)
    places = list(range(1, report.points + 1))
    draw.shuffle(places)
    name = secrets.token_hex(4)
    for number in range(told.kills * 3):
        if report.kills >= told.kills:
            break
        key = f"{name}-{number}"
        if number % 10 == 9:
            scene.kill_and_check(key, once_told=True)
        elif number % 2 == 0 and places:
            report.at_points += 1
            scene.kill_and_check(key, kill_at=places.pop())
        else:
            scene.kill_and_check(key, after=draw.uniform(0, 1.5 * seconds))
    ledger.close()
    print(json.dumps({name: getattr(report, name) for name in Report.__slots__}))  # noqa: T201


if __name__ == "__main__":
    main()
