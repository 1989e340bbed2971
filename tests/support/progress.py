"""Progress of a whole test run, with an estimate of the remaining time."""

import shlex
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any, Final

import pytest

from support.schedule import SECONDS, read_durations, scope_of, write_durations

__all__ = ["Progress"]

EVERY: Final = 30.0
"""Seconds between two lines without a terminal; a terminal is updated every second."""

SHOWN: Final = 20
"""The number of failed tests that the summary names."""


class Progress:
    """Prints the progress of a run in expected seconds, rather than in tests.

    Expected seconds were measured here or on another machine. The estimate divides the remaining
    seconds by the pace so far, so it adapts to this machine within the first minute.
    """

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._begun = self._shown = 0.0
        self._expected: dict[str, float] = {}
        self._done = 0.0
        self._seconds: dict[str, float] = defaultdict(float)
        self._failed: list[str] = []
        self._live = sys.stdout.isatty()

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """Start when the first process has collected its tests."""
        if not self._expected:
            self._begin(ids)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Start when this process has collected its tests."""
        if session.items:
            self._begin(item.nodeid for item in session.items)

    def _begin(self, ids: Iterable[str]) -> None:
        listed = list(ids)
        durations, sizes = read_durations(), Counter(map(scope_of, listed))
        each = {scope: durations.get(scope, SECONDS * size) / size for scope, size in sizes.items()}
        self._expected = {nodeid: each[scope_of(nodeid)] + 1e-3 for nodeid in listed}
        self._begun = self._shown = time.monotonic()

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: Any) -> tuple[str, str, str] | None:
        """Print no dot for a test that passes."""
        is_quiet = report.passed and not hasattr(report, "wasxfail")
        return ("passed" if report.when == "call" else "", "", "") if is_quiet else None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test when it ends, and print the progress from time to time."""
        self._seconds[scope_of(report.nodeid)] += report.duration
        if report.failed and report.nodeid not in self._failed:
            self._failed.append(report.nodeid)
        if report.when == "teardown":
            self._done += self._expected.get(report.nodeid, 0.0)
            self._show()

    def _show(self) -> None:
        now = time.monotonic()
        if now - self._shown < (1.0 if self._live else EVERY):
            return
        self._shown, elapsed = now, now - self._begun
        part = self._done / sum(self._expected.values())
        left = elapsed * (1 - part) / part
        line = f"{part:4.0%} of the tests' time is done, about {_minutes(left)} left"
        if self._failed:
            line += f", {len(self._failed)} failed"
        sys.stdout.write(f"\r{line}\x1b[K" if self._live else f"{line}\n")
        sys.stdout.flush()

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """End the line of the progress, and store the seconds for the next estimate."""
        if self._live:
            sys.stdout.write("\n")
        if self._expected:
            write_durations(self._seconds)

    def pytest_unconfigure(self) -> None:
        """Print the commands that repeat the failed tests."""
        if not self._failed:
            return
        lines = [f"{len(self._failed)} of {len(self._expected)} tests failed. Run them again with:"]
        lines += [f"  {_repeat(nodeid, self._seed)}" for nodeid in self._failed[:SHOWN]]
        lines += ["A test that passes alone depends on other tests, time or the machine: fix that."]
        lines += ["CONTRIBUTING.md, under Tests, says how to run a part or to try another seed."]
        sys.stdout.write("\n{}\n".format("\n".join(lines)))


def _repeat(nodeid: str, seed: str) -> str:
    return f"CONFIDE_TEST_SEED={shlex.quote(seed)} .venv/bin/python -m pytest {shlex.quote(nodeid)}"


def _minutes(seconds: float) -> str:
    """Return a duration in words, with the precision of an estimate.

    >>> _minutes(20), _minutes(100), _minutes(620)
    ('1 minute', '2 minutes', '11 minutes')
    """
    count = max(1, -int(-seconds // 60))
    return f"{count} minute{'s' if count > 1 else ''}"
