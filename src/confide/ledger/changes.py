"""Conditional writes to a stored ledger: charges, answers, and anchor records.

A *change* is a charge, an answer, or an anchor record. It first reads the head and everything else
that it depends on. It then inserts its record and moves the head (updates it to the end of the
longer chain). It does so only if no other change has moved the head meanwhile, and the sums fit the
budget.

Claim:   at most one change is written per state of the head, and everything that it has read is
         still current when it is written.
Why:     every change moves the head, on the condition that the head still has the hash that the
         change has read. A hash never recurs, because it covers the previous one. Every row that a
         change reads was written together with a move of the head, so it is current as long as the
         head is. In SQLite, and in PostgreSQL once the head is locked, no other change can come
         between the read and the write. In PostgreSQL without that lock, the write is a single
         statement. If its UPDATE had to wait for another change, PostgreSQL evaluates the condition
         again afterwards. The statement inserts rows only if its UPDATE moved the head. The only
         exceptions are the keys of answers that were returned again. They are written without
         moving the head, and the primary key of their table rejects duplicates.
Source:  docs/ledger.md.
Checked: tests/crash/test_races.py, tests/contracts/test_changes.py.
"""

from dataclasses import fields
from operator import attrgetter
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    Column,
    Integer,
    Select,
    Table,
    bindparam,
    cast,
    func,
    insert,
    literal_column,
    select,
    text,
    update,
)

from confide.ledger.chain import AnchorRecord, AnswerRecord, Charge, Head, query_digest
from confide.ledger.database import Conflict, PreparedStatement
from confide.ledger.protocol import RESTORE, LedgerDamaged, QueryIdentity
from confide.ledger.raw_connection import RawConnection
from confide.ledger.schema import ANCHOR_RECORDS, ANSWERS, CHARGES, HAS_PURPOSE, HEAD, KEYS
from confide.loss import UNITS

__all__ = [
    "AnchorState",
    "ChargeState",
    "CommitState",
    "read_anchor_state",
    "read_charge_state",
    "read_commit_state",
    "read_state",
    "write_anchor",
    "write_answer",
    "write_charge",
]

Row = dict[str, Any]
CHARGE_NAMES: Final = tuple(field.name for field in fields(Charge))
ANSWER_NAMES: Final = tuple(field.name for field in fields(AnswerRecord))
ANCHOR_NAMES: Final = tuple(field.name for field in fields(AnchorRecord))
CHARGE_VALUES, ANSWER_VALUES = attrgetter(*CHARGE_NAMES), attrgetter(*ANSWER_NAMES)
ANCHOR_VALUES = attrgetter(*ANCHOR_NAMES)
STATE: Final = (*(HEAD.c[field.name] for field in fields(Head)), HEAD.c.seal)
STATE_WIDTH: Final = len(STATE)
ALL_UNITS: Final = literal_column(str(UNITS), BigInteger)
ONE: Final = literal_column("1", Integer)
IS_HEAD: Final = HEAD.c.one == ONE

MOVE_HEAD: Final = (
    update(HEAD)
    .where(IS_HEAD, HEAD.c.digest == bindparam("old_digest"))
    # Privacy: the database itself compares the exact sums with the budget before it writes them.
    .where(HEAD.c.spent + bindparam("units") <= ALL_UNITS)
    .where(HEAD.c.delta_spent + bindparam("delta_units") <= ALL_UNITS)
    .values(
        records=bindparam("new_records"),
        digest=bindparam("new_digest"),
        time=bindparam("new_time"),
        spent=HEAD.c.spent + bindparam("units"),
        delta_spent=HEAD.c.delta_spent + bindparam("delta_units"),
        seal=bindparam("new_seal"),
    )
)


def _newest_total(total: str, name: str) -> Any:
    """Return a subquery for the newest running total of one analyst or purpose.

    ``total`` and ``name`` are columns of the charges. An index makes this a single lookup.
    """
    found = select(CHARGES.c[total]).where(CHARGES.c[name] == bindparam(name))
    # The condition matches that of the partial index.
    found = found.where(text(HAS_PURPOSE)) if name == "purpose" else found
    latest = found.order_by(CHARGES.c.time.desc(), CHARGES.c.number.desc())
    return latest.limit(ONE).scalar_subquery()


