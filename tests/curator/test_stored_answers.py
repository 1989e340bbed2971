"""Idempotency keys, analysts, and stored answers, through the curator."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest

import confide as cf
from confide.declare import Limit, Limits
from confide.errors import BadArgument, BadDeclaration, BudgetExceeded, Fault
from confide.execution import Watch
from confide.ledger import Hold, KeyUsed, MemoryLedger

COUNT: Final = "SELECT COUNT(*) AS n FROM t"
SUM: Final = "SELECT SUM(x) AS s FROM t"
TOP: Final = "SELECT g FROM t GROUP BY g ORDER BY COUNT(*) DESC LIMIT 2"
ROWS: Final = pa.table(
    {"who": list(range(60)), "x": [0.5] * 60, "g": ["a", "b", "c"] * 20},
)


def open_curator(ledger: Path | None = None, **more: Any) -> cf.Curator:
    """Return a curator of sixty people."""
    group = cf.Category(["a", "b", "c"])
    columns: dict[str, cf.Float | cf.Category] = {"x": cf.Float(0, 1), "g": group}
    table = cf.Table("t", ROWS, unit="who", columns=columns)
    budget = more.pop("budget", cf.Budget(1))
    return cf.Curator([table], budget=budget, ledger=ledger, **more)


@pytest.fixture(params=["memory", "disk"])
def curator(request: pytest.FixtureRequest, tmp_path: Path) -> cf.Curator:
    """Return a curator with each kind of ledger, in turn."""
    return open_curator(tmp_path / "ledger.db" if request.param == "disk" else None)


def shown(answer: cf.Answer) -> tuple[Any, int]:
    return answer.rows, answer.receipt.entry


def choose(one: cf.Curator, key: str) -> tuple[Any, int]:
    found = one.choose(["n", "s"], {"n": COUNT, "s": SUM}, share="1%", fresh=True, key=key)
    return found.value, found.receipt.entry


ASKED: Final[dict[str, Callable[[cf.Curator, str], tuple[Any, int]]]] = {
    "sql": lambda one, key: shown(one.sql(COUNT, share="1%", fresh=True, key=key)),
    "ask": lambda one, key: shown(
        one.table("t").agg(n=cf.count()).ask(share="1%", fresh=True, key=key)
    ),
    "select": lambda one, key: shown(one.sql(TOP, share="1%", fresh=True, key=key)),
    "choose": choose,
    "release": lambda one, key: shown(
        one.release([COUNT, SUM], share="1%", fresh=True, key=key)[0]
    ),
}


@pytest.mark.parametrize("how", ASKED)
def test_a_key_gives_the_same_answer_charged_once(curator: cf.Curator, how: str) -> None:
    """In every method, the same key returns the same answer, and the budget is charged once."""
    first, second = (ASKED[how](curator, "k") for _ in range(2))

    assert first == second
    assert "1/100" == str(curator.budget.spent.share)
    assert ASKED[how](curator, "other") != first


def test_a_stored_answer_must_meet_the_requested_error(curator: cf.Curator) -> None:
    """A stored answer is free if it is as accurate as requested; the newest such one is used."""
    near = 20.0
    curator.sql(COUNT, epsilon=0.01)
    wanted = curator.preview(COUNT, error=near)
    first = curator.sql(COUNT, error=near)

    assert not wanted.reused
    assert not first.reused
    assert curator.preview(COUNT, epsilon=0.01).reused
    curator.sql(COUNT, epsilon=0.01, fresh=True)
    again, wide = curator.sql(COUNT, error=near, key="k"), curator.sql(COUNT, error=10_000)

    assert (True, shown(first)) == (again.reused, shown(again))
    assert wide.reused
    assert wide.receipt.entry > first.receipt.entry
    assert shown(again) == shown(curator.sql(COUNT, error=near, key="k"))


def test_a_stored_answer_of_unknown_error_meets_no_target(curator: cf.Curator) -> None:
    """A mean, whose error depends on the data, is not reused for `error=`, and nothing is spent."""
    mean = "SELECT AVG(x) AS a FROM t"
    curator.sql(mean, share="1%")
    spent = curator.budget.spent.share
    with pytest.raises(cf.UnsupportedQuery):
        curator.sql(mean, error=1)

    assert spent == curator.budget.spent.share


def test_a_key_is_refused_for_another_question(curator: cf.Curator) -> None:
    """A key belongs to one query; it is refused for another, which costs nothing."""
    curator.sql(COUNT, share="1%", key="k")
    with pytest.raises(KeyUsed, match="a different query"):
        curator.sql(SUM, share="1%", key="k")

    assert "1/100" == str(curator.budget.spent.share)


def test_a_key_remembers_a_free_answer(curator: cf.Curator) -> None:
    """A key that got a stored answer always returns that answer."""
    first = curator.sql(COUNT, share="1%")
    again = curator.sql(COUNT, share="1%", key="k")
    curator.sql(COUNT, share="1%", fresh=True)
    later = curator.sql(COUNT, share="1%", fresh=True, key="k")

    assert shown(first) == shown(again) == shown(later)
    assert later.reused
    assert 0 == later.cost.share


@pytest.mark.parametrize("key", ["", "x" * 201, "a\nb", 7])
def test_an_invalid_key_is_refused(curator: cf.Curator, key: Any) -> None:
    """A key is a short string on one line."""
    with pytest.raises(BadArgument, match="`key` must be"):
        curator.sql(COUNT, share="1%", key=key)


def fail(*_: object) -> None:
    raise Fault("the engine is gone")


@pytest.mark.parametrize("text", [COUNT, TOP])
def test_a_hold_is_resumed_after_a_failure(curator: cf.Curator, text: str) -> None:
    """After a failure between charge and answer, the same key is answered from the same charge."""
    run = curator._engine.run
    curator._engine.run = fail  # type: ignore[method-assign,assignment]
    for _ in range(3):
        with pytest.raises(Fault):
            curator.sql(text, share="1%", key="k")
    curator._engine.run = run  # type: ignore[method-assign]
    answer = curator.sql(text, share="50%", key="k")

    assert "1/100" == str(curator.budget.spent.share) == str(answer.cost.share)
    assert shown(answer) == shown(curator.sql(text, share="1%", key="k"))
    assert 1 == len(list(curator.ledger.entries()))


def test_the_first_to_resume_a_hold_answers(curator: cf.Curator) -> None:
    """The second to commit gets the first answer, but keeps the cost of its own call."""
    run, answers = curator._engine.run, list[cf.Answer]()

    def overtaken(measurement: Any, hold: Hold) -> Any:
        curator._engine.run = run  # type: ignore[method-assign]
        answers.append(curator.sql(COUNT, share="1%", key="k"))
        return run(measurement, hold)

    curator._engine.run = overtaken  # type: ignore[method-assign]
    second = curator.sql(COUNT, share="1%", key="k")

    assert shown(answers[0]) == shown(second)
    assert not second.reused
    assert "1/100" == str(second.cost.share) == str(curator.budget.spent.share)


def test_a_session_is_opened_once_for_a_key(curator: cf.Curator) -> None:
    """A session cannot be opened again, since its noise is not stored."""
    watch = curator.watch(10, share="1%", key="k")

    assert isinstance(watch, Watch)
    with pytest.raises(KeyUsed, match="cannot be resumed"):
        curator.watch(10, share="1%", key="k")
    assert "1/100" == str(curator.budget.spent.share)


def test_a_session_that_was_lost_stays_paid(tmp_path: Path) -> None:
    """A session's charge stays spent when the ledger is opened later."""
    open_curator(tmp_path / "l.db").watch(10, share="25%")

    assert "1/4" == str(open_curator(tmp_path / "l.db").budget.spent.share)


