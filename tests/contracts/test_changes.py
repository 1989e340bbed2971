"""Changes that conflict with others between their read and their write, and cut connections.

A clock with a callback stands in for the others, since a change reads the time after its read and
before its write. SQLite allows nothing in between, so all of this tests PostgreSQL.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from confide.errors import BudgetExceeded, Fault
from confide.ledger import AnsweredAlready, LedgerUnavailable, SqlLedger, open_ledger
from confide.ledger.chain import write_parts
from confide.ledger.sql import LOCKED_CHANGES
from confide.loss import Share
from support.ledgers import NOISY, TENTH, WHOLE, Clock, Home, ask
from support.postgres import Postgres

HALF: Final = Share.floor("1/2")


@dataclass(slots=True)
class Meeting:
    """A clock that runs a callback the next time that it is read."""

    acts: list[Callable[[], object]] = field(default_factory=list)
    clock: Clock = field(default_factory=Clock)

    def __call__(self) -> int:
        if self.acts:
            self.acts.pop()()
        return self.clock()


@pytest.fixture
def meeting() -> Meeting:
    """Return a clock without a callback."""
    return Meeting()


@pytest.fixture
def home(tmp_path: Path, postgres: Postgres) -> Iterator[Home]:
    """Return a location of ledgers in PostgreSQL."""
    home = Home("postgresql", tmp_path, postgres)
    yield home
    home.close()


def open_two(home: Home, meeting: Meeting) -> tuple[SqlLedger, SqlLedger]:
    """Return a ledger whose changes conflict with others, and the ledger of the others."""
    one = home.open(clock=meeting)
    other = home.again(clock=meeting.clock)
    assert isinstance(one, SqlLedger)
    assert isinstance(other, SqlLedger)
    return one, other


def test_a_conflicting_charge_is_retried(home: Home, meeting: Meeting) -> None:
    """After a conflict, both charges are in the ledger once, and the running totals are correct."""
    one, other = open_two(home, meeting)
    meeting.acts.append(lambda: other.reserve(ask("SELECT 2"), TENTH))
    one.reserve(ask("SELECT 1"), TENTH)

    assert ["SELECT 2", "SELECT 1"] == [entry.question.text for entry in one.entries()]
    assert 2 * TENTH.units == one.allowance("ana").spent.units
    one.verify()


def test_a_charge_that_meets_the_naming_of_an_anchor_is_refused(
    home: Home, meeting: Meeting
) -> None:
    """No charge is made without a mark, because the record of the anchor moves the head."""
    one, _ = open_two(home, meeting)
    hold = one.reserve(ask(), TENTH)
    meeting.acts.append(lambda: home.again(clock=meeting.clock, anchor=home.folder / "a.log"))
    with pytest.raises(LedgerUnavailable, match="another anchor"):
        one.reserve(ask("SELECT 1"), TENTH)
    with pytest.raises(LedgerUnavailable, match="another anchor"):
        one.commit(hold, NOISY)

    assert ["held"] == [entry.state for entry in one.entries()]
    assert not meeting.acts


def test_an_answer_that_meets_the_naming_of_an_anchor_is_refused(
    home: Home, meeting: Meeting
) -> None:
    """No answer is shown that the anchor has not seen."""
    one, _ = open_two(home, meeting)
    hold = one.reserve(ask(), TENTH)
    meeting.acts.append(lambda: home.again(clock=meeting.clock, anchor=home.folder / "a.log"))
    with pytest.raises(LedgerUnavailable, match="another anchor"):
        one.commit(hold, NOISY)

    assert ["held"] == [entry.state for entry in one.entries()]


def test_conflicting_charges_do_not_exceed_the_budget(home: Home, meeting: Meeting) -> None:
    """If two halves fit only one by one, the second is refused after a conflict."""
    one, other = open_two(home, meeting)
    one.reserve(ask(), TENTH)
    meeting.acts.append(lambda: other.reserve(ask("SELECT 2"), HALF))
    with pytest.raises(BudgetExceeded):
        one.reserve(ask("SELECT 1"), HALF)

    assert HALF.units + TENTH.units == one.filter.spent.units
    one.verify()


def test_conflicting_answers_are_stored_once(home: Home, meeting: Meeting) -> None:
    """The second of two concurrent answers is not stored, although its read saw none."""
    one, other = open_two(home, meeting)
    hold = one.reserve(ask(), TENTH, key="k")
    again = other.resume(ask(), "k")
    meeting.acts.append(lambda: other.commit(again, NOISY))  # type: ignore[arg-type]
    with pytest.raises(AnsweredAlready):
        one.commit(hold, {"steps": [[7]]})

    stored = one.answer(hold.entry)
    assert stored is not None
    assert NOISY == stored.noisy
    one.verify()


def test_a_key_that_was_used_meanwhile_charges_nothing(home: Home, meeting: Meeting) -> None:
    """A key that was assigned to a free answer after the read stops the charge."""
    one, other = open_two(home, meeting)
    receipt = other.commit(other.reserve(ask(), TENTH), NOISY)
    meeting.acts.append(lambda: other.remember(ask(), "k", receipt))
    with pytest.raises(Fault):
        one.reserve(ask("SELECT 1"), TENTH, key="k")

    assert TENTH == one.filter.spent
    one.verify()


def test_the_head_is_locked_early_after_a_conflict(home: Home, meeting: Meeting) -> None:
    """After a conflict, the head is locked before reading for some time."""
    one, other = open_two(home, meeting)
    small = Share.floor("1/1000000")
    meeting.acts.append(lambda: other.reserve(ask("SELECT 2"), TENTH))
    one.reserve(ask("SELECT 1"), TENTH)
    impatient = open_ledger(home.address, WHOLE, wait=0.2, clock=meeting.clock)
    meeting.acts.append(lambda: impatient.reserve(ask("SELECT 3"), TENTH))
    with pytest.raises(LedgerUnavailable, match="locked"):
        one.reserve(ask("SELECT 1"), TENTH)
    for _ in range(LOCKED_CHANGES):
        one.reserve(ask("SELECT 1"), small)
    meeting.acts.append(lambda: impatient.reserve(ask("SELECT 3"), TENTH))
    one.reserve(ask("SELECT 1"), small)

    assert "SELECT 3" in {entry.question.text for entry in one.entries()}
    impatient.close()


def cut(postgres: Postgres, home: Home) -> None:
    """End every connection to the ledger's database."""
    name = home.address.split("/")[3].split("?")[0]
    with postgres.connect("postgres") as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,)
        )


