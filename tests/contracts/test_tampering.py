"""Detection of changes that were made to a ledger's database directly."""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from confide.errors import Fault
from confide.ledger import Ledger, LedgerDamaged, MemoryLedger
from confide.ledger.chain import AnswerRecord, Charge, Head
from confide.ledger.database import read_address
from support.ledgers import NOISY, TENTH, Home, ask

CHANGED: dict[str, Any] = {
    **{field.name: 7 for field in fields(Charge)},
    **dict.fromkeys(("before", "text", "fingerprint", "analyst", "purpose", "name", "loss"), "x"),
}
WRITTEN = {"confide_charges": Charge, "confide_answers": AnswerRecord, "confide_head": Head}
ONE = {"confide_charges": "number = 0", "confide_answers": "number = 1", "confide_head": "one = 1"}
COLUMNS = [(table, f.name) for table, kind in WRITTEN.items() for f in fields(kind)]


def keep_three(ledger: Ledger) -> Ledger:
    """Write three charges: two answered, one open."""
    for place in range(3):
        hold = ledger.reserve(ask(f"SELECT {place}"), TENTH, key=f"k{place}")
        if place < 2:
            ledger.commit(hold, NOISY)
    return ledger


def change(home: Home, statement: str) -> int:
    """Change the database as someone with its password could; return the number of rows."""
    engine = create_engine(read_address(home.address))
    try:
        with engine.begin() as connection:
            return connection.execute(text(statement)).rowcount
    finally:
        engine.dispose()


@pytest.mark.parametrize(("table", "column"), COLUMNS)
def test_a_changed_column_is_detected(lasting: Home, table: str, column: str) -> None:
    """`verify` detects a change in any column of a record or of the head."""
    ledger = keep_three(lasting.open())
    value = CHANGED.get(column, "x" if column in ("digest", "noisy") else 7)
    assert 1 == change(lasting, f"UPDATE {table} SET {column} = '{value}' WHERE {ONE[table]}")
    with pytest.raises(Fault):
        ledger.verify()


@pytest.mark.parametrize("number", range(5))
def test_a_missing_record_is_detected(lasting: Home, number: int) -> None:
    """A deleted record is detected, even the last one."""
    ledger = keep_three(lasting.open())
    gone = [
        change(lasting, f"DELETE FROM {table} WHERE number = {number}")
        for table in ("confide_charges", "confide_answers")
    ]

    assert 1 == sum(gone)
    with pytest.raises(LedgerDamaged):
        ledger.verify()


def test_the_newest_record_is_checked_when_a_ledger_opens(lasting: Home) -> None:
    """A ledger whose last record is missing does not open, even without verification."""
    keep_three(lasting.open())
    change(lasting, "DELETE FROM confide_charges WHERE number = 4")
    with pytest.raises(LedgerDamaged):
        lasting.again()


def test_a_changed_balance_is_detected(lasting: Home) -> None:
    """A head that shows less than was charged is detected before the next charge."""
    ledger = keep_three(lasting.open())
    change(lasting, "UPDATE confide_head SET spent = 0")
    for used in (lambda: ledger.reserve(ask(), TENTH), lambda: ledger.filter, lasting.again):
        with pytest.raises(LedgerDamaged):
            used()


def test_a_changed_answer_is_not_returned(lasting: Home) -> None:
    """An answer that differs from the committed one is a fault when it is requested again."""
    ledger = keep_three(lasting.open())
    change(lasting, "UPDATE confide_answers SET noisy = '{}'")
    with pytest.raises(LedgerDamaged):
        ledger.stored(ask("SELECT 0"))
    with pytest.raises(LedgerDamaged):
        ledger.resume(ask("SELECT 1"), "k1")


def test_a_deleted_answer_is_detected(lasting: Home) -> None:
    """An answered charge cannot be turned back into an open hold."""
    ledger = keep_three(lasting.open())
    change(lasting, "DELETE FROM confide_answers WHERE entry = 0")
    with pytest.raises(LedgerDamaged):
        ledger.verify()


MEMORY: dict[str, Callable[[MemoryLedger], object]] = {
    "charge": lambda one: one._charges.update({0: replace(one._charges[0], units=1)}),
    "gone": lambda one: one._charges.pop(2),
    "answer": lambda one: one._answers.update({0: replace(one._answers[0], noisy="{}")}),
    "forgotten": lambda one: one._answers.pop(0),
    "balance": lambda one: setattr(one, "_head", replace(one._head, spent=0)),
}


@pytest.mark.parametrize("what", MEMORY)
def test_the_memory_ledger_detects_changes(what: str) -> None:
    """The ledger in memory detects the same changes."""
    home = Home("memory", None, None)  # type: ignore[arg-type]
    ledger = keep_three(home.open())
    assert isinstance(ledger, MemoryLedger)
    ledger.verify()
    MEMORY[what](ledger)
    with pytest.raises(LedgerDamaged):
        ledger.verify()