def _entry_of_key() -> Any:
    """Return a subquery for the entry that an analyst's idempotency key belongs to."""
    named = (KEYS.c.analyst == bindparam("analyst"), KEYS.c.name == bindparam("key"))
    return select(KEYS.c.entry).where(*named).scalar_subquery()


def _select_value(column: Column[Any], entry_column: Column[Any]) -> Any:
    """Return a subquery for ``column`` in the row whose ``entry_column`` equals ``entry``."""
    return select(column).where(entry_column == bindparam("entry")).scalar_subquery()


def _newest_anchor(column: Column[Any]) -> Any:
    newest = select(column).order_by(ANCHOR_RECORDS.c.number.desc())
    return newest.limit(ONE).scalar_subquery()


def _combined_write(*tables: Table) -> Select[Any]:
    """Return one statement that moves the head and, if it moved, inserts a row into each table."""
    moved = MOVE_HEAD.returning(HEAD.c.one).cte("moved")
    statement = select(func.count()).select_from(moved)
    for table in tables:
        values = [cast(bindparam(f"{table.name}_{c.name}"), c.type) for c in table.c]
        row = select(*values).select_from(moved)
        added = insert(table).from_select(table.c.keys(), row).cte(f"added_to_{table.name}")
        statement = statement.add_cte(added)
    return statement


LOCK_HEAD: Final = PreparedStatement(select(HEAD.c.one).where(IS_HEAD).with_for_update())
READ_CHARGE_STATE: Final = PreparedStatement(
    select(
        *STATE,
        _newest_total("analyst_spent", "analyst"),
        _newest_total("purpose_spent", "purpose"),
        _entry_of_key(),
        _newest_anchor(ANCHOR_RECORDS.c.anchor),
    ).where(IS_HEAD)
)
READ_COMMIT_STATE: Final = PreparedStatement(
    select(
        *STATE,
        _select_value(CHARGES.c.digest, CHARGES.c.number),
        _select_value(ANSWERS.c.entry, ANSWERS.c.entry),
        _newest_anchor(ANCHOR_RECORDS.c.anchor),
    ).where(IS_HEAD)
)
READ_ANCHOR_STATE: Final = PreparedStatement(
    select(*STATE, _newest_anchor(ANCHOR_RECORDS.c.number)).where(IS_HEAD)
)
COMBINED_WRITES: Final[dict[tuple[Table, ...], PreparedStatement]] = {
    tables: PreparedStatement(_combined_write(*tables))
    for tables in ((CHARGES,), (CHARGES, KEYS), (ANSWERS,), (ANCHOR_RECORDS,))
}
INSERTS: Final = {
    table: PreparedStatement(insert(table)) for table in (CHARGES, KEYS, ANSWERS, ANCHOR_RECORDS)
}
MOVE_HEAD_ONLY: Final = PreparedStatement(MOVE_HEAD)


class ChargeState(NamedTuple):
    """Ledger state that a charge depends on: the chain head, prior spending, and the key's entry.

    ``analyst_spent`` and ``purpose_spent`` are the units spent by the analyst (0 without an
    analyst) and for the purpose (0 without a purpose). ``entry`` is None if the idempotency key is
    unused. ``anchor`` is the name of the ledger's anchor, empty if it has none.
    """

    head: Head
    analyst_spent: int
    purpose_spent: int
    entry: int | None
    anchor: str


class CommitState(NamedTuple):
    """Ledger state that an answer depends on: the head, and the charge that pays for the answer.

    ``digest`` is the charge's hash, or None if the ledger has no such charge. ``is_answered`` is
    whether the charge already has an answer. ``anchor`` is as in `ChargeState`.
    """

    head: Head
    digest: str | None
    is_answered: bool
    anchor: str


class AnchorState(NamedTuple):
    """Ledger state that an anchor record depends on: the head, and the newest anchor record.

    ``newest`` is the number of that record, or None if there is none.
    """

    head: Head
    newest: int | None


def read_charge_state(connection: RawConnection, question: QueryIdentity, key: str) -> ChargeState:
    """Return the state that a charge depends on, from one snapshot."""
    names = {"analyst": question.analyst, "purpose": question.purpose, "key": key}
    row = _read_row(connection, READ_CHARGE_STATE, names)
    analyst, purpose, entry, anchor = row[STATE_WIDTH:]
    return ChargeState(
        read_state(row[:STATE_WIDTH]), analyst or 0, purpose or 0, entry, anchor or ""
    )


