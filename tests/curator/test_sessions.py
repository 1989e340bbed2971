"""Watches: a session is paid for when it opens and ends by itself."""

import copy
import pickle
import threading
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from confide.curator import Curator
from confide.declare import Budget, Column, Float, Int, Table
from confide.engines import DuckDB, Sealed
from confide.errors import BadDeclaration, BudgetExceeded, Fault, Refusal
from confide.execution.watch import STEPS_PER_SENSITIVITY, Threshold
from confide.ledger import Hold
from confide.loss import PureLoss, Share
from confide.mechanisms import Neighbours
from confide.plan import Measurement, Plan
from confide.plan.selection import only_total
from confide.plan.sensitivity import score_change
from confide.query import col, count
from confide.query import sum as total
from confide.query.sql import read_sql
from confide.release.noise import round_to_steps
from confide.release.selection import compare_score
from support.auditor import audit
from support.entropy import SeededEntropy
from support.laws import ALPHA, binomial_p

HUGE: Final = {
    "pure": Budget(10**9),
    "gaussian": Budget(10**9, 1e-6),
    "renyi": Budget(10**9, 1e-6, accounting="renyi"),
}
SMALL: Final = {
    "pure": Budget(2),
    "gaussian": Budget(2, 1e-6),
    "renyi": Budget(2, 1e-6, accounting="renyi"),
}
SHARE: Final = Share.floor("1/100")


def declare(people: int, *, rows: int = 1, each: int = 1) -> Table:
    """Return a table of people aged 0, 1, 2, ... with ``each`` rows each."""
    return declare_ages([age for age in range(people) for _ in range(each)], rows=rows)


def declare_ages(ages: list[int], *, rows: int) -> Table:
    """Return a table with one row per age; rows of one age are about one person."""
    data = pa.table(
        {
            "pid": pa.array(ages, pa.int64()),
            "age": pa.array(ages, pa.int64()),
            "balance": pa.array([0.5 - age % 2 for age in ages], pa.float64()),
        }
    )
    columns: dict[str, Column] = {"age": Int(0, 100), "balance": Float(-1, 1)}
    return Table("visits", data, unit="pid", columns=columns, max_rows_per_unit=rows)


def younger(age: int) -> str:
    return f"SELECT COUNT(*) AS n FROM visits WHERE age < {age}"


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("budget", HUGE.values(), ids=HUGE)
def test_without_noise_a_session_is_correct(budget: Budget, neighbours: Neighbours) -> None:
    """At a huge epsilon, every count at or past the threshold is above, every other below."""
    curator = Curator([declare(40)], budget=budget, neighbours=neighbours)
    session = curator.watch(20, above=3, share="1/2")
    answers = [session.ask(younger(age)) for age in (0, 19, 20, 18, 40, 21)]

    assert [False, False, True, False, True, True] == answers
    assert 0 == session.left


def test_a_session_ends_after_the_answers_it_was_opened_for() -> None:
    """After B answers above, every query is refused and nothing is read."""
    curator = Curator([declare(40)], budget=HUGE["pure"])
    session = curator.watch(5, above=2, share="1/2")
    before = [session.ask(younger(age)) for age in (30, 2, 30)]
    reads = count_reads(curator)
    with pytest.raises(BudgetExceeded, match="Open a new watch"):
        session.ask(younger(2))

    assert [True, False, True] == before
    assert [] == reads


def count_reads(curator: Curator) -> list[Share]:
    """Return a list that collects the spent share at each later reading."""
    seen: list[Share] = []
    run = curator._engine.run

    def watched(measurement: Measurement, hold: Hold) -> Sealed:
        seen.append(curator.ledger.filter.spent)
        return run(measurement, hold)

    curator._engine.run = watched  # type: ignore[method-assign]
    return seen


