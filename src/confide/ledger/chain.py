"""Hash chain of ledger records: hashes, times, and running totals.

This module only computes. `MemoryLedger` and `SqlLedger` store the records. A released layout of
records never changes; a different one gets a new name (`LAYOUT`).
"""

import hashlib
import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import date
from fractions import Fraction
from functools import lru_cache
from json.encoder import encode_basestring_ascii as quote
from operator import attrgetter
from typing import Any, Final, NamedTuple

from confide.errors import BadDeclaration, BudgetExceeded, Fault
from confide.ledger.protocol import (
    RESTORE,
    Entry,
    Hold,
    LedgerDamaged,
    LostAnchor,
    Payload,
    QueryIdentity,
    Receipt,
)
from confide.loss import UNITS, Filter, Share, auto_filter

__all__ = [
    "ACCOUNTINGS",
    "LAYOUT",
    "LOST",
    "NAMED",
    "AnchorRecord",
    "AnswerRecord",
    "Charge",
    "ChargeLink",
    "Head",
    "Record",
    "ShownAnswer",
    "add_anchor",
    "add_answer",
    "add_charge",
    "decode_payload",
    "delta_units",
    "describe_filter",
    "encode_payload",
    "first_head",
    "grant_head",
    "hash_parts",
    "next_time",
    "now",
    "query_digest",
    "read_filter",
    "write_parts",
]


def hash_parts(parts: Iterable[object]) -> str:
    """Return the hash of a sequence of strings, integers, and None."""
    return hashlib.sha256(write_parts(parts).encode()).hexdigest()


def write_parts(parts: Iterable[object]) -> str:
    r"""Return the parts as a JSON list: the result of json.dumps in half the time.

    >>> write_parts(["head", 3, None, 'a "b"'])
    '["head", 3, null, "a \\"b\\""]'
    """
    words = [
        quote(part) if type(part) is str else str(part) if type(part) is int else json.dumps(part)
        for part in parts
    ]
    return f"[{', '.join(words)}]"


LAYOUT: Final = "confide-1"
ACCOUNTINGS: Final = {"PureFilter": "pure", "GaussianFilter": "gaussian", "RenyiFilter": "renyi"}
NO_DELTA: Final = Fraction(0)
NAMED: Final = "named"
LOST: Final = "lost"
CACHED_LOSSES: "Final[dict[int, tuple[Filter, str]]]" = {}
MAX_CACHED_LOSSES: Final = 1_000
MAX_CLOCK_SKEW: Final = 60 * 10**6
"""The allowed difference between the clocks of several servers, in microseconds."""


@dataclass(frozen=True, slots=True)
class Charge:
    """A charge as stored, with all fields that its hash covers.

    ``units`` is the charged number of units, of which the budget has `UNITS`. ``delta_units`` is
    the same for the pot, the part of delta that pays for failures. ``name`` is the idempotency key,
    and ``before`` the hash of the previous record. ``readings`` is as in `Hold`, and ``loss`` as in
    `Entry`. The last four fields are running totals including this charge: of the budget, the pot,
    the analyst (0 without an analyst), and the purpose (0 without a purpose).
    """

    number: int
    before: str
    time: int
    text: str
    fingerprint: str
    analyst: str
    purpose: str
    name: str
    units: int
    delta_units: int
    readings: int | None
    loss: str
    spent: int
    delta_spent: int
    analyst_spent: int
    purpose_spent: int

    @property
    def digest(self) -> str:
        """The hash that links this charge to the next record."""
        return _digest("charge", self)

    @property
    def share(self) -> Share:
        """The charged share."""
        return Share(self.units)

    def receipt(self) -> Receipt:
        """Return the receipt of this charge."""
        return Receipt(self.number, self.share, self.digest)

    def hold(self, opening: Filter, digest: str = "") -> Hold:
        """Return the hold that this charge paid for; ``digest`` saves computing its hash."""
        delta, paid = _delta(opening, self.delta_units), ChargeLink(self, digest or self.digest)
        return Hold(self.number, self.share, readings=self.readings, delta=delta, record=paid)

    def entry(self, opening: Filter, *, state: str) -> Entry:
        """Return the charge as shown to the owner."""
        return Entry(
            number=self.number,
            question=QueryIdentity(self.text, self.fingerprint, self.analyst, self.purpose),
            share=self.share,
            delta=_delta(opening, self.delta_units),
            state=state,
            digest=self.digest,
            loss=self.loss,
            key=self.name,
            spent=Share(self.spent),
            time=self.time,
            before=self.before,
        )


