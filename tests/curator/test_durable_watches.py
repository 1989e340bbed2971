"""Watches stored in the ledger: shared by processes, crash-safe, and secret."""

import json
import threading
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from confide.curator import Curator
from confide.declare import Budget, Int, Limits, Table
from confide.engines import DuckDB, Sealed
from confide.errors import BudgetExceeded, Fault, UnsupportedQuery
from confide.execution import DurableWatch
from confide.execution import watch as watches
from confide.ledger import Hold, KeyUsed
from confide.plan import Measurement

HUGE: Final = Budget(10**9)
LIMITS: Final = Limits(analysts={"ana": "1/2", "ben": "1/2"})


def open_curator(ledger: Path | None = None, budget: Budget = HUGE, **more: Any) -> Curator:
    """Return a curator of forty people aged 0, 1, 2, ..."""
    ages = list(range(40))
    columns = {"age": Int(0, more.pop("oldest", 100))}
    table = Table("people", pa.table({"pid": ages, "age": ages}), unit="pid", columns=columns)
    return Curator([table], budget=budget, ledger=ledger, **more)


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Curator, Curator]:
    """Return two curators of one ledger on disk, as two processes have them."""
    return open_curator(tmp_path / "ledger.db"), open_curator(tmp_path / "ledger.db")


def younger(age: int) -> str:
    return f"SELECT COUNT(*) AS n FROM people WHERE age < {age}"


def states(curator: Curator) -> list[dict[str, Any]]:
    """Return the stored state of every record in the ledger."""
    found = [curator.ledger.answer(entry.number) for entry in curator.ledger.entries()]
    return [stored.noisy for stored in found if stored is not None]


def test_processes_share_one_session(pair: tuple[Curator, Curator]) -> None:
    """A process that resumes a session continues where the others left off, and pays nothing."""
    one = pair[0].durable_watch(20, above=3, share="1/2")
    other = pair[1].resume_watch(one.receipt.entry)
    told = [
        watch.ask(younger(age))
        for watch, age in zip((one, other) * 3, (0, 20, 19, 40, 18, 21), strict=True)
    ]

    assert [False, True, False, True, False, True] == told
    assert 0 == one.left == other.left
    with pytest.raises(BudgetExceeded, match="Open a new watch"):
        one.ask(younger(40))
    assert Fraction(1, 2) == pair[0].budget.spent.share == one.cost.share
    assert (Fraction(0), True) == (other.cost.share, other.reused)
    pair[0].ledger.verify()


def test_the_noisy_threshold_is_drawn_once() -> None:
    """With much noise, all steps of a session keep its first draw, and each session has its own.

    The scale is above 10^5, so five sessions have the same draw once in 10^20 runs.
    """
    curator = open_curator(budget=Budget(1))
    watch = curator.durable_watch(10**6, above=2, share="1/100")
    for age in range(4):
        watch.ask(younger(age))
    first = {state["secret"] for state in states(curator)}
    for _ in range(4):
        curator.durable_watch(10**6, above=2, share="1/100")

    assert 1 == len(first)
    assert 1 < len({state["secret"] for state in states(curator)})


def test_digests_hide_the_noisy_threshold() -> None:
    """Sessions in equal states have different seals, since each covers 256 secret bits."""
    curator = open_curator()
    for _ in range(2):
        curator.durable_watch(20, share="1/4")
    one, other = states(curator)
    blinds = {one.pop("blind"), other.pop("blind")}
    lines = [json.loads(line) for line in curator.ledger.export()]
    seals = {line["answer"]["seal"] for line in lines if "answer" in line}

    assert one == other
    assert [64, 64] == [len(blind) for blind in blinds]
    assert 2 == len(seals)


def test_a_key_finds_its_session_again(pair: tuple[Curator, Curator]) -> None:
    """The same key opens one session, in any process, and pays once."""
    one = pair[0].durable_watch(20, share="1/2", key="k")
    again = pair[1].durable_watch(20, share="1/2", key="k")

    assert one.receipt == again.receipt
    assert (False, True) == (one.reused, again.reused)
    assert Fraction(1, 2) == pair[0].budget.spent.share
    with pytest.raises(KeyUsed):
        pair[0].durable_watch(21, share="1/2", key="k")


def test_a_repeated_key_returns_the_same_answer(pair: tuple[Curator, Curator]) -> None:
    """A repeated key uses up no answer, even later and elsewhere; it belongs to one query."""
    one = pair[0].durable_watch(20, above=3, share="1/2")
    other = pair[1].resume_watch(one.receipt.entry)
    first = one.ask(younger(30), key="k")
    one.ask(younger(5), key="other")
    again = [other.ask(younger(30), key="k") for _ in range(3)]

    assert [True] * 4 == [first, *again]
    assert 2 == one.left
    with pytest.raises(KeyUsed, match="a different query"):
        other.ask(younger(31), key="k")


