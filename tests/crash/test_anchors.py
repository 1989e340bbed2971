"""Processes that are killed while they record an anchor, or accept the loss of one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from confide.ledger import AnchorLost, LedgerBehind, accept_lost_anchor, recount
from support.backups import back_up, put_back
from support.dying import accept_dying, is_killed, open_dying
from support.ledgers import LONG, TENTH, WHOLE, Home, ask

STEPS: Final = 16
"""More steps than any opening takes; each use of the anchor has one before and one after it."""


@pytest.fixture(params=["sqlite", "postgresql"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Home]:
    """Yield a location of ledgers of each kind, in turn."""
    server = request.getfixturevalue("postgres") if request.param == "postgresql" else None
    home = Home(request.param, tmp_path, server)
    yield home
    home.close()


def count_losses(home: Home, anchor: Path) -> int:
    """Return the number of recorded losses, after verifying the ledger and its export."""
    ledger = home.again(anchor=anchor)
    ledger.reserve(ask(), TENTH)
    ledger.verify()
    found = recount(ledger.export())
    assert found.lost_anchors == tuple(ledger.lost_anchors())
    home.close()
    return len(found.lost_anchors)


@pytest.mark.parametrize("is_new", [False, True], ids=["there", "new"])
def test_a_kill_while_an_anchor_is_recorded_locks_out_no_opening(
    home: Home, *, is_new: bool
) -> None:
    """After a kill at any step, the next opening with the anchor succeeds and shows no loss."""
    survived = 0
    for step in range(STEPS):
        home.open(anchor=None)
        home.close()
        if is_new and home.kind == "sqlite":
            Path(home.address).unlink()
        elif is_new:
            assert home.postgres is not None
            home.address = home.postgres.create()
        path = home.folder / f"anchor-{step}.log"
        survived += not is_killed(open_dying, home.address, path, step)

        assert 0 == count_losses(home, path)
    assert 0 < survived < STEPS


def test_a_kill_while_an_anchor_is_recorded_opens_no_old_backup(home: Home) -> None:
    """After a kill at any step, a ledger opens without its anchor only if none is recorded."""
    outcomes = set()
    for step in range(STEPS):
        home.open(anchor=None).reserve(ask(), TENTH)
        home.close()
        path = home.folder / f"anchor-{step}.log"
        is_killed(open_dying, home.address, path, step)
        is_recorded = bool(back_up(home.address)["confide_anchor_records"])
        path.write_bytes(b"")
        for anchor in (None, path, home.folder / f"other-{step}.log"):
            backup = back_up(home.address)
            is_open = True
            try:
                home.again(anchor=anchor)
            except AnchorLost:
                is_open = False
            home.close()
            put_back(home.address, backup)

            assert is_open != is_recorded
        outcomes.add(is_recorded)
    assert {False, True} == outcomes


def test_a_kill_while_a_loss_is_accepted_leaves_it_open_or_recorded(home: Home) -> None:
    """The ledger opens with the new anchor if the loss is recorded; if not, it can be accepted."""
    outcomes = set()
    for step in range(STEPS):
        home.open(anchor=home.folder / f"lost-{step}.log").reserve(ask(), TENTH)
        home.close()
        path = home.folder / f"anchor-{step}.log"
        is_killed(accept_dying, home.address, path, step)
        losses = len(back_up(home.address)["confide_anchor_records"]) - 1
        if not losses:
            with pytest.raises(AnchorLost):
                home.again(anchor=path)
            assert accept_lost_anchor(home.address, WHOLE, anchor=path, wait=LONG)

        assert 1 == count_losses(home, path)
        outcomes.add(losses)
    assert {0, 1} == outcomes


def test_an_anchor_from_a_killed_opening_does_not_count(home: Home) -> None:
    """An anchor that was marked but never recorded does not count once there is another."""
    checked = 0
    for step in range(STEPS):
        home.open(anchor=None).reserve(ask(), TENTH)
        home.close()
        old, new = home.folder / f"old-{step}.log", home.folder / f"new-{step}.log"
        is_killed(open_dying, home.address, old, step)
        if back_up(home.address)["confide_anchor_records"]:
            continue
        ledger = home.again(anchor=new)
        ledger.reserve(ask("SELECT 1"), TENTH)
        backup = back_up(home.address)
        ledger.reserve(ask("SELECT 2"), TENTH)
        home.close()
        put_back(home.address, backup)
        with pytest.raises(AnchorLost):
            home.again(anchor=old)
        checked += old.exists()

    assert checked


def test_a_kill_while_an_older_anchor_is_reused_rewinds_nothing(home: Home) -> None:
    """The anchor is marked before it is recorded again, so a backup from its first use is old."""
    outcomes = set()
    for step in range(STEPS):
        path = home.folder / f"anchor-{step}.log"
        home.open(anchor=path).reserve(ask(), TENTH)
        backup = back_up(home.address)
        accept_lost_anchor(home.address, WHOLE, wait=LONG)
        home.again().reserve(ask("SELECT 2"), TENTH)
        home.close()
        is_killed(open_dying, home.address, path, step)
        is_named = len(back_up(home.address)["confide_anchor_records"]) == 3
        outcomes.add(is_named)
        if not is_named:
            continue
        put_back(home.address, backup)
        with pytest.raises(LedgerBehind):
            home.again(anchor=path)
    assert {False, True} == outcomes
