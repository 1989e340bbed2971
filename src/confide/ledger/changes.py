"""The guarded writes: the charge and the answer of every query, and the record of an anchor.

The look takes the head and all else that a change must know, as of one moment; the write adds the
record and moves the head, if it still is where it was seen and the sums fit.

Claim:   of all changes that saw the same head at most one is written, and what a written change saw
         is still so when it is written.
Why:     every change moves the head under the condition that its digest is the one that was seen,
         and a digest never comes back, for it covers the one before. A row that a look reads is
         written together with a move of the head, so it is as old as the head that was seen. In
         SQLite, and in PostgreSQL once the head is locked, nothing moves in between. Otherwise the
         write is one statement: an UPDATE that waits for another's lock looks at its condition
         again, and what it adds is selected from what it moved. Keys that stand for answers that
         were free are written without a move; two of one name are refused by their primary key.
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
from confide.ledger.database import Conflict, PreparedStatement, RawConnection
from confide.ledger.protocol import RESTORE, LedgerDamaged, QueryIdentity
from confide.ledger.schema import ANCHOR_RECORDS, ANSWERS, CHARGES, HEAD, KEYS, NAMED
from confide.loss import UNITS

__all__ = [
    "AnchorState",
    "ChargeState",
    "CommitState",
    "read_anchored",
    "read_ground",
    "read_held",
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
WIDTH: Final = len(STATE)
ALL_UNITS: Final = literal_column(str(UNITS), BigInteger)
ONE_ROW: Final = literal_column("1", Integer)
THE_ONE: Final = HEAD.c.one == ONE_ROW

MOVE_HEAD: Final = (
    update(HEAD)
    .where(THE_ONE, HEAD.c.digest == bindparam("old_digest"))
    # Privacy: the database itself compares the exact sums with the whole before they are written.
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


def _newest(total: str, name: str) -> Any:
    """Return how the running total of a name is found: by one step into its index."""
    found = select(CHARGES.c[total]).where(CHARGES.c[name] == bindparam(name))
    found = found.where(text(NAMED)) if name == "purpose" else found  # as its index says
    latest = found.order_by(CHARGES.c.time.desc(), CHARGES.c.number.desc())
    return latest.limit(ONE_ROW).scalar_subquery()


def _key() -> Any:
    named = (KEYS.c.analyst == bindparam("analyst"), KEYS.c.name == bindparam("key"))
    return select(KEYS.c.entry).where(*named).scalar_subquery()


def _one(column: Column[Any], place: Column[Any]) -> Any:
    return select(column).where(place == bindparam("entry")).scalar_subquery()


def _newest_anchor(column: Column[Any]) -> Any:
    newest = select(column).order_by(ANCHOR_RECORDS.c.number.desc())
    return newest.limit(ONE_ROW).scalar_subquery()


def _adding(*tables: Table) -> Select[Any]:
    """Return one statement that moves the head and, if it moved, adds a row to each table."""
    moved = MOVE_HEAD.returning(HEAD.c.one).cte("moved")
    statement = select(func.count()).select_from(moved)
    for table in tables:
        values = [cast(bindparam(f"{table.name}_{c.name}"), c.type) for c in table.c]
        row = select(*values).select_from(moved)
        added = insert(table).from_select(table.c.keys(), row).cte(f"added_to_{table.name}")
        statement = statement.add_cte(added)
    return statement


LOCK: Final = PreparedStatement(select(HEAD.c.one).where(THE_ONE).with_for_update())
GROUND: Final = PreparedStatement(
    select(
        *STATE,
        _newest("analyst_spent", "analyst"),
        _newest("purpose_spent", "purpose"),
        _key(),
        _newest_anchor(ANCHOR_RECORDS.c.anchor),
    ).where(THE_ONE)
)
HELD: Final = PreparedStatement(
    select(
        *STATE,
        _one(CHARGES.c.digest, CHARGES.c.number),
        _one(ANSWERS.c.entry, ANSWERS.c.entry),
        _newest_anchor(ANCHOR_RECORDS.c.anchor),
    ).where(THE_ONE)
)
ANCHORED: Final = PreparedStatement(
    select(*STATE, _newest_anchor(ANCHOR_RECORDS.c.number)).where(THE_ONE)
)
AT_ONCE: Final[dict[tuple[Table, ...], PreparedStatement]] = {
    tables: PreparedStatement(_adding(*tables))
    for tables in ((CHARGES,), (CHARGES, KEYS), (ANSWERS,), (ANCHOR_RECORDS,))
}
ONE_BY_ONE: Final = {
    table: PreparedStatement(insert(table)) for table in (CHARGES, KEYS, ANSWERS, ANCHOR_RECORDS)
}
MOVE: Final = PreparedStatement(MOVE_HEAD)


class ChargeState(NamedTuple):
    """What a charge stands on: the head, what its analyst and purpose have spent, its key's entry.

    The totals are zero where there is no analyst or no purpose. ``anchor`` is the name of the
    ledger's anchor, empty where it has none.
    """

    head: Head
    analyst_spent: int
    purpose_spent: int
    entry: int | None
    anchor: str


class CommitState(NamedTuple):
    """What an answer stands on: the head, the link of the charge that pays, and whether it has one.

    The link is None where the ledger has no such charge.
    """

    head: Head
    digest: str | None
    is_answered: bool
    anchor: str


class AnchorState(NamedTuple):
    """Ledger state that the record of an anchor depends on: the head, and the record before it."""

    head: Head
    newest: int | None


def read_ground(line: RawConnection, question: QueryIdentity, key: str) -> ChargeState:
    """Return all that a charge must know, as of one moment."""
    names = {"analyst": question.analyst, "purpose": question.purpose, "key": key}
    row = _look(line, GROUND, names)
    analyst, purpose, entry, anchor = row[WIDTH:]
    return ChargeState(read_state(row[:WIDTH]), analyst or 0, purpose or 0, entry, anchor or "")


def read_held(line: RawConnection, entry: int) -> CommitState:
    """Return all that an answer must know, as of one moment."""
    row = _look(line, HELD, {"entry": entry})
    digest, answered, anchor = row[WIDTH:]
    return CommitState(read_state(row[:WIDTH]), digest, answered is not None, anchor or "")


def read_anchored(line: RawConnection) -> AnchorState:
    """Return all that the record of an anchor must know, as of one moment."""
    row = _look(line, ANCHORED, {})
    return AnchorState(read_state(row[:WIDTH]), row[WIDTH])


def read_state(row: Any) -> Head:
    """Return the head from its row, which ends in its seal."""
    if row is None:
        raise LedgerDamaged("the ledger has lost its head; restore it from a back-up")
    head = Head(*row[:-1])
    if head.seal != row[-1]:
        raise LedgerDamaged(f"the ledger's balance was changed or damaged; {RESTORE}")
    return head


def write_charge(line: RawConnection, charge: Charge, old: Head, new: Head) -> None:
    """Add a charge, and the key that stands for it, which stands for nothing yet."""
    row = dict(zip(CHARGE_NAMES, CHARGE_VALUES(charge), strict=True))
    added: dict[Table, Row] = {CHARGES: {**row, "digest": new.digest}}
    if charge.name:
        added[KEYS] = {"analyst": charge.analyst, "name": charge.name, "entry": charge.number}
    _write(line, added, old, new)


def write_answer(
    line: RawConnection, record: AnswerRecord, charge: Charge, old: Head, new: Head
) -> None:
    """Add an answer."""
    asked = query_digest(QueryIdentity(charge.text, charge.fingerprint, charge.analyst))
    row = dict(zip(ANSWER_NAMES, ANSWER_VALUES(record), strict=True))
    more = {"digest": new.digest, "asked": asked, "analyst": charge.analyst}
    _write(line, {ANSWERS: {**row, **more}}, old, new)


def write_anchor(line: RawConnection, record: AnchorRecord, old: Head, new: Head) -> None:
    """Add the record of an anchor."""
    row = dict(zip(ANCHOR_NAMES, ANCHOR_VALUES(record), strict=True))
    _write(line, {ANCHOR_RECORDS: {**row, "digest": new.digest}}, old, new)


def _look(line: RawConnection, what: PreparedStatement, values: Row) -> Any:
    if line.is_locked and line.dialect.name == "postgresql":
        # Privacy: a statement of its own, so that the next one sees what others charged before.
        LOCK.first(line)
    row = what.first(line, values)
    if row is None:
        read_state(row)
    return row


def _write(line: RawConnection, added: dict[Table, Row], old: Head, new: Head) -> None:
    """Add rows and move the head, if it still is where it was seen and the sums fit."""
    moves: Row = {
        "old_digest": old.digest,
        "units": new.spent - old.spent,
        "delta_units": new.delta_spent - old.delta_spent,
        "new_records": new.records,
        "new_digest": new.digest,
        "new_time": new.time,
        "new_seal": new.seal,
    }
    line.mark_write()
    if line.dialect.name == "postgresql":
        for table, row in added.items():
            moves |= {f"{table.name}_{name}": value for name, value in row.items()}
        count = AT_ONCE[tuple(added)].first(line, moves)[0]
    else:
        for table, row in added.items():
            ONE_BY_ONE[table].run(line, row)
        count = MOVE.run(line, moves).rowcount
    if count == 1:
        return
    if line.is_locked:
        raise LedgerDamaged(
            "the ledger's head moved while it was locked; nothing was charged: run confide ledger "
            "--verify, and ask again"
        )
    raise Conflict
