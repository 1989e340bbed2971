"""The contract of every ledger: in memory, in a file, and in PostgreSQL."""

import pickle
import threading
from collections.abc import Callable
from datetime import date
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from confide.errors import BudgetExceeded, Fault
from confide.ledger import AnsweredAlready, Hold, KeyUsed, Ledger, StoredAnswer
from confide.ledger.database import Database
from confide.loss import UNITS, Filter, GaussianFilter, PureFilter, RenyiFilter, Share
from support.ledgers import NOISY, TENTH, WHOLE, Clock, Home, ask

OTHER = "SELECT SUM(cost) FROM visits"
FILTERS: dict[str, Callable[[], Filter]] = {
    "pure": lambda: PureFilter(Fraction(3, 7), Fraction(1, 10**6)),
    "gaussian": lambda: GaussianFilter(Fraction(1), Fraction(1, 10**6), Fraction(1, 3 * 10**6)),
    "renyi": lambda: RenyiFilter(Fraction(2), Fraction(1, 10**8), delta_aside=Fraction(1, 10**9)),
}


def test_a_reservation_is_spent_at_once(home: Home) -> None:
    """`reserve` charges the filter, whether or not an answer follows."""
    ledger = home.open()
    ledger.reserve(ask(), TENTH)

    assert TENTH == ledger.filter.spent == home.again().filter.spent
    assert ["held"] == [entry.state for entry in home.again().entries()]


def test_a_hold_of_another_ledger_pays_for_nothing(home: Home) -> None:
    """An answer is stored only in the ledger that holds its charge."""
    first, second = home.open(), home.open()
    hold = first.reserve(ask(), TENTH)
    second.reserve(ask(), Share.floor("1%"))
    with pytest.raises(Fault):
        second.commit(hold, NOISY)
    with pytest.raises(Fault):
        second.commit(Hold(0, TENTH), NOISY)

    assert second.answer(hold.entry) is None
    first.commit(hold, NOISY)


def test_a_copy_of_a_database_waits_as_long(tmp_path: Path) -> None:
    """A ledger that is sent to another process keeps its lock timeout."""
    copy = pickle.loads(pickle.dumps(Database(tmp_path / "ledger.db", wait=1.5)))
    waits = copy.read(lambda line: line.exec_driver_sql("PRAGMA busy_timeout").scalar())
    copy.close()

    assert 1_500 == waits


def test_a_refused_charge_changes_nothing(home: Home) -> None:
    """A refused charge leaves the balance and the history unchanged."""
    ledger = home.open()
    ledger.reserve(ask(), Share.floor("95%"))
    before = (ledger.filter, tuple(ledger.entries()))
    with pytest.raises(BudgetExceeded):
        ledger.reserve(ask(), TENTH)
    with pytest.raises(BudgetExceeded):
        ledger.reserve(ask(), Share(2**63 - 1))

    assert before == (ledger.filter, tuple(ledger.entries()))
    ledger.verify()


def test_delta_is_charged_too(home: Home) -> None:
    """A failure's delta is charged to the reserved delta, and never exceeds it."""
    opening = GaussianFilter(Fraction(1), Fraction(1, 10**6), Fraction(1, 10**7))
    ledger = home.open(opening)
    hold = ledger.reserve(ask(), TENTH, Fraction(1, 10**7))
    with pytest.raises(BudgetExceeded):
        ledger.reserve(ask(), TENTH, Fraction(1, 10**12))

    assert Fraction(1, 10**7) == hold.delta == home.again(opening).filter.delta_spent
    assert TENTH == ledger.filter.spent
    ledger.verify()


def test_no_delta_is_granted_without_a_pot(home: Home) -> None:
    """A pure budget refuses a charge with a delta, and stays unchanged."""
    ledger = home.open()
    with pytest.raises(BudgetExceeded):
        ledger.reserve(ask(), TENTH, Fraction(1, 10**12))

    assert Share(0) == ledger.filter.spent


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=20,
)
@given(
    parts=st.lists(st.fractions(Fraction(1, 10**9), 1, max_denominator=10**9), max_size=8),
    deltas=st.lists(st.fractions(0, Fraction(1, 10**6), max_denominator=10**12), max_size=8),
)
def test_balances_are_exact(home: Home, parts: list[Fraction], deltas: list[Fraction]) -> None:
    """The spent share is the exact sum of the shares granted, also after reopening."""
    opening = PureFilter(Fraction(1), Fraction(1, 10**6))
    ledger, units, pot = home.open(opening), 0, Fraction(0)
    for part, delta in zip(parts, deltas, strict=False):
        share = Share.floor(part)
        fits = units + share.units <= UNITS and pot + delta <= opening.delta_pot
        try:
            hold = ledger.reserve(ask(), share, delta)
        except BudgetExceeded:
            assert not fits or pot + delta + opening.delta_pot / UNITS > opening.delta_pot
        else:
            assert fits
            assert delta <= hold.delta < delta + opening.delta_pot / UNITS
            units, pot = units + share.units, pot + hold.delta

    assert units == home.again(opening).filter.spent.units
    assert pot == home.again(opening).filter.delta_spent
    ledger.verify()


