"""Distribution of tests over processes: the longest files first, and all of Spark in one."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from xdist.scheduler import LoadScopeScheduling

from support.tree import ROOT

__all__ = ["LongestFirst", "read_durations", "scope_of", "write_durations"]

MEASURED: Final = ROOT / "build" / "durations.json"
SHIPPED: Final = ROOT / "tests" / "durations.json"
SPARK: Final = re.compile(r"/test_spark|\[(?:.*\W)?spark\b")
SECONDS: Final = 0.02
"""Expected seconds for each test of a file without a measurement."""


def scope_of(nodeid: str) -> str:
    """Return the scope that runs in one process with this test: its file, or all of Spark.

    >>> scope_of("tests/loss/test_shares.py::test_shares_add_up[3]")
    'tests/loss/test_shares.py'
    >>> scope_of("tests/contracts/test_engines.py::test_every_query[spark-7]")
    'spark'
    """
    return "spark" if SPARK.search(nodeid) else nodeid.partition("::")[0]


def read_durations() -> dict[str, float]:
    """Return the seconds of each scope from its last run here, or else from the shipped file."""
    found: dict[str, float] = {}
    for path in (SHIPPED, MEASURED):
        if path.exists():
            found |= json.loads(path.read_text(encoding="utf-8"))
    return found


def write_durations(seconds: Mapping[str, float], path: Path = MEASURED) -> None:
    """Store the seconds of each scope for the next run, keeping those of other scopes."""
    path.parent.mkdir(exist_ok=True)
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    rounded = {**known, **{scope: round(spent, 1) for scope, spent in seconds.items()}}
    rounded = dict(sorted(rounded.items()))
    path.write_text(f"{json.dumps(rounded, indent=1)}\n", encoding="utf-8")


class LongestFirst(LoadScopeScheduling):  # type: ignore[misc]  # xdist is not typed
    """Gives each idle process the longest remaining scope.

    A scope stays in one process, so that its tests share their fixtures. Spark takes ten seconds to
    start and a gigabyte of memory, so all tests that use it are one scope.
    """

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        super().__init__(config, log)
        self._durations = read_durations()

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)

    def _assign_work_unit(self, node: Any) -> None:
        longest = max(self.workqueue, key=self._expect)
        self.workqueue.move_to_end(longest, last=False)
        super()._assign_work_unit(node)

    def _expect(self, scope: str) -> float:
        return self._durations.get(scope, SECONDS * len(self.workqueue[scope]))
