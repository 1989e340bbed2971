"""Ledger in memory, with the rules of a stored ledger; it is lost when the process ends."""

import os
import secrets
import threading
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from itertools import islice

from confide.declare import Limits
from confide.errors import Fault
from confide.ledger.chain import (
    AnswerRecord,
    Charge,
    ChargeLink,
    Record,
    add_answer,
    add_charge,
    decode_payload,
    delta_units,
    encode_payload,
    first_head,
    grant_head,
    next_time,
    now,
    query_digest,
)
from confide.ledger.limits import check_limits, compute_allowance
from confide.ledger.protocol import (
    Allowance,
    AnsweredAlready,
    Entry,
    Hold,
    LostAnchor,
    Payload,
    QueryIdentity,
    Receipt,
    StoredAnswer,
    key_in_use,
    key_of_other_query,
    refuse_relation,
)
from confide.ledger.verify import check_records, write_export
from confide.loss import Filter, Share

__all__ = ["MemoryLedger"]


class MemoryLedger:
    """A ledger of one process, with charges and answers in a hash chain."""

    def __init__(
        self,
        filter: Filter,  # noqa: A002  # the field's term
        limits: Limits | None = None,
        *,
        clock: Callable[[], int] = now,
    ) -> None:
        self._opening, self._limits, self._clock = filter, limits or Limits(), clock
        self._identity, self._salt = secrets.token_hex(16), secrets.token_hex(16)
        self._head = first_head(self._identity, filter)
        self._charges: dict[int, Charge] = {}
        self._answers: dict[int, AnswerRecord] = {}
        self._entries_by_query: defaultdict[str, list[int]] = defaultdict(list)
        self._keys: dict[tuple[str, str], int] = {}
        # For each scope and name: the times of its charges, each with the total up to that charge.
        self._running_totals: defaultdict[tuple[str, str], list[tuple[int, int]]] = defaultdict(
            list
        )
        self._lock, self._process, self._neighbours = threading.Lock(), os.getpid(), ""

    @property
    def filter(self) -> Filter:
        """The filter in its current state."""
        return grant_head(self._opening, self._head)

    @property
    def opening(self) -> Filter:
        """The filter before any charge."""
        return self._opening

    @property
    def limits(self) -> Limits:
        """The limits on parts of the budget, such as each analyst's."""
        return self._limits

    @property
    def salt(self) -> str:
        """The secret salt of the engine's row hash."""
        return self._salt

    def keep_relation(self, neighbours: str) -> None:
        """Record which neighboring relation the privacy losses assume; refuse a different one."""
        with self._exclusive():
            self._neighbours = self._neighbours or neighbours
            refuse_relation(self._neighbours, neighbours)

    def reserve(
        self,
        question: QueryIdentity,
        share: Share,
        delta: Fraction = Fraction(0),
        *,
        readings: int | None = 1,
        key: str = "",
    ) -> Hold:
        """Charge ``share`` and ``delta``, and return the hold that permits reading."""
        with self._exclusive():
            if key and (question.analyst, key) in self._keys:
                raise key_in_use(key)
            head, clock = self._head, self._clock()
            charge, after = add_charge(
                head,
                question,
                (share.units, delta_units(delta, self._opening)),
                (
                    self._spent("analyst", question.analyst),
                    self._spent("purpose", question.purpose),
                ),
                now=clock,
                opening=self._opening,
                readings=readings,
                key=key,
            )
            rules = self._limits.rules(question.analyst, question.purpose)
            check_limits(rules, share.units, self._spent, charge.time)
            self._charges[charge.number], self._head = charge, after
            self._index(charge)
            return charge.hold(self._opening, after.digest)

    def commit(self, hold: Hold, noisy: Payload) -> Receipt:
        """Store an answer next to the charge that paid for it, and return the receipt."""
        written = encode_payload(noisy)
        with self._exclusive():
            # Privacy: an answer without a charge in this ledger would be free.
            if ChargeLink.of(hold).charge is not self._charges.get(hold.entry):
                raise Fault("This hold belongs to another ledger. Reserve one from this ledger.")
            if hold.entry in self._answers:
                raise AnsweredAlready(f"Ledger entry {hold.entry} already has an answer.")
            charge = self._charges[hold.entry]
            record, self._head = add_answer(self._head, hold.entry, written, self._clock())
            self._answers[hold.entry] = record
            question = QueryIdentity(charge.text, charge.fingerprint, charge.analyst)
            insort(self._entries_by_query[query_digest(question)], hold.entry)  # ordered by charge
            return charge.receipt()

    def resume(self, question: QueryIdentity, key: str) -> Hold | StoredAnswer | None:
        """Return the answer or the hold of an earlier request with this key, or None."""
        number = self._keys.get((question.analyst, key))
        if number is None:
            return None
        charge = self._charges[number]
        if (charge.text, charge.fingerprint) != (question.text, question.fingerprint):
            raise key_of_other_query(key)
        return self.answer(number) or charge.hold(self._opening)

    def remember(self, question: QueryIdentity, key: str, receipt: Receipt) -> None:
        """Assign the key to the earlier answer with this receipt, which was returned again."""
        with self._exclusive():
            if self._keys.setdefault((question.analyst, key), receipt.entry) != receipt.entry:
                raise key_in_use(key)

    def stored(self, question: QueryIdentity) -> StoredAnswer | None:
        """Return the newest answer to this query that is free for its analyst, or None."""
        entries = self._find_entries(question)
        return self.answer(entries[-1]) if entries else None

    def answer(self, entry: int) -> StoredAnswer | None:
        """Return the answer of an entry, or None if it has no answer."""
        record = self._answers.get(entry)
        if record is None:
            return None
        return StoredAnswer(self._charges[entry].receipt(), decode_payload(record.noisy))

    def answers(self, question: QueryIdentity) -> list[StoredAnswer]:
        """Return all answers to this query that are free for its analyst, oldest first."""
        found = (self.answer(number) for number in self._find_entries(question))
        return [stored for stored in found if stored is not None]

    def allowance(self, analyst: str = "", purpose: str = "") -> Allowance:
        """Return the allowance of an analyst for a purpose."""
        time = next_time(self._head, self._clock())
        return compute_allowance(self._limits, analyst, purpose, self._spent, time)

    def entries(self) -> Iterable[Entry]:
        """Return all charges, oldest first."""
        with self._lock:
            return tuple(
                charge.entry(self._opening, state="answered" if number in self._answers else "held")
                for number, charge in self._charges.items()
            )

    def history(
        self, limit: int, *, before: int | None = None, analyst: str | None = None
    ) -> list[Entry]:
        """Return at most ``limit`` charges, newest first; see `Ledger.history`."""
        matching = (
            entry
            for entry in reversed(tuple(self.entries()))
            if (before is None or entry.number < before)
            and (analyst is None or entry.question.analyst == analyst)
        )
        return list(islice(matching, limit))

    def lost_anchors(self) -> list[LostAnchor]:
        """Return an empty list: a ledger in memory has no anchor."""
        return []

    def verify(self) -> None:
        """Recompute the balance and the chain; raise LedgerDamaged if they do not match."""
        start = first_head(self._identity, self._opening)
        with self._lock:
            check_records(start, self._opening, self._records(), self._head)

    def export(self) -> Iterator[str]:
        """Yield the history as JSON lines, without the values of answers; see `recount`."""
        with self._lock:
            return iter(
                list(write_export(self._identity, self._opening, self._records(), self._head))
            )

    def _records(self) -> list[Record]:
        kept: list[Record] = [*self._charges.values(), *self._answers.values()]
        return sorted(kept, key=lambda record: record.number)

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Hold the lock for one change; refuse changes in a forked process.

        # Privacy: a fork has a copy of the balance, so both processes could spend the same budget.
        """
        if os.getpid() != self._process:
            raise Fault(
                "This ledger is in the memory of another process. Give forked workers a ledger on "
                "disk, such as `ledger='ledger.db'`."
            )
        with self._lock:
            yield

    def _spent(self, scope: str, name: str, before: int | None = None) -> int:
        """Return the units spent in a scope, so far or before a time; see `limits.Spendings`."""
        running = self._running_totals[scope, name]
        count = len(running) if before is None else bisect_left(running, (before, -1))
        return running[count - 1][1] if count else 0

    def _index(self, charge: Charge) -> None:
        """Add a charge to the lookup tables of running totals and keys."""
        self._running_totals["budget", ""].append((charge.time, charge.spent))
        for scope, name, total in (
            ("analyst", charge.analyst, charge.analyst_spent),
            ("purpose", charge.purpose, charge.purpose_spent),
        ):
            self._running_totals[scope, name].append((charge.time, total))
        if charge.name:
            self._keys[charge.analyst, charge.name] = charge.number

    def _find_entries(self, question: QueryIdentity) -> list[int]:
        """Return the entries with an answer to this query that is free for its analyst."""
        numbers = list(self._entries_by_query.get(query_digest(question), []))
        if self._limits.is_shared:
            return numbers
        return [n for n in numbers if self._charges[n].analyst == question.analyst]