def test_a_budget_outlives_its_curator(tmp_path: Path) -> None:
    """Another curator on the same ledger has the remaining budget, and finds stored answers."""
    first = open_curator(tmp_path / "l.db").sql(COUNT, share="60%")
    other = open_curator(tmp_path / "l.db")
    with pytest.raises(BudgetExceeded):
        other.sql(SUM, share="60%")
    again = other.sql(COUNT, share="60%")

    assert shown(first) == shown(again)
    assert again.reused
    assert "2/5" == str(other.budget.left.share)


def test_contribution_bounding_is_the_same_after_a_restart(tmp_path: Path) -> None:
    """The engine's key comes from the ledger, and no output contains it."""
    engines: list[Any] = [open_curator(tmp_path / "l.db")._engine for _ in range(2)]
    salts = {engine._salt for engine in engines}
    curator = open_curator(tmp_path / "l.db")
    curator.sql(COUNT, share="1%")
    entries = repr(list(curator.ledger.entries())) + "".join(curator.ledger.export())

    assert 1 == len(salts)
    assert salts.pop() not in entries


def test_an_analyst_stays_within_their_limits(tmp_path: Path) -> None:
    """A curator for an analyst refuses queries beyond the analyst's limit, and names it."""
    limits = Limits(analysts={"ana": Limit("10%", month="5%"), "bob": "50%"})
    curator = open_curator(tmp_path / "l.db", limits=limits)
    ana = curator.as_analyst("ana")
    ana.sql(COUNT, share="4%")
    with pytest.raises(BudgetExceeded, match="analyst 'ana' for this month"):
        ana.sql(SUM, share="2%")

    budgets = (ana.budget.total, ana.budget.spent, ana.budget.left)
    assert ["1/10", "1/25", "1/100"] == [str(cost.share) for cost in budgets]
    assert "24/25" == str(curator.budget.left.share)
    assert "1/2" == str(curator.as_analyst("bob").budget.left.share)
    with pytest.raises(BadDeclaration, match="Unknown analyst 'eve'"):
        curator.as_analyst("eve")