class ChargeLink(NamedTuple):
    """A charge and its hash, which a ledger stores in the hold that the charge paid for."""

    charge: Charge
    digest: str

    @classmethod
    def of(cls, hold: Hold) -> "ChargeLink":
        """Return the link that a ledger stored in a hold; raise Fault if there is none."""
        if isinstance(hold.record, ChargeLink):
            return hold.record
        raise Fault(
            "This hold was not created by a ledger, so no charge paid for it. Reserve a hold."
        )

    def receipt(self) -> Receipt:
        """Return the receipt of the charge."""
        return Receipt(self.charge.number, self.charge.share, self.digest)


@dataclass(frozen=True, slots=True)
class AnswerRecord:
    """An answer as stored; ``entry`` is the number of the charge that paid for it.

    ``noisy`` is the answer as JSON.
    """

    number: int
    before: str
    time: int
    entry: int
    noisy: str

    @property
    def digest(self) -> str:
        """The hash that links this answer to the next record."""
        return self.shown.digest

    @property
    def shown(self) -> "ShownAnswer":
        """The record without the answer's values, which has the same hash."""
        seal = hashlib.sha256(self.noisy.encode()).hexdigest()
        return ShownAnswer(self.number, self.before, self.time, self.entry, seal)


@dataclass(frozen=True, slots=True)
class ShownAnswer:
    """An answer as exported; ``seal`` is a hash that replaces the values."""

    number: int
    before: str
    time: int
    entry: int
    seal: str

    @property
    def digest(self) -> str:
        """The hash that links this answer to the next record."""
        return _digest("answer", self)


@dataclass(frozen=True, slots=True)
class AnchorRecord:
    """A change of the ledger's anchor.

    ``anchor`` is the name of the anchor from this record on, or empty for none. ``event`` is
    `NAMED` if the ledger had no anchor before, and `LOST` if the owner accepted that the previous
    anchor is lost.
    """

    number: int
    before: str
    time: int
    event: str
    anchor: str

    @property
    def digest(self) -> str:
        """The hash of this record."""
        return _digest("anchor", self)

    def loss(self) -> LostAnchor:
        """Return this record, whose event is `LOST`, as shown to the owner."""
        return LostAnchor(self.number, self.time, bool(self.anchor), self.digest)


HASHED_FIELDS: Final = {
    "charge": attrgetter(*Charge.__slots__),
    "answer": attrgetter(*ShownAnswer.__slots__),
    "anchor": attrgetter(*AnchorRecord.__slots__),
}
Record = Charge | AnswerRecord | ShownAnswer | AnchorRecord
"""One record of the chain."""


@dataclass(frozen=True, slots=True)
class Head:
    """The end of the chain: the number of records, the newest hash and time, and the totals.

    ``spent`` and ``delta_spent`` are in the units of `Charge`.
    """

    records: int
    digest: str
    time: int
    spent: int
    delta_spent: int

    @property
    def seal(self) -> str:
        """A hash of the head itself, which shows whether a stored head is damaged."""
        return _seal(self.records, self.digest, self.time, self.spent, self.delta_spent)


def first_head(identity: str, opening: Filter) -> Head:
    """Return the head of an empty ledger; its hash covers the ledger's identity and terms."""
    return Head(0, hash_parts([LAYOUT, identity, describe_filter(opening)]), 0, 0, 0)