@pytest.mark.parametrize("parts", [1, 3, 7, 22, 23, 41])
def test_equal_parts_fill_the_budget(home: Home, parts: int) -> None:
    """k requests of 1/k fit for every k, and no further request of that size does."""
    ledger = home.open()
    for _ in range(parts):
        ledger.reserve(ask(), Share.floor(Fraction(1, parts)))
    with pytest.raises(BudgetExceeded):
        ledger.reserve(ask(), Share.floor(Fraction(1, parts)))

    assert ledger.filter.left.units < parts


@pytest.mark.parametrize("kind", FILTERS)
def test_a_ledger_keeps_the_terms_of_its_budget(home: Home, kind: str) -> None:
    """Under any accounting, a reopened ledger prices a share as before."""
    opening = FILTERS[kind]()
    home.open(opening).reserve(ask(), TENTH)
    again = home.again(FILTERS[kind]())

    assert opening == again.opening
    assert opening.grant(TENTH) == again.filter
    assert opening.loss_of(TENTH) == again.opening.loss_of(TENTH)


def test_an_answer_is_stored_with_its_charge(home: Home) -> None:
    """After `commit`, the same query on the same declaration finds the answer and the receipt."""
    ledger = home.open()
    receipt = ledger.commit(ledger.reserve(ask(), TENTH), NOISY)

    assert (receipt, NOISY) == home.again().stored(ask())
    assert (receipt, NOISY) == ledger.answer(receipt.entry)
    assert TENTH == receipt.share
    assert ["answered"] == [entry.state for entry in ledger.entries()]


def test_an_answer_comes_back_as_it_was(home: Home) -> None:
    """Integers of any size, strings, dates, Booleans, and None are stored unchanged."""
    noisy = {"groups": [["Ω'\"\x00", None], [date(2024, 2, 29), True]], "steps": [[-(2**80), 0.1]]}
    ledger = home.open()
    ledger.commit(ledger.reserve(ask(), TENTH), noisy)

    assert [noisy] == [stored.noisy for stored in home.again().answers(ask())]


def test_an_answer_that_is_not_json_is_refused(home: Home) -> None:
    """An answer that is not JSON is refused before the ledger changes, and the hold stays."""
    ledger = home.open()
    hold = ledger.reserve(ask(), TENTH)
    with pytest.raises(TypeError):
        ledger.commit(hold, {"steps": object()})

    assert ledger.answer(hold.entry) is None
    ledger.verify()


def test_only_the_same_question_finds_an_answer(home: Home) -> None:
    """Another query, declaration, or analyst, or an open reservation, finds no answer."""
    ledger = home.open()
    ledger.commit(ledger.reserve(ask(), TENTH), NOISY)
    ledger.reserve(ask(OTHER), TENTH)

    assert ledger.stored(ask(OTHER)) is None
    assert ledger.stored(ask(fingerprint="v2")) is None
    assert ledger.stored(ask(analyst="bob")) is None


def test_the_newest_answer_is_found(home: Home) -> None:
    """The newest answer is found first, and all answers are kept in order."""
    ledger = home.open()
    older = ledger.commit(ledger.reserve(ask(), TENTH), NOISY)
    newer = ledger.commit(ledger.reserve(ask(), TENTH), {"steps": [[9, 9]]})

    assert (newer, {"steps": [[9, 9]]}) == ledger.stored(ask())
    assert [older, newer] == [stored.receipt for stored in home.again().answers(ask())]


def test_a_hold_is_answered_once(home: Home) -> None:
    """A second commit for one charge is a fault, and the first answer stays."""
    ledger = home.open()
    hold = ledger.reserve(ask(), TENTH)
    ledger.commit(hold, NOISY)
    with pytest.raises(AnsweredAlready):
        home.again().commit(hold, {"steps": [[9, 9]]})

    found = ledger.stored(ask())
    assert found is not None
    assert NOISY == found.noisy
    ledger.verify()


def test_a_hold_is_used_once() -> None:
    """A reading uses up the right to read."""
    hold = Hold(0, TENTH)
    hold.use()
    with pytest.raises(Fault):
        hold.use()


