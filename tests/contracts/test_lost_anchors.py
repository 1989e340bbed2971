"""Lost anchors: an old backup does not open because its anchor is missing, but by a decision."""

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
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Return a source of new places for anchors of each kind, in turn."""
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
def log(tmp_path: Path) -> Callable[[], str]:
    """Return a source of new places for logs."""
    numbers = count()
    return lambda: str(tmp_path / f"anchor-{next(numbers)}.log")


def accept(home: Home, anchor: Any = None) -> LostAnchor | None:
    """Accept the loss of the newest ledger's anchor."""
    return accept_lost_anchor(home.address, WHOLE, anchor=anchor, wait=LONG)


def open_again(home: Home, anchor: Any = None) -> object:
    """Open the newest ledger once more."""
    return home.again(anchor=anchor)


def is_whole(home: Home, anchor: Any = None) -> list[LostAnchor]:
    """Return the losses that a ledger shows, everywhere the same, having verified it."""
    ledger = home.again(anchor=anchor)
    ledger.verify()
    found = recount(ledger.export())
    assert tuple(ledger.lost_anchors()) == found.lost_anchors
    assert found.entries == len(list(ledger.entries()))
    return ledger.lost_anchors()


WAYS = ("emptied", "deleted", "unnamed", "renamed", "another's")


def lose(home: Home, way: str, anchor: str, place: Callable[[], str]) -> str | None:
    """Lose an anchor; return the one that is named from then on."""
    match way:
        case "emptied":
            empty_anchor(anchor)
        case "deleted":
            delete_anchor(anchor)
        case "unnamed":
            return None
        case "renamed":
            return place()
        case "another's":
            other = place()
            open_anchor(other).start(Mark("another", 1, "x", "y"))
            return other
    return anchor


def check_refused(home: Home, anchor: str | None) -> None:
    """Check that a ledger is refused under an anchor, and stays as it is."""
    home.close()
    before = back_up(home.address)
    with pytest.raises(AnchorLost, match="--accept-lost-anchor"):
        home.again(anchor=anchor)

    assert before == back_up(home.address)


@pytest.mark.parametrize("way", WAYS)
def test_a_ledger_does_not_open_without_its_anchor(
    lasting: Home, place: Callable[[], str], way: str
) -> None:
    """However the anchor was lost, neither the ledger nor an old backup of it opens."""
    anchor = place()
    lasting.open(anchor=anchor)
    backup = back_up(lasting.address)
    lasting.again(anchor=anchor).reserve(ask(), TENTH)
    named = lose(lasting, way, anchor, place)
    check_refused(lasting, named)
    put_back(lasting.address, backup)
    check_refused(lasting, named)


@pytest.mark.parametrize("way", ["emptied", "deleted", "unnamed"])
def test_an_anchor_that_is_named_later_counts_alike(lasting: Home, way: str) -> None:
    """A ledger that had charges without an anchor needs the first one that it opened with."""
    anchor = str(lasting.folder / "anchor.log")
    lasting.open().reserve(ask(), TENTH)
    lasting.again(anchor=anchor)
    backup = back_up(lasting.address)
    lasting.again(anchor=anchor).reserve(ask("SELECT 2"), TENTH)
    put_back(lasting.address, backup)
    check_refused(lasting, lose(lasting, way, anchor, str))


@pytest.mark.parametrize("way", WAYS)
def test_an_accepted_loss_is_in_the_chain(
    lasting: Home, place: Callable[[], str], way: str
) -> None:
    """The record shows in the ledger, in its export and in a recount; the new anchor is marked."""
    anchor = place()
    lasting.open(anchor=anchor).reserve(ask(), TENTH)
    named = lose(lasting, way, anchor, place)
    if way == "another's":
        with pytest.raises(AnchorLost, match="another ledger"):
            accept(lasting, named)
        named = place()
    loss = accept(lasting, named)

    assert loss is not None
    assert (2, named is not None) == (loss.number, loss.is_anchored)
    assert [loss] == is_whole(lasting, named)
    if named is not None:
        mark = open_anchor(named).newest()
        assert mark is not None
        assert (3, loss.digest) == (mark.records, mark.digest)