def test_a_key_survives_a_crash_before_it_is_remembered(
    pair: tuple[Curator, Curator], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a crash right after an answer was stored, its key still returns that answer."""
    one = pair[0].durable_watch(20, above=2, share="1/2")
    with monkeypatch.context() as patched:
        patched.setattr(pair[0].ledger, "remember", lambda *_: None)
        one.ask(younger(30), key="k")
    again = pair[1].resume_watch(one.receipt.entry)

    assert again.ask(younger(30), key="k")
    assert 1 == again.left


@pytest.mark.parametrize("where", ["memory", "disk"])
def test_concurrent_queries_share_the_remaining_answers(where: str, tmp_path: Path) -> None:
    """Eight concurrent queries of a session get exactly as many answers above as were paid for."""
    curators = [open_curator(tmp_path / "ledger.db") for _ in range(2)]
    curators = curators if where == "disk" else [open_curator()] * 2
    watch = curators[0].durable_watch(5, above=3, share="1/4")
    ends = [one.resume_watch(watch.receipt.entry) for one in curators * 4]
    answers: list[bool] = []

    def ask(end: DurableWatch) -> None:
        try:
            answers.append(end.ask(younger(30)))
        except BudgetExceeded:
            answers.append(False)

    threads = [threading.Thread(target=ask, args=[end]) for end in ends]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [False] * 5 + [True] * 3 == sorted(answers)
    assert 0 == watch.left
    curators[0].ledger.verify()


def test_the_loser_of_a_race_compares_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A draw whose step was taken by another process is discarded, and the next step answers."""
    curator = open_curator()
    one = curator.durable_watch(20, above=2, share="1/4")
    other, run, faster = curator.resume_watch(one.receipt.entry), DuckDB.run, [True]

    def race(engine: DuckDB, measurement: Measurement, hold: Hold) -> Sealed:
        if faster.pop() if faster else False:
            other.ask(younger(40))
        return run(engine, measurement, hold)

    monkeypatch.setattr(DuckDB, "run", race)
    told = one.ask(younger(40))
    steps = [(state["step"], state["left"]) for state in states(curator)]

    assert told
    assert [(0, 2), (1, 1), (2, 0)] == steps


def test_a_session_continues_after_a_crash(
    pair: tuple[Curator, Curator], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failed reading, the session continues, even with another query, at no cost."""
    one = pair[0].durable_watch(20, above=1, share="1/4")

    def fail(engine: DuckDB, measurement: Measurement, hold: Hold) -> Sealed:
        raise Fault("power cut")

    with monkeypatch.context() as patched:
        patched.setattr(DuckDB, "run", fail)
        with pytest.raises(Fault):
            one.ask(younger(3))
    other = pair[1].resume_watch(one.receipt.entry)

    assert [False, True] == [other.ask(younger(19)), other.ask(younger(21))]
    assert Fraction(1, 4) == pair[0].budget.spent.share


Change = Callable[[Path], Curator]
STRANGERS: Final[dict[str, Change]] = {
    "another analyst": lambda path: open_curator(path, limits=LIMITS).as_analyst("ben"),
    "the owner": lambda path: open_curator(path, limits=LIMITS),
    "another declaration": lambda path: open_curator(path, limits=LIMITS, oldest=99).as_analyst(
        "ana"
    ),
}


@pytest.mark.parametrize("who", STRANGERS)
def test_a_session_is_resumed_only_by_its_analyst(who: str, tmp_path: Path) -> None:
    """For other analysts, an entry that is a session and a missing entry look the same."""
    ana = open_curator(tmp_path / "ledger.db", limits=LIMITS).as_analyst("ana")
    entry = ana.durable_watch(20, share="1/4").receipt.entry
    ana.sql(younger(3), share="1/100")
    stranger = STRANGERS[who](tmp_path / "ledger.db")
    for number in (entry, entry + 2, entry + 999):
        with pytest.raises(UnsupportedQuery, match=f"Entry {number} is not one of your watches"):
            stranger.resume_watch(number)

    assert 1 == ana.resume_watch(entry).left


def test_only_a_stored_session_can_be_resumed() -> None:
    """Answers, steps of sessions, and sessions of one process cannot be resumed."""
    curator = open_curator()
    answer = curator.sql(younger(3), share="1/100").receipt.entry
    alone = curator.watch(20, share="1/100", key="k").receipt.entry
    curator.durable_watch(20, share="1/100").ask(younger(3))
    step = list(curator.ledger.entries())[-1].number
    for entry in (answer, step):
        with pytest.raises(UnsupportedQuery, match="not one of your watches"):
            curator.resume_watch(entry)
    with pytest.raises(KeyUsed, match="process that opened it"):
        curator.resume_watch(alone)
    with pytest.raises(KeyUsed, match="process that opened it"):
        curator.durable_watch(20, share="1/100", key="k")


def test_a_closed_session_reveals_nothing_more(pair: tuple[Curator, Curator]) -> None:
    """Closing a session ends it for everyone, refunds nothing, and can be repeated."""
    one = pair[0].durable_watch(20, above=2, share="1/4")
    one.ask(younger(5), key="k")
    one.close()
    one.close()
    other = pair[1].resume_watch(one.receipt.entry)

    assert not other.ask(younger(5), key="k")
    with pytest.raises(BudgetExceeded):
        other.ask(younger(30))
    assert Fraction(1, 4) == pair[0].budget.spent.share


def test_a_session_has_a_maximum_number_of_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Free answers use space in the ledger, so their number is limited."""
    monkeypatch.setattr(watches, "MAX_STEPS", 2)
    watch = open_curator().durable_watch(20, share="1/4")
    told = [watch.ask(younger(age)) for age in (3, 5)]
    with pytest.raises(UnsupportedQuery, match="Open a new watch"):
        watch.ask(younger(3))

    assert [False, False] == told


def test_noise_of_another_split_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session with a changed noise distribution is refused."""
    watch = open_curator().durable_watch(20, share="1/4")
    monkeypatch.setattr("confide.mechanisms.sparse_vector._best_ratio", lambda _: Fraction(7))
    with pytest.raises(UnsupportedQuery, match="with other noise"):
        watch.ask(younger(30))


def test_half_widths_are_those_of_any_watch() -> None:
    """A stored watch is as accurate as one that lives in a process."""
    curator = open_curator(budget=Budget(1))
    one, other = curator.watch(5, share="1/4"), curator.durable_watch(5, share="1/4")

    assert one.half_width(0.9) == other.half_width(0.9)
