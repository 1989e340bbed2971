"""The path of a query: charge before reading, and reveal nothing but the answer."""

import copy
import json
import logging
import pickle
import re
import warnings
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

import duckdb
import pyarrow as pa
import pytest

from confide.curator import Curator
from confide.declare import Budget, Category, Float, Table, Text
from confide.engines import Sealed
from confide.errors import BadDeclaration, BudgetExceeded, Fault, Refusal, UnsupportedQuery
from confide.ledger import Hold
from confide.loss import ApproximateLoss, GaussianLoss, Share, mu_squared_for
from confide.noise import SYSTEM
from confide.plan import Plan
from confide.plan.calibration import loss_for_noise
from confide.query.sql import read_sql
from confide.release import add_noise


def engine_of(curator: Curator) -> Any:
    """Return the engine, for tampering."""
    return curator._engine


QUESTION: Final = "SELECT ward, COUNT(*) AS n, AVG(cost) AS m FROM visits GROUP BY ward"
SECRET: Final = "Wilhelmina"


def frame(people: int = 6) -> pa.Table:
    """Return two visits each of ``people`` people."""
    rows = [(place // 2, 10.0 * place, "AB"[place % 2], SECRET) for place in range(2 * people)]
    columns = zip(*rows, strict=True) if rows else ([], [], [], [])
    types = (pa.int64(), pa.float64(), pa.string(), pa.string())
    return pa.table(
        {
            name: pa.array(list(values), kind)
            for name, values, kind in zip(
                ("pid", "cost", "ward", "note"), columns, types, strict=True
            )
        }
    )


def open_curator(source: pa.Table | None = None, **terms: Any) -> Curator:
    table = Table(
        "visits",
        frame() if source is None else source,
        unit="pid",
        columns={"cost": Float(0, 100), "ward": Category(["A", "B", "C"]), "note": Text()},
        max_rows_per_unit=2,
    )
    return Curator([table], **{"budget": Budget(2), **terms})


@dataclass
class Diary:
    """The calls to the ledger, the engine, and the noise, in order."""

    lines: list[str] = field(default_factory=list)

    def watch(self, curator: Curator) -> None:
        for owner, names in ((curator.ledger, ("reserve", "commit")), (curator._engine, ("run",))):
            for name in names:
                self._wrap(owner, name)

    def _wrap(self, owner: object, name: str) -> None:
        inner = getattr(owner, name)

        def noted(*arguments: Any, **named: Any) -> Any:
            self.lines.append(name)
            return inner(*arguments, **named)

        setattr(owner, name, noted)


class Broken:
    """A connection on which every statement fails with a message full of data."""

    def execute(self, *_: object) -> object:
        raise duckdb.IOException(f"cannot read {SECRET} as INT64")


def spent(curator: Curator) -> Fraction:
    return curator.budget.spent.share


@pytest.mark.parametrize("budget", [Budget(2), Budget(2, 1e-6)], ids=["pure", "gaussian"])
def test_charge_then_read_then_keep(budget: Budget) -> None:
    """The budget is charged before the engine runs, and the answer is stored before it is shown."""
    curator, diary = open_curator(budget=budget), Diary()
    diary.watch(curator)
    curator.sql(QUESTION, share="1/10")

    assert ["reserve", "run", "commit"] == diary.lines


def test_a_failure_of_the_engine_leaves_the_charge() -> None:
    """The charge stays spent if the engine fails, so that no refund can reveal data."""
    curator = open_curator()
    engine_of(curator)._connection = Broken()
    with pytest.raises(Fault):
        curator.sql(QUESTION, share="1/10")

    assert Fraction(1, 10) == spent(curator)
    assert ["held"] == [entry.state for entry in curator.ledger.entries()]


def test_engine_messages_stay_inside() -> None:
    """An analyst whose query fails gets no word of the engine's message."""
    curator = open_curator()
    engine_of(curator)._connection = Broken()
    with pytest.raises(Fault) as caught:
        curator.sql(QUESTION, share="1/10")

    assert SECRET not in str(caught.value)
    assert "INT64" not in str(caught.value)


def test_a_failed_question_can_be_asked_again_and_pays_again() -> None:
    """A failed query stores nothing, so the next attempt is a new charge."""
    curator = open_curator()
    healthy = engine_of(curator)._connection
    engine_of(curator)._connection = Broken()
    with pytest.raises(Fault):
        curator.sql(QUESTION, share="1/10")
    engine_of(curator)._connection = healthy
    answer = curator.sql(QUESTION, share="1/10")

    assert not answer.reused
    assert Fraction(2, 10) == spent(curator)


REFUSED: Final = (
    "SELECT note, cost FROM visits",
    "SELECT SUM(note) FROM visits",
    "SELECT SUM(1 / cost) FROM visits",
    "SELECT COUNT(*) FROM elsewhere",
    "SELECT COUNT(missing) FROM visits",
    "SELECT cost, COUNT(*) FROM visits GROUP BY cost",
    "SELECT LOWER(ward), COUNT(*) FROM visits GROUP BY ward",
    "DROP TABLE visits",
    "SELECT COUNT(*) FROM visits; SELECT 1",
    "",
)


@pytest.mark.parametrize("text", REFUSED)
def test_a_refusal_spends_nothing_and_reads_nothing(text: str) -> None:
    """A refused query leaves the ledger and the engine untouched."""
    curator, diary = open_curator(), Diary()
    diary.watch(curator)
    with pytest.raises(Refusal):
        curator.sql(text, share="1/10")

    assert [] == diary.lines
    assert 0 == spent(curator)
    assert () == tuple(curator.ledger.entries())


def test_too_expensive_a_query_spends_nothing_and_reads_nothing() -> None:
    """A query that exceeds the budget is refused before the engine runs."""
    curator, diary = open_curator(), Diary()
    curator.sql(QUESTION, share="9/10")
    diary.watch(curator)
    with pytest.raises(BudgetExceeded):
        curator.sql(QUESTION, share="2/10", fresh=True)

    assert ["reserve"] == diary.lines
    assert Fraction(9, 10) == spent(curator)


@pytest.mark.parametrize(
    "want", [{}, {"epsilon": 1, "share": 1}, {"epsilon": 0}, {"epsilon": -1}, {"share": 2}]
)
def test_a_query_without_a_valid_price_spends_nothing(want: dict[str, Any]) -> None:
    """A query needs exactly one price, above zero and within the budget."""
    curator = open_curator()
    with pytest.raises((BadDeclaration, Refusal)):
        curator.sql(QUESTION, **want)

    assert 0 == spent(curator)


def test_arguments_of_another_type_are_refused() -> None:
    """Arguments of a wrong type are refused with a message that says what to write."""
    table = Table("visits", frame(), unit="pid", columns={"cost": Float(0, 100)})
    curator = Curator([table], budget=Budget(1))
    wrong: Any = table
    with pytest.raises(BadDeclaration, match=r"Write `\[visits\]`"):
        Curator(wrong, budget=Budget(1))
    wrong = 1
    with pytest.raises(BadDeclaration, match="Budget"):
        Curator([table], budget=wrong)
    with pytest.raises(UnsupportedQuery, match="a string with SQL"):
        curator.sql(wrong, epsilon=0.1)
    with pytest.raises(UnsupportedQuery, match="list of queries"):
        curator.release(QUESTION, epsilon=0.1)
    with pytest.raises(BadDeclaration, match="name of each analyst"):
        curator.as_analyst(wrong)
    with pytest.raises(BadDeclaration, match="An analyst must have a name"):
        curator.as_analyst("")


def test_a_query_of_declared_keys_is_not_charged() -> None:
    """A query of declared keys alone is refused with what to add, at no cost."""
    curator = open_curator()
    for text in ("SELECT ward FROM visits GROUP BY ward", "SELECT DISTINCT ward FROM visits"):
        with pytest.raises(UnsupportedQuery, match=r"reveals nothing about the rows\. Add"):
            curator.sql(text, epsilon=0.1)

    assert 0 == curator.budget.spent.share


def test_a_preview_spends_nothing_and_reads_nothing() -> None:
    """A preview computes cost and error from the declaration alone."""
    curator, diary = open_curator(), Diary()
    diary.watch(curator)
    seen = curator.preview(QUESTION, share="1/10")

    assert [] == diary.lines
    assert 0 == spent(curator)
    assert Fraction(1, 10) == seen.cost.share
    assert {"n", "m"} == set(seen.errors)
    assert not seen.reused


def test_a_preview_uses_the_requested_confidence() -> None:
    """Half-widths, regrets, and explanations use the given confidence, for any kind of price."""
    curator, count = open_curator(), "SELECT COUNT(*) AS n FROM visits"
    chosen = "SELECT ward FROM visits GROUP BY ward ORDER BY COUNT(*) DESC LIMIT 1"
    usual, low = (curator.preview(count, share="1/10", confidence=level) for level in (0.95, 0.5))
    regrets = [curator.preview(chosen, share="1/10", confidence=p).regret for p in (0.5, 0.95)]

    assert curator.preview(count, share="1/10") == usual
    assert (usual.errors["n"] or 0) > (low.errors["n"] or 0)
    assert ("(95% confidence)" in str(usual), "(50% confidence)" in str(low)) == (True, True)
    assert (regrets[0] or 0) < (regrets[1] or 0)
    assert "Margins of error at 50% confidence" in str(
        curator.explain(count, share="1/10", confidence=0.5)
    )
    assert "With 50%" in str(curator.explain(chosen, share="1/10", confidence=0.5))


def test_an_error_that_is_too_small_is_refused_with_the_least() -> None:
    """The refusal names an error that the whole budget pays for and that a query can request."""
    curator, count = open_curator(), "SELECT COUNT(*) AS n FROM visits"
    with pytest.raises(BudgetExceeded) as caught:
        curator.sql(count, error="1/1000")
    said = re.search(
        r"gives an error of ([\d.e+]+), more than the 0.001 requested", str(caught.value)
    )

    assert said is not None
    assert 0 == spent(curator)
    assert curator.preview(count, error=said[1]).cost.share <= 1


def test_an_answer_without_numbers_mentions_no_intervals() -> None:
    """Chosen keys are printed with their cost and no intervals."""
    text = "SELECT ward FROM visits GROUP BY ward ORDER BY COUNT(*) DESC LIMIT 1"
    answer = open_curator().sql(text, share="1/10")

    assert str(answer).splitlines()[-1].startswith("cost ")
    assert "interval" not in answer._repr_html_()


def test_a_preview_reports_a_free_answer() -> None:
    """A query that was asked before is previewed as free, with the cost of a new answer."""
    curator, diary = open_curator(), Diary()
    before = [curator.preview(QUESTION, share="1/5"), curator.explain(QUESTION, share="1/5")]
    curator.sql(QUESTION, share="1/10")
    diary.watch(curator)
    seen, told = curator.preview(QUESTION, share="1/5"), curator.explain(QUESTION, share="1/5")

    assert [] == diary.lines
    assert Fraction(1, 10) == spent(curator)
    assert (True, Fraction(1, 5)) == (seen.reused, seen.cost.share)
    assert not any("answered before" in str(one) for one in before)
    assert str(seen).startswith("This query was answered before, and the same answer is free.")
    assert "It was answered before, and the same answer is free." in told.sentences
    assert not curator.preview(f"{QUESTION} LIMIT 1", share="1/5").reused


@pytest.mark.parametrize("budget", [Budget(2), Budget(2, 1e-6)], ids=["pure", "gaussian"])
def test_the_same_question_is_answered_alike_for_free(budget: Budget) -> None:
    """A repeated query, however it is written, returns the same values at no cost."""
    curator, diary = open_curator(budget=budget), Diary()
    first = curator.sql(QUESTION, share="1/10")
    diary.watch(curator)
    again = curator.sql(f"  {QUESTION.replace('FROM', chr(10) + 'from')} ", share="1/2")

    assert [] == diary.lines
    assert first.rows == again.rows
    assert first.interval_rows() == again.interval_rows()
    assert (False, True) == (first.reused, again.reused)
    assert (Fraction(1, 10), Fraction(0)) == (spent(curator), again.cost.share)


def test_a_fresh_answer_pays_and_differs() -> None:
    """With fresh=True, a query is charged again and gets new noise."""
    curator = open_curator()
    answers = [curator.sql(QUESTION, share="1/100", fresh=True) for _ in range(4)]

    assert Fraction(4, 100) == spent(curator)
    assert 1 < len({json.dumps(answer.rows) for answer in answers})


@pytest.mark.parametrize("want", [{"share": 1.5}, {"share": "101%"}, {"epsilon": 2.1}], ids=str)
def test_nothing_is_previewed_past_the_whole_budget(want: dict[str, Any]) -> None:
    """A preview of more than the total budget is refused, as the query itself would be."""
    curator = open_curator()

    for ask in (curator.preview, curator.explain, curator.sql):
        with pytest.raises(BudgetExceeded, match="exceeds the total budget"):
            ask(QUESTION, **want)
    assert 0 == spent(curator)


@pytest.mark.parametrize("budget", [Budget(2), Budget(2, 1e-6)], ids=["pure", "gaussian"])
@pytest.mark.parametrize("parts", [1, 3, 7, 49])
def test_equal_parts_of_a_budget_always_fit(parts: int, budget: Budget) -> None:
    """k answers of share 1/k fit, as a fraction or as a float, and nothing fits after them."""
    curator = open_curator(budget=budget)
    for place in range(parts):
        part = 1 / parts if place % 2 else Fraction(1, parts)
        curator.sql("SELECT COUNT(*) AS n FROM visits", share=part, fresh=True)
    with pytest.raises(BudgetExceeded):
        curator.sql("SELECT COUNT(*) AS n FROM visits", share="1/1000", fresh=True)

    assert 1 - Fraction(1, 10**12) < spent(curator) <= 1


def test_epsilons_add_up_to_the_budget() -> None:
    """Under pure accounting, twenty answers of epsilon 0.1 use up a budget of 2."""
    curator = open_curator()
    for _ in range(20):
        curator.sql("SELECT COUNT(*) AS n FROM visits", epsilon=0.1, fresh=True)

    assert 1 == spent(curator)
    with pytest.raises(BudgetExceeded):
        curator.sql("SELECT COUNT(*) AS n FROM visits", epsilon=1e-9, fresh=True)


def seal(curator: Curator) -> tuple[Plan, Sealed]:
    plan = curator._planner.plan(read_sql(QUESTION, curator.names), Share.floor("1/10"))
    return plan, curator._engine.run(plan.measurement, Hold(0, Share.floor("1/10")))


def test_sealed_values_stay_closed() -> None:
    """Exact totals cannot be shown, compared, hashed, copied, or stored; only noise opens them."""
    plan, sealed = seal(open_curator())

    assert "Sealed(...)" == repr(sealed) == str(sealed) == f"{sealed}"
    for attempt in (
        lambda: sealed == sealed,  # noqa: PLR0124
        lambda: sealed != 0,
        lambda: hash(sealed),
        lambda: pickle.dumps(sealed),
        lambda: copy.copy(sealed),
        lambda: copy.deepcopy(sealed),
        lambda: json.dumps(sealed),
        lambda: vars(sealed),
        lambda: list(sealed),  # type: ignore[call-overload]
    ):
        with pytest.raises(TypeError):
            attempt()
    assert len(plan.totals) == len(add_noise(sealed, plan, SYSTEM).steps[0])


def test_a_hold_allows_one_reading() -> None:
    """The engine reads once per charge."""
    curator = open_curator()
    plan = curator._planner.plan(read_sql(QUESTION, curator.names), Share.floor("1/10"))
    hold = Hold(0, Share.floor("1/10"))
    curator._engine.run(plan.measurement, hold)
    with pytest.raises(Fault):
        curator._engine.run(plan.measurement, hold)


def test_a_repeated_query_is_parsed_once() -> None:
    """A cached parse equals a new one, and refusals are not cached."""
    curator, refused = open_curator(), "SELECT note FROM visits"
    first, again = curator._planner.read(QUESTION), curator._planner.read(QUESTION)
    said = []
    for _ in range(2):
        with pytest.raises(UnsupportedQuery) as caught:
            curator._planner.read(refused)
        said.append(str(caught.value))

    assert read_sql(QUESTION, curator.names) == first
    assert first is again
    assert said[0] == said[1]


class Listening:
    """A connection that records every statement before it runs it."""

    def __init__(self, connection: Any, heard: list[str]) -> None:
        self._connection, self._heard = connection, heard

    def execute(self, statement: Any, *more: object) -> Any:
        self._heard.append(statement if isinstance(statement, str) else statement.query)
        return self._connection.execute(statement, *more)


@pytest.mark.parametrize("budget", [Budget(2), Budget(2, 1e-6)], ids=["pure", "gaussian"])
def test_neighbors_get_the_same_statement(budget: Budget) -> None:
    """The statements and the shape of the answer do not depend on rows."""
    heard: list[list[str]] = []
    shapes = []
    for people in (0, 1, 6, 7):
        curator = open_curator(frame(people), budget=budget)
        statements: list[str] = []
        engine_of(curator)._salt = "grain"
        engine_of(curator)._connection = Listening(engine_of(curator)._connection, statements)
        answer = curator.sql(QUESTION, share="1/10")
        heard.append(statements)
        shapes.append((answer.columns, [row["ward"] for row in answer.rows], answer.cost))

    reading = [[one for one in statements if one.startswith("SELECT")] for statements in heard]
    assert [1] * 4 == [len(statements) for statements in reading]
    assert [heard[0]] * 4 == heard
    assert [shapes[0]] * 4 == shapes


def test_nothing_is_logged_except_failures(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Answers and refusals log nothing, and a failure logs only its kind."""
    curator = open_curator()
    with caplog.at_level(logging.INFO), warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        answer = curator.sql(QUESTION, share="1/10")
        answer.rows, answer.interval_rows()
        with pytest.raises(UnsupportedQuery):
            curator.sql(f"SELECT note FROM visits WHERE note = '{SECRET}'", share="1/10")
        engine_of(curator)._connection = Broken()
        with pytest.raises(Fault):
            curator.sql(QUESTION, share="1/10", fresh=True)

    told = [record for record in caplog.records if record.name.startswith("confide")]
    kind = "The engine failed: IOException: A file cannot be read, or a disk is full. "
    assert [("confide.owner", kind + "Open the declaration again.")] == [
        (record.name, record.getMessage()) for record in told
    ]
    assert [] == seen
    assert ("", "") == capfd.readouterr()


@pytest.mark.parametrize("accounting", ["gaussian", "renyi"])
def test_the_epsilon_shown_counts_the_delta_of_names(accounting: str) -> None:
    """If delta is reserved for key selection, an answer's epsilon covers its part of that as well.

    Otherwise, 99% of (1, 1e-6) with half of delta reserved would show 0.96 instead of 0.99.
    """
    curator = open_curator(budget=Budget(1, 1e-6, accounting=accounting))
    opening = curator.ledger.opening
    assert opening.delta_pot > 0

    for part in (Fraction(99, 100), Fraction(1, 2), Fraction(1, 100)):
        shown = curator.preview("SELECT COUNT(*) AS n FROM visits", share=part).cost.epsilon
        noise = loss_for_noise(opening.loss_of(Share.floor(part)))
        whole = ApproximateLoss(noise, opening.delta_pot * Share.floor(part).fraction)
        assert shown >= whole.epsilon_at(Fraction(1, 10**6)) > noise.epsilon_at(1e-6)
    for epsilon in (Fraction(1, 10), Fraction(1, 2)):
        assert epsilon * 0.99 < curator.preview(QUESTION, epsilon=epsilon).cost.epsilon <= epsilon


@pytest.mark.parametrize("accounting", ["gaussian", "renyi"])
@pytest.mark.parametrize("epsilon", ["0.93", "0.99", "1"])
def test_every_epsilon_up_to_the_whole_is_granted(accounting: str, epsilon: str) -> None:
    """An epsilon up to the budget's always fits the budget; a larger one never does.

    Renyi accounting needs more for the noise of 0.93 than for everything that it composes to 1.
    """
    curator = open_curator(budget=Budget(1, 1e-6, accounting=accounting))
    wanted = mu_squared_for(Fraction(epsilon), Fraction(1, 10**6))
    cost = curator.preview(QUESTION, epsilon=epsilon).cost
    noise = loss_for_noise(curator.ledger.opening.loss_of(Share.floor(cost.share)))

    assert isinstance(noise, GaussianLoss)
    assert 0 < cost.share <= 1
    assert noise.mu_squared <= wanted
    with pytest.raises(BudgetExceeded):
        curator.preview(QUESTION, epsilon="1.0001")
