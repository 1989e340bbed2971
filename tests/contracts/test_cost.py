"""The statements of a request are independent of the length of the history."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest
from sqlalchemy import event, text

from confide.declare import Limit, Limits
from confide.ledger import SqlLedger
from confide.ledger.database import PreparedStatement
from confide.loss import Share
from support.ledgers import NOISY, WHOLE, Clock, Home, ask

SMALL: Final = Share.floor("1/1000000")
LIMITS: Final = Limits(
    month="50%",
    analysts={"ana": Limit("50%", day="40%")},
    purposes={"planning": Limit("50%", year="40%")},
)
QUESTION: Final = replace(ask(), purpose="planning")
LONG: Final = 3_000
Statement = tuple[str, Any]


def answer_one(ledger: SqlLedger, key: str) -> None:
    """Run every ledger operation of one request."""
    ledger.resume(QUESTION, key)
    ledger.stored(replace(QUESTION, text=f"SELECT '{key}'"))
    hold = ledger.reserve(replace(QUESTION, text=f"SELECT '{key}'"), SMALL, key=key)
    ledger.commit(hold, NOISY)
    ledger.answer(hold.entry)
    ledger.allowance("ana", "planning")


def listen(ledger: SqlLedger, act: Callable[[], object]) -> list[Statement]:
    """Return the statements that a function runs, through SQLAlchemy or on the driver itself."""
    heard: list[Statement] = []
    run = PreparedStatement.run

    def hear(_: Any, __: Any, statement: str, parameters: Any, *___: Any) -> None:
        heard.append((statement, parameters))

    def hear_driver(self: PreparedStatement, connection: Any, values: Any = None) -> Any:
        cursor = run(self, connection, values)
        words, places, constants = self._written[connection.dialect.name]
        named = {**constants, **(values or {})}
        heard.append((words, named if places is None else places(named)))
        return cursor

    engine = ledger._database._current()
    event.listen(engine, "before_cursor_execute", hear)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PreparedStatement, "run", hear_driver)
        act()
    event.remove(engine, "before_cursor_execute", hear)
    return heard


def explain(ledger: SqlLedger, statement: Statement) -> str:
    """Return the database's plan for a statement."""
    words, parameters = statement
    sqlite = ledger._database.is_sqlite
    with ledger._database._current().connect() as connection:
        if not sqlite:  # a short table is scanned even if an index exists
            connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
        prefix = "EXPLAIN QUERY PLAN " if sqlite else "EXPLAIN "
        found = connection.exec_driver_sql(prefix + words, parameters)
        return "\n".join(str(row[-1]) for row in found)


@pytest.fixture
def ledger(lasting: Home) -> SqlLedger:
    """Return a ledger with some history and up-to-date statistics in the database."""
    found = lasting.open(WHOLE, LIMITS, Clock())
    assert isinstance(found, SqlLedger)
    for number in range(30):
        answer_one(found, f"k{number}")
    lengthen(found)
    return found


def lengthen(ledger: SqlLedger) -> None:
    """Add thousands of copies of old records, which no lookup should scan."""
    charges = "number + {0}, before, time - {0}, text, fingerprint, analyst, purpose, name, units"
    rest = "delta_units, readings, loss, spent, delta_spent, analyst_spent, purpose_spent, digest"
    answers = "entry + {0}, number + {0}, before, time - {0}, noisy, digest, asked, analyst"
    with ledger._database._current().begin() as connection:
        for shift in range(1, LONG // 30 + 1):
            connection.execute(
                text(
                    f"INSERT INTO confide_charges SELECT {charges.format(shift * 1_000)}, {rest} "
                    "FROM confide_charges WHERE number < 1000"
                )
            )
            connection.execute(
                text(
                    f"INSERT INTO confide_answers SELECT {answers.format(shift * 1_000)} "
                    "FROM confide_answers WHERE number < 1000"
                )
            )
        connection.execute(text("ANALYZE"))


def test_every_lookup_uses_an_index(ledger: SqlLedger) -> None:
    """No statement of a request scans a table or sorts."""
    heard = listen(ledger, lambda: answer_one(ledger, "new"))
    selects = [one for one in heard if one[0].lstrip().startswith(("SELECT", "UPDATE", "WITH"))]
    plans = [explain(ledger, one) for one in selects]
    tables = ("confide_charges", "confide_answers", "confide_keys")
    bad = [
        plan
        for plan in plans
        if any(f"SCAN {name}" in plan or f"Seq Scan on {name}" in plan for name in tables)
        or "USE TEMP B-TREE" in plan
        or "Sort" in plan.replace("Sort Key", "")
    ]

    assert len(selects) > 10
    assert any("confide_head" in words and "UPDATE" in words for words, _ in heard)
    assert [] == [plan for plan in bad if "using index" not in plan.lower() or "Sort" in plan]


def test_a_table_scan_is_detected(ledger: SqlLedger) -> None:
    """A statement that needs the whole history is detected, so the check above has power."""
    [whole] = listen(ledger, lambda: sum_up(ledger))[-1:]
    plan = explain(ledger, whole)

    assert "SCAN confide_charges" in plan or "Seq Scan on confide_charges" in plan


def sum_up(ledger: SqlLedger) -> None:
    with ledger._database._current().connect() as connection:
        connection.execute(text("SELECT SUM(units) FROM confide_charges")).all()


def test_a_long_history_takes_no_more_statements(ledger: SqlLedger, lasting: Home) -> None:
    """A request runs as many statements after thousands of records as after none."""
    new = lasting.open(WHOLE, LIMITS, Clock())
    assert isinstance(new, SqlLedger)
    answer_one(new, "first")

    assert len(listen(new, lambda: answer_one(new, "x"))) == (
        len(listen(ledger, lambda: answer_one(ledger, "x")))
    )
