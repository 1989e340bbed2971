"""Hash chain of records: digests and running totals.

All of this is arithmetic on whole numbers and text; where records are kept is for the ledgers to
say. The layout of a record never changes its meaning; another layout gets another name.
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
    Payload,
    QueryIdentity,
    Receipt,
)
from confide.loss import UNITS, Filter, Share, auto_filter

__all__ = [
    "ACCOUNTINGS",
    "LAYOUT",
    "AnswerRecord",
    "Charge",
    "ChargeLink",
    "Head",
    "Record",
    "ShownAnswer",
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
    """Return the digest of texts, whole numbers and None, in their order."""
    return hashlib.sha256(write_parts(parts).encode()).hexdigest()


def write_parts(parts: Iterable[object]) -> str:
    r"""Return what json.dumps writes for a list of the parts, in half its time.

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
NOTHING: Final = Fraction(0)
LOSSES: "Final[dict[int, tuple[Filter, str]]]" = {}
MOST_LOSSES: Final = 1_000
PATIENCE: Final = 60 * 10**6
"""Microseconds by which the clocks of several servers may differ."""


@dataclass(frozen=True, slots=True)
class Charge:
    """An entry as it is written: everything that its digest covers.

    Amounts are whole units: of the budget, and of the pot of delta. The last four are running
    totals with this charge: of the ledger, of the pot, of its analyst and of its purpose, if any.
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
        """The link of this charge."""
        return _digest("charge", self)

    @property
    def share(self) -> Share:
        """What was charged."""
        return Share(self.units)

    def receipt(self) -> Receipt:
        """Return the proof of this charge."""
        return Receipt(self.number, self.share, self.digest)

    def hold(self, opening: Filter, digest: str = "") -> Hold:
        """Return the right to read that this charge bought."""
        delta, paid = _delta(opening, self.delta_units), ChargeLink(self, digest or self.digest)
        return Hold(self.number, self.share, readings=self.readings, delta=delta, record=paid)

    def entry(self, opening: Filter, *, state: str) -> Entry:
        """Return the charge as it is shown to the owner."""
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
    """A charge and its link, as a hold carries them from the charge to its answer."""

    charge: Charge
    digest: str

    @classmethod
    def of(cls, hold: Hold) -> "ChargeLink":
        """Return what paid for a hold, which a ledger put into it."""
        if isinstance(hold.record, ChargeLink):
            return hold.record
        raise Fault(
            "this hold was made by no ledger, so that no charge stands behind it; reserve one"
        )

    def receipt(self) -> Receipt:
        """Return the proof of the charge."""
        return Receipt(self.charge.number, self.charge.share, self.digest)


@dataclass(frozen=True, slots=True)
class AnswerRecord:
    """An answer as it is written, with the number of the charge that paid for it."""

    number: int
    before: str
    time: int
    entry: int
    noisy: str

    @property
    def digest(self) -> str:
        """The link of this answer."""
        return self.shown.digest

    @property
    def shown(self) -> "ShownAnswer":
        """The record without the answer itself, which has the same link."""
        seal = hashlib.sha256(self.noisy.encode()).hexdigest()
        return ShownAnswer(self.number, self.before, self.time, self.entry, seal)


@dataclass(frozen=True, slots=True)
class ShownAnswer:
    """An answer as an export shows it: its digest in the place of its values."""

    number: int
    before: str
    time: int
    entry: int
    seal: str

    @property
    def digest(self) -> str:
        """The link of this answer."""
        return _digest("answer", self)


VALUES: Final = {
    "charge": attrgetter(*Charge.__slots__),
    "answer": attrgetter(*ShownAnswer.__slots__),
}
Record = Charge | AnswerRecord | ShownAnswer
"""One link of the chain."""


@dataclass(frozen=True, slots=True)
class Head:
    """Where the chain ends: how many records there are, the newest digest, and what is spent."""

    records: int
    digest: str
    time: int
    spent: int
    delta_spent: int

    @property
    def seal(self) -> str:
        """A digest of the head itself, by which a damaged one is noticed before it is used."""
        return _seal(self.records, self.digest, self.time, self.spent, self.delta_spent)


def first_head(identity: str, opening: Filter) -> Head:
    """Return the head of a ledger without records: its digest covers whose terms it keeps."""
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
    """Return the next charge, and the head with it; refuse what the budget does not hold.

    ``amounts`` are units of the budget and of the pot; ``totals`` those spent so far by the analyst
    and for the purpose.

    Claim:   on every path the charges add up to at most the whole budget, and their deltas to at
             most the pot, exactly.
    Why:     both are whole numbers of units, added without rounding; the filter compares the sums
             with the whole before there is a charge.
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
    """Refuse what the budget does not hold.

    # Privacy: the filter itself decides, on the whole numbers that are spent with this charge.
    """
    try:
        opening.grant(Share(head.spent + units), _delta(opening, head.delta_spent + delta))
    except (BudgetExceeded, BadDeclaration):
        grant_head(opening, head).grant(Share(units), _delta(opening, delta))  # says what is left
        raise