def add_charge(
    head: Head,
    question: QueryIdentity,
    amounts: tuple[int, int],
    totals: tuple[int, int],
    *,
    now: int,
    opening: Filter,
    readings: int | None = 1,
    key: str = "",
) -> tuple[Charge, Head]:
    """Return the next charge and the head after it; refuse a charge that exceeds the budget.

    ``amounts`` are the units to charge to the budget and to the pot. ``totals`` are the units spent
    so far by the analyst and for the purpose.

    Claim:   the charges of a ledger add up to at most the total budget, and their deltas to at most
             the pot, exactly.
    Why:     all amounts are integer numbers of units, added without rounding. A charge is created
             only after the filter has compared the sums including it with the budget and the pot.
    Source:  docs/proofs/loss-filters.md.
    Checked: tests/contracts/test_ledgers.py, tests/crash/test_races.py.
    """
    units, delta = amounts
    _grant(opening, head, units, delta)
    charge = Charge(
        number=head.records,
        before=head.digest,
        time=next_time(head, now),
        text=question.text,
        fingerprint=question.fingerprint,
        analyst=question.analyst,
        purpose=question.purpose,
        name=key,
        units=units,
        delta_units=delta,
        readings=readings,
        loss=_describe_loss(opening, units),
        spent=head.spent + units,
        delta_spent=head.delta_spent + delta,
        analyst_spent=totals[0] + units if question.analyst else 0,
        purpose_spent=totals[1] + units if question.purpose else 0,
    )
    return charge, Head(
        head.records + 1, charge.digest, charge.time, charge.spent, charge.delta_spent
    )


def _grant(opening: Filter, head: Head, units: int, delta: int) -> None:
    """Raise BudgetExceeded if the budget does not cover the amounts.

    # Privacy: the filter itself decides, from the exact integer totals including this charge.
    """
    try:
        opening.grant(Share(head.spent + units), _delta(opening, head.delta_spent + delta))
    except (BudgetExceeded, BadDeclaration):
        # This call raises an error that reports the remaining budget.
        grant_head(opening, head).grant(Share(units), _delta(opening, delta))
        raise


def add_answer(head: Head, entry: int, noisy: str, now: int) -> tuple[AnswerRecord, Head]:
    """Return the record of an answer and the head after it, whose totals are unchanged."""
    record = AnswerRecord(head.records, head.digest, next_time(head, now), entry, noisy)
    state = (head.records + 1, record.digest, record.time, head.spent, head.delta_spent)
    return record, Head(*state)


def add_anchor(head: Head, event: str, anchor: str, now: int) -> tuple[AnchorRecord, Head]:
    """Return an anchor record and the head after it, whose totals are unchanged."""
    record = AnchorRecord(head.records, head.digest, next_time(head, now), event, anchor)
    state = (head.records + 1, record.digest, record.time, head.spent, head.delta_spent)
    return record, Head(*state)


def next_time(head: Head, now: int) -> int:
    """Return the time of the next record, which is never before the newest record's time.

    Raises:
        Fault: the clock is far behind the newest record, so it cannot be trusted.
    """
    if now < head.time - MAX_CLOCK_SKEW:
        raise Fault(
            "The clock is behind the newest record of the ledger, so queries are neither charged "
            "nor answered. Correct the clock."
        )
    return max(now, head.time)