def test_a_restart_of_the_server_refuses_no_charge(home: Home, postgres: Postgres) -> None:
    """The next charge finds a working connection, however many idle ones were cut."""
    ledger = home.open()
    assert isinstance(ledger, SqlLedger)

    def hold_many(depth: int) -> None:
        ledger._database.read(lambda _: hold_many(depth - 1) if depth else None)

    hold_many(6)
    ledger.reserve(ask(), TENTH)
    name = home.address.split("/")[3].split("?")[0]
    with postgres.connect("postgres") as admin:
        # Wait for each: a connection that dies between a read and its write is tested elsewhere.
        admin.execute(
            "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = %s",
            (name,),
        )
    ledger.reserve(ask(), TENTH)

    assert 2 == len(list(ledger.entries()))


def test_a_write_that_may_have_committed_is_not_retried(
    home: Home, meeting: Meeting, postgres: Postgres
) -> None:
    """A connection that is cut during the write is a fault; the key finds the outcome."""
    one, _ = open_two(home, meeting)
    meeting.acts.append(lambda: cut(postgres, home))
    with pytest.raises(LedgerUnavailable, match="same key"):
        one.reserve(ask(), TENTH, key="k")

    assert one.resume(ask(), "k") is None
    one.reserve(ask(), TENTH, key="k")
    assert TENTH == one.filter.spent
    one.verify()


def test_a_read_on_a_cut_connection_is_retried(
    home: Home, meeting: Meeting, postgres: Postgres
) -> None:
    """A connection that was cut while idle causes no error."""
    one, _ = open_two(home, meeting)
    one.reserve(ask(), TENTH)
    cut(postgres, home)
    one.reserve(ask(), TENTH)

    assert 2 * TENTH.units == one.filter.spent.units


def test_a_hold_of_another_ledger_is_refused(home: Home, meeting: Meeting) -> None:
    """An answer is stored only in the ledger that holds its charge."""
    one, _ = open_two(home, meeting)
    elsewhere = home.open()
    with pytest.raises(Fault):
        one.commit(elsewhere.reserve(ask(), TENTH), NOISY)

    assert [] == list(one.entries())


PARTS: Final = st.lists(st.text() | st.integers() | st.none() | st.booleans())


@given(PARTS)
def test_parts_are_written_as_json(parts: list[Any]) -> None:
    """A hash covers the text that json.dumps writes for its parts."""
    assert json.dumps(parts) == write_parts(parts)


def test_a_first_read_on_a_cut_connection_is_retried(home: Home, postgres: Postgres) -> None:
    """After a restart of the server, a read that starts the next query finds a new connection."""
    ledger = home.open()
    ledger.reserve(ask(), TENTH)
    assert 1 == len(list(ledger.entries()))
    cut(postgres, home)

    assert 1 == len(list(ledger.entries()))