def test_a_key_finds_its_hold_and_then_its_answer(home: Home) -> None:
    """A key finds its charge after a crash, and its answer after the commit; it is charged once."""
    ledger = home.open()
    assert ledger.resume(ask(), "k") is None
    made = ledger.reserve(ask(), TENTH, key="k", readings=3)
    found = home.again().resume(ask(), "k")

    assert isinstance(found, Hold)
    assert (made.entry, TENTH) == (found.entry, found.share)
    for _ in range(3):
        found.use()
    with pytest.raises(Fault):
        found.use()

    receipt = home.again().commit(found, NOISY)
    assert StoredAnswer(receipt, NOISY) == ledger.resume(ask(), "k")
    assert TENTH == ledger.filter.spent
    assert ["k"] == [entry.key for entry in ledger.entries()]


def test_a_key_belongs_to_one_question(home: Home) -> None:
    """A query's key is refused for another query, without a charge."""
    ledger = home.open()
    ledger.reserve(ask(), TENTH, key="k")
    for other in (ask(OTHER), ask(fingerprint="v2")):
        with pytest.raises(KeyUsed):
            ledger.resume(other, "k")
    for question in (ask(), ask(OTHER)):
        with pytest.raises(KeyUsed):
            ledger.reserve(question, TENTH, key="k")

    assert TENTH == ledger.filter.spent


def test_each_analyst_has_keys_of_their_own(home: Home) -> None:
    """Two analysts can use the same key independently."""
    ledger = home.open()
    ledger.reserve(ask(), TENTH, key="k")

    assert ledger.resume(ask(OTHER, analyst="bob"), "k") is None
    ledger.reserve(ask(OTHER, analyst="bob"), TENTH, key="k")
    ledger.verify()


def test_a_key_finds_its_free_answer_too(home: Home) -> None:
    """A key that got a stored answer gets the same one later, even after newer answers."""
    ledger = home.open()
    first = ledger.commit(ledger.reserve(ask(), TENTH), NOISY)
    ledger.remember(ask(), "k", first)
    ledger.remember(ask(), "k", first)
    ledger.commit(ledger.reserve(ask(), TENTH), {"steps": [[9, 9]]})

    assert (first, NOISY) == home.again().resume(ask(), "k")
    with pytest.raises(KeyUsed):
        ledger.reserve(ask(OTHER), TENTH, key="k")


def test_each_receipt_links_to_all_before_it(home: Home) -> None:
    """The same charge has another hash after another history."""
    one, other = home.open(), home.open()
    other.reserve(ask(OTHER), TENTH)
    first = one.commit(one.reserve(ask(), TENTH), NOISY)
    second = other.commit(other.reserve(ask(), TENTH), NOISY)

    assert first.digest != second.digest


def test_an_entry_shows_everything_but_the_data(home: Home) -> None:
    """An entry has query, analyst, exact loss, share, time, state, key, and both hashes."""
    ledger = home.open(PureFilter(Fraction(3)), clock=Clock(1_700_000_000_000_000))
    ledger.reserve(ask(), TENTH, key="k")
    ledger.reserve(ask(OTHER), TENTH)
    first, second = ledger.entries()

    assert (ask(), TENTH, "held", "k") == (first.question, first.share, first.state, first.key)
    assert '{"loss": "PureLoss", "epsilon": "3/10"}' == first.loss
    assert 1_700_000_000_000_000 == first.time
    assert first.digest == second.before
    assert (TENTH, TENTH + TENTH) == (first.spent, second.spent)


def test_an_honest_history_verifies(home: Home) -> None:
    """Charges, refusals, answers, keys, and open holds pass verification."""
    ledger = home.open()
    ledger.verify()
    for place in range(5):
        hold = ledger.reserve(ask(f"SELECT {place}"), TENTH, key=f"k{place}")
        if place % 2:
            ledger.commit(hold, NOISY)
        home.again().verify()


def test_many_at_once_spend_no_more_than_the_budget(home: Home) -> None:
    """Exactly twenty of forty threads that each request a twentieth of the budget get it."""
    ledger, outcomes = home.open(), list[bool]()

    def reserve() -> None:
        try:
            ledger.commit(ledger.reserve(ask(), Share.floor("1/20")), NOISY)
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


def test_the_salt_stays(home: Home) -> None:
    """A reopened ledger has the same salt, and another ledger a different one."""
    ledger = home.open()

    assert ledger.salt == home.again().salt
    assert ledger.salt != home.open().salt
    assert ledger.salt not in repr(ledger) + repr(vars(ledger).get("_identity"))


def test_ledgers_are_ledgers(home: Home) -> None:
    """Each kind has every member of the protocol."""
    ledger: Ledger = home.open()
    named = [name for name in dir(Ledger) if not name.startswith("_")]

    assert [] == [name for name in named if not hasattr(ledger, name)]
    assert WHOLE == ledger.opening