@pytest.mark.parametrize("accounting", SMALL)
def test_a_session_is_charged_once_before_it_reads(accounting: str) -> None:
    """The whole share is spent when the session opens, in one entry; queries cost nothing more."""
    curator = Curator([declare(40)], budget=SMALL[accounting])
    reads = count_reads(curator)
    session = curator.watch(10**6, above=2, share="1/4")
    opened = curator.budget.spent.share
    answers = [session.ask(younger(age)) for age in range(5)]

    assert [False] * 5 == answers
    assert Fraction(1, 4) == opened == curator.budget.spent.share == session.cost.share
    assert [Share.floor("1/4")] * 5 == reads
    assert 1 == len(list(curator.ledger.entries()))
    assert 0 == session.receipt.entry
    curator.ledger.verify()


@pytest.mark.parametrize("accounting", SMALL)
def test_the_price_of_a_session_is_within_its_share(accounting: str) -> None:
    """A session's epsilon, mu^2, or divergence fits its share and uses almost all of it."""
    curator = Curator([declare(40)], budget=SMALL[accounting])
    session = curator.watch(20, share="1/3")
    price, failure = curator.ledger.filter.price(session._vector.loss)

    assert price <= Share.floor("1/3")
    assert price.fraction > Fraction(1, 3) - Fraction(1, 10**12)
    assert 0 == failure


def test_epsilon_is_the_session_s_under_pure_accounting() -> None:
    """With epsilon=0.5, the sparse vector gets exactly one half."""
    curator = Curator([declare(40)], budget=SMALL["pure"])
    session = curator.watch(20, epsilon=0.5)

    assert Fraction(1, 2) == session._vector.epsilon
    assert Fraction(1, 4) == session.cost.share


def test_other_questions_may_come_in_between() -> None:
    """Concurrent sessions, and answers in between, spend the sum of their shares."""
    curator = Curator([declare(40)], budget=HUGE["gaussian"])
    one, other = (curator.watch(level, share="1/4") for level in (10, 30))
    first = one.ask(younger(20))
    curator.sql("SELECT COUNT(*) AS n FROM visits", share="1/4")
    second = other.ask(younger(20))

    assert (True, False) == (first, second)
    assert Fraction(3, 4) == curator.budget.spent.share


def test_sums_are_watched_in_their_own_unit() -> None:
    """With a sensitivity in years, sums of ages are compared with a threshold in years."""
    curator = Curator([declare(40)], budget=HUGE["pure"])
    session = curator.watch("779.5", above=2, sensitivity=100, share="1/4")
    visits = curator.table("visits")
    ages = visits.agg(s=total("age"))
    without = visits.where(col("age") != 1).agg(s=total("age"))

    assert [True, False] == [session.ask(ages), session.ask(without)]  # 780 and 779 years
    assert not session.ask(visits.agg(n=count()))


def test_signed_sums_need_a_signed_session() -> None:
    """Negative values are refused if the noise assumes rising values, and compared otherwise."""
    curator = Curator([declare(41)], budget=HUGE["pure"])
    sums = "SELECT SUM(balance) AS s FROM visits WHERE age % 2 = {}"
    rising = curator.watch(0, share="1/4")
    signed = curator.watch(0, signed=True, share="1/4")
    with pytest.raises(Refusal, match="signed=True"):
        rising.ask(sums.format(0))

    assert [False, True] == [signed.ask(sums.format(1)), signed.ask(sums.format(0))]
    assert 1 == rising.left


def noise_scale(curator: Curator, **more: Any) -> Fraction:
    session = curator.watch(5, above=4, share="1/4", **more)
    return session._vector._query_noise.exact_scale


def test_only_rising_values_get_the_smaller_noise() -> None:
    """Signed sessions, and all sessions under replacement, get noise for both directions."""
    added = Curator([declare(9)], budget=SMALL["pure"])
    replaced = Curator([declare(9)], budget=SMALL["pure"], neighbours="replace")

    assert noise_scale(added) < noise_scale(added, signed=True)
    assert noise_scale(replaced) == noise_scale(replaced, signed=True)
    assert noise_scale(added, signed=True) == noise_scale(replaced)