def read_commit_state(connection: RawConnection, entry: int) -> CommitState:
    """Return the state that an answer depends on, from one snapshot."""
    row = _read_row(connection, READ_COMMIT_STATE, {"entry": entry})
    digest, answered, anchor = row[STATE_WIDTH:]
    return CommitState(read_state(row[:STATE_WIDTH]), digest, answered is not None, anchor or "")


def read_anchor_state(connection: RawConnection) -> AnchorState:
    """Return the state that an anchor record depends on, from one snapshot."""
    row = _read_row(connection, READ_ANCHOR_STATE, {})
    return AnchorState(read_state(row[:STATE_WIDTH]), row[STATE_WIDTH])


def read_state(row: Any) -> Head:
    """Return the head from its row, after comparing it with the seal in the last column."""
    if row is None:
        raise LedgerDamaged("The ledger has lost its head. Restore it from a backup.")
    head = Head(*row[:-1])
    if head.seal != row[-1]:
        raise LedgerDamaged(f"The ledger's balance was changed or damaged. {RESTORE}")
    return head


def write_charge(connection: RawConnection, charge: Charge, old: Head, new: Head) -> None:
    """Insert a charge and its key, if it has one, and move the head from ``old`` to ``new``."""
    row = dict(zip(CHARGE_NAMES, CHARGE_VALUES(charge), strict=True))
    added: dict[Table, Row] = {CHARGES: {**row, "digest": new.digest}}
    if charge.name:
        added[KEYS] = {"analyst": charge.analyst, "name": charge.name, "entry": charge.number}
    _write(connection, added, old, new)


def write_answer(
    connection: RawConnection, record: AnswerRecord, charge: Charge, old: Head, new: Head
) -> None:
    """Insert the answer to a charge, and move the head from ``old`` to ``new``."""
    asked = query_digest(QueryIdentity(charge.text, charge.fingerprint, charge.analyst))
    row = dict(zip(ANSWER_NAMES, ANSWER_VALUES(record), strict=True))
    more = {"digest": new.digest, "asked": asked, "analyst": charge.analyst}
    _write(connection, {ANSWERS: {**row, **more}}, old, new)


def write_anchor(connection: RawConnection, record: AnchorRecord, old: Head, new: Head) -> None:
    """Insert an anchor record, and move the head from ``old`` to ``new``."""
    row = dict(zip(ANCHOR_NAMES, ANCHOR_VALUES(record), strict=True))
    _write(connection, {ANCHOR_RECORDS: {**row, "digest": new.digest}}, old, new)


def _read_row(connection: RawConnection, statement: PreparedStatement, values: Row) -> Any:
    if connection.is_locked and connection.dialect.name == "postgresql":
        # Privacy: a separate statement, so that the next one sees all earlier charges.
        LOCK_HEAD.first(connection)
    row = statement.first(connection, values)
    if row is None:
        read_state(row)  # raises LedgerDamaged: the head is missing
    return row


def _write(connection: RawConnection, added: dict[Table, Row], old: Head, new: Head) -> None:
    """Insert rows and move the head, if it has not moved meanwhile and the sums fit the budget.

    Raises:
        Conflict: nothing was written, because the condition does not hold.
        LedgerDamaged: the condition does not hold although the head is locked.
    """
    moves: Row = {
        "old_digest": old.digest,
        "units": new.spent - old.spent,
        "delta_units": new.delta_spent - old.delta_spent,
        "new_records": new.records,
        "new_digest": new.digest,
        "new_time": new.time,
        "new_seal": new.seal,
    }
    connection.mark_write()
    if connection.dialect.name == "postgresql":
        for table, row in added.items():
            moves |= {f"{table.name}_{name}": value for name, value in row.items()}
        count = COMBINED_WRITES[tuple(added)].first(connection, moves)[0]
    else:
        for table, row in added.items():
            INSERTS[table].run(connection, row)
        count = MOVE_HEAD_ONLY.run(connection, moves).rowcount
    if count == 1:
        return
    if connection.is_locked:
        raise LedgerDamaged(
            "The ledger's head moved while it was locked, so nothing was charged. Run `confide "
            "ledger --verify`, and retry."
        )
    raise Conflict