def test_an_anchor_of_another_ledger_stays_as_it_is(
    lasting: Home, place: Callable[[], str]
) -> None:
    """It protects that ledger still, whatever is accepted for this one."""
    lasting.open(anchor=place())
    other = place()
    mark = Mark("another", 1, "x", "y")
    open_anchor(other).start(mark)
    with pytest.raises(AnchorLost):
        accept(lasting, other)

    assert mark == open_anchor(other).newest()


def test_a_ledger_older_than_its_anchor_is_refused_all_the_same(
    lasting: Home, log: Callable[[], str]
) -> None:
    """An anchor that is ahead, or has seen another history, is not lost, so nothing is accepted."""
    anchor, other = log(), log()
    lasting.open(anchor=anchor).reserve(ask(), TENTH)
    backup = back_up(lasting.address)
    seen = open_anchor(anchor).newest()
    lasting.again(anchor=anchor).reserve(ask("SELECT 2"), TENTH)
    lasting.close()
    put_back(lasting.address, backup)
    for attempt in (accept, open_again):
        with pytest.raises(LedgerBehind, match="old back-up"):
            attempt(lasting, anchor)
    assert seen is not None
    open_anchor(other).start(replace(seen, digest="0" * 64))
    for attempt in (accept, open_again):
        with pytest.raises(LedgerDamaged, match="disagree"):
            attempt(lasting, other)

    assert backup == back_up(lasting.address)


def test_where_nothing_is_lost_nothing_is_accepted(lasting: Home, log: Callable[[], str]) -> None:
    """A ledger without an anchor, and one with its anchor, stay as they are."""
    anchor, other = log(), log()
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
    assert [] == is_whole(lasting, anchor)


def test_a_ledger_that_goes_on_without_an_anchor_takes_another(
    lasting: Home, log: Callable[[], str]
) -> None:
    """The loss stays on record, and the anchor that is named next is needed from then on."""
    first, second = log(), log()
    lasting.open(anchor=first)
    loss = accept(lasting)
    assert loss is not None
    assert not loss.is_anchored
    lasting.again().reserve(ask(), TENTH)
    lasting.again(anchor=second)
    with pytest.raises(AnchorLost):
        lasting.again()

    assert [loss] == is_whole(lasting, second)


def test_an_anchor_that_was_given_up_does_not_count(lasting: Home, log: Callable[[], str]) -> None:
    """Named again, the older anchor does not let a backup from after its time pass."""
    old, new = log(), log()
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
def test_a_missing_ledger_is_not_made_again(
    lasting: Home, log: Callable[[], str], end: str, *, is_accepted: bool
) -> None:
    """Where the anchor has seen a ledger, a place without one is refused and stays as it is."""
    anchor = log()
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


