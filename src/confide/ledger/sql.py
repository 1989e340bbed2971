"""Ledger in SQLite, for one machine, or PostgreSQL, for many servers.

Every change adds its record and moves the one row of the head under a guard that holds only if
nothing else moved it and the sum still fits. So changes follow one another, on any number of
servers, and what is spent is decided where it is written.
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
from confide.ledger.anchoring import FOREIGN, Standing, compare, name_of
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
from confide.ledger.database import Conflict, Database, RawConnection
from confide.ledger.limits import check_limits, compute_allowance
from confide.ledger.protocol import (
    RESTORE,
    Allowance,
    AnchorLost,
    AnsweredAlready,
    Entry,
    Hold,
    KeyUsed,
    LedgerBehind,
    LedgerDamaged,
    LedgerUnavailable,
    LostAnchor,
    Payload,
    QueryIdentity,
    Receipt,
    StoredAnswer,
)
from confide.ledger.rows import write_relation
from confide.ledger.verify import check_records, write_export
from confide.loss import Filter, Share

__all__ = ["Identity", "SqlLedger"]

T = TypeVar("T")
CAUTIOUS: Final = 50
"""Changes that lock the head first, after another process was met."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What a ledger in a database keeps about itself, and never changes."""

    name: str
    salt: str
    opening: Filter

    def __repr__(self) -> str:
        return f"Identity({self.name!r})"  # the salt is shown to no one


