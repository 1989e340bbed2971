"""A ledger in a database: one file of SQLite for one machine, PostgreSQL for many servers.

Every change locks the one row of the head, adds its record, and moves the head under a guard that
holds only if nothing else moved it and the sum still fits. So changes follow one another, on any
number of servers, and what is spent is decided where it is written.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction

from sqlalchemy import Connection

from confide.declare import Limits
from confide.errors import Fault
from confide.ledger import rows
from confide.ledger.anchors import Anchor, Mark
from confide.ledger.bounds import check_limits, work_out_allowance
from confide.ledger.chain import (
    Charge,
    Head,
    add_answer,
    add_charge,
    delta_units,
    first_head,
    grant_head,
    next_time,
    now,
    write_noisy,
)
from confide.ledger.checks import check_records
from confide.ledger.database import Database
from confide.ledger.exports import write_export
from confide.ledger.protocol import Allowance, Entry, Hold, Noisy, Question, Receipt, Stored
from confide.ledger.refusals import AnsweredAlready, KeyUsed, LedgerBehind
from confide.loss import Filter, Share

__all__ = ["Identity", "SqlLedger"]


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
        self._anchor, self._clock, self._seen = anchor, clock, 0

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

    def reserve(
        self,
        question: Question,
        share: Share,
        delta: Fraction = Fraction(0),
        *,
        readings: int | None = 1,
        key: str = "",
    ) -> Hold:
        """Charge, on disk, before anything is read."""
        units, pot_units = share.units, delta_units(delta, self.opening)
        rules = self._limits.rules(question.analyst, question.purpose)

        def charge_now(connection: Connection) -> tuple[Charge, Head]:
            head = self._lock_head(connection)
            standing = rows.read_standing(connection, question, key)
            if key and standing.entry is not None:
                raise KeyUsed(f"the key {key!r} is in use by another request; ask with it again")
            charge, after = add_charge(
                head,
                question,
                (units, pot_units),
                (standing.analyst_spent, standing.purpose_spent),
                now=self._clock(),
                opening=self.opening,
                readings=readings,
                key=key,
            )
            if rules:
                check_limits(rules, units, rows.read_spendings(connection), charge.time)
            rows.write_charge(connection, charge, head, after)
            return charge, after

        charge, head = self._database.change(charge_now)
        self._mark(head)
        return charge.hold(self.opening)

    def commit(self, hold: Hold, noisy: Noisy) -> Receipt:
        """Keep the answer with its charge, on disk, before it is shown."""
        written = write_noisy(noisy)

        def keep_now(connection: Connection) -> tuple[Charge, Head]:
            head = self._lock_head(connection)
            found = rows.read_state(connection, hold.entry)
            if found is None:
                raise Fault(f"there is no ledger entry {hold.entry}")
            charge, is_answered = found
            if is_answered:
                raise AnsweredAlready(f"ledger entry {hold.entry} has its answer already")
            record, after = add_answer(head, hold.entry, written, self._clock())
            rows.write_answer(connection, record, charge, head, after)
            return charge, after

        charge, head = self._database.change(keep_now)
        self._mark(head)
        return charge.receipt()

    def resume(self, question: Question, key: str) -> Hold | Stored | None:
        """Return what the key stands for."""

        def find(connection: Connection) -> Hold | Stored | None:
            number = rows.find_key(connection, question.analyst, key)
            charge = None if number is None else rows.read_charge(connection, number)
            if charge is None:
                return None
            if (charge.text, charge.fingerprint) != (question.text, question.fingerprint):
                raise KeyUsed(f"the key {key!r} was used for another question; choose another key")
            return rows.read_stored(connection, charge.number) or charge.hold(self.opening)

        return self._database.look(find)

    def remember(self, question: Question, key: str, receipt: Receipt) -> None:
        """Let the key stand for an answer that was given for free."""

        def write(connection: Connection) -> None:
            self._lock_head(connection)
            rows.write_key(connection, question.analyst, key, receipt.entry)

        self._database.change(write)

    def stored(self, question: Question) -> Stored | None:
        """Return the newest answer to the same question."""
        found = self._find(question, newest=True)
        return found[0] if found else None

    def answer(self, entry: int) -> Stored | None:
        """Return the answer that an entry paid for."""
        return self._database.look(lambda connection: rows.read_stored(connection, entry))

    def answers(self, question: Question) -> list[Stored]:
        """Return all answers to the same question, oldest first."""
        return self._find(question, newest=False)

    def allowance(self, analyst: str = "", purpose: str = "") -> Allowance:
        """Return what an analyst may spend for a purpose."""

        def work_out(connection: Connection) -> Allowance:
            time = next_time(rows.read_head(connection), self._clock())
            spent = rows.read_spendings(connection)
            return work_out_allowance(self._limits, analyst, purpose, spent, time)

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
        """Refuse a ledger that is behind its anchor: some of its charges are missing."""
        if self._anchor is None:
            return
        mark = self._anchor.newest()
        head = self._database.look(rows.read_head)
        if mark is None:
            self._mark(head)
            return
        start = first_head(self._identity.name, self.opening)
        place = mark.records - 1
        found = self._database.look(
            lambda connection: rows.read_digest(connection, place) if place >= 0 else start.digest
        )
        mark.check(self._identity.name, head.records, found)

    def close(self) -> None:
        """Give the database's connections back."""
        self._database.close()

    def _find(self, question: Question, *, newest: bool) -> list[Stored]:
        shared = self._limits.is_shared

        def find(connection: Connection) -> list[Stored]:
            numbers = rows.find_answers(connection, question, shared=shared, newest=newest)
            found = (rows.read_stored(connection, number) for number in numbers)
            return [stored for stored in found if stored is not None]

        return self._database.look(find)

    def _lock_head(self, connection: Connection) -> Head:
        """Return the head, locked, unless it is behind what this process has seen.

        # Privacy: a database that was replaced by an older copy, or a replica that lags, has
        # forgotten charges.
        """
        head = rows.read_head(connection, lock=True)
        if head.records < self._seen:
            raise LedgerBehind(
                f"the ledger has {head.records:,} records, but had {self._seen:,} before: it was "
                "replaced by an older copy while it was in use"
            )
        return head

    def _mark(self, head: Head) -> None:
        """Keep the head outside the ledger too.

        # Privacy: after the change is on disk and before anything that depends on it is shown, so
        # that the anchor never runs ahead, and no answer leaves that a back-up could forget.
        """
        self._seen = max(self._seen, head.records)
        if self._anchor is not None:
            self._anchor.keep(Mark(self._identity.name, head.records, head.digest))