def delta_units(delta: Fraction, opening: Filter) -> int:
    """Return a delta in units of the pot, rounded up so that the charge covers the request.

    Raises:
        BudgetExceeded: the delta is greater than the pot.
    """
    if not delta:
        return 0
    if delta > opening.delta_pot:
        opening.grant(Share(0), delta)
        raise BudgetExceeded(
            "This query needs delta, but the budget sets none aside. Group by declared keys.",
            cost=delta,
            left=Fraction(0),
        )
    part = delta / opening.delta_pot * UNITS
    return -(-part.numerator // part.denominator)


def _delta(opening: Filter, units: int) -> Fraction:
    """Return the delta of a number of units of the pot."""
    return opening.delta_pot * Fraction(units, UNITS) if units else NO_DELTA


def grant_head(opening: Filter, head: Head) -> Filter:
    """Return the filter after everything that a head counts as spent."""
    return opening.grant(Share(head.spent), _delta(opening, head.delta_spent))


def describe_filter(opening: Filter) -> str:
    """Return the exact terms of a budget as a string; equal terms give equal strings."""
    named = {name: str(getattr(opening, name)) for name in opening.TERMS}
    return json.dumps({"filter": type(opening).__name__, "units": UNITS, **named}, sort_keys=True)


def read_filter(written: str) -> Filter:
    """Return the filter that `describe_filter` wrote.

    Raises:
        LedgerDamaged: the string does not describe a filter, or its filter now has other terms.
    """
    try:
        terms = json.loads(written)
        aside = terms.get("delta_aside", 0)
        kind = ACCOUNTINGS[terms["filter"]]
        opening = auto_filter(terms["epsilon"], terms["delta"], kind, delta_aside=aside)
    except (ValueError, KeyError, TypeError, BadDeclaration):
        raise LedgerDamaged(f"The ledger does not record its budget. {RESTORE}") from None
    if describe_filter(opening) != written:
        raise LedgerDamaged(
            f"The recorded terms of the ledger's budget contradict each other. {RESTORE}"
        )
    return opening


def _describe_loss(opening: Filter, units: int) -> str:
    """Return the loss that a share allows, as JSON; cached, because few distinct shares occur."""
    known = CACHED_LOSSES.get(units)
    if known is None or known[0] is not opening:
        if len(CACHED_LOSSES) >= MAX_CACHED_LOSSES:
            CACHED_LOSSES.clear()
        known = CACHED_LOSSES[units] = (opening, _write_loss(opening, units))
    return known[1]


def _write_loss(opening: Filter, units: int) -> str:
    loss = opening.loss_of(Share(units))
    named = {
        field.name: str(getattr(loss, field.name))
        for field in fields(loss)  # type: ignore[arg-type]
    }
    return json.dumps({"loss": type(loss).__name__, **named})


def query_digest(question: QueryIdentity) -> str:
    """Return the hash of a query's text and fingerprint, which is the same for all analysts."""
    return hash_parts(["question", question.text, question.fingerprint])


def encode_payload(noisy: Payload) -> str:
    """Return a released answer as JSON text; equal answers give equal strings."""
    return ENCODER.encode(noisy)


def decode_payload(text: str) -> Payload:
    """Return the answer that `encode_payload` wrote; tuples become lists."""
    noisy: Payload = json.loads(text, object_hook=_read_date)
    return noisy


def now() -> int:
    """Return the time in microseconds since 1970, in UTC."""
    return time.time_ns() // 1_000


def _write_date(value: object) -> dict[str, str]:
    if isinstance(value, date):
        return {"$date": value.isoformat()}
    raise TypeError(
        f"An answer can contain numbers, strings, dates, and lists; got {type(value).__name__}."
    )


ENCODER: Final = json.JSONEncoder(default=_write_date, allow_nan=False, sort_keys=True)


def _read_date(value: dict[str, Any]) -> Any:
    return date.fromisoformat(value["$date"]) if value.keys() == {"$date"} else value


@lru_cache(maxsize=64)  # a head is usually read by the process that wrote it
def _seal(*state: object) -> str:
    return hash_parts(["head", *state])


def _digest(kind: str, record: "Charge | ShownAnswer | AnchorRecord") -> str:
    """Return the hash of all fields of a record, in order."""
    return hash_parts((kind, *HASHED_FIELDS[kind](record)))
