"""`Executor`: charges, measures, and commits one payable at a time.

A *payable* is anything that one charge can buy: a query, a choice, a release, or a statistic. The
executor first looks for a stored answer in the ledger. Without one, it reserves the cost, lets the
engine read rows, and commits the noisy result.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from confide import ledger as ledgers  # imports the database ledgers on first use
from confide.declare import Budget, Catalog, Limits
from confide.engines import Engine
from confide.errors import BadDeclaration, Fault, UnsupportedQuery, refusing
from confide.exact import float_above, positive
from confide.execution.confirmation import check_confirmed
from confide.execution.planner import Planner, QueryPayable
from confide.execution.pricing import ZERO_COST, Price
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
from confide.release import Cost
from confide.release.payable import Payable, PricedPlan

__all__ = [
    "Executor",
    "NotPaid",
    "QueryOptions",
    "Request",
    "Settlement",
    "find_ledger",
    "settlement_of",
]

P = TypeVar("P", bound=PricedPlan[Any])

MAX_KEY_LENGTH = 200


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """Options of a query.

    ``fresh`` pays for a new answer even if one is stored. ``key`` is the caller's idempotency key,
    which makes a retry safe, or "". ``confirm`` allows a cost above the owner's
    ``max_share_per_query``.
    """

    fresh: bool = False
    key: str = ""
    confirm: bool = False

    @classmethod
    @refusing
    def of(
        cls, *, fresh: bool = False, key: str | None = None, confirm: bool = False
    ) -> "QueryOptions":
        """Return the options that a caller passed, checked."""
        for name, flag in (("fresh", fresh), ("confirm", confirm)):
            if not isinstance(flag, bool):
                raise BadDeclaration(f"`{name}` must be True or False; got {flag!r}.")
        if key is None:
            return cls(fresh, confirm=confirm)
        if not isinstance(key, str) or not 1 <= len(key) <= MAX_KEY_LENGTH or not key.isprintable():
            is_short = len(repr(key)) <= MAX_KEY_LENGTH
            shown = repr(key) if is_short else f"{len(key):,} characters"
            raise BadDeclaration(
                f"`key` must be a string of 1 to {MAX_KEY_LENGTH} printable characters; got "
                f"{shown}."
            )
        return cls(fresh, key, confirm)


@dataclass(frozen=True, slots=True)
class Settlement:
    """A committed answer: the released payload, its receipt, and the cost of this request.

    If ``reused``, the answer was stored before, and ``cost`` is zero.
    """

    payload: Payload
    receipt: Receipt
    cost: Cost
    reused: bool


class NotPaid(Exception):
    """The ledger has neither an answer to reuse for this query nor a charge under its key."""


@dataclass(frozen=True, slots=True)
class Executor:
    """The ledger and the engine, acting for one analyst: the only path from rows to answers.

    ``fingerprint`` is a hash of the declaration: an answer is reused only under the same one. With
    ``is_paid_only``, the executor never charges: it returns stored answers, resumes charges that a
    crash left pending under their key, and raises `NotPaid` for any other query.
    """

    ledger: Ledger
    engine: Engine
    planner: Planner
    fingerprint: str
    entropy: Entropy = SYSTEM
    analyst: str = ""
    purpose: str = ""
    is_paid_only: bool = False

    def execute(
        self, payable: Payable[P], price: Price, options: QueryOptions
    ) -> tuple[P, Any, Settlement]:
        """Charge for a payable, measure it, and commit the result, or return its stored answer.

        The result is the plan, the released values, and the settlement.

        Claim:   no row is read before the charge is on disk, and only committed values are
                 returned.
        Why:     the order of these lines. A plan requires a share, a reading requires a hold, and
                 the value returned is the one the ledger stored, even if another process committed
                 first.
        Checked: tests/curator/test_path.py, tests/crash/test_kills.py.
        """
        request = self.match(payable, price, options)
        settlement = request.settlement
        if settlement is not None:
            plan = payable.at(settlement.receipt.share)
            return plan, plan.decode(settlement.payload), settlement
        share: Share = request.share(lambda: self.planner.share_for(payable, price))
        plan = payable.at(share)  # from the declaration alone; refuses here
        hold: Hold = request.reserve(share, plan.failure, readings=plan.readings)
        noisy = plan.run(self.engine, hold, self.entropy)  # the only line that reads rows
        settlement = request.commit(hold, plan.encode(noisy))
        return plan, plan.decode(settlement.payload), settlement

    def match(self, payable: Payable[Any], price: Price | None, options: QueryOptions) -> "Request":
        """Return the request for a payable.

        If a query's price is given as ``error=``, a stored answer is reused only if all of its
        half-widths are known in advance and at most that error, or if it has the same key.
        """
        identity = self.identify_text(payable.identity)
        if price is None or price.error is None or not isinstance(payable, QueryPayable):
            return self.open(identity, options)
        return self.open(identity, options, partial(_is_accurate_enough, payable, price))

    def open(
        self,
        identity: QueryIdentity,
        options: QueryOptions,
        is_enough: Callable[[StoredAnswer], bool] | None = None,
    ) -> "Request":
        """Return a request: settled if a stored answer is reused, otherwise still to be answered.

        An answer stored under the same key is always reused. Otherwise, unless the options ask for
        a ``fresh`` one, it is the newest answer that satisfies ``is_enough``, if that is passed.

        Raises:
            NotPaid: the query would have to be charged, and this executor never charges.
        """
        pending = self.ledger.resume(identity, options.key) if options.key else None
        if isinstance(pending, StoredAnswer):
            return Request(self, identity, options, settlement=settlement_of(pending))
        if pending is None and not options.fresh:
            stored = self._find(identity, is_enough)
            if stored is not None:
                if options.key:
                    self.ledger.remember(identity, options.key, stored.receipt)
                return Request(self, identity, options, settlement=settlement_of(stored))
        if pending is None and self.is_paid_only:
            raise NotPaid
        return Request(self, identity, options, pending=pending)

    def _find(
        self, identity: QueryIdentity, is_enough: Callable[[StoredAnswer], bool] | None
    ) -> StoredAnswer | None:
        """Return the newest stored answer, or the newest that satisfies ``is_enough``, or None."""
        newest = self.ledger.stored(identity)
        if newest is None or is_enough is None or is_enough(newest):
            return newest
        return next(filter(is_enough, reversed(self.ledger.answers(identity))), None)

    def identify_text(self, text: str) -> QueryIdentity:
        """Return the identity of a query, given its canonical text."""
        if "\0" in text or not _is_encodable(text):
            raise UnsupportedQuery(
                "The query contains a null character or an unpaired surrogate. Remove it."
            )
        return QueryIdentity(text, self.fingerprint, self.analyst, self.purpose)

    def identify_terms(self, terms: Mapping[str, object]) -> QueryIdentity:
        """Return the identity of a payable other than a query: its terms as JSON, never SQL."""
        return self.identify_text(json.dumps(terms))


@dataclass(frozen=True, slots=True)
class Request:
    """A query in progress: already settled, or to be reserved and committed.

    ``settlement`` belongs to a stored answer that is reused. ``pending`` is a charge under the same
    key that has no answer yet, for example after a crash. At most one of them is present.

    Claim:   of all readings and noise draws under one charge, across crashes and retries, at most
             one draw is ever shown.
    Why:     nothing is shown before `commit`, and the ledger stores one answer per charge. A
             process that commits second gets the stored answer and discards its own draw. The order
             of commits, not the values drawn, decides which draw is first. So the released value
             has the distribution of one use of the mechanism, and the charge pays for one use.
    Source:  docs/ledger.md.
    Checked: tests/crash/test_kills.py, tests/contracts/test_ledgers.py.
    """

    executor: Executor
    identity: QueryIdentity
    options: QueryOptions
    settlement: Settlement | None = None
    pending: Hold | None = None

    def share(self, grant: Callable[[], Share]) -> Share:
        """Return the share of the pending charge, if any, otherwise the share from ``grant``."""
        return grant() if self.pending is None else self.pending.share

    def reserve(
        self, share: Share, delta: Fraction = Fraction(0), *, readings: int | None = 1
    ) -> Hold:
        """Return the hold of a new charge, made before any row is read, or of the pending charge.

        Raises:
            ConfirmationRequired: a new charge exceeds the owner's limit for one query.
        """
        if self.pending is None:
            pricing, is_confirmed = self.executor.planner.pricing, self.options.confirm
            check_confirmed(pricing, self.identity, share, delta, is_confirmed=is_confirmed)
            return self.executor.ledger.reserve(
                self.identity, share, delta, readings=readings, key=self.options.key
            )
        # Privacy: the pending charge must cover this plan.
        if share != self.pending.share or delta > self.pending.delta:
            raise Fault(
                "The charge pending under this idempotency key does not cover this plan. Run the "
                "query with a new key, which charges it again."
            )
        return self.pending

    def commit(self, hold: Hold, payload: Payload) -> Settlement:
        """Store the answer; only the settlement returned here may be shown."""
        try:
            receipt = self.executor.ledger.commit(hold, payload)
        except AnsweredAlready:
            first = self.executor.ledger.answer(hold.entry)
            if first is None:
                raise
            if self.pending is not None:
                return settlement_of(first)
            # Privacy: this call was charged, so its answer has a cost even if another call's
            # answer was stored first.
            payload, receipt = first.noisy, first.receipt
        cost = self.executor.planner.pricing.cost(hold.share)
        return Settlement(payload, receipt, cost, reused=False)


def _is_accurate_enough(payable: QueryPayable, price: Price, stored: StoredAnswer) -> bool:
    """Return whether every half-width is known in advance and at most ``price.error``."""
    found = payable.at(stored.receipt.share).errors(price.confidence).values()
    target = float_above(positive("error", price.error))
    return all(width is not None and width <= target for width in found)


def _is_encodable(value: str) -> bool:
    """Return whether every database can store the string: it has no unpaired surrogate."""
    return not any("\ud800" <= character <= "\udfff" for character in value)


def settlement_of(stored: StoredAnswer) -> Settlement:
    """Return the settlement of a stored answer, which costs nothing now."""
    return Settlement(stored.noisy, stored.receipt, ZERO_COST, reused=True)


def find_ledger(
    given: Ledger | str | Path | None,
    budget: Budget,
    catalog: Catalog,
    limits: Limits | None = None,
    anchor: str | Path | None = None,
    *,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
) -> Ledger:
    """Return the ledger of a budget: opened at an address, passed as an object, or in memory.

    If queries may group by undeclared keys, half of delta is set aside for partition selection.
    """
    if limits is not None and not isinstance(limits, Limits):
        raise BadDeclaration(f"`limits` must be a `cf.Limits`; got {limits!r}.")
    aside = budget.delta / 2 if catalog.has_undeclared_keys else Fraction(0)
    opening = auto_filter(budget.epsilon, budget.delta, budget.accounting, delta_aside=aside)
    if isinstance(given, str | Path):
        return ledgers.open_ledger(
            given, opening, limits, neighbours=neighbours.value, anchor=anchor
        )
    if given is not None and not hasattr(given, "keep_relation"):
        raise BadDeclaration(f"`ledger` must be a path or URL, such as 'ledger.db'; got {given!r}.")
    if anchor is not None:
        raise BadDeclaration("An anchor needs a ledger on disk. Pass `ledger='ledger.db'` too.")
    if given is None:
        return MemoryLedger(opening, limits)
    if limits is not None:
        raise BadDeclaration(
            "A ledger object has limits of its own. Omit `limits`, or pass the ledger as a path."
        )
    given.keep_relation(neighbours.value)
    return given
