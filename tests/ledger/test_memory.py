"""What every ledger must do, asked of the one in memory."""

import threading
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any, Final

import pytest

from confide.errors import BudgetExceeded, Fault
from confide.ledger import Entry, Hold, Ledger, MemoryLedger, Question
from confide.loss import GaussianFilter, PureFilter, Share

TENTH: Final = Share.floor("1/10")
NOISY: Final[dict[str, Any]] = {"steps": ((1, 2), (3, 4))}


def ask(text: str = "SELECT COUNT(*) FROM visits", fingerprint: str = "v1") -> Question:
    return Question(text, fingerprint, analyst="ana")


@pytest.fixture
def ledger() -> Ledger:
    """Return a ledger with nothing spent."""
    return MemoryLedger(PureFilter(Fraction(1)))


def test_a_reservation_is_spent_at_once(ledger: Ledger) -> None:
    """The filter is charged by `reserve`, whether or not an answer follows."""
    ledger.reserve(ask(), TENTH)

    assert TENTH == ledger.filter.spent
    assert ["held"] == [entry.state for entry in ledger.entries()]


def test_what_does_not_fit_changes_nothing(ledger: Ledger) -> None:
    """A refused charge leaves balance and history as they were."""
    ledger.reserve(ask(), Share.floor("95%"))
    before = (ledger.filter, tuple(ledger.entries()))
    with pytest.raises(BudgetExceeded):
        ledger.reserve(ask(), TENTH)

    assert before == (ledger.filter, tuple(ledger.entries()))
    ledger.verify()


def test_delta_is_charged_too() -> None:
    """A failure's delta comes out of what was set aside, and never more than that."""
    ledger = MemoryLedger(GaussianFilter(Fraction(1), Fraction(1, 10**6), Fraction(1, 10**7)))
    ledger.reserve(ask(), TENTH, Fraction(1, 10**7))
    with pytest.raises(BudgetExceeded):
        ledger.reserve(ask(), TENTH, Fraction(1, 10**12))

    assert Fraction(1, 10**7) == ledger.filter.delta_spent
    assert TENTH == ledger.filter.spent


def test_an_answer_is_stored_with_its_charge(ledger: Ledger) -> None:
    """After `commit` the same question over the same declaration finds answer and receipt."""
    receipt = ledger.commit(ledger.reserve(ask(), TENTH), NOISY)

    assert (receipt, NOISY) == ledger.stored(ask())
    assert TENTH == receipt.share
    assert ["answered"] == [entry.state for entry in ledger.entries()]


def test_only_the_same_question_finds_an_answer(ledger: Ledger) -> None:
    """Another text, another declaration or a mere reservation finds nothing."""
    ledger.commit(ledger.reserve(ask(), TENTH), NOISY)
    ledger.reserve(ask("SELECT SUM(cost) FROM visits"), TENTH)

    assert ledger.stored(ask("SELECT SUM(cost) FROM visits")) is None
    assert ledger.stored(ask(fingerprint="v2")) is None


def test_the_newest_answer_is_found(ledger: Ledger) -> None:
    """A fresh answer takes the place of an older one."""
    ledger.commit(ledger.reserve(ask(), TENTH), NOISY)
    newer = ledger.commit(ledger.reserve(ask(), TENTH), {"steps": ((9, 9),)})

    assert (newer, {"steps": ((9, 9),)}) == ledger.stored(ask())


def test_a_hold_is_answered_once(ledger: Ledger) -> None:
    """A second commit for one charge is a fault, and the first answer stays."""
    hold = ledger.reserve(ask(), TENTH)
    ledger.commit(hold, NOISY)
    with pytest.raises(Fault):
        ledger.commit(hold, {"steps": ((9, 9),)})

    found = ledger.stored(ask())
    assert found is not None
    assert NOISY == found[1]


def test_a_hold_is_used_once() -> None:
    """The right to read is used up by one reading."""
    hold = Hold(0, TENTH)
    hold.use()
    with pytest.raises(Fault):
        hold.use()