REFUSED: Final = {
    "SELECT SUM(age) AS s FROM visits": "sensitivity=",
    "SELECT COUNT(*) AS n FROM visits GROUP BY age": "single number",
    "SELECT AVG(age) AS m FROM visits": "single number",
    "SELECT COUNT(*), SUM(age) FROM visits": "single number",
    "SELECT COUNT(*) AS n FROM nowhere": "Unknown table",
    "DELETE FROM visits": "SELECT",
}


@pytest.mark.parametrize("text", REFUSED)
def test_a_refused_question_leaves_the_session_as_it_was(text: str) -> None:
    """A query that the session did not pay for is refused unread, and the session continues."""
    curator = Curator([declare(40, rows=3)], budget=HUGE["pure"])
    session = curator.watch(20, share="1/4")
    reads = count_reads(curator)
    with pytest.raises(Refusal, match=REFUSED[text]):
        session.ask(text)

    assert [] == reads
    assert 1 == session.left
    assert session.ask(younger(30))


BAD: Final[dict[str, dict[str, Any]]] = {
    "no cost": {},
    "two costs": {"epsilon": 1, "share": "1/4"},
    "an error": {"error": 5},
    "too dear": {"epsilon": 3},
    "no answers": {"above": 0, "share": "1/4"},
    "half an answer": {"above": 0.5, "share": "1/4"},
    "no sensitivity": {"sensitivity": 0, "share": "1/4"},
    "a far threshold": {"threshold": 10**30, "share": "1/4"},
    "no threshold": {"threshold": "high", "share": "1/4"},
    "noise too wide": {"share": Fraction(1, 10**15), "above": 10**9},
}


@pytest.mark.parametrize("case", BAD)
def test_a_session_that_cannot_be_opened_costs_nothing(case: str) -> None:
    """Invalid arguments and a missing budget are refused before any charge."""
    curator = Curator([declare(40)], budget=SMALL["pure"])
    with pytest.raises((BadDeclaration, Refusal)):
        curator.watch(**{"threshold": 5, **BAD[case]})

    assert [] == list(curator.ledger.entries())


def test_nothing_past_the_budget_is_opened() -> None:
    """Three sessions of a third fit; a fourth, however cheap, does not."""
    curator = Curator([declare(40)], budget=SMALL["gaussian"])
    for _ in range(3):
        curator.watch(5, share="1/3")
    with pytest.raises(BudgetExceeded):
        curator.watch(5, share="1/3")

    assert Fraction(1) == curator.budget.spent.share


def test_a_session_stays_charged_when_reading_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash of the engine refunds nothing."""
    curator = Curator([declare(40)], budget=SMALL["pure"])
    session = curator.watch(5, share="1/3")

    def fail(engine: DuckDB, plan: Plan, hold: Hold) -> Sealed:
        raise Fault("power cut")

    monkeypatch.setattr(DuckDB, "run", fail)
    with pytest.raises(Fault):
        session.ask(younger(3))

    assert Fraction(1, 3) == curator.budget.spent.share
    assert 1 == session.left


@pytest.mark.parametrize("double", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_session_cannot_be_doubled(double: Callable[[object], object]) -> None:
    """A copy of a session would answer twice on one charge, so copying fails."""
    session = Curator([declare(4)], budget=SMALL["pure"]).watch(5, share="1/3")
    with pytest.raises(TypeError, match="cannot be copied"):
        double(session)


def test_threads_share_the_answers_that_are_left() -> None:
    """Eight concurrent threads get exactly as many answers above as were paid for."""
    curator = Curator([declare(40)], budget=HUGE["pure"])
    session = curator.watch(5, above=3, share="1/4")
    answers: list[bool] = []

    def ask() -> None:
        try:
            answers.append(session.ask(younger(30)))
        except BudgetExceeded:
            answers.append(False)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [False] * 5 + [True] * 3 == sorted(answers)


def plan_of(curator: Curator, text: str) -> Plan:
    return curator._planner.plan(read_sql(text, curator.names), SHARE)


@pytest.mark.parametrize("rows", [1, 3])
def test_the_default_sensitivity_is_that_of_counts(rows: int) -> None:
    """A person with too many rows changes a count by at most the session's sensitivity."""
    curator = Curator([declare(1, rows=rows, each=5)], budget=HUGE["pure"])
    plan = plan_of(curator, younger(50))
    session = curator.watch(rows, above=1, share="1/4")
    more = curator.watch(rows + 1, above=1, share="1/4")

    assert rows == session._threshold.sensitivity
    assert rows == score_change(only_total(plan), plan.contribution, Neighbours.ADD_REMOVE).largest
    assert (True, False) == (session.ask(younger(50)), more.ask(younger(50)))


