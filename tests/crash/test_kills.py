"""kill -9 anywhere on the path of a question: nothing that was spent or shown is forgotten.

Half of the kills hit the steps of the path one after the other, the others a random moment. So many
are made as CONFIDE_KILLS says: 500, or 5,000 in `make soak`.
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
PATIENCE: Final = 60 + 4 * KILLS
Program = subprocess.Popen[str]


def start(address: str, anchor: Path, seed: str, *words: str) -> Program:
    """Begin to kill; the program is its own, so that both databases are tried side by side."""
    program = Path(victims.__file__)
    return subprocess.Popen(
        [sys.executable, program, address, "--anchor", anchor, "--seed", seed, *words],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
    )


def finish(program: Program) -> dict[str, Any]:
    """Return what a program found."""
    output, _ = program.communicate(timeout=PATIENCE)
    assert 0 == program.returncode
    report: dict[str, Any] = json.loads(output.splitlines()[-1])
    return report


@pytest.fixture(scope="module")
def reports(
    request: pytest.FixtureRequest, scratch: Path, postgres: Postgres
) -> dict[str, dict[str, Any]]:
    """Kill on both databases at the same time."""
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
    """After each kill the ledger verifies and has all that was told; a key is charged once."""
    assert {"sqlite": [], "postgresql": []} == {name: r["wrong"] for name, r in reports.items()}
    assert KILLS == sum(report["kills"] for report in reports.values())


@pytest.mark.slow
def test_kills_fall_everywhere(reports: dict[str, dict[str, Any]]) -> None:
    """Some hit between charge and answer, some after the answer, a third of them one step each."""
    for report in reports.values():
        assert 0 < report["resumed"] < report["kills"]
        assert report["delivered"]
        assert report["at_points"] * 3 >= min(report["kills"], report["points"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "said"),
    [("answer-first", "not committed"), ("no-keys", "not charged exactly once")],
)
def test_a_wrong_path_is_convicted(scratch: Path, mode: str, said: str) -> None:
    """A path that tells before it commits, or forgets keys, does not survive forty kills."""
    words = ("--kills", "40", "--mode", mode)
    report = finish(start(str(scratch / f"{mode}.db"), scratch / f"{mode}.log", "teeth", *words))

    assert any(said in line for line in report["wrong"])
