"""A ledger in memory: the same rules, gone with the process."""

import hashlib
import json
import threading
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

from confide.errors import Fault
from confide.ledger.protocol import Entry, Hold, Noisy, Question, Receipt
from confide.loss import Filter, Share

__all__ = ["MemoryLedger"]


class MemoryLedger:
    """Charges and answers of one process, chained by digests."""

    def __init__(self, filter: Filter) -> None:  # noqa: A002  # the idea's own word
        self._filter, self._opening = filter, filter
        self._entries: list[Entry] = []
        self._answers: dict[int, Noisy] = {}
        self._seals: dict[int, str] = {}
        self._newest: dict[tuple[str, str], int] = {}
        self._lock = threading.Lock()

    @property
    def filter(self) -> Filter:
        """The filter as it stands."""
        return self._filter

    def reserve(
        self,
        question: Question,
        share: Share,
        delta: Fraction = Fraction(0),
        *,
        readings: int | None = 1,
    ) -> Hold:
        """Charge before anything is read."""
        with self._lock:
            granted = self._filter.grant(share, delta)
            number = len(self._entries)
            before = self._entries[-1].digest if self._entries else ""
            entry = Entry(number, question, share, delta, "held", "")
            self._entries.append(replace(entry, digest=_digest(entry, before)))
            self._filter = granted
            return Hold(number, share, readings=readings)

    def commit(self, hold: Hold, noisy: Noisy) -> Receipt:
        """Keep the answer with its charge."""
        with self._lock:
            entry = self._entries[hold.entry]
            if entry.state != "held":
                raise Fault(f"ledger entry {hold.entry} has its answer already")
            self._entries[hold.entry] = replace(entry, state="answered")
            self._answers[hold.entry] = noisy
            self._seals[hold.entry] = _seal(noisy)
            self._newest[entry.question.text, entry.question.fingerprint] = hold.entry
            return Receipt(hold.entry, entry.share, entry.digest)

    def stored(self, question: Question) -> tuple[Receipt, Noisy] | None:
        """Return the newest answer to the same question."""
        with self._lock:
            number = self._newest.get((question.text, question.fingerprint))
            if number is None:
                return None
            entry = self._entries[number]
            return Receipt(number, entry.share, entry.digest), self._answers[number]

    def entries(self) -> Iterable[Entry]:
        """Return the history, oldest first."""
        with self._lock:
            return tuple(self._entries)

    def verify(self) -> None:
        """Recompute balance and chain."""
        with self._lock:
            balance, before = self._opening, ""
            for entry in self._entries:
                if entry.digest != _digest(entry, before):
                    raise Fault(f"ledger entry {entry.number} does not follow from those before it")
                balance, before = balance.grant(entry.share, entry.delta), entry.digest
            answered = [entry.number for entry in self._entries if entry.state == "answered"]
            seals = {number: _seal(noisy) for number, noisy in self._answers.items()}
            if answered != sorted(self._seals) or seals != self._seals:
                raise Fault("a stored answer is not the one that was committed")
            if balance != self._filter:
                raise Fault("the ledger's balance is not the sum of its entries")


def _seal(noisy: Noisy) -> str:
    return hashlib.sha256(json.dumps(noisy, default=str, sort_keys=True).encode()).hexdigest()


def _digest(entry: Entry, before: str) -> str:
    parts = [before, entry.number, entry.share.units, str(entry.delta)]
    parts += [entry.question.text, entry.question.fingerprint, entry.question.analyst]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
