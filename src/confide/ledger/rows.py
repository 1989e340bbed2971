"""Statements that read a stored ledger, or write to it without moving its head.

`changes` has the statements that move the head.
"""

from collections.abc import Generator, Iterator
from heapq import merge
from typing import Any, Final

from sqlalchemy import Connection, bindparam, insert, select, text

from confide.ledger.chain import (
    AnchorRecord,
    AnswerRecord,
    Charge,
    Head,
    Record,
    decode_payload,
    query_digest,
)
from confide.ledger.changes import ANCHOR_NAMES, ANSWER_NAMES, CHARGE_NAMES, STATE, read_state
from confide.ledger.database import PreparedStatement
from confide.ledger.limits import Spendings
from confide.ledger.protocol import (
    RESTORE,
    LedgerDamaged,
    QueryIdentity,
    StoredAnswer,
    key_in_use,
    refuse_relation,
)
from confide.ledger.raw_connection import RawConnection
from confide.ledger.schema import ANCHOR_RECORDS, ANSWERS, CHARGES, HAS_PURPOSE, HEAD, KEYS, META

__all__ = [
    "find_answers",
    "find_key",
    "read_anchor",
    "read_anchors",
    "read_charge",
    "read_digest",
    "read_head",
    "read_history",
    "read_records",
    "read_spendings",
    "read_states",
    "read_stored",
    "write_key",
    "write_relation",
]

BATCH_SIZE: Final = 1_000
CHARGE: Final = tuple(CHARGES.c[name] for name in CHARGE_NAMES)
ANSWER: Final = tuple(ANSWERS.c[name] for name in ANSWER_NAMES)
ANCHOR: Final = tuple(ANCHOR_RECORDS.c[name] for name in ANCHOR_NAMES)

HEAD_ROW: Final = select(*STATE).where(HEAD.c.one == 1)
READ_HEAD: Final = PreparedStatement(HEAD_ROW)
LOCK_HEAD: Final = PreparedStatement(HEAD_ROW.with_for_update())
ADD_KEY: Final = insert(KEYS)
ALL_CHARGES: Final = select(*CHARGE, CHARGES.c.digest).order_by(CHARGES.c.number)
ALL_ANSWERS: Final = select(*ANSWER, ANSWERS.c.digest).order_by(ANSWERS.c.number)
ALL_ANCHORS: Final = select(*ANCHOR, ANCHOR_RECORDS.c.digest).order_by(ANCHOR_RECORDS.c.number)
NEWEST_ANCHOR: Final = ALL_ANCHORS.order_by(None).order_by(ANCHOR_RECORDS.c.number.desc()).limit(1)
ONE_CHARGE: Final = select(*CHARGE, CHARGES.c.digest).where(CHARGES.c.number == bindparam("entry"))
ONE_ANSWER: Final = select(*ANSWER, ANSWERS.c.digest).where(ANSWERS.c.entry == bindparam("entry"))
ONE_KEY: Final = select(KEYS.c.entry).where(
    KEYS.c.analyst == bindparam("analyst"), KEYS.c.name == bindparam("key")
)
ENTRIES_OF_QUERY: Final = select(ANSWERS.c.entry).where(ANSWERS.c.asked == bindparam("asked"))
ENTRIES_OF_ANALYST: Final = ENTRIES_OF_QUERY.where(ANSWERS.c.analyst == bindparam("analyst"))
WITH_STATE: Final = (
    select(*CHARGE, CHARGES.c.digest, ANSWERS.c.entry)
    .join_from(CHARGES, ANSWERS, ANSWERS.c.entry == CHARGES.c.number, isouter=True)
    .order_by(CHARGES.c.number)
)


def _running_totals(total: str, name: str | None) -> tuple[PreparedStatement, PreparedStatement]:
    """Return two statements: for the newest running total, and for the newest before a time.

    ``total`` is the column of the total. ``name`` is the column of the analyst or the purpose, or
    None for the total of the budget.
    """
    newest = select(CHARGES.c[total]).order_by(CHARGES.c.time.desc(), CHARGES.c.number.desc())
    named = newest if name is None else newest.where(CHARGES.c[name] == bindparam(name))
    # The condition matches that of the partial index.
    named = named.where(text(HAS_PURPOSE)) if name == "purpose" else named
    earlier = named.where(CHARGES.c.time < bindparam("before"))
    return PreparedStatement(named.limit(1)), PreparedStatement(earlier.limit(1))


SPENT: Final = {
    "budget": _running_totals("spent", None),
    "analyst": _running_totals("analyst_spent", "analyst"),
    "purpose": _running_totals("purpose_spent", "purpose"),
}


def read_head(connection: Connection, *, lock: bool = False) -> Head:
    """Return the head; with ``lock``, no other transaction can move it until this one ends."""
    row = (LOCK_HEAD if lock else READ_HEAD).first(connection)
    return read_state(row)


def write_key(connection: Connection, analyst: str, key: str, entry: int) -> None:
    """Assign an idempotency key to an entry; raise KeyUsed if it belongs to another entry."""
    known = find_key(connection, analyst, key)
    if known is None:
        connection.execute(ADD_KEY, {"analyst": analyst, "name": key, "entry": entry})
    elif known != entry:
        raise key_in_use(key)


def find_key(connection: Connection, analyst: str, key: str) -> int | None:
    """Return the entry of an idempotency key, or None if the key is unused."""
    row = connection.execute(ONE_KEY, {"analyst": analyst, "key": key}).first()
    return None if row is None else int(row.entry)