def add_answer(head: Head, entry: int, noisy: str, now: int) -> tuple[AnswerRecord, Head]:
    """Return the record of an answer, and the head with it; nothing is spent by it."""
    record = AnswerRecord(head.records, head.digest, next_time(head, now), entry, noisy)
    state = (head.records + 1, record.digest, record.time, head.spent, head.delta_spent)
    return record, Head(*state)


def next_time(head: Head, now: int) -> int:
    """Return the time of the next record, never before that of the newest one.

    Raises:
        Fault: the clock is far behind the newest record, so that it cannot be trusted.
    """
    if now < head.time - PATIENCE:
        raise Fault(
            "the clock is behind the newest record of the ledger; set the clock right: nothing is "
            "charged or answered until then"
        )
    return max(now, head.time)


def delta_units(delta: Fraction, opening: Filter) -> int:
    """Return a delta as units of the pot, rounded up: what is charged covers what was asked."""
    if not delta:
        return 0
    if delta > opening.delta_pot:
        opening.grant(Share(0), delta)
        raise BudgetExceeded(
            "no delta is set aside for this; ask for declared groups", cost=delta, left=Fraction(0)
        )
    part = delta / opening.delta_pot * UNITS
    return -(-part.numerator // part.denominator)


def _delta(opening: Filter, units: int) -> Fraction:
    return opening.delta_pot * Fraction(units, UNITS) if units else NOTHING


def grant_head(opening: Filter, head: Head) -> Filter:
    """Return the filter as it stands at a head."""
    return opening.grant(Share(head.spent), _delta(opening, head.delta_spent))


def describe_filter(opening: Filter) -> str:
    """Return the terms of a budget as text, exactly: the same terms give the same text."""
    named = {name: str(getattr(opening, name)) for name in opening.TERMS}
    return json.dumps({"filter": type(opening).__name__, "units": UNITS, **named}, sort_keys=True)


def read_filter(written: str) -> Filter:
    """Return the filter that `describe_filter` wrote.

    Raises:
        LedgerDamaged: the text is of no filter, or of one that gives other terms today.
    """
    try:
        terms = json.loads(written)
        aside = terms.get("delta_aside", 0)
        kind = ACCOUNTINGS[terms["filter"]]
        opening = auto_filter(terms["epsilon"], terms["delta"], kind, delta_aside=aside)
    except (ValueError, KeyError, TypeError, BadDeclaration):
        raise LedgerDamaged(f"the ledger does not say whose budget it keeps; {RESTORE}") from None
    if describe_filter(opening) != written:
        raise LedgerDamaged(
            f"the terms of the ledger's budget do not give the same filter again; {RESTORE}"
        )
    return opening


def _describe_loss(opening: Filter, units: int) -> str:
    """Return what a share allows; the same few shares are asked for again and again."""
    known = LOSSES.get(units)
    if known is None or known[0] is not opening:
        if len(LOSSES) >= MOST_LOSSES:
            LOSSES.clear()
        known = LOSSES[units] = (opening, _write_loss(opening, units))
    return known[1]


def _write_loss(opening: Filter, units: int) -> str:
    loss = opening.loss_of(Share(units))
    named = {
        field.name: str(getattr(loss, field.name))
        for field in fields(loss)  # type: ignore[arg-type]
    }
    return json.dumps({"loss": type(loss).__name__, **named})


def query_digest(question: QueryIdentity) -> str:
    """Return the digest by which the same question over the same declaration is found."""
    return hash_parts(["question", question.text, question.fingerprint])


def encode_payload(noisy: Payload) -> str:
    """Return a released answer as text; equal answers give equal text."""
    return WRITER.encode(noisy)


def decode_payload(text: str) -> Payload:
    """Return the answer that `encode_payload` wrote; tuples come back as lists."""
    noisy: Payload = json.loads(text, object_hook=_read_date)
    return noisy


def now() -> int:
    """Return the time in microseconds since 1970, in UTC."""
    return time.time_ns() // 1_000


def _write_date(value: object) -> dict[str, str]:
    if isinstance(value, date):
        return {"$date": value.isoformat()}
    raise TypeError(f"an answer holds numbers, text, dates and lists, got {type(value).__name__}")


WRITER: Final = json.JSONEncoder(default=_write_date, allow_nan=False, sort_keys=True)


def _read_date(value: dict[str, Any]) -> Any:
    return date.fromisoformat(value["$date"]) if value.keys() == {"$date"} else value


@lru_cache(maxsize=64)  # a head is mostly read by the process that wrote it
def _seal(*state: object) -> str:
    return hash_parts(["head", *state])


def _digest(kind: str, record: "Charge | ShownAnswer") -> str:
    """Return the digest of everything that a record holds, in the order of its fields."""
    return hash_parts((kind, *VALUES[kind](record)))
