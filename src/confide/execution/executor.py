"""Matches, reserves, commits and resumes: a query's request to the ledger."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from confide import ledger as ledgers  # those in databases are imported when first used
from confide.declare import Budget, Catalog, Limits
from confide.engines import Engine
from confide.errors import BadDeclaration, Fault, UnsupportedQuery, refusing
from confide.execution.pricing import FREE, Pricing
from confide.ledger import (
    AnsweredAlready,
    Hold,
    Ledger,
    MemoryLedger,
    Payload,
    QueryIdentity,
    Receipt,
    StoredAnswer,
)
from confide.loss import Share, auto_filter
from confide.mechanisms import Neighbours
from confide.noise import SYSTEM, Entropy
from confide.plan import Plan
from confide.plan.selection import check_score
from confide.query import Query, TableQuery
from confide.release import Cost

__all__ = ["Desk", "QueryOptions", "Request", "Score", "Settlement", "find_ledger", "settlement_of"]

LONGEST_KEY = 200

Score = str | TableQuery
"""A question with one number for an answer."""


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """How a question is asked: ``fresh`` pays for a new answer, ``key`` makes it safe to repeat."""

    fresh: bool = False
    key: str = ""

    @classmethod
    @refusing
    def of(cls, *, fresh: bool = False, key: str | None = None) -> "QueryOptions":
        """Return the manner that someone asked in."""
        if not isinstance(fresh, bool):
            raise BadDeclaration(f"fresh must be True or False, got {fresh!r}")
        if key is None:
            return cls(fresh)
        if not isinstance(key, str) or not 1 <= len(key) <= LONGEST_KEY or not key.isprintable():
            said = repr(key) if len(repr(key)) <= LONGEST_KEY else f"one of {len(key)}"
            raise BadDeclaration(
                f"key must be a text of 1 to {LONGEST_KEY} printable characters, got {said}"
            )
        return cls(fresh, key)


@dataclass(frozen=True, slots=True)
class Settlement:
    """An answer that the ledger keeps: what was released, its receipt, and what it costs now."""

    noisy: Payload
    receipt: Receipt
    cost: Cost
    reused: bool


@dataclass(frozen=True, slots=True)
class Desk:
    """What a curator lends to all who read: its ledger, its engine, its plans and prices."""

    ledger: Ledger
    engine: Engine
    neighbours: Neighbours
    fingerprint: str
    prices: Pricing
    read: Callable[[Score], Query]
    plan: Callable[[Query, Share], Plan]
    entropy: Entropy = SYSTEM
    analyst: str = ""
    purpose: str = ""

    def read_score(self, asked: Score) -> Query:
        """Return a question whose answer is one number."""
        query = self.read(asked)
        check_score(query)
        return query

    def name_text(self, text: str) -> QueryIdentity:
        """Return what the ledger writes down for a question in its canonical text."""
        if "\0" in text or not _is_text(text):
            raise UnsupportedQuery("a question holds a character that is no text; leave it out")
        return QueryIdentity(text, self.fingerprint, self.analyst, self.purpose)

    def name_question(self, terms: Mapping[str, object]) -> QueryIdentity:
        """Return what the ledger writes down: text that no SQL question has."""
        return self.name_text(json.dumps(terms))

    def open(
        self,
        question: QueryIdentity,
        manner: QueryOptions,
        is_enough: Callable[[StoredAnswer], bool] | None = None,
    ) -> "Request":
        """Return a request: settled if the ledger has its answer, else to be charged.

        Of stored answers the newest is taken that ``is_enough``, if that is asked for.
        """
        begun = self.ledger.resume(question, manner.key) if manner.key else None
        if isinstance(begun, StoredAnswer):
            return Request(self, question, manner, settled=settlement_of(begun))
        if begun is None and not manner.fresh:
            stored = self._find(question, is_enough)
            if stored is not None:
                if manner.key:
                    self.ledger.remember(question, manner.key, stored.receipt)
                return Request(self, question, manner, settled=settlement_of(stored))
        return Request(self, question, manner, begun=begun)

    def _find(
        self, question: QueryIdentity, is_enough: Callable[[StoredAnswer], bool] | None
    ) -> StoredAnswer | None:
        newest = self.ledger.stored(question)
        if newest is None or is_enough is None or is_enough(newest):
            return newest
        return next(filter(is_enough, reversed(self.ledger.answers(question))), None)


@dataclass(frozen=True, slots=True)
class Request:
    """One question on its way: settled already, or taken step by step to its answer.

    Claim:   of all the readings and draws that one charge ever sees, over crashes and repeats, the
             noise of exactly one is shown.
    Why:     nothing is shown before `commit`, and a ledger keeps one answer a charge; whoever comes
             second gets that one and throws its own draw away. Which of two draws comes first is
             settled by the order of commits, not by what was drawn. So what is shown has the law of
             one use of the mechanism, for which the charge pays.
    Source:  docs/ledger.md.
    Checked: tests/crash/test_kills.py, tests/contracts/test_ledgers.py.
    """

    desk: Desk
    question: QueryIdentity
    manner: QueryOptions
    settled: Settlement | None = None
    begun: Hold | None = None

    def share(self, grant: Callable[[], Share]) -> Share:
        """Return what the answer takes: what was charged before a crash, or what ``grant`` says."""
        return grant() if self.begun is None else self.begun.share

    def reserve(
        self, share: Share, delta: Fraction = Fraction(0), *, readings: int | None = 1
    ) -> Hold:
        """Charge before any row is read, or take up the charge that a crash left."""
        if self.begun is None:
            return self.desk.ledger.reserve(
                self.question, share, delta, readings=readings, key=self.manner.key
            )
        # Privacy: the plan must be within what was paid then.
        if share != self.begun.share or delta > self.begun.delta:
            raise Fault(
                "the charge that this key stands for does not pay for this plan; ask without the "
                "key, and pay anew"
            )
        return self.begun

    def commit(self, hold: Hold, noisy: Payload) -> Settlement:
        """Keep the answer; only what this returns may be shown."""
        try:
            receipt = self.desk.ledger.commit(hold, noisy)
        except AnsweredAlready:
            first = self.desk.ledger.answer(hold.entry)
            if first is None:
                raise
            if self.begun is not None:
                return settlement_of(first)
            # Privacy: this very call was charged, so its answer is not free, whoever was first.
            noisy, receipt = first.noisy, first.receipt
        return Settlement(noisy, receipt, self.desk.prices.cost(hold.share), reused=False)


def _is_text(value: str) -> bool:
    """Tell whether every database can keep it: half a surrogate pair is no character."""
    return not any("\ud800" <= character <= "\udfff" for character in value)


def settlement_of(stored: StoredAnswer) -> Settlement:
    """Return an answer that was paid for before, as one that is free now."""
    return Settlement(stored.noisy, stored.receipt, FREE, reused=True)


def find_ledger(
    given: Ledger | str | Path | None,
    budget: Budget,
    catalog: Catalog,
    limits: Limits | None = None,
    anchor: str | Path | None = None,
    *,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
) -> Ledger:
    """Return the ledger of a budget: at an address, given, or in memory.

    Half of delta is set aside where keys may be asked for that nobody declared.
    """
    if limits is not None and not isinstance(limits, Limits):
        raise BadDeclaration(f"limits must be such as Limits(...), got {limits!r}")
    aside = budget.delta / 2 if catalog.has_open_keys else Fraction(0)
    opening = auto_filter(budget.epsilon, budget.delta, budget.accounting, delta_aside=aside)
    if isinstance(given, str | Path):
        return ledgers.open_ledger(
            given, opening, limits, neighbours=neighbours.value, anchor=anchor
        )
    if given is not None and not hasattr(given, "keep_relation"):
        raise BadDeclaration(f"ledger must be a path such as 'ledger.db', got {given!r}")
    if anchor is not None:
        raise BadDeclaration("an anchor belongs to a ledger on disk; say ledger='ledger.db' too")
    if given is None:
        return MemoryLedger(opening, limits)
    if limits is not None:
        raise BadDeclaration("a ledger that is given has its own limits; leave limits out")
    given.keep_relation(neighbours.value)
    return given
