"""Ledger in SQLite, for one machine, or PostgreSQL, for many servers.

The *head* is one row with the newest hash of the chain and the totals. Every charge, answer, and
anchor record is inserted together with a move of the head. The condition is that no other change
has moved the head meanwhile, and that the sums fit the budget (see `changes`). So these changes are
serialized across any number of servers, and the database that stores the charges also enforces the
budget.
"""

import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeVar

from sqlalchemy import Connection

from confide.declare import Limits
from confide.ledger import changes, rows
from confide.ledger.anchoring import FOREIGN_ANCHOR, AnchorComparison, anchor_name, compare_anchor
from confide.ledger.anchors import Anchor, Mark
from confide.ledger.chain import (
    LOST,
    NAMED,
    AnchorRecord,
    Charge,
    ChargeLink,
    Head,
    add_anchor,
    add_answer,
    add_charge,
    delta_units,
    encode_payload,
    first_head,
    grant_head,
    next_time,
    now,
)
from confide.ledger.database import Conflict, Database
from confide.ledger.limits import check_limits, compute_allowance
from confide.ledger.protocol import (
    RESTORE,
    Allowance,
    AnchorLost,
    AnsweredAlready,
    Entry,
    Hold,
    LedgerBehind,
    LedgerDamaged,
    LedgerUnavailable,
    LostAnchor,
    Payload,
    QueryIdentity,
    Receipt,
    StoredAnswer,
    key_in_use,
    key_of_other_query,
)
from confide.ledger.raw_connection import RawConnection
from confide.ledger.rows import write_relation
from confide.ledger.verify import check_records, write_export
from confide.loss import Filter, Share

__all__ = ["Identity", "SqlLedger"]

T = TypeVar("T")
LOCKED_CHANGES: Final = 50
"""The number of later changes that lock the head from the start, after a conflict."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A stored ledger's name, salt, and terms, which never change."""

    name: str
    salt: str
    opening: Filter

    def __repr__(self) -> str:
        return f"Identity({self.name!r})"  # the salt is secret


