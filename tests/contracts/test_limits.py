"""Limits below the budget: per analyst, per purpose, and per calendar window."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from confide.declare import Limit, Limits
from confide.declare.budget import Window
from confide.errors import BadDeclaration, BudgetExceeded
from confide.ledger import Ledger, QueryIdentity
from confide.ledger.limits import window_start
from confide.loss import Share
from support.ledgers import DAY, NOISY, TENTH, WHOLE, Clock, Home, ask

LIMITS = Limits(
    month="30%",
    analysts={"ana": Limit("25%", day="15%"), "bob": 1},
    purposes={"planning": "12%"},
)
HUNDREDTH = Share.floor("1%")


def grants(ledger: Ledger, question: QueryIdentity, share: Share, most: int = 200) -> int:
    """Return the number of charges of a share that are granted before the first refusal."""
    for count in range(most):
        try:
            ledger.reserve(question, share)
        except BudgetExceeded:
            return count
    return most


def test_an_analyst_spends_no_more_than_their_limit(home: Home) -> None:
    """No analyst exceeds their own limit, and the rest of the budget is left to others."""
    limits = Limits(analysts={"ana": "25%", "bob": 1})
    ledger = home.open(limits=limits)

    assert 25 == grants(ledger, ask(), HUNDREDTH)
    assert 75 == grants(home.again(limits=limits), ask(analyst="bob"), HUNDREDTH)
    ledger.verify()


def test_analysts_together_spend_no_more_than_the_budget(home: Home) -> None:
    """Three analysts with half of the budget each spend at most the budget together."""
    names = ("ana", "bob", "eve")
    ledger = home.open(limits=Limits(analysts=dict.fromkeys(names, "50%")))

    assert [5, 5, 0] == [grants(ledger, ask(analyst=name), TENTH) for name in names]
    assert Share.floor(1) == ledger.filter.spent


def test_a_purpose_has_one_limit_for_all_analysts(home: Home) -> None:
    """The spending of several analysts for one purpose adds up."""
    ledger = home.open(limits=Limits(purposes={"planning": "12%", "research": 1}))
    planning = replace(ask(), purpose="planning")

    assert 7 == grants(ledger, planning, HUNDREDTH, most=7)
    assert 5 == grants(ledger, replace(planning, analyst="bob"), HUNDREDTH)
    assert 10 == grants(ledger, replace(planning, purpose="research"), HUNDREDTH, most=10)


def test_a_limit_resets_with_its_window(home: Home) -> None:
    """A daily limit resets each day, and unused limits do not carry over."""
    clock = Clock()
    ledger = home.open(limits=Limits(analysts={"ana": Limit(day="5%")}), clock=clock)

    assert 5 == grants(ledger, ask(), HUNDREDTH)
    clock.time += DAY
    assert 5 == grants(ledger, ask(), HUNDREDTH)
    clock.time += 3 * DAY
    assert 5 == grants(ledger, ask(), HUNDREDTH)
    ledger.verify()


def test_a_window_of_the_budget_counts_everyone(home: Home) -> None:
    """A monthly limit counts all analysts and queries without an analyst."""
    ledger = home.open(limits=LIMITS, clock=Clock())

    assert 15 == grants(ledger, ask(), HUNDREDTH)
    assert 10 == grants(ledger, ask(analyst=""), HUNDREDTH, most=10)
    assert 5 == grants(ledger, ask(analyst="bob"), HUNDREDTH)


def test_a_limit_declared_later_counts_what_was_spent_before(home: Home) -> None:
    """A limit declared later counts all spending, including earlier charges."""
    clock = Clock()
    home.open(clock=clock).reserve(ask(), Share.floor("20%"))
    if home.kind == "memory":
        home.opened[-1]._limits = LIMITS  # type: ignore[attr-defined]
    ledger = home.again(limits=LIMITS, clock=clock)

    assert 0 == grants(ledger, ask(), HUNDREDTH)
    assert 10 == grants(ledger, ask(analyst="bob"), HUNDREDTH)


def test_a_refused_charge_changes_no_limit(home: Home) -> None:
    """A refusal by one limit changes no limit, and names the limit that refused."""
    ledger = home.open(limits=LIMITS, clock=Clock())
    before = ledger.allowance("ana", "planning")
    with pytest.raises(BudgetExceeded, match="purpose 'planning'"):
        ledger.reserve(replace(ask(), purpose="planning"), Share.floor("13%"))
    with pytest.raises(BudgetExceeded, match="analyst 'ana' for this day"):
        ledger.reserve(ask(), Share.floor("16%"))

    assert before == ledger.allowance("ana", "planning")
    ledger.verify()


def test_an_allowance_is_what_can_be_spent(home: Home) -> None:
    """For any history, exactly the reported remaining budget is granted."""
    clock = Clock()
    ledger = home.open(limits=LIMITS, clock=clock)
    ledger.reserve(replace(ask(), purpose="planning"), Share.floor("7%"))
    ledger.reserve(ask(analyst="bob"), Share.floor("11%"))
    for analyst, purpose in (("ana", ""), ("ana", "planning"), ("bob", ""), ("", "")):
        left = ledger.allowance(analyst, purpose).left
        question = replace(ask(analyst=analyst), purpose=purpose)
        with pytest.raises(BudgetExceeded):
            ledger.reserve(question, left + Share(1))
    most = ledger.allowance("ana", "planning")
    ledger.reserve(replace(ask(), purpose="planning"), most.left)

    assert (Share.floor("25%"), Share.floor("7%")) == (most.total, most.spent)
    assert Share.floor("5%") == most.left
    assert Share(0) == ledger.allowance("ana", "planning").left


def test_shared_answers_are_free(home: Home) -> None:
    """Own answers are always found; those of others only under reuse="all"."""
    for reuse, found in (("own", 0), ("all", 1)):
        ledger = home.open(limits=Limits(reuse=reuse))
        ledger.commit(ledger.reserve(ask(), TENTH), NOISY)

        assert 1 == len(ledger.answers(ask()))
        assert found == len(ledger.answers(ask(analyst="bob")))
        assert bool(found) is (ledger.stored(ask(analyst="bob")) is not None)


@pytest.mark.parametrize(
    ("window", "start"),
    [
        (Window.DAY, datetime(2026, 11, 16, tzinfo=UTC)),
        (Window.WEEK, datetime(2026, 11, 16, tzinfo=UTC)),
        (Window.MONTH, datetime(2026, 11, 1, tzinfo=UTC)),
        (Window.YEAR, datetime(2026, 1, 1, tzinfo=UTC)),
    ],
)
def test_windows_begin_with_the_calendar(window: Window, start: datetime) -> None:
    """Days begin at midnight in UTC, weeks on Monday, and months and years on their first day."""
    last = datetime(2026, 11, 16, 23, 59, 59, 999_999, tzinfo=UTC)
    first = int(start.timestamp()) * 10**6

    assert start == window.start(last) == window.start(start)
    assert first == window_start(window, first) == window_start(window, first + 10**6)
    assert first > window_start(window, first - 1)


@pytest.mark.parametrize(
    ("said", "make"),
    [
        ("`reuse` must be", lambda: Limits(reuse="some")),
        ("Unknown limit `hour`", lambda: Limits(hour=0.1)),
        ("Unknown limit `share`", lambda: Limits(share=0.1)),
        ("name of each analyst", lambda: Limits(analysts={"a b": 0.1})),
        ("`share` must be at most 1", lambda: Limit(1.5)),
        ("`month` must be", lambda: Limit(month=0)),
        ("Unknown analyst 'bo'", lambda: LIMITS.admit("bo", "")),
        (r"create `\[analysts\.bo\]` in `confide\.toml`", lambda: LIMITS.admit("bo", "")),
        (r'create `\[analysts\."b@x"\]` in `confide\.toml`', lambda: LIMITS.admit("b@x", "")),
        (r"create `\[purposes\.fun\]` in `confide\.toml`", lambda: LIMITS.admit("ana", "fun")),
        ("Unknown purpose 'fun'", lambda: LIMITS.admit("ana", "fun")),
        ("name of each analyst", lambda: Limits().admit("a\nb", "")),
    ],
)
def test_wrong_limits_are_refused(said: str, make: object) -> None:
    """An invalid limit is refused with the allowed values."""
    assert callable(make)
    with pytest.raises(BadDeclaration, match=said):
        make()


def test_limits_never_exceed_the_budget(home: Home) -> None:
    """Limits that add up to more than the budget grant no more than the budget."""
    ledger = home.open(WHOLE, Limits(analysts={"ana": 1, "bob": 1}))
    ledger.reserve(ask(), Share.floor("70%"))

    assert Share.floor("30%") == ledger.allowance("bob").left
    with pytest.raises(BudgetExceeded):
        ledger.reserve(ask(analyst="bob"), Share.floor("31%"))