def test_limits_apply_to_every_method() -> None:
    """Choices, sessions, selections, and batches respect an analyst's limit too."""
    ana = open_curator(limits=Limits(analysts={"ana": "1%"})).as_analyst("ana")
    asked: list[Callable[[], object]] = [
        lambda: ana.sql(COUNT, share="2%"),
        lambda: ana.sql(TOP, share="2%"),
        lambda: ana.choose(["n", "s"], {"n": COUNT, "s": SUM}, share="2%"),
        lambda: ana.watch(10, share="2%"),
        lambda: ana.release([COUNT, SUM], share="2%"),
        lambda: ana.table("t").agg(n=cf.count()).ask(share="2%"),
    ]
    for refused in asked:
        with pytest.raises(BudgetExceeded, match="analyst 'ana'"):
            refused()

    assert 0 == ana.budget.spent.share


def test_a_purpose_is_recorded_and_limited() -> None:
    """A query for a purpose counts against its limit, for any analyst."""
    curator = open_curator(limits=Limits(purposes={"planning": "10%"}))
    curator.as_analyst("ana", purpose="planning").sql(COUNT, share="6%")
    with pytest.raises(BudgetExceeded, match="purpose 'planning'"):
        curator.as_analyst("bob", purpose="planning").sql(COUNT, share="6%")

    [entry] = curator.ledger.entries()
    assert ("ana", "planning") == (entry.question.analyst, entry.question.purpose)


@pytest.mark.parametrize(("reuse", "is_free"), [("own", False), ("all", True)])
def test_answers_are_shared_if_declared(reuse: str, *, is_free: bool) -> None:
    """An analyst pays for a query that another analyst was answered, unless answers are shared."""
    curator = open_curator(limits=Limits(reuse=reuse))
    first = curator.as_analyst("ana").sql(COUNT, share="1%")
    bob = curator.as_analyst("bob")

    assert is_free is (bob.find_answer(COUNT) is not None)
    assert is_free is bob.preview(COUNT, share="1%").reused
    second = bob.sql(COUNT, share="1%")
    assert is_free is second.reused
    assert is_free is (shown(first) == shown(second))
    assert curator.as_analyst("ana").sql(COUNT, share="1%").reused


def test_an_answer_with_another_rounding_is_refused(curator: cf.Curator) -> None:
    """A stored answer is refused if today's plan rounds differently."""
    stored, ledger = curator.sql(COUNT, share="1%"), curator.ledger
    question = next(iter(ledger.entries())).question
    other = ledger.reserve(question, stored.receipt.share)
    ledger.commit(other, {**stored.totals.to_json(), "sizes": ["1/7"]})
    with pytest.raises(cf.UnsupportedQuery, match="fresh=True"):
        curator.sql(COUNT, share="1%")
    assert not curator.sql(COUNT, share="1%", fresh=True).reused


