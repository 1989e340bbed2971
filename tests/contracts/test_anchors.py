"""Anchors and exports: evidence about a ledger that is stored outside it."""

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

from confide.errors import BadDeclaration
from confide.ledger import (
    AnchorLost,
    LedgerBehind,
    LedgerDamaged,
    LedgerUnavailable,
    Mark,
    Receipt,
    open_ledger,
    recount,
)
from confide.ledger.anchors import Anchor, FileAnchor, LogAnchor, open_anchor
from confide.ledger.chain import Charge
from confide.loss import GaussianFilter, PureFilter, Share
from support.ledgers import NOISY, TENTH, WHOLE, Home, ask
from support.postgres import Postgres

KINDS = ("file", "log", "sqlite", "postgresql")


@pytest.fixture(params=KINDS)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Yield the address of an anchor of each kind, in turn."""
    match request.param:
        case "file":
            yield str(tmp_path / "anchor")
        case "log":
            yield str(tmp_path / "anchor.log")
        case "sqlite":
            yield f"sqlite:///{tmp_path}/anchor.db"
        case _:
            server: Postgres = request.getfixturevalue("postgres")
            yield server.create()


def copy_file(home: Home, name: str) -> Path:
    """Return the path of a backup of a ledger's file."""
    copy = home.folder / name
    with closing(sqlite3.connect(home.address)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    return copy


def restore(home: Home, copy: Path) -> None:
    """Replace the ledger by a copy."""
    home.close()
    for end in ("-wal", "-shm"):
        Path(home.address + end).unlink(missing_ok=True)
    shutil.copy(copy, home.address)


class FullAnchor(LogAnchor):
    """An anchor whose disk can be full."""

    is_full = False

    def keep(self, mark: Mark) -> Mark:
        if self.is_full:
            raise LedgerUnavailable("no room")
        return super().keep(mark)


def test_an_anchor_never_moves_back(address: str) -> None:
    """An anchor keeps the newest mark, ignores older ones, and refuses foreign ones."""
    anchor: Anchor = open_anchor(address)
    assert anchor.newest() is None
    anchor.start(Mark("mine", 2, "b", "A"))
    anchor.start(Mark("mine", 7, "g", "B"))
    assert Mark("mine", 2, "b", "A") == anchor.keep(Mark("mine", 1, "a", "A"))
    assert Mark("mine", 2, "b", "A") == open_anchor(address).newest()
    assert Mark("mine", 3, "c", "A") == anchor.keep(Mark("mine", 3, "c", "A"))
    refused = {
        Mark("other", 9, "z", "A"): LedgerBehind,
        Mark("mine", 9, "z", "B"): AnchorLost,
        Mark("mine", 3, "z", "A"): LedgerDamaged,
    }
    for mark, error in refused.items():
        with pytest.raises(error):
            anchor.keep(mark)

    assert Mark("mine", 3, "c", "A") == anchor.newest()


def test_charges_and_answers_move_the_anchor(tmp_path: Path, address: str) -> None:
    """Charges and answers move the anchor, and the ledger opens again and verifies."""
    home = Home("sqlite", tmp_path, None)
    ledger = home.open(anchor=address)
    ledger.commit(ledger.reserve(ask(), TENTH), NOISY)
    ledger.verify()
    home.again(anchor=address).verify()

    found = open_anchor(address).newest()
    assert found is not None
    assert 3 == found.records
    home.close()


@pytest.mark.parametrize("kept", ["charge", "answer"])
def test_an_old_backup_is_refused(tmp_path: Path, address: str, kept: str) -> None:
    """A copy without the newest charge or the newest answer does not open."""
    home = Home("sqlite", tmp_path, None)
    ledger = home.open(anchor=address)
    hold = ledger.reserve(ask(), TENTH, key="k")
    if kept == "answer":
        copy = copy_file(home, "copy.db")
        ledger.commit(hold, NOISY)
    else:
        ledger.commit(hold, NOISY)
        copy = copy_file(home, "copy.db")
        ledger.reserve(ask(), TENTH)
    restore(home, copy)
    with pytest.raises(LedgerBehind, match="old backup"):
        home.again(anchor=address)


def test_a_recreated_ledger_is_refused(tmp_path: Path, address: str) -> None:
    """The anchor of a lost ledger does not accept a new ledger in its place."""
    home = Home("sqlite", tmp_path, None)
    home.open(anchor=address).reserve(ask(), TENTH)
    home.close()
    with pytest.raises(LedgerBehind, match="second budget"):
        home.open(anchor=address)


def test_a_ledger_ahead_of_its_anchor_opens(tmp_path: Path) -> None:
    """A ledger opens if a crash between a charge and its mark left the anchor behind."""
    home, path = Home("sqlite", tmp_path, None), tmp_path / "anchor.log"
    anchor = FullAnchor(path)
    ledger = home.open(anchor=anchor)
    ledger.reserve(ask(), TENTH)
    anchor.is_full = True
    with pytest.raises(LedgerUnavailable):
        ledger.reserve(ask(), TENTH)
    again = home.again(anchor=path)
    again.reserve(ask(), TENTH)

    assert 4 == len(path.read_text(encoding="utf-8").splitlines())
    again.verify()
    home.close()


def test_another_history_is_detected(tmp_path: Path) -> None:
    """A ledger with as many records as its anchor says, but other ones, does not open."""
    home, path = Home("sqlite", tmp_path, None), tmp_path / "anchor.log"
    ledger = home.open(anchor=path)
    copy = copy_file(home, "copy.db")
    ledger.reserve(ask(), TENTH)
    seen = path.read_bytes()
    restore(home, copy)
    path.write_bytes(seen.splitlines(keepends=True)[0])  # an older copy of the anchor
    home.again(anchor=path).reserve(ask("SELECT 2"), TENTH)
    path.write_bytes(seen)
    with pytest.raises(LedgerDamaged, match="anchor"):
        home.again(anchor=path)
    home.close()


def test_an_incomplete_line_is_skipped(tmp_path: Path) -> None:
    """After a crash, the last complete line counts, and the next mark starts a new line."""
    path = tmp_path / "anchor.log"
    anchor = LogAnchor(path)
    anchor.start(Mark("mine", 1, "a", "A"))
    with path.open("a", encoding="utf-8") as file:
        file.write('{"ledger": "mine", "rec')

    assert Mark("mine", 1, "a", "A") == anchor.newest()
    anchor.keep(Mark("mine", 2, "b", "A"))
    assert Mark("mine", 2, "b", "A") == anchor.newest()


def test_an_incomplete_first_line_is_not_a_mark(tmp_path: Path) -> None:
    """After a crash that cut the first mark short, the next opening writes it again."""
    path = tmp_path / "anchor.log"
    path.write_text('{"ledger": "mine", "rec', encoding="utf-8")
    anchor = LogAnchor(path)

    assert anchor.newest() is None
    anchor.start(Mark("mine", 1, "a", "A"))
    assert Mark("mine", 1, "a", "A") == anchor.newest()


def test_a_damaged_anchor_is_a_fault(tmp_path: Path) -> None:
    """An anchor without a readable mark is not treated as a new one."""
    for name, make in (("anchor", FileAnchor), ("anchor.log", LogAnchor)):
        (tmp_path / name).write_text("gone\n", encoding="utf-8")
        with pytest.raises(LedgerDamaged):
            make(tmp_path / name).newest()


def test_a_missing_anchor_stops_answers(tmp_path: Path) -> None:
    """If the anchor cannot be written, the query is charged but gets no answer."""
    home, folder = Home("sqlite", tmp_path, None), tmp_path / "far"
    folder.mkdir()
    ledger = home.open(anchor=folder / "anchor")
    shutil.rmtree(folder)
    with pytest.raises(LedgerUnavailable):
        ledger.reserve(ask(), TENTH)

    assert TENTH == ledger.filter.spent
    with pytest.raises(BadDeclaration):
        open_anchor("  ")
    home.close()


def test_a_database_swapped_for_an_older_copy_is_detected_at_once(tmp_path: Path) -> None:
    """Even without an anchor, a running process remembers the length of the chain."""
    home = Home("sqlite", tmp_path, None)
    ledger = home.open()
    copy = copy_file(home, "copy.db")
    ledger.reserve(ask(), TENTH)
    restore(home, copy)
    with pytest.raises(LedgerBehind):
        ledger.reserve(ask(), TENTH)
    home.close()


def test_a_database_swapped_before_the_first_charge_is_detected(tmp_path: Path) -> None:
    """A process remembers the length of the chain from the opening on."""
    home = Home("sqlite", tmp_path, None)
    first = home.open()
    copy = copy_file(home, "copy.db")
    first.reserve(ask(), TENTH)
    ledger = home.again()
    restore(home, copy)
    with pytest.raises(LedgerBehind):
        ledger.reserve(ask(), TENTH)
    home.close()


@pytest.mark.parametrize("way", ["key", "question", "entry", "all"])
def test_no_answer_is_shown_before_it_is_marked(lasting: Home, way: str) -> None:
    """An answer whose mark failed is marked before it is returned again, or not returned."""
    anchor = FullAnchor(lasting.folder / "anchor.log")
    ledger = lasting.open(anchor=anchor)
    hold = ledger.reserve(ask(), TENTH, key="k")
    anchor.is_full = True
    with pytest.raises(LedgerUnavailable):
        ledger.commit(hold, NOISY)
    find: dict[str, Callable[[], object]] = {
        "key": lambda: ledger.resume(ask(), "k"),
        "question": lambda: ledger.stored(ask()),
        "entry": lambda: ledger.answer(hold.entry),
        "all": lambda: ledger.answers(ask()),
    }
    with pytest.raises(LedgerUnavailable):
        find[way]()
    anchor.is_full = False

    assert find[way]()
    newest = anchor.newest()
    assert newest is not None
    assert 3 == newest.records


def test_an_export_shows_the_spent_budget(home: Home) -> None:
    """The lines alone give the current filter and verify every receipt."""
    opening = GaussianFilter(Fraction(1), Fraction(1, 10**6), Fraction(1, 10**7))
    ledger = home.open(opening)
    receipt = ledger.commit(ledger.reserve(ask(), TENTH, Fraction(1, 10**8)), NOISY)
    ledger.reserve(ask("SELECT 2"), Share.floor("1/7"))
    lines = list(ledger.export())
    found = recount(lines)

    assert ledger.filter == found.filter
    assert (2, 1) == (found.entries, found.answered)
    assert found.has(receipt)
    assert not found.has(Receipt(receipt.entry, receipt.share, "0" * 64))
    assert not any("steps" in line for line in lines)
    assert ledger.salt not in "".join(lines)


def _write_units_as_string(line: str) -> str:
    """Return a charge whose amount is a string, with a matching hash."""
    charge = json.loads(line)["charge"] | {"units": "ten"}
    return json.dumps({"charge": charge, "digest": Charge(**charge).digest})


def test_a_changed_export_is_detected(home: Home) -> None:
    """No line of an export can be changed, removed, repeated, or moved."""
    ledger = home.open()
    for place in range(3):
        ledger.commit(ledger.reserve(ask(f"SELECT {place}"), TENTH), NOISY)
    lines = list(ledger.export())
    recount(lines)
    cheap = json.loads(lines[1])
    cheap["charge"]["units"] = 1
    changed = [
        [lines[0], json.dumps(cheap), *lines[2:]],
        lines[:-1],
        [lines[0], *lines[2:]],
        [lines[0], lines[2], lines[1], *lines[3:]],
        [*lines, lines[-1]],
        [lines[0].replace("PureFilter", "ImpureFilter"), *lines[1:]],
        [lines[0].replace('epsilon\\": \\"1', 'epsilon\\": \\"2'), *lines[1:]],
        ["nothing", *lines[1:]],
        [lines[0], _write_units_as_string(lines[1]), *lines[2:]],
        [],
    ]
    for others in changed:
        assert others != lines
        with pytest.raises(LedgerDamaged):
            recount(others)


def test_a_ledger_belongs_to_one_budget(lasting: Home) -> None:
    """A ledger refuses another epsilon, delta, or accounting, which would change its shares."""
    lasting.open(WHOLE)
    for other in (
        PureFilter(Fraction(2)),
        PureFilter(Fraction(1), Fraction(1, 10)),
        GaussianFilter(Fraction(1), Fraction(1, 10**6)),
    ):
        with pytest.raises(BadDeclaration, match="epsilon 1 and delta 0"):
            lasting.again(other)


def test_the_delta_pot_stays_unchanged(lasting: Home) -> None:
    """A ledger keeps its delta pot, whatever is declared later."""
    terms = (Fraction(1), Fraction(1, 10**6))
    lasting.open(GaussianFilter(*terms, Fraction(1, 10**7)))

    assert Fraction(1, 10**7) == lasting.again(GaussianFilter(*terms)).opening.delta_pot


@pytest.mark.parametrize(
    "address", ["mysql://x/y", "sqlite://", "sqlite:///:memory:", "post gres://"]
)
def test_an_address_that_cannot_be_a_ledger_is_refused(address: str) -> None:
    """A ledger is a SQLite file or a PostgreSQL database; other addresses are refused."""
    with pytest.raises(BadDeclaration):
        open_ledger(address, WHOLE)


def test_only_the_owner_can_read_a_ledger_file(tmp_path: Path) -> None:
    """A new ledger file is not accessible to other users."""
    home = Home("sqlite", tmp_path, None)
    home.open().reserve(ask(), TENTH)

    assert 0 == Path(home.address).stat().st_mode & 0o077
    home.close()