def test_each_receipt_links_to_all_before_it(ledger: Ledger) -> None:
    """The same charge has another digest after another history."""
    other = MemoryLedger(PureFilter(Fraction(1)))
    other.reserve(ask("SELECT SUM(cost) FROM visits"), TENTH)
    first = ledger.commit(ledger.reserve(ask(), TENTH), NOISY)
    second = other.commit(other.reserve(ask(), TENTH), NOISY)

    assert first.digest != second.digest


def test_an_honest_history_verifies(ledger: Ledger) -> None:
    """Charges, refusals, answers and holds left open pass the check."""
    ledger.verify()
    for place in range(5):
        hold = ledger.reserve(ask(f"SELECT {place}"), TENTH)
        if place % 2:
            ledger.commit(hold, NOISY)
        ledger.verify()


TAMPERINGS: Final[dict[str, Callable[[Entry], Entry]]] = {
    "share": lambda entry: replace(entry, share=Share.floor("1/1000")),
    "delta": lambda entry: replace(entry, delta=Fraction(1, 10**9)),
    "text": lambda entry: replace(entry, question=ask("SELECT 9")),
    "fingerprint": lambda entry: replace(entry, question=ask(fingerprint="v2")),
    "analyst": lambda entry: replace(entry, question=replace(entry.question, analyst="bob")),
    "number": lambda entry: replace(entry, number=7),
    "digest": lambda entry: replace(entry, digest="0" * 64),
}


def keep_three(ledger: MemoryLedger) -> MemoryLedger:
    for place in range(3):
        ledger.commit(ledger.reserve(ask(f"SELECT {place}"), TENTH), NOISY)
    return ledger


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("what", TAMPERINGS)
def test_a_changed_entry_is_noticed(what: str, place: int) -> None:
    """Whatever is changed in an entry, `verify` says so."""
    ledger = keep_three(MemoryLedger(PureFilter(Fraction(1))))
    ledger._entries[place] = TAMPERINGS[what](ledger._entries[place])
    with pytest.raises(Fault):
        ledger.verify()


@pytest.mark.parametrize("place", range(3))
def test_a_missing_entry_is_noticed(place: int) -> None:
    """An entry cannot be taken out, not even the last."""
    ledger = keep_three(MemoryLedger(PureFilter(Fraction(1))))
    del ledger._entries[place]
    with pytest.raises(Fault):
        ledger.verify()


def test_entries_cannot_change_places() -> None:
    """The order of charges is part of the chain."""
    ledger = keep_three(MemoryLedger(PureFilter(Fraction(1))))
    ledger._entries.reverse()
    with pytest.raises(Fault):
        ledger.verify()


def test_a_changed_balance_is_noticed() -> None:
    """A filter that shows less than was charged does not pass."""
    ledger = keep_three(MemoryLedger(PureFilter(Fraction(1))))
    ledger._filter = PureFilter(Fraction(1))
    with pytest.raises(Fault):
        ledger.verify()


def test_a_changed_answer_is_noticed() -> None:
    """A stored answer is part of what is verified."""
    ledger = keep_three(MemoryLedger(PureFilter(Fraction(1))))
    ledger._answers[1] = {"steps": ((0, 0),)}
    with pytest.raises(Fault):
        ledger.verify()


def test_a_changed_state_is_noticed() -> None:
    """An answered entry cannot be made to look like a hold that was left open."""
    ledger = keep_three(MemoryLedger(PureFilter(Fraction(1))))
    ledger._entries[1] = replace(ledger._entries[1], state="held")
    with pytest.raises(Fault):
        ledger.verify()


def test_many_at_once_spend_no_more_than_the_budget(ledger: Ledger) -> None:
    """Of forty threads that each want a twentieth of the budget, twenty get it."""
    outcomes: list[bool] = []

    def reserve() -> None:
        try:
            ledger.reserve(ask(), Share.floor("1/20"))
        except BudgetExceeded:
            outcomes.append(False)
        else:
            outcomes.append(True)

    threads = [threading.Thread(target=reserve) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert 20 == sum(outcomes)
    assert Share.floor(1) == ledger.filter.spent
    ledger.verify()