class SqlLedger:
    """Charges and answers in a database, chained by digests; `open_ledger` makes it."""

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
        self._anchor, self._clock, self._cautious = anchor, clock, 0
        self._seen = self._marked = 0
        self._anchored = ""

    @property
    def filter(self) -> Filter:
        """The filter as it stands."""
        return grant_head(self.opening, self._database.look(rows.read_head))

    @property
    def opening(self) -> Filter:
        """The filter as it was opened."""
        return self._identity.opening

    @property
    def limits(self) -> Limits:
        """The bounds below the budget."""
        return self._limits

    @property
    def salt(self) -> str:
        """The key of the engine's cut."""
        return self._identity.salt

    def keep_relation(self, neighbours: str) -> None:
        """Say which neighbours the losses are meant for."""
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
        """Charge, on disk, before anything is read."""
        units, pot_units = share.units, delta_units(delta, self.opening)
        rules = self._limits.rules(question.analyst, question.purpose)

        def charge_now(line: RawConnection) -> tuple[Charge, Head]:
            seen, ground = self._seen, changes.read_ground(line, question, key)
            head = self._check(ground.head, ground.anchor, seen)
            if key and ground.entry is not None:
                raise KeyUsed(f"the key {key!r} is in use by another request; ask with it again")
            charge, after = add_charge(
                head,
                question,
                (units, pot_units),
                (ground.analyst_spent, ground.purpose_spent),
                now=self._clock(),
                opening=self.opening,
                readings=readings,
                key=key,
            )
            if rules:
                check_limits(rules, units, rows.read_spendings(line), charge.time)
            changes.write_charge(line, charge, head, after)
            return charge, after

        charge, head = self._change(charge_now)
        self._mark(head)
        return charge.hold(self.opening, head.digest)

    def commit(self, hold: Hold, noisy: Payload) -> Receipt:
        """Keep the answer with its charge, on disk, before it is shown."""
        written, paid = encode_payload(noisy), ChargeLink.of(hold)

        def keep_now(line: RawConnection) -> Head:
            seen, held = self._seen, changes.read_held(line, hold.entry)
            head = self._check(held.head, held.anchor, seen)
            # Privacy: an answer whose charge the ledger does not have would be free.
            if held.digest != paid.digest:
                raise LedgerDamaged(
                    f"ledger record {hold.entry} is not what was charged; {RESTORE}"
                )
            if held.is_answered:
                raise AnsweredAlready(f"ledger entry {hold.entry} has its answer already")
            record, after = add_answer(head, hold.entry, written, self._clock())
            changes.write_answer(line, record, paid.charge, head, after)
            return after

        self._mark(self._change(keep_now))
        return paid.receipt()

    def resume(self, question: QueryIdentity, key: str) -> Hold | StoredAnswer | None:
        """Return what the key stands for."""

        def find(connection: Connection) -> Hold | StoredAnswer | None:
            number = rows.find_key(connection, question.analyst, key)
            charge = None if number is None else rows.read_charge(connection, number)
            if charge is None:
                return None
            if (charge.text, charge.fingerprint) != (question.text, question.fingerprint):
                raise KeyUsed(f"the key {key!r} was used for another question; choose another key")
            return rows.read_stored(connection, charge.number) or charge.hold(self.opening)

        return self._recall(find)

    def remember(self, question: QueryIdentity, key: str, receipt: Receipt) -> None:
        """Let the key stand for an answer that was given for free."""

        def write(connection: Connection) -> None:
            head = rows.read_head(connection, lock=True)
            self._check(head, name_of(rows.read_anchor(connection)), self._seen)
            rows.write_key(connection, question.analyst, key, receipt.entry)

        self._database.change(write)

    def stored(self, question: QueryIdentity) -> StoredAnswer | None:
        """Return the newest answer to the same question."""
        found = self._find(question, newest=True)
        return found[0] if found else None

    def answer(self, entry: int) -> StoredAnswer | None:
        """Return the answer that an entry paid for."""
        return self._recall(lambda connection: rows.read_stored(connection, entry))

    def answers(self, question: QueryIdentity) -> list[StoredAnswer]:
        """Return all answers to the same question, oldest first."""
        return self._find(question, newest=False)

    def allowance(self, analyst: str = "", purpose: str = "") -> Allowance:
        """Return what an analyst may spend for a purpose."""

        def work_out(connection: Connection) -> Allowance:
            time = next_time(rows.read_head(connection), self._clock())
            spent = rows.read_spendings(connection)
            return compute_allowance(self._limits, analyst, purpose, spent, time)

        return self._database.look(work_out)

    def entries(self) -> Iterable[Entry]:
        """Return the history, oldest first."""
        return self._database.look(
            lambda connection: [
                charge.entry(self.opening, state="answered" if answered else "held")
                for charge, answered in rows.read_states(connection)
            ]
        )

    def history(
        self, limit: int, *, before: int | None = None, analyst: str | None = None
    ) -> list[Entry]:
        """Return the newest charges first."""
        return self._database.look(
            lambda connection: [
                charge.entry(self.opening, state="answered" if answered else "held")
                for charge, answered in rows.read_history(connection, limit, before, analyst)
            ]
        )

    def lost_anchors(self) -> list[LostAnchor]:
        """Return the losses of anchors that the owner accepted, oldest first."""
        found = self._database.look(rows.read_anchors)
        return [record.loss() for record in found if record.event == LOST]

    def verify(self) -> None:
        """Recompute balance and chain, and compare them with the anchor."""
        start = first_head(self._identity.name, self.opening)

        def check(connection: Connection) -> None:
            self._database.check_file(connection, whole=True)
            end = rows.read_head(connection)
            with closing(rows.read_records(connection)) as records:
                check_records(start, self.opening, records, end)

        self._database.look(check)
        self.check_anchor()

    def export(self) -> Iterator[str]:
        """Yield the history as lines of JSON, without the answers' values; see `recount`."""

        def write(connection: Connection) -> list[str]:
            head = rows.read_head(connection)
            with closing(rows.read_records(connection)) as records:
                return list(write_export(self._identity.name, self.opening, records, head))

        return iter(self._database.look(write))

    def take_anchor(self) -> None:
        """Open the ledger under its anchor; name the anchor, where the ledger has none so far.

        Claim:   once this returns, the ledger is not older than its anchor, and no process uses it
                 under another anchor, or under none; a crash on the way leaves both to be opened.
        Why:     the mark comes first, then the record that names the anchor, under a name that no
                 other anchor has. A crash in between leaves a marked anchor and a ledger that may
                 be opened with any: the next opening goes on from there. If two processes name
                 different anchors, the second writes no record and finds its own `OUTDATED`. A
                 record moves the head, so every later change sees it: see `_check`.
        Source:  docs/ledger.md.
        Checked: tests/contracts/test_lost_anchors.py, tests/crash/test_anchors.py.

        Raises:
            AnchorLost: the ledger has an anchor, which is not the one that is named.
            LedgerBehind: the ledger is older than its anchor.
            LedgerDamaged: the two disagree.
        """
        while True:
            standing = self._stand()
            standing.refuse_loss()
            if self._anchor is None or standing.name:
                break
            self._name_anchor(standing, NAMED)
        self._anchored, self._seen = standing.name, max(self._seen, standing.head.records)

    def accept_lost_anchor(self) -> LostAnchor | None:
        """Record that the anchor is lost, and mark the one named now; None if it is not lost.

        # Privacy: an anchor that has marks of another ledger stays as it is, for it still protects
        # that one; and a ledger that is behind its anchor is refused here too.
        """
        while True:
            standing = self._stand()
            if standing.loss is None:
                return None
            if standing.is_foreign:
                raise AnchorLost(FOREIGN)
            record = self._name_anchor(standing, LOST)
            if record is not None:
                return record.loss()

    def check_anchor(self) -> None:
        """Refuse a ledger that is behind its anchor, or has lost it: charges may be missing."""
        standing = self._stand()
        standing.refuse_loss()
        self._check(standing.head, standing.name, self._seen)
        self._seen = max(self._seen, standing.head.records)

    def _stand(self) -> Standing:
        """Return how the ledger stands to its anchor; refuse one that is behind it."""
        name = self._identity.name
        return compare(self._database, self._anchor, name, first_head(name, self.opening))

    def _name_anchor(self, standing: Standing, event: str) -> AnchorRecord | None:
        """Mark the anchor and record its name; None where the ledger has to be looked at again."""
        name, head = "", standing.head
        if self._anchor is not None:
            if standing.mark is None:
                name = secrets.token_hex(16)
                self._anchor.start(Mark(self._identity.name, head.records, head.digest, name))
                return None  # another process may have been first, under another name
            name = standing.mark.anchor
            self._anchor.keep(Mark(self._identity.name, head.records, head.digest, name))

        def write(line: RawConnection) -> tuple[AnchorRecord, Head] | None:
            seen, found = self._seen, changes.read_anchored(line)
            before = _check_seen(found.head, seen)
            if found.newest != (None if standing.record is None else standing.record.number):
                return None
            record, after = add_anchor(before, event, name, self._clock())
            changes.write_anchor(line, record, before, after)
            return record, after

        written = self._database.write(write, locked=True)
        if written is None:
            return None
        record, after = written
        self._anchored = name
        self._mark(after)
        return record

    def close(self) -> None:
        """Give the database's connections back."""
        self._database.close()

    def _find(self, question: QueryIdentity, *, newest: bool) -> list[StoredAnswer]:
        shared = self._limits.is_shared

        def find(connection: Connection) -> list[StoredAnswer]:
            numbers = rows.find_answers(connection, question, shared=shared, newest=newest)
            found = (rows.read_stored(connection, number) for number in numbers)
            return [stored for stored in found if stored is not None]

        return self._recall(find)

    def _recall(self, body: Callable[[Connection], T]) -> T:
        """Return what is found, once the anchor has seen all that it can come from.

        # Privacy: the mark of an answer may have failed, or another process is about to make it.
        # Shown before, the answer could be forgotten by a back-up that the anchor lets pass; its
        # charge would be found without an answer there, and pay for a second one.
        """

        def look(connection: Connection) -> tuple[T, Head, str]:
            head, newest = rows.read_head(connection), rows.read_anchor(connection)
            return body(connection), head, name_of(newest)

        found, head, name = self._database.look(look)
        self._check(head, name, 0)
        if head.records > self._marked:
            self._mark(head)
        return found

    def _check(self, head: Head, anchor: str, seen: int) -> Head:
        """Return the head, unless the ledger is older, or has another anchor, than this process.

        # Privacy: under another anchor, or under none, what this process does would not be marked
        # where the next opening looks, so an old backup without it would open.
        """
        if anchor != self._anchored:
            raise LedgerUnavailable(
                "the ledger was given another anchor while it was in use; nothing was answered: "
                "start this program again with the anchor that is named now, and ask with the same "
                "key"
            )
        return _check_seen(head, seen)

    def _change(self, body: Callable[[RawConnection], T]) -> T:
        """Make a change without a lock while no one else is about, else with one.

        Where two meet, the one that came second has written nothing and goes again.
        """
        if self._cautious > 0:
            self._cautious -= 1
            return self._database.write(body, locked=True)
        try:
            return self._database.write(body, locked=self._database.is_sqlite)
        except Conflict:
            self._cautious = CAUTIOUS
            return self._database.write(body, locked=True)

    def _mark(self, head: Head) -> None:
        """Keep the head outside the ledger too.

        # Privacy: after the change is on disk and before anything that depends on it is shown, so
        # that the anchor never runs ahead, and no answer leaves that a back-up could forget.
        """
        self._seen = max(self._seen, head.records)
        if self._anchor is None:
            return
        newest = self._anchor.keep(
            Mark(self._identity.name, head.records, head.digest, self._anchored)
        )
        if newest.records > head.records:  # by another process; or the ledger is an old backup
            self._stand()
        self._marked = max(self._marked, head.records)


def _check_seen(head: Head, seen: int) -> Head:
    """Return the head, unless it is behind what this process had seen before it looked.

    # Privacy: a database that was replaced by an older copy, or a replica that lags, has
    # forgotten charges.
    """
    if head.records < seen:
        raise LedgerBehind(
            f"the ledger has {head.records:,} records, but had {seen:,} before: it was replaced by "
            "an older copy while it was in use; bring the newer one back"
        )
    return head
