"""What a ledger does: it reserves before anything is read, and keeps what was answered."""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

from confide.errors import Fault
from confide.loss import Filter, Share

__all__ = ["Entry", "Hold", "Ledger", "Question", "Receipt"]

Noisy = dict[str, Any]
"""A released answer as JSON can hold it; its layout belongs to release/."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is being paid for: enough to know the same question again, and no data."""

    text: str
    fingerprint: str
    analyst: str


@dataclass(frozen=True, slots=True)
class Receipt:
    """Proof of a charge: the entry's number, what it cost, and its link in the chain."""

    entry: int
    share: Share
    digest: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the ledger, as shown to the owner."""

    number: int
    question: Question
    share: Share
    delta: Fraction
    state: str
    digest: str


class Hold:
    """Budget that is spent for good: the right to read, once or as often as a mechanism needs.

    Only a ledger makes one; an engine presents it before it reads. ``readings`` is how often, or
    None for a session, whose charge covers everything it ever releases, however often it reads.
    """

    __slots__ = ("_readings", "entry", "share")

    def __init__(self, entry: int, share: Share, *, readings: int | None = 1) -> None:
        self.entry, self.share, self._readings = entry, share, readings

    def use(self) -> None:
        """Let one reading pass, while any is left."""
        if self._readings is None:
            return
        if self._readings == 0:
            raise Fault("this hold was used already; every reading needs its own")
        self._readings -= 1


class Ledger(Protocol):
    """The budget and its history."""

    @property
    def filter(self) -> Filter:
        """The filter as it stands, with what is spent."""
        ...

    def reserve(
        self,
        question: Question,
        share: Share,
        delta: Fraction = ...,
        *,
        readings: int | None = ...,
    ) -> Hold:
        """Charge, durably, before anything is read; refuse what does not fit."""
        ...

    def commit(self, hold: Hold, noisy: Noisy) -> Receipt:
        """Keep the released answer with its charge."""
        ...

    def stored(self, question: Question) -> tuple[Receipt, Noisy] | None:
        """Return the newest answer to the same question over the same declaration."""
        ...

    def entries(self) -> Iterable[Entry]:
        """Return the history, oldest first."""
        ...

    def verify(self) -> None:
        """Recompute balance and chain, and raise a Fault where they disagree."""
        ...