@given(
    value=st.fractions(-(10**9), 10**9),
    sensitivity=st.fractions("1/1000", 10**6),
    part=st.fractions(-1, 1),
)
def test_rounding_keeps_the_sensitivity(
    value: Fraction, sensitivity: Fraction, part: Fraction
) -> None:
    """A change of at most the sensitivity is at most STEPS_PER_SENSITIVITY steps after rounding."""
    step = Threshold.of(0, 1, sensitivity, Neighbours.ADD_REMOVE, signed=False).step
    moved = round_to_steps(value + part * sensitivity, step) - round_to_steps(value, step)

    assert abs(moved) <= STEPS_PER_SENSITIVITY


def transcripts(
    table: Table, sensitivity: int, size: int, entropy: SeededEntropy
) -> np.ndarray[Any, Any]:
    """Return the outputs of sessions at epsilon 1 for four queries, one row per session."""
    curator = Curator([table], budget=Budget(1))
    threshold = Threshold.of(1, 1, sensitivity, Neighbours.ADD_REMOVE, signed=False)
    others = "SELECT COUNT(*) AS n FROM visits WHERE age BETWEEN 1 AND 3"
    plans = [plan_of(curator, text) for text in [younger(1)] * 3 + [others]]
    sealed = [curator._engine.run(plan.measurement, Hold(0, SHARE)) for plan in plans]
    said = []
    for _ in range(size):
        vector = threshold.open(PureLoss(1), entropy)
        answers = [False] * 4
        for place, plan in enumerate(plans):
            if vector.left:
                answers[place] = compare_score(sealed[place], plan, threshold.step, vector)
        said.append(answers)
    return np.array(said)


@pytest.mark.statistical
def test_a_session_gives_away_at_most_epsilon(entropy: SeededEntropy) -> None:
    """A person with six rows reveals at most epsilon; with noise for one row, it would be more.

    Three queries are about this person and one about three others. With noise for one row, the
    output "below, below, below, above" is about 150 times more likely without the person.
    """
    ages = {0: 6, 1: 1, 2: 1, 3: 1}
    tables = [
        declare_ages([age for age, many in people.items() for _ in range(many)], rows=6)
        for people in (ages, {**ages, 0: 0})
    ]
    right = [transcripts(table, 6, 2**11, entropy) for table in tables]
    wrong = [transcripts(table, 1, 2**11, entropy) for table in tables]

    assert audit(*right) <= 1
    assert audit(*wrong) > 1


@pytest.mark.statistical
@pytest.mark.parametrize("side", [-1, 1])
def test_values_beyond_the_half_width_are_told_rightly(side: int, entropy: SeededEntropy) -> None:
    """A value just beyond the half-width for 80% is reported correctly in 80% of sessions."""
    curator = Curator([declare(60)], budget=Budget(1))
    plan = plan_of(curator, younger(60))
    sealed = curator._engine.run(plan.measurement, Hold(0, SHARE))
    width = curator.watch(0, epsilon=1).half_width(0.8)
    threshold = Threshold.of(60 - side * width, 1, 1, Neighbours.ADD_REMOVE, signed=False)
    right = 0
    for _ in range(1_000):
        vector = threshold.open(PureLoss(1), entropy)
        right += compare_score(sealed, plan, threshold.step, vector) is (side > 0)

    assert right >= 800 or binomial_p(right, 1_000, 0.8) > ALPHA
