"""Many processes and one budget: the grants add up to exactly the budget."""

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import pytest

from confide.ledger import open_ledger
from confide.loss import Share
from support import racers
from support.ledgers import WHOLE
from support.postgres import Postgres, cut_connection
from support.racers import SHARES
from support.tree import ROOT

TIMEOUT: Final = 600
FORKS: Final = 200
Told = list[dict[str, Any]]


def start(address: str, *words: object) -> "subprocess.Popen[str]":
    """Start a race."""
    return subprocess.Popen(
        [sys.executable, racers.__file__, address, *map(str, words)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
    )


def finish(program: "subprocess.Popen[str]") -> Told:
    """Return the grants of each racer."""
    output, _ = program.communicate(timeout=TIMEOUT)
    assert 0 == program.returncode
    told: Told = json.loads(output)
    return told


def check_exact(address: str, told: Told) -> None:
    """Check that all shares were granted exactly once, and that the ledger agrees."""
    granted = [entry for one in told for entry in one["granted"]]
    ledger = open_ledger(address, WHOLE)
    entries = list(ledger.entries())
    ledger.verify()
    spent = ledger.filter.spent
    ledger.close()

    assert SHARES == len(granted) == len(set(granted)) == len(entries)
    assert Share.floor(1) == spent


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest, scratch: Path) -> str:
    """Return the URL of the budget that the racers share."""
    if request.param == "sqlite":
        return str(scratch / f"{request.node.name}.db")
    server: Postgres = request.getfixturevalue("postgres")
    return server.create()


@pytest.mark.slow
def test_sixteen_processes_get_exactly_the_budget(address: str) -> None:
    """Of 16 x 200 requests for a thousandth each, exactly 1,000 are granted."""
    told = finish(start(address, "--processes", 16, "--requests", 200))

    assert 16 == len(told)
    check_exact(address, told)


@pytest.mark.slow
def test_two_servers_get_exactly_the_budget(postgres: Postgres) -> None:
    """Two servers with eight threads each share one budget in PostgreSQL."""
    address = postgres.create()
    told = finish(start(address, "--processes", 2, "--threads", 8, "--requests", 200))

    assert 16 == len(told)
    check_exact(address, told)


KEEP_PACE: Final = """
CREATE SEQUENCE cuts MINVALUE 0;
CREATE FUNCTION keep_pace() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    WHILE NEW.number > 40 * (1 + (SELECT last_value FROM cuts)) LOOP
        PERFORM pg_sleep(0.001);
    END LOOP;
    RETURN NEW;
END $$;
CREATE TRIGGER keep_pace BEFORE INSERT ON confide_charges
FOR EACH ROW EXECUTE FUNCTION keep_pace()
"""
"""Makes a race wait after every 40 charges until one more connection was cut."""


@pytest.mark.slow
def test_cut_connections_change_nothing(postgres: Postgres) -> None:
    """With connections cut at random times, keys still prevent duplicate grants.

    On a machine of any speed, there are at least 24 cuts while the 1,000 shares are granted.
    """
    address = postgres.create()
    open_ledger(address, WHOLE).close()
    name, draw, cuts = address.split("/")[3].split("?")[0], random.Random("cuts"), 0
    with postgres.connect(name) as owner:
        owner.execute(KEEP_PACE)
    program = start(address, "--processes", 16, "--requests", 200)
    with postgres.connect("postgres") as admin:
        while program.poll() is None:
            time.sleep(draw.uniform(0.005, 0.05))
            cuts += cut_connection(admin, name, spared=4)  # a lone one would never succeed
            with postgres.connect(name) as owner:
                owner.execute("SELECT setval('cuts', %s)", (cuts,))
    told = finish(program)

    assert cuts > 20
    check_exact(address, told)


@pytest.mark.slow
def test_forks_share_neither_budget_nor_noise(address: str) -> None:
    """Two hundred forks get one share each, and no two of them draw the same noise."""
    told = finish(start(address, "--processes", FORKS, "--inherit"))
    granted = [entry for one in told for entry in one["granted"]]

    assert FORKS == len(told) == len(granted) == len(set(granted))
    assert FORKS == len({one["drawn"] for one in told})
