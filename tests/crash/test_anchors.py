"""Processes that are killed while they name an anchor, or accept the loss of one."""

import os
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import pytest

from confide.ledger import AnchorLost, LedgerBehind, Mark, accept_lost_anchor, open_ledger, recount
from confide.ledger.anchors import LogAnchor
from support.backups import back_up, put_back
from support.ledgers import LONG, TENTH, WHOLE, Home, ask

T = TypeVar("T")
KILLED: Final = 9
STEPS: Final = 16
"""More steps than any opening takes, before and after each use of the anchor."""


class Deadly(LogAnchor):
    """An anchor whose process is killed at a step: before it uses the anchor, or after that."""

    def __init__(self, path: Path, step: int) -> None:
        super().__init__(path)
        self._left = step

    def newest(self) -> Mark | None:
        return self._between(super().newest)

    def start(self, mark: Mark) -> None:
        first = super().start
        self._between(lambda: first(mark))

    def keep(self, mark: Mark) -> Mark:
        later = super().keep
        return self._between(lambda: later(mark))

    def _between(self, act: Callable[[], T]) -> T:
        self._step()
        result = act()
        self._step()
        return result

    def _step(self) -> None:
        if self._left == 0:
            os._exit(KILLED)
        self._left -= 1


def is_killed(act: Callable[[], object]) -> bool:
    """Return whether a process of its own is killed while it does something."""
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        assert code in (0, KILLED)
        return code == KILLED
    try:
        act()
    except BaseException:  # noqa: BLE001  # a child must not go on with the tests
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


@pytest.fixture(params=["sqlite", "postgresql"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Home]:
    """Return a home for ledgers of each kind, in turn."""
    server = request.getfixturevalue("postgres") if request.param == "postgresql" else None
    home = Home(request.param, tmp_path, server)
    yield home
    home.close()


def open_dying(home: Home, path: Path, step: int) -> None:
    """Open a ledger, or be killed on the way."""
    open_ledger(home.address, WHOLE, anchor=Deadly(path, step), wait=LONG).close()


def count_losses(home: Home, anchor: Path) -> int:
    """Return the number of losses on record, in a ledger that opens and verifies."""
    ledger = home.again(anchor=anchor)
    ledger.reserve(ask(), TENTH)
    ledger.verify()
    found = recount(ledger.export())
    assert found.lost_anchors == tuple(ledger.lost_anchors())
    home.close()
    return len(found.lost_anchors)


@pytest.mark.parametrize("is_new", [False, True], ids=["there", "new"])
def test_a_kill_while_an_anchor_is_named_locks_nobody_out(home: Home, *, is_new: bool) -> None:
    """The next opening with the anchor succeeds and shows no loss, after a kill at any step."""
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
        survived += not is_killed(partial(open_dying, home, path, step))

        assert 0 == count_losses(home, path)
    assert 0 < survived < STEPS


def test_a_kill_while_an_anchor_is_named_opens_no_old_backup(home: Home) -> None:
    """Once the ledger has recorded its anchor, an emptied one is refused; before, none was named.

    So a ledger that opens without its anchor has no record of one, whatever step was the last.
    """
    outcomes = set()
    for step in range(STEPS):
        home.open(anchor=None).reserve(ask(), TENTH)
        home.close()
        path = home.folder / f"anchor-{step}.log"
        is_killed(partial(open_dying, home, path, step))
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


def accept_dying(home: Home, path: Path, step: int) -> None:
    """Accept the loss of an anchor, or be killed on the way."""
    accept_lost_anchor(home.address, WHOLE, anchor=Deadly(path, step), wait=LONG)


def test_a_kill_while_a_loss_is_accepted_leaves_it_open_or_recorded(home: Home) -> None:
    """The ledger opens with the new anchor if the loss is on record; else the owner is asked."""
    outcomes = set()
    for step in range(STEPS):
        home.open(anchor=home.folder / f"lost-{step}.log").reserve(ask(), TENTH)
        home.close()
        path = home.folder / f"anchor-{step}.log"
        is_killed(partial(accept_dying, home, path, step))
        losses = len(back_up(home.address)["confide_anchor_records"]) - 1
        if not losses:
            with pytest.raises(AnchorLost):
                home.again(anchor=path)
            assert accept_lost_anchor(home.address, WHOLE, anchor=path, wait=LONG)

        assert 1 == count_losses(home, path)
        outcomes.add(losses)
    assert {0, 1} == outcomes


def test_two_kills_leave_the_newer_anchor_alone(home: Home) -> None:
    """An anchor whose naming was cut short does not count once the ledger has another."""
    checked = 0
    for step in range(STEPS):
        home.open(anchor=None).reserve(ask(), TENTH)
        home.close()
        old, new = home.folder / f"old-{step}.log", home.folder / f"new-{step}.log"
        is_killed(partial(open_dying, home, old, step))
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


def test_a_kill_while_an_older_anchor_is_named_again_rewinds_nothing(home: Home) -> None:
    """It is marked before its name is recorded, so a backup from its first time is behind it."""
    outcomes = set()
    for step in range(STEPS):
        path = home.folder / f"anchor-{step}.log"
        home.open(anchor=path).reserve(ask(), TENTH)
        backup = back_up(home.address)
        accept_lost_anchor(home.address, WHOLE, wait=LONG)
        home.again().reserve(ask("SELECT 2"), TENTH)
        home.close()
        is_killed(partial(open_dying, home, path, step))
        is_named = len(back_up(home.address)["confide_anchor_records"]) == 3
        outcomes.add(is_named)
        if not is_named:
            continue
        put_back(home.address, backup)
        with pytest.raises(LedgerBehind):
            home.again(anchor=path)
    assert {False, True} == outcomes
