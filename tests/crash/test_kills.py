"""Kills at any step of a query lose nothing that was spent or shown.

Half of the kills hit the steps of the path in turn, and the others a random time. CONFIDE_KILLS
sets their number: 500, or 5,000 in `make soak`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from support import victims
from support.postgres import Postgres
from support.tree import ROOT

KILLS: Final = int(os.environ.get("CONFIDE_KILLS", "500"))
TIMEOUT: Final = 60 + 4 * KILLS
Program = subprocess.Popen[str]


def start(address: str, anchor: Path, seed: str, *words: str) -> Program:
    """Start a program that kills; the programs for both databases run concurrently."""
    program = Path(victims.__file__)
    return subprocess.Popen(
        [sys.executable, program, address, "--anchor", anchor, "--seed", seed, *words],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
    )


def finish(program: Program) -> dict[str, Any]:
    """Return the report of a program."""
    output, _ = program.communicate(timeout=TIMEOUT)
    assert 0 == program.returncode
    report: dict[str, Any] = json.loads(output.splitlines()[-1])
    return report


@pytest.fixture(scope="module")
def reports(
    request: pytest.FixtureRequest, scratch: Path, postgres: Postgres
) -> dict[str, dict[str, Any]]:
    """Return the reports of kills on both databases, run at the same time."""
    seed = os.environ.get("CONFIDE_TEST_SEED", "confide")
    parts = {"sqlite": KILLS * 3 // 5, "postgresql": KILLS - KILLS * 3 // 5}
    addresses = {"sqlite": str(scratch / "kills.db"), "postgresql": postgres.create()}
    running = {
        name: start(addresses[name], scratch / f"{name}.log", seed, "--kills", str(part))
        for name, part in parts.items()
    }
    return {name: finish(program) for name, program in running.items()}


@pytest.mark.slow
def test_nothing_is_lost_by_a_kill(reports: dict[str, dict[str, Any]]) -> None:
    """After each kill, the ledger verifies and has all delivered answers; a key is charged once."""
    assert {"sqlite": [], "postgresql": []} == {name: r["wrong"] for name, r in reports.items()}
    assert KILLS == sum(report["kills"] for report in reports.values())


@pytest.mark.slow
def test_kills_hit_every_phase(reports: dict[str, dict[str, Any]]) -> None:
    """Some kills hit between charge and answer, some after it, and a third hit distinct steps."""
    for report in reports.values():
        assert 0 < report["resumed"] < report["kills"]
        assert report["delivered"]
        assert report["at_points"] * 3 >= min(report["kills"], report["points"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "said"),
    [("answer-first", "not committed"), ("no-keys", "not charged exactly once")],
)
def test_a_wrong_path_is_detected(scratch: Path, mode: str, said: str) -> None:
    """A path that answers before it commits, or forgets keys, fails within forty kills."""
    words = ("--kills", "40", "--mode", mode)
    report = finish(start(str(scratch / f"{mode}.db"), scratch / f"{mode}.log", "teeth", *words))

    assert any(said in line for line in report["wrong"])