class SqlLedger:
    """A ledger in a database, with charges and answers in a hash chain; see `open_ledger`."""

    def __init__(
        self,
        database: Database,
        identity: Identity,
        limits: Limits | None = None,
        *,
        anchor: Anchor | None = None,
        clock: Callable[[], int] = now,
    ) -> None:
        self._database, self._identity, self._limits = database, identity, limits or Limits()
        self._anchor, self._clock, self._locked_changes_left = anchor, clock, 0
        self._records_seen = self._records_marked = 0
        self._anchor_name = ""

    @property
    def filter(self) -> Filter:
        """The filter in its current state."""
        return grant_head(self.opening, self._database.read(rows.read_head))

    @property
    def opening(self) -> Filter:
        """The filter before any charge."""
        return self._identity.opening

    @property
    def limits(self) -> Limits:
        """The limits on parts of the budget, such as each analyst's."""
        return self._limits

    @property
    def salt(self) -> str:
        """The secret salt of the engine's row hash."""
        return self._identity.salt

    def keep_relation(self, neighbours: str) -> None:
        """Record which neighboring relation the privacy losses assume; refuse a different one."""
        self._database.change(lambda connection: write_relation(connection, neighbours))

    def reserve(
        self,
        question: QueryIdentity,
        share: Share,
        delta: Fraction = Fraction(0),
        *,
        readings: int | None = 1,
        key: str = "",
    ) -> Hold:
        """Write the charge to disk, and return the hold that permits reading."""
        units, pot_units = share.units, delta_units(delta, self.opening)
        rules = self._limits.rules(question.analyst, question.purpose)

        def make_charge(connection: RawConnection) -> tuple[Charge, Head]:
            seen, state = self._records_seen, changes.read_charge_state(connection, question, key)
            head = self._check_head(state.head, state.anchor, seen)
            if key and state.entry is not None:
                raise key_in_use(key)
            charge, after = add_charge(
                head,
                question,
                (units, pot_units),
                (state.analyst_spent, state.purpose_spent),
                now=self._clock(),
                opening=self.opening,
                readings=readings,
                key=key,
            )
            if rules:
                check_limits(rules, units, rows.read_spendings(connection), charge.time)
            changes.write_charge(connection, charge, head, after)
            return charge, after

        charge, head = self._change(make_charge)
        self._mark_anchor(head)
        return charge.hold(self.opening, head.digest)

    def commit(self, hold: Hold, noisy: Payload) -> Receipt:
        """Store an answer on disk next to the charge that paid for it, and return the receipt."""
        written, link = encode_payload(noisy), ChargeLink.of(hold)

        def store_answer(connection: RawConnection) -> Head:
            seen, state = self._records_seen, changes.read_commit_state(connection, hold.entry)
            head = self._check_head(state.head, state.anchor, seen)
            # Privacy: an answer without a charge in this ledger would be free.
            if state.digest != link.digest:
                raise LedgerDamaged(
                    f"Ledger record {hold.entry} differs from what was charged. {RESTORE}"
                )
            if state.is_answered:
                raise AnsweredAlready(f"Ledger entry {hold.entry} already has an answer.")
            record, after = add_answer(head, hold.entry, written, self._clock())
            changes.write_answer(connection, record, link.charge, head, after)
            return after

        self._mark_anchor(self._change(store_answer))
        return link.receipt()

    def resume(self, question: QueryIdentity, key: str) -> Hold | StoredAnswer | None:
        """Return the answer or the hold of an earlier request with this key, or None."""

        def find(connection: Connection) -> Hold | StoredAnswer | None:
            number = rows.find_key(connection, question.analyst, key)
            charge = None if number is None else rows.read_charge(connection, number)
            if charge is None:
                return None
            if (charge.text, charge.fingerprint) != (question.text, question.fingerprint):
                raise key_of_other_query(key)
            return rows.read_stored(connection, charge.number) or charge.hold(self.opening)

        return self._read_released(find)

    def remember(self, question: QueryIdentity, key: str, receipt: Receipt) -> None:
        """Assign the key to the earlier answer with this receipt, which was returned again."""

        def write(connection: Connection) -> None:
            head = rows.read_head(connection, lock=True)
            self._check_head(head, anchor_name(rows.read_anchor(connection)), self._records_seen)
            rows.write_key(connection, question.analyst, key, receipt.entry)

        self._database.change(write)

    def stored(self, question: QueryIdentity) -> StoredAnswer | None:
        """Return the newest answer to this query that is free for its analyst, or None."""
        found = self._find(question, newest=True)
        return found[0] if found else None

    def answer(self, entry: int) -> StoredAnswer | None:
        """Return the answer of an entry, or None if it has no answer."""
        return self._read_released(lambda connection: rows.read_stored(connection, entry))

    def answers(self, question: QueryIdentity) -> list[StoredAnswer]:
        """Return all answers to this query that are free for its analyst, oldest first."""
        return self._find(question, newest=False)

    def allowance(self, analyst: str = "", purpose: str = "") -> Allowance:
        """Return the allowance of an analyst for a purpose."""

        def compute(connection: Connection) -> Allowance:
            time = next_time(rows.read_head(connection), self._clock())
            spent = rows.read_spendings(connection)
            return compute_allowance(self._limits, analyst, purpose, spent, time)

        return self._database.read(compute)

    def entries(self) -> Iterable[Entry]:
        """Return all charges, oldest first."""
        return self._database.read(
            lambda connection: [
                charge.entry(self.opening, state="answered" if answered else "held")
                for charge, answered in rows.read_states(connection)
            ]
        )

    def history(
        self, limit: int, *, before: int | None = None, analyst: str | None = None
    ) -> list[Entry]:
        """Return at most ``limit`` charges, newest first; see `Ledger.history`."""
        return self._database.read(
            lambda connection: [
                charge.entry(self.opening, state="answered" if answered else "held")
                for charge, answered in rows.read_history(connection, limit, before, analyst)
            ]
        )

    def lost_anchors(self) -> list[LostAnchor]:
        """Return the lost anchors whose loss was accepted, oldest first."""
        found = self._database.read(rows.read_anchors)
        return [record.loss() for record in found if record.event == LOST]

    def verify(self) -> None:
        """Check the file, the chain, and the balance, and compare the ledger with its anchor."""
        start = first_head(self._identity.name, self.opening)

        def check(connection: Connection) -> None:
            self._database.check_file(connection, whole=True)
            end = rows.read_head(connection)
            with closing(rows.read_records(connection)) as records:
                check_records(start, self.opening, records, end)

        self._database.read(check)
        self.check_anchor()

    def export(self) -> Iterator[str]:
        """Yield the history as JSON lines, without the values of answers; see `recount`."""

        def write(connection: Connection) -> list[str]:
            head = rows.read_head(connection)
            with closing(rows.read_records(connection)) as records:
                return list(write_export(self._identity.name, self.opening, records, head))

        return iter(self._database.read(write))

    def attach_anchor(self) -> None:
        """Check the ledger against its anchor; record the anchor if the ledger has none yet.

        Claim:   once this returns, the ledger is not older than the configured anchor, if any. From
                 then on, a process with another anchor, or with none, can neither charge this
                 ledger nor show answers from it. A crash before that does not prevent the ledger
                 from being opened later.
        Why:     the anchor is marked first, with a name that no other anchor has. Then the ledger
                 records that name. A crash in between leaves a marked anchor, and a ledger without
                 a name; the next opening continues from there. If two processes start with
                 different anchors at once, the one that would record its name second writes no
                 record. It finds that its own anchor is outdated (`OUTDATED_ANCHOR`). Before each
                 charge or answer, a process compares the recorded name with its own
                 (`_check_head`). A change that has read the old name is not written, because the
                 record moved the head.
        Source:  docs/ledger.md.
        Checked: tests/contracts/test_lost_anchors.py, tests/crash/test_anchors.py.

        Raises:
            AnchorLost: the ledger has an anchor that is not the configured one.
            LedgerBehind: the ledger is older than its anchor, or has none yet and the configured
                one belongs to another ledger.
            LedgerDamaged: the ledger and its anchor disagree.
        """
        while True:
            comparison = self._compare_anchor()
            comparison.refuse_loss()
            if self._anchor is None or comparison.name:
                break
            self._name_anchor(comparison, NAMED)
        self._anchor_name, self._records_seen = (
            comparison.name,
            max(self._records_seen, comparison.head.records),
        )

    def accept_lost_anchor(self) -> LostAnchor | None:
        """Record that the ledger's anchor is lost; return None if it is not lost.

        The configured anchor, if any, is marked and replaces the lost one.

        # Privacy: an anchor with marks of another ledger stays unchanged, because it still protects
        # that ledger. A ledger that is behind the configured anchor is refused here too.
        """
        while True:
            comparison = self._compare_anchor()
            if comparison.loss is None:
                return None
            if comparison.is_foreign:
                raise AnchorLost(FOREIGN_ANCHOR)
            record = self._name_anchor(comparison, LOST)
            if record is not None:
                return record.loss()

    def check_anchor(self) -> None:
        """Raise a Fault if the ledger is behind its anchor, contradicts it, or has lost it."""
        comparison = self._compare_anchor()
        comparison.refuse_loss()
        self._check_head(comparison.head, comparison.name, self._records_seen)
        self._records_seen = max(self._records_seen, comparison.head.records)

    def _compare_anchor(self) -> AnchorComparison:
        """Return the comparison of the ledger with the configured anchor; see `compare_anchor`."""
        name = self._identity.name
        return compare_anchor(self._database, self._anchor, name, first_head(name, self.opening))

    def _name_anchor(self, comparison: AnchorComparison, event: str) -> AnchorRecord | None:
        """Mark the configured anchor, if any, and record its name in the ledger.

        ``event`` is `NAMED` or `LOST`. The result is None if the caller must compare again.
        """
        name, head = "", comparison.head
        if self._anchor is not None:
            if comparison.mark is None:
                name = secrets.token_hex(16)
                self._anchor.start(Mark(self._identity.name, head.records, head.digest, name))
                return None  # another process may have marked it first, with another name
            name = comparison.mark.anchor
            self._anchor.keep(Mark(self._identity.name, head.records, head.digest, name))

        def write(connection: RawConnection) -> tuple[AnchorRecord, Head] | None:
            seen, found = self._records_seen, changes.read_anchor_state(connection)
            before = _check_seen(found.head, seen)
            if found.newest != (None if comparison.record is None else comparison.record.number):
                return None
            record, after = add_anchor(before, event, name, self._clock())
            changes.write_anchor(connection, record, before, after)
            return record, after

        written = self._database.write(write, locked=True)
        if written is None:
            return None
        record, after = written
        self._anchor_name = name
        self._mark_anchor(after)
        return record

    def close(self) -> None:
        """Close all connections to the database."""
        self._database.close()

    def _find(self, question: QueryIdentity, *, newest: bool) -> list[StoredAnswer]:
        """Return the answers to this query that are free for its analyst, or only the newest."""
        shared = self._limits.is_shared

        def find(connection: Connection) -> list[StoredAnswer]:
            numbers = rows.find_answers(connection, question, shared=shared, newest=newest)
            found = (rows.read_stored(connection, number) for number in numbers)
            return [stored for stored in found if stored is not None]

        return self._read_released(find)

    def _read_released(self, body: Callable[[Connection], T]) -> T:
        """Return the result of ``body`` once the anchor covers every record in the ledger.

        # Privacy: marking the anchor for an answer may have failed, or another process may not have
        # done it yet. If the answer were shown now, the anchor would accept a backup without the
        # answer. In that backup, the charge would have no answer, and could pay for a second one.
        """

        def read(connection: Connection) -> tuple[T, Head, str]:
            head, newest = rows.read_head(connection), rows.read_anchor(connection)
            return body(connection), head, anchor_name(newest)

        found, head, name = self._database.read(read)
        self._check_head(head, name, 0)
        if head.records > self._records_marked:
            self._mark_anchor(head)
        return found

    def _check_head(self, head: Head, anchor: str, seen: int) -> Head:
        """Return the head; raise a Fault if the ledger is too old or its anchor has changed.

        ``anchor`` is the name that the ledger has recorded. A ledger is too old if it has fewer
        than ``seen`` records.

        # Privacy: if the ledger has switched anchors, this process would mark its changes in the
        # wrong one (or nowhere). The next opening would then accept an old backup without them.
        """
        if anchor != self._anchor_name:
            raise LedgerUnavailable(
                "The ledger got another anchor while it was in use, so no answer was returned. "
                "Restart this program with the new anchor, and retry with the same key."
            )
        return _check_seen(head, seen)

    def _change(self, body: Callable[[RawConnection], T]) -> T:
        """Make a change, in PostgreSQL without a lock unless changes conflict.

        After a conflict, the change that came second has written nothing, and runs again with a
        lock. The next `LOCKED_CHANGES` changes of this process take the lock from the start. In
        SQLite, every change takes the lock.
        """
        if self._locked_changes_left > 0:
            self._locked_changes_left -= 1
            return self._database.write(body, locked=True)
        try:
            return self._database.write(body, locked=self._database.is_sqlite)
        except Conflict:
            self._locked_changes_left = LOCKED_CHANGES
            return self._database.write(body, locked=True)

    def _mark_anchor(self, head: Head) -> None:
        """Store a mark of the head in the anchor.

        # Privacy: the mark is stored after the change is on disk, so that the anchor is never ahead
        # of the ledger. It is stored before anything that depends on the change is shown, so that
        # the anchor refuses every backup that lacks an answer already shown.
        """
        self._records_seen = max(self._records_seen, head.records)
        if self._anchor is None:
            return
        newest = self._anchor.keep(
            Mark(self._identity.name, head.records, head.digest, self._anchor_name)
        )
        # Either another process stored a newer mark, or the ledger is an old backup. The comparison
        # raises an error in the second case.
        if newest.records > head.records:
            self._compare_anchor()
        self._records_marked = max(self._records_marked, head.records)


def _check_seen(head: Head, seen: int) -> Head:
    """Return the head; raise LedgerBehind if this process has seen more records before.

    # Privacy: an older copy, or a replica that lags behind, lacks charges, so their budget could be
    # spent again.
    """
    if head.records < seen:
        raise LedgerBehind(
            f"The ledger has {head.records:,} records, but had {seen:,} before. It was replaced by "
            "an older copy while it was in use. Restore the newer copy."
        )
    return head
