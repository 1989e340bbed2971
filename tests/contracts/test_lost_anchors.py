"""Lost anchors: without its anchor, a ledger opens only after the owner accepts the loss."""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from confide.errors import BadDeclaration, ConfideError, Fault
from confide.ledger import (
    AnchorLost,
    LedgerBehind,
    LedgerDamaged,
    LedgerUnavailable,
    LostAnchor,
    Mark,
    SqlLedger,
    accept_lost_anchor,
    open_ledger,
    opening,
    recount,
)
from confide.ledger.anchors import LogAnchor, open_anchor
from confide.ledger.chain import LOST, NAMED, AnchorRecord, add_anchor, first_head
from confide.ledger.verify import check_records
from support.backups import back_up, count_tables, delete_anchor, empty_anchor, put_back
from support.ledgers import LONG, NOISY, TENTH, WHOLE, Home, ask
from support.postgres import Postgres


@pytest.fixture(params=["file", "log", "sqlite", "postgresql"])
def make_address(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Return a function that creates addresses of anchors, for each kind in turn."""
    made: list[str] = []

    def make() -> str:
        number = len(made)
        match request.param:
            case "file":
                made.append(str(tmp_path / f"anchor-{number}"))
            case "log":
                made.append(str(tmp_path / f"anchor-{number}.log"))
            case "sqlite":
                made.append(f"sqlite:///{tmp_path}/anchor-{number}.db")
            case _:
                server: Postgres = request.getfixturevalue("postgres")
                made.append(server.create())
        return made[-1]

    return make


@pytest.fixture
def make_log(tmp_path: Path) -> Callable[[], str]:
    """Return a function that creates paths of log anchors."""
    numbers = count()
    return lambda: str(tmp_path / f"anchor-{next(numbers)}.log")


def accept(home: Home, anchor: Any = None) -> LostAnchor | None:
    """Accept the loss of the newest ledger's anchor."""
    return accept_lost_anchor(home.address, WHOLE, anchor=anchor, wait=LONG)


def open_again(home: Home, anchor: Any = None) -> object:
    """Open the newest ledger again."""
    return home.again(anchor=anchor)


def read_losses(home: Home, anchor: Any = None) -> list[LostAnchor]:
    """Return the accepted losses of a ledger after verifying it and its export."""
    ledger = home.again(anchor=anchor)
    ledger.verify()
    found = recount(ledger.export())
    assert tuple(ledger.lost_anchors()) == found.lost_anchors
    assert found.entries == len(list(ledger.entries()))
    return ledger.lost_anchors()


LOSS_KINDS = ("emptied", "deleted", "unnamed", "renamed", "another's")


def lose(home: Home, way: str, anchor: str, make_address: Callable[[], str]) -> str | None:
    """Lose an anchor, and return the one that is configured from then on."""
    match way:
        case "emptied":
            empty_anchor(anchor)
        case "deleted":
            delete_anchor(anchor)
        case "unnamed":
            return None
        case "renamed":
            return make_address()
        case "another's":
            other = make_address()
            open_anchor(other).start(Mark("another", 1, "x", "y"))
            return other
    return anchor


def check_refused(home: Home, anchor: str | None) -> None:
    """Check that a ledger does not open with an anchor, and stays unchanged."""
    home.close()
    before = back_up(home.address)
    with pytest.raises(AnchorLost, match="--accept-lost-anchor"):
        home.again(anchor=anchor)

    assert before == back_up(home.address)


@pytest.mark.parametrize("way", LOSS_KINDS)
def test_a_ledger_does_not_open_without_its_anchor(
    lasting: Home, make_address: Callable[[], str], way: str
) -> None:
    """However the anchor was lost, neither the ledger nor an old backup opens."""
    anchor = make_address()
    lasting.open(anchor=anchor)
    backup = back_up(lasting.address)
    lasting.again(anchor=anchor).reserve(ask(), TENTH)
    named = lose(lasting, way, anchor, make_address)
    check_refused(lasting, named)
    put_back(lasting.address, backup)
    check_refused(lasting, named)


@pytest.mark.parametrize("way", ["emptied", "deleted", "unnamed"])
def test_an_anchor_added_later_is_required_too(lasting: Home, way: str) -> None:
    """A ledger with charges needs its anchor once it has opened with one."""
    anchor = str(lasting.folder / "anchor.log")
    lasting.open().reserve(ask(), TENTH)
    lasting.again(anchor=anchor)
    backup = back_up(lasting.address)
    lasting.again(anchor=anchor).reserve(ask("SELECT 2"), TENTH)
    put_back(lasting.address, backup)
    check_refused(lasting, lose(lasting, way, anchor, str))


@pytest.mark.parametrize("way", LOSS_KINDS)
def test_an_accepted_loss_is_in_the_chain(
    lasting: Home, make_address: Callable[[], str], way: str
) -> None:
    """The loss is in the ledger, its export, and a recount, and the new anchor is marked."""
    anchor = make_address()
    lasting.open(anchor=anchor).reserve(ask(), TENTH)
    named = lose(lasting, way, anchor, make_address)
    if way == "another's":
        with pytest.raises(AnchorLost, match="another ledger"):
            accept(lasting, named)
        named = make_address()
    loss = accept(lasting, named)

    assert loss is not None
    assert (2, named is not None) == (loss.number, loss.is_anchored)
    assert [loss] == read_losses(lasting, named)
    if named is not None:
        mark = open_anchor(named).newest()
        assert mark is not None
        assert (3, loss.digest) == (mark.records, mark.digest)


def test_an_anchor_of_another_ledger_stays_unchanged(
    lasting: Home, make_address: Callable[[], str]
) -> None:
    """Accepting a loss does not overwrite an anchor that protects another ledger."""
    lasting.open(anchor=make_address())
    other = make_address()
    mark = Mark("another", 1, "x", "y")
    open_anchor(other).start(mark)
    with pytest.raises(AnchorLost):
        accept(lasting, other)

    assert mark == open_anchor(other).newest()


def test_a_ledger_older_than_its_anchor_cannot_accept_a_loss(
    lasting: Home, make_log: Callable[[], str]
) -> None:
    """An anchor that is ahead of the ledger, or contradicts it, is not lost."""
    anchor, other = make_log(), make_log()
    lasting.open(anchor=anchor).reserve(ask(), TENTH)
    backup = back_up(lasting.address)
    seen = open_anchor(anchor).newest()
    lasting.again(anchor=anchor).reserve(ask("SELECT 2"), TENTH)
    lasting.close()
    put_back(lasting.address, backup)
    for attempt in (accept, open_again):
        with pytest.raises(LedgerBehind, match="old backup"):
            attempt(lasting, anchor)
    assert seen is not None
    open_anchor(other).start(replace(seen, digest="0" * 64))
    for attempt in (accept, open_again):
        with pytest.raises(LedgerDamaged, match="disagree"):
            attempt(lasting, other)

    assert backup == back_up(lasting.address)


def test_nothing_is_accepted_unless_an_anchor_is_lost(
    lasting: Home, make_log: Callable[[], str]
) -> None:
    """Accepting a loss changes nothing if the ledger has no anchor, or the configured one."""
    anchor, other = make_log(), make_log()
    lasting.open().reserve(ask(), TENTH)
    before = back_up(lasting.address)
    assert accept(lasting) is None
    assert accept(lasting, other) is None
    assert before == back_up(lasting.address)
    lasting.again(anchor=anchor)
    before = back_up(lasting.address)

    assert accept(lasting, anchor) is None
    assert before == back_up(lasting.address)
    assert open_anchor(other).newest() is None
    assert [] == read_losses(lasting, anchor)


def test_a_ledger_that_gave_up_its_anchor_can_get_another(
    lasting: Home, make_log: Callable[[], str]
) -> None:
    """The loss stays on record, and the next anchor is required from then on."""
    first, second = make_log(), make_log()
    lasting.open(anchor=first)
    loss = accept(lasting)
    assert loss is not None
    assert not loss.is_anchored
    lasting.again().reserve(ask(), TENTH)
    lasting.again(anchor=second)
    with pytest.raises(AnchorLost):
        lasting.again()

    assert [loss] == read_losses(lasting, second)


def test_an_abandoned_anchor_does_not_count(lasting: Home, make_log: Callable[[], str]) -> None:
    """The ledger does not open with an earlier anchor, which would accept an old backup."""
    old, new = make_log(), make_log()
    lasting.open(anchor=old).reserve(ask(), TENTH)
    accept(lasting, new)
    lasting.again(anchor=new).reserve(ask("SELECT 2"), TENTH)
    backup = back_up(lasting.address)
    lasting.again(anchor=new).reserve(ask("SELECT 3"), TENTH)
    lasting.close()
    put_back(lasting.address, backup)
    with pytest.raises(AnchorLost):
        lasting.again(anchor=old)
    with pytest.raises(LedgerBehind):
        lasting.again(anchor=new)


@pytest.mark.parametrize("is_accepted", [False, True], ids=["opened", "accepted"])
@pytest.mark.parametrize("end", ["cut", "deleted"])
def test_a_missing_ledger_is_not_recreated(
    lasting: Home, make_log: Callable[[], str], end: str, *, is_accepted: bool
) -> None:
    """If the anchor has a mark, an address without a ledger is refused and stays empty."""
    anchor = make_log()
    lasting.open(anchor=anchor)
    lasting.close()
    path = Path(lasting.address)
    if lasting.kind == "sqlite":
        path.unlink()
        if end == "cut":
            path.touch()
    else:
        assert lasting.postgres is not None
        lasting.address = lasting.postgres.create()
    act = accept if is_accepted else open_again
    with pytest.raises(LedgerBehind, match="no ledger"):
        act(lasting, anchor)

    assert 0 == count_tables(lasting.address)
    if lasting.kind == "sqlite":
        assert (end == "cut") == path.exists()
        assert not path.exists() or 0 == path.stat().st_size


def test_a_ledger_that_disappears_during_opening_is_not_recreated(
    lasting: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The change that creates a ledger checks again whether one is missing, and writes nothing."""
    anchor = lasting.folder / "anchor.log"
    open_anchor(anchor).start(Mark("mine", 3, "x", "y"))
    monkeypatch.setattr(opening, "_is_missing", lambda _: False)
    with pytest.raises(LedgerBehind, match="no ledger"):
        lasting.open(anchor=anchor)

    assert 0 == count_tables(lasting.address)


def test_without_a_ledger_there_is_no_loss_to_accept(tmp_path: Path, postgres: Postgres) -> None:
    """Accepting a loss does not create a ledger."""
    for address in (str(tmp_path / "ledger.db"), postgres.create()):
        with pytest.raises(BadDeclaration, match="no ledger"):
            accept_lost_anchor(address, WHOLE, anchor=tmp_path / "anchor")
        assert 0 == count_tables(address)


@dataclass(slots=True)
class Running:
    """A process with an open ledger and a charge without an answer."""

    ledger: SqlLedger

    def ways(self) -> dict[str, Callable[[], object]]:
        """Return all operations on the ledger."""
        ledger = self.ledger
        hold = ledger.reserve(ask("SELECT 'held'"), TENTH, key="held")
        receipt = ledger.commit(ledger.reserve(ask(), TENTH, key="k"), NOISY)
        return {
            "reserve": lambda: ledger.reserve(ask("SELECT 2"), TENTH),
            "commit": lambda: ledger.commit(hold, NOISY),
            "resume": lambda: ledger.resume(ask(), "k"),
            "remember": lambda: ledger.remember(ask(), "more", receipt),
            "stored": lambda: ledger.stored(ask()),
            "answer": lambda: ledger.answer(receipt.entry),
            "verify": ledger.verify,
        }


@pytest.mark.parametrize("change", ["named", "accepted", "given up"])
def test_a_running_process_detects_another_anchor(lasting: Home, change: str) -> None:
    """A process that would not mark the new anchor neither changes nor shows anything."""
    old, new = lasting.folder / "old.log", lasting.folder / "new.log"
    ledger = lasting.open(anchor=None if change == "named" else old)
    assert isinstance(ledger, SqlLedger)
    ways = Running(ledger).ways()
    if change == "named":
        lasting.again(anchor=new)
    else:
        accept(lasting, new if change == "accepted" else None)
    before = back_up(lasting.address)
    for act in ways.values():
        with pytest.raises((AnchorLost, LedgerUnavailable)):
            act()

    assert before == back_up(lasting.address)


@pytest.mark.parametrize("way", ["emptied", "deleted", "replaced"])
def test_a_running_process_does_not_refill_an_emptied_anchor(
    lasting: Home, make_address: Callable[[], str], way: str
) -> None:
    """A charge fails if the anchor was emptied, since the ledger may have been replaced too."""
    anchor = make_address()
    ledger = lasting.open(anchor=anchor)
    empty_anchor(anchor)
    if way == "deleted" and "://" not in anchor:
        delete_anchor(anchor)
    if way == "replaced":
        mark = Mark(json.loads(next(iter(ledger.export())))["ledger"], 0, "x", "new")
        open_anchor(anchor).start(mark)
    with pytest.raises(AnchorLost):
        ledger.reserve(ask(), TENTH)
    lasting.close()
    with pytest.raises((AnchorLost, LedgerDamaged)):
        lasting.again(anchor=anchor)


def test_a_running_process_detects_a_backup_newer_than_its_last_read(lasting: Home) -> None:
    """If the anchor is ahead of the ledger, the process compares the two again."""
    anchor = lasting.folder / "anchor.log"
    slow, fast = lasting.open(anchor=anchor), lasting.again(anchor=anchor)
    fast.reserve(ask(), TENTH)
    backup = back_up(lasting.address)
    for number in range(3):
        fast.reserve(ask(f"SELECT {number}"), TENTH)
    put_back(lasting.address, backup)
    with pytest.raises(LedgerBehind):
        slow.reserve(ask(), TENTH)


def test_a_faster_process_does_not_stop_a_slower_one(lasting: Home) -> None:
    """A process continues if another one has already stored a newer mark."""
    anchor = lasting.folder / "anchor.log"

    class Meeting(LogAnchor):
        def keep(self, mark: Mark) -> Mark:
            if acts:
                acts.pop()()
            return super().keep(mark)

    acts: list[Callable[[], object]] = []
    slow, fast = lasting.open(anchor=Meeting(anchor)), lasting.again(anchor=anchor)
    acts.append(lambda: fast.reserve(ask("SELECT 2"), TENTH))
    slow.commit(slow.reserve(ask(), TENTH), NOISY)

    slow.verify()
    assert not acts
    assert 2 == len(list(slow.entries()))


def _race(count: int, act: Callable[[int], object]) -> list[object]:
    """Return the results or errors of threads that start at the same time."""
    gate, found = threading.Barrier(count), list[object]()

    def run(number: int) -> None:
        gate.wait()
        try:
            found.append(act(number))
        except ConfideError as error:
            found.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@pytest.mark.parametrize("is_new", [False, True], ids=["there", "new"])
def test_concurrent_openings_record_one_anchor(
    lasting: Home, make_address: Callable[[], str], *, is_new: bool
) -> None:
    """All processes open the ledger, and the chain has one anchor record."""
    anchor = make_address()
    lasting.open()
    if is_new:
        lasting.close()
        if lasting.kind == "sqlite":
            Path(lasting.address).unlink()
        else:
            assert lasting.postgres is not None
            lasting.address = lasting.postgres.create()
    opened = _race(
        6, lambda _: open_ledger(lasting.address, WHOLE, anchor=anchor, wait=LONG).close()
    )

    assert [None] * 6 == opened
    assert 1 == len(back_up(lasting.address)["confide_anchor_records"])
    assert [] == read_losses(lasting, anchor)


def test_only_one_of_several_configured_anchors_is_recorded(
    lasting: Home, make_log: Callable[[], str]
) -> None:
    """The ledger opens for one process, and refuses those with other anchors."""
    lasting.open()
    anchors = [make_log() for _ in range(4)]
    opened = _race(
        4,
        lambda number: open_ledger(
            lasting.address, WHOLE, anchor=anchors[number], wait=LONG
        ).close(),
    )

    assert 1 == opened.count(None)
    assert 3 == sum(isinstance(error, AnchorLost) for error in opened)
    assert 1 == len(back_up(lasting.address)["confide_anchor_records"])


def test_a_loss_is_accepted_once(lasting: Home, make_address: Callable[[], str]) -> None:
    """If several owners accept a loss at the same time, one record is written."""
    lasting.open(anchor=make_address())
    anchor = make_address()
    found = _race(4, lambda _: accept(lasting, anchor))

    assert 3 == found.count(None)
    assert 1 == len(read_losses(lasting, anchor))


@pytest.mark.parametrize("column", [field.name for field in fields(AnchorRecord)])
def test_a_changed_anchor_record_is_detected(lasting: Home, column: str) -> None:
    """The hash chain covers every column of an anchor record."""
    anchor = lasting.folder / "anchor.log"
    lasting.open(anchor=lasting.folder / "lost.log").reserve(ask(), TENTH)
    accept(lasting, anchor)
    ledger = lasting.again(anchor=anchor)
    backup = back_up(lasting.address)
    record = backup["confide_anchor_records"][1]
    record[column] = record[column] + 1 if isinstance(record[column], int) else "x"
    put_back(lasting.address, backup)
    with pytest.raises(Fault):
        ledger.verify()


def test_a_recorded_loss_cannot_be_removed(lasting: Home) -> None:
    """Neither the ledger nor its export verifies without the record of a loss."""
    anchor = lasting.folder / "anchor.log"
    lasting.open(anchor=lasting.folder / "lost.log").reserve(ask(), TENTH)
    accept(lasting, anchor)
    ledger = lasting.again(anchor=anchor)
    ledger.reserve(ask("SELECT 2"), TENTH)
    lines, backup = list(ledger.export()), back_up(lasting.address)
    with pytest.raises(LedgerDamaged):
        recount(line for line in lines if LOST not in line)
    del backup["confide_anchor_records"][1]
    put_back(lasting.address, backup)
    with pytest.raises(Fault):
        ledger.verify()


FORGED_EVENTS = {
    "named twice": [(NAMED, "a"), (NAMED, "b")],
    "named nothing": [(NAMED, "")],
    "lost none": [(LOST, "a")],
    "lost twice": [(NAMED, "a"), (LOST, ""), (LOST, "b")],
    "of no kind": [(NAMED, "a"), ("moved", "b")],
}


@pytest.mark.parametrize("events", FORGED_EVENTS.values(), ids=FORGED_EVENTS)
def test_only_a_recorded_loss_replaces_an_anchor(events: list[tuple[str, str]]) -> None:
    """A chain with correct hashes fails verification if an event does not fit its anchor."""
    start = head = first_head("mine", WHOLE)
    records = []
    for event, anchor in events:
        record, head = add_anchor(head, event, anchor, 1)
        records.append(record)
    with pytest.raises(LedgerDamaged, match="anchor"):
        check_records(start, WHOLE, records, head)
    check_records(start, WHOLE, records[:-1], _end_of(start, records[:-1]))


def _end_of(start: Any, records: list[AnchorRecord]) -> Any:
    head = start
    for record in records:
        _, head = add_anchor(head, record.event, record.anchor, 1)
    return head