@pytest.mark.parametrize("text", ["SELECT 1", COUNT + " WHERE g = 'a\0b'"])
def test_a_query_with_nul_is_refused(curator: cf.Curator, text: str) -> None:
    """A NUL in a query is a refusal, not a failure of the ledger."""
    with pytest.raises(cf.Refusal):
        curator.sql(text, share="1%")

    assert [] == list(curator.ledger.entries())


def test_ledger_limits_and_anchor_belong_together(tmp_path: Path) -> None:
    """An anchor needs a ledger on disk, and a given ledger brings its own limits."""
    with pytest.raises(BadDeclaration, match="ledger on disk"):
        open_curator(anchor=tmp_path / "anchor")
    kept = MemoryLedger(open_curator().ledger.opening)
    with pytest.raises(BadDeclaration, match="limits of its own"):
        open_curator(limits=Limits(), ledger=kept)  # type: ignore[arg-type]


def test_losses_of_two_relations_are_not_added_up(tmp_path: Path) -> None:
    """A ledger that was opened for one neighboring relation refuses the other."""
    path = tmp_path / "ledger.db"
    for _ in range(2):
        open_curator(path)

    with pytest.raises(BadDeclaration, match="two relations"):
        open_curator(path, neighbours="replace")


@pytest.mark.parametrize("kind", ["memory", "disk"])
def test_a_shared_ledger_keeps_its_relation(tmp_path: Path, kind: str) -> None:
    """Two curators on one ledger must use the same neighboring relation, for any kind of ledger."""
    place = tmp_path / "ledger.db" if kind == "disk" else None
    shared = open_curator(open_curator(place).ledger)  # type: ignore[arg-type]
    open_curator(shared.ledger)  # type: ignore[arg-type]

    with pytest.raises(BadDeclaration, match="two relations"):
        open_curator(shared.ledger, neighbours="replace")  # type: ignore[arg-type]


def test_a_batch_with_another_rounding_is_refused(curator: cf.Curator) -> None:
    """A stored batch is refused if today's plans round differently."""
    curator.release([COUNT, SUM], share="1%")
    spoil(curator)
    with pytest.raises(cf.UnsupportedQuery, match="fresh=True"):
        curator.release([COUNT, SUM], share="1%")

    assert not curator.release([COUNT, SUM], share="1%", fresh=True)[0].reused


@pytest.mark.parametrize("name", ["quantiles", "mean", "variance", "density", "blocks"])
def test_an_estimate_with_another_rounding_is_refused(curator: cf.Curator, name: str) -> None:
    """A stored estimate is refused if today's plan rounds differently."""
    curator.register_estimator("middle", np.median, columns=["x"], bounds=[(0, 100)])
    asking: Callable[..., Any] = {
        "quantiles": lambda **how: curator.quantiles("t", "x", [0.5], share="1%", **how),
        "mean": lambda **how: curator.mean("t", "x", bounds="private", share="1%", **how),
        "variance": lambda **how: curator.variance("t", "x", share="1%", **how),
        "density": lambda **how: curator.density("t", "x", share="1%", **how),
        "blocks": lambda **how: curator.sample_and_aggregate("t", "middle", share="1%", **how),
    }[name]
    asking()
    spoil(curator)
    with pytest.raises(cf.UnsupportedQuery, match="fresh=True"):
        asking()

    assert not asking(fresh=True).reused


def spoil(curator: cf.Curator) -> None:
    """Store the newest answer again, as if it had been rounded differently."""
    ledger = curator.ledger
    question = next(iter(ledger.entries())).question
    stored = ledger.stored(question)
    assert stored is not None
    named = "sizes" if stored.noisy["sizes"] else "steps"
    assert stored.noisy[named]
    again = ledger.reserve(question, stored.receipt.share)
    ledger.commit(again, {**stored.noisy, named: [["1/7"]]})