def test_a_ledger_that_goes_missing_meanwhile_is_not_made_again(
    lasting: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The change that would make it looks once more, and writes no table."""
    anchor = lasting.folder / "anchor.log"
    open_anchor(anchor).start(Mark("mine", 3, "x", "y"))
    monkeypatch.setattr(opening, "_is_missing", lambda _: False)
    with pytest.raises(LedgerBehind, match="no ledger"):
        lasting.open(anchor=anchor)

    assert 0 == count_tables(lasting.address)


def test_without_a_ledger_there_is_no_loss_to_accept(tmp_path: Path, postgres: Postgres) -> None:
    """Where there is no ledger none is made."""
    for address in (str(tmp_path / "ledger.db"), postgres.create()):
        with pytest.raises(BadDeclaration, match="no ledger"):
            accept_lost_anchor(address, WHOLE, anchor=tmp_path / "anchor")
        assert 0 == count_tables(address)


@dataclass(slots=True)
class Running:
    """A process that uses a ledger, with a charge that waits for its answer."""

    ledger: SqlLedger

    def ways(self) -> dict[str, Callable[[], object]]:
        """Return all that it may do."""
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
def test_a_running_process_notices_another_anchor(lasting: Home, change: str) -> None:
    """It would not mark the new anchor, so it changes and shows nothing more."""
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
def test_a_running_process_does_not_fill_an_emptied_anchor(
    lasting: Home, place: Callable[[], str], way: str
) -> None:
    """Nothing is shown: the ledger may have been replaced since the anchor was emptied."""
    anchor = place()
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


def test_a_running_process_notices_a_backup_that_it_had_not_outgrown(lasting: Home) -> None:
    """The anchor is ahead of the ledger that it marks, which is looked at then."""
    anchor = lasting.folder / "anchor.log"
    slow, fast = lasting.open(anchor=anchor), lasting.again(anchor=anchor)
    fast.reserve(ask(), TENTH)
    backup = back_up(lasting.address)
    for number in range(3):
        fast.reserve(ask(f"SELECT {number}"), TENTH)
    put_back(lasting.address, backup)
    with pytest.raises(LedgerBehind):
        slow.reserve(ask(), TENTH)


def test_one_behind_a_faster_process_goes_on(lasting: Home) -> None:
    """An anchor that another process has moved on does not stop a slower one."""
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
    """Return the results or errors of several threads that begin together."""
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
def test_processes_that_open_together_name_one_anchor(
    lasting: Home, place: Callable[[], str], *, is_new: bool
) -> None:
    """All open, and the chain has one record of the anchor."""
    anchor = place()
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
    assert [] == is_whole(lasting, anchor)


def test_of_processes_that_name_different_anchors_one_opens(
    lasting: Home, log: Callable[[], str]
) -> None:
    """The ledger has one anchor; those that name another are refused."""
    lasting.open()
    anchors = [log() for _ in range(4)]
    opened = _race(
        4,
        lambda number: open_ledger(
            lasting.address, WHOLE, anchor=anchors[number], wait=LONG
        ).close(),
    )

    assert 1 == opened.count(None)
    assert 3 == sum(isinstance(error, AnchorLost) for error in opened)
    assert 1 == len(back_up(lasting.address)["confide_anchor_records"])


def test_a_loss_is_accepted_once(lasting: Home, place: Callable[[], str]) -> None:
    """If owners accept it together, one writes the record; the others have nothing to do."""
    lasting.open(anchor=place())
    anchor = place()
    found = _race(4, lambda _: accept(lasting, anchor))

    assert 3 == found.count(None)
    assert 1 == len(is_whole(lasting, anchor))


@pytest.mark.parametrize("column", [field.name for field in fields(AnchorRecord)])
def test_a_changed_record_of_an_anchor_is_noticed(lasting: Home, column: str) -> None:
    """Each of its columns is covered by the chain."""
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


def test_a_loss_cannot_be_taken_out(lasting: Home) -> None:
    """Without its record neither the ledger nor an export adds up."""
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


CHANGES = {
    "named twice": [(NAMED, "a"), (NAMED, "b")],
    "named nothing": [(NAMED, "")],
    "lost none": [(LOST, "a")],
    "lost twice": [(NAMED, "a"), (LOST, ""), (LOST, "b")],
    "of no kind": [(NAMED, "a"), ("moved", "b")],
}


@pytest.mark.parametrize("events", CHANGES.values(), ids=CHANGES)
def test_an_anchor_gives_way_by_a_recorded_loss_alone(events: list[tuple[str, str]]) -> None:
    """Even a chain with correct digests does not pass off a loss as something else."""
    start = head = first_head("mine", WHOLE)
    records = []
    for event, anchor in events:
        record, head = add_anchor(head, event, anchor, 1)
        records.append(record)
    with pytest.raises(LedgerDamaged, match="anchor"):
        check_records(start, WHOLE, records, head)
    check_records(start, WHOLE, records[:-1], _end(start, records[:-1]))


def _end(start: Any, records: list[AnchorRecord]) -> Any:
    head = start
    for record in records:
        _, head = add_anchor(head, record.event, record.anchor, 1)
    return head