def find_answers(
    connection: Connection, question: QueryIdentity, *, shared: bool, newest: bool
) -> list[int]:
    """Return the entries that paid for answers to a query, in order, or only the newest.

    With ``shared``, answers to other analysts count too.
    """
    found = ENTRIES_OF_QUERY if shared else ENTRIES_OF_ANALYST
    found = (
        found.order_by(ANSWERS.c.entry.desc()).limit(1)
        if newest
        else found.order_by(ANSWERS.c.entry)
    )
    names = {"asked": query_digest(question), "analyst": question.analyst}
    names = {"asked": names["asked"]} if shared else names
    return [int(row.entry) for row in connection.execute(found, names)]


def read_charge(connection: Connection, entry: int) -> Charge | None:
    """Return one charge after checking its hash, or None if there is no such entry."""
    row = connection.execute(ONE_CHARGE, {"entry": entry}).first()
    return None if row is None else _charge(row)


def read_stored(connection: Connection, entry: int) -> StoredAnswer | None:
    """Return one answer with its receipt after checking their hashes, or None if there is none."""
    row = connection.execute(ONE_ANSWER, {"entry": entry}).first()
    charge = read_charge(connection, entry)
    if row is None or charge is None:
        return None
    return StoredAnswer(charge.receipt(), decode_payload(_answer(row).noisy))


def read_states(connection: Connection) -> Iterator[tuple[Charge, bool]]:
    """Yield every charge, oldest first, and whether it has an answer."""
    for row in connection.execute(WITH_STATE):
        yield Charge(*row[:-2]), row[-1] is not None


def read_history(
    connection: Connection, limit: int, before: int | None, analyst: str | None
) -> Iterator[tuple[Charge, bool]]:
    """Yield at most ``limit`` charges, newest first, and whether each has an answer.

    ``before`` and ``analyst`` are as in `Ledger.history`. The charges of one analyst are ordered by
    time and number, as their index is. That is the order of their numbers, because times never
    decrease along the chain.
    """
    chosen = WITH_STATE.order_by(None).limit(limit)
    if before is not None:
        chosen = chosen.where(CHARGES.c.number < before)
    if analyst is None:
        chosen = chosen.order_by(CHARGES.c.number.desc())
    else:
        chosen = chosen.where(CHARGES.c.analyst == analyst)
        chosen = chosen.order_by(CHARGES.c.time.desc(), CHARGES.c.number.desc())
    for row in connection.execute(chosen):
        yield Charge(*row[:-2]), row[-1] is not None


def read_records(connection: Connection) -> Generator[Record, None, None]:
    """Yield every record in chain order, after checking its hash."""
    options = {"yield_per": BATCH_SIZE}
    charges = connection.execute(ALL_CHARGES, execution_options=options)
    answers = connection.execute(ALL_ANSWERS, execution_options=options)
    try:
        kinds: tuple[Iterator[Record], ...] = (
            map(_charge, charges),
            map(_answer, answers),
            iter(read_anchors(connection)),
        )
        yield from merge(*kinds, key=lambda record: record.number)
    finally:
        charges.close()
        answers.close()


def read_anchors(connection: Connection) -> list[AnchorRecord]:
    """Return every anchor record, oldest first, after checking its hash."""
    return [_anchor(row) for row in connection.execute(ALL_ANCHORS).all()]


def read_anchor(connection: Connection) -> AnchorRecord | None:
    """Return the newest anchor record, or None if no anchor was ever recorded."""
    row = connection.execute(NEWEST_ANCHOR).first()
    return None if row is None else _anchor(row)


def read_digest(connection: Connection, number: int) -> str | None:
    """Return the hash of the record with this number, or None."""
    for table in (CHARGES, ANSWERS, ANCHOR_RECORDS):
        row = connection.execute(select(table.c.digest).where(table.c.number == number)).first()
        if row is not None:
            return str(row.digest)
    return None


def read_spendings(connection: Connection | RawConnection) -> Spendings:
    """Return a function that reads running totals, each by a single lookup in an index."""

    def spent(scope: str, name: str, before: int | None = None) -> int:
        newest, newest_before = SPENT[scope]
        names: dict[str, object] = {scope: name} if scope != "budget" else {}
        if before is None:
            found = newest.first(connection, names)
        else:
            found = newest_before.first(connection, {**names, "before": before})
        return 0 if found is None else int(found[0])

    return spent


def _charge(row: Any) -> Charge:
    """Return the charge in a row, whose last column is its hash, after checking the hash."""
    charge = Charge(*row[:-1])
    _check(charge, row)
    return charge


def _answer(row: Any) -> AnswerRecord:
    answer = AnswerRecord(*row[:-1])
    _check(answer, row)
    return answer


def _anchor(row: Any) -> AnchorRecord:
    record = AnchorRecord(*row[:-1])
    _check(record, row)
    return record


def _check(record: Charge | AnswerRecord | AnchorRecord, row: Any) -> None:
    if record.digest != row.digest:
        raise LedgerDamaged(
            f"Ledger record {record.number} differs from what was written. {RESTORE}"
        )


def write_relation(connection: Connection, neighbours: str) -> None:
    """Store the neighboring relation when it is first given; refuse a different one later.

    Raises:
        BadDeclaration: the losses in the ledger are for another relation.
    """
    query = select(META.c.value).where(META.c.name == "neighbours")
    stored_relation = connection.execute(query).scalar()
    if stored_relation is None:
        connection.execute(insert(META), {"name": "neighbours", "value": neighbours})
    else:
        refuse_relation(str(stored_relation), neighbours)
