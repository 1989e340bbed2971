"""Ledger in SQLite, for one machine, or PostgreSQL, for many servers.

Every change adds its record and moves the one row of the head under a guard that holds only if
nothing else moved it and the sum still fits. So changes follow one another, on any number of
servers, and what is spent is decided where it is written.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeVar

from sqlalchemy import Connection

from confide.declare import Limits
from confide.ledger import changes, rows
from confide.ledger.anchors import Anchor, Mark
from confide.ledger.chain import (
    Charge,
    ChargeLink,
    Head,
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
    AnsweredAlready,
    Entry,
    Hold,
    KeyUsed,
    LedgerBehind,
    LedgerDamaged,
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
            head = _check_seen(ground.head, seen)
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
            head = _check_seen(held.head, seen)
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
            _check_seen(rows.read_head(connection, lock=True), self._seen)
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

    def check_anchor(self) -> None:
        """Refuse a ledger that is behind its anchor: some of its charges are missing.

        How long the chain is now is remembered, whether there is an anchor or not.
        """
        mark = None if self._anchor is None else self._anchor.newest()
        head = self._database.look(rows.read_head)
        if mark is None:
            self._mark(head)
            return
        self._seen = max(self._seen, head.records)
        start = first_head(self._identity.name, self.opening)
        place = mark.records - 1
        found = self._database.look(
            lambda connection: rows.read_digest(connection, place) if place >= 0 else start.digest
        )
        mark.check(self._identity.name, head.records, found)

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
        if self._anchor is None:
            return self._database.look(body)
        found, head = self._database.look(lambda line: (body(line), rows.read_head(line)))
        if head.records > self._marked:
            self._mark(head)
        return found

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
        if self._anchor is not None:
            self._anchor.keep(Mark(self._identity.name, head.records, head.digest))
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
