"""Watches: sessions that report for many queries whether their value is above a threshold.

A watch uses the sparse vector technique: only answers "above" cost, and all of them are charged
when the session is opened. A `Watch` lives in one process. A `DurableWatch` keeps its state in the
ledger, so that any process can continue it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final, NoReturn

from confide.errors import BudgetExceeded, Fault, UnsupportedQuery, refusing
from confide.exact import Number, float_above, fraction, positive
from confide.execution.executor import Executor, QueryOptions
from confide.execution.planner import Score
from confide.execution.pricing import ZERO_COST, Price
from confide.ledger import (
    AnsweredAlready,
    Hold,
    KeyUsed,
    Payload,
    QueryIdentity,
    Receipt,
    StoredAnswer,
)
from confide.loss import Loss, PureLoss, Share
from confide.mechanisms import Neighbours, SparseVector
from confide.noise import Entropy
from confide.plan import Plan
from confide.plan.selection import max_epsilon, only_total
from confide.plan.sensitivity import score_change
from confide.query import canonical
from confide.release import Cost
from confide.release.noise import round_to_steps
from confide.release.selection import compare_score

__all__ = [
    "STEPS_PER_SENSITIVITY",
    "DurableWatch",
    "Threshold",
    "Watch",
    "durable_watch",
    "exhausted_error",
    "open_watch",
    "resume_watch",
]

STEPS_PER_SENSITIVITY: Final = 1_000
"""The sensitivity as a number of grid steps; values are rounded to this grid and compared."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """The threshold of a watch and the conditions that its queries must meet.

    ``level`` is the threshold itself, compared with the values of queries. ``above`` is the number
    of answers "above" that the charge pays for. ``sensitivity`` is the most that one unit may
    change a query's value. If ``is_rising``, adding a unit must never lower a value, and the watch
    adds only the smaller noise that monotone values need.
    """

    level: Fraction
    above: int
    sensitivity: Fraction
    is_rising: bool
    neighbours: Neighbours

    @classmethod
    def of(
        cls,
        level: Number,
        above: int,
        sensitivity: Number,
        neighbours: Neighbours,
        *,
        signed: bool,
    ) -> "Threshold":
        """Return the threshold that a caller passed, checked."""
        return cls(
            level=fraction("threshold", level, "a finite number"),
            above=above,
            sensitivity=positive("sensitivity", sensitivity),
            is_rising=neighbours is Neighbours.ADD_REMOVE and not signed,
            neighbours=neighbours,
        )

    @classmethod
    def from_terms(cls, terms: Mapping[str, Any], neighbours: Neighbours) -> "Threshold":
        """Return the threshold from its stored `terms`."""
        return cls(
            level=Fraction(terms["watch"]),
            above=terms["above"],
            sensitivity=Fraction(terms["sensitivity"]),
            is_rising=terms["rising"],
            neighbours=neighbours,
        )

    @property
    def terms(self) -> dict[str, object]:
        """The threshold as JSON-compatible terms, by which the ledger identifies a session."""
        return {
            "watch": str(self.level),
            "above": self.above,
            "sensitivity": str(self.sensitivity),
            "rising": self.is_rising,
        }

    @property
    def step(self) -> Fraction:
        """The grid step of the comparison; the sensitivity is a multiple of it."""
        return self.sensitivity / STEPS_PER_SENSITIVITY

    def open(self, granted: Loss, entropy: Entropy) -> SparseVector:
        """Return the sparse vector of a session, with a loss of at most ``granted``."""
        return SparseVector(
            round_to_steps(self.level, self.step),
            self.above,
            STEPS_PER_SENSITIVITY,
            max_epsilon(granted, PureLoss),
            monotone=self.is_rising,
            entropy=entropy,
        )

    def admit(self, plan: Plan) -> None:
        """Raise UnsupportedQuery if a unit can change the query's value more than is allowed."""
        change = score_change(only_total(plan), plan.contribution, self.neighbours)
        if change.largest > self.sensitivity:
            raise UnsupportedQuery(
                f"One unit can change this value by {float_above(change.largest):.6g}, but the "
                f"watch was opened with a sensitivity of {float(self.sensitivity):.6g}. Clamp the "
                "values with `LEAST(GREATEST(x, low), high)`, or open a watch with a larger "
                "`sensitivity=`."
            )
        if self.is_rising and change.low < 0:
            raise UnsupportedQuery(
                "Adding a unit can lower this sum, but the watch was opened for values that only "
                "rise. Write `GREATEST(x, 0)`, or open a watch with `signed=True`."
            )

    def half_width(self, vector: SparseVector, confidence: Number) -> float:
        """Return a distance from the threshold at which an answer is correct with this confidence.

        Claim: if a query's value is at least that far from the threshold, its answer is correct
               with at least this confidence.
        Why:   the distance is the half-width of `SparseVector.interval` in steps, plus one step to
               lie outside the interval, plus half a step each for rounding the value and the
               threshold.
        """
        steps = vector.interval(confidence)[1] + 2
        return float_above(steps * self.step)


def exhausted_error(above: int) -> BudgetExceeded:
    """Return the error of a session whose answers "above" are all used."""
    return BudgetExceeded(
        f"This watch was opened for {above} answers above its threshold, and all are used. Open a "
        "new watch for more.",
        cost=Fraction(1),
        left=Fraction(0),
    )


class Watch:
    """A session that compares the values of adaptively chosen queries with a threshold.

    Law:     that of `SparseVector`, for values and a threshold rounded to integer multiples of
             sensitivity / 1000.
    Claim:   the entire session costs what was charged when it was opened, regardless of its queries
             and of other queries to the curator in between.
    Why:     one unit changes every admitted value by at most the sensitivity. That is an integer
             number of steps, so the bound still holds after rounding (see mechanisms/grid.py). The
             sparse vector is then epsilon-DP against an analyst who chooses each query after seeing
             all earlier answers, and its epsilon, mu^2, or divergence is at most that of the share
             charged. The filter is valid for mechanisms used once and stays valid for concurrent
             sessions.
    Source:  [HSTVVXZ23] for concurrent sessions under pure, Gaussian (as f-DP) and Renyi filters;
             confide.mechanisms.SparseVector for the session, [KOV17] for its mu.
    Checked: tests/curator/test_sessions.py.
    """

    __slots__ = ("_executor", "_hold", "_threshold", "_vector", "cost", "receipt")

    def __init__(
        self,
        executor: Executor,
        threshold: Threshold,
        vector: SparseVector,
        hold: Hold,
        receipt: Receipt,
    ) -> None:
        self._executor, self._threshold = executor, threshold
        self._vector, self._hold = vector, hold
        self.cost, self.receipt = executor.planner.pricing.cost(hold.share), receipt

    @property
    def left(self) -> int:
        """The remaining number of answers "above"."""
        return self._vector.left

    def ask(self, query: Score) -> bool:
        """Return whether the value of one COUNT or SUM is above the threshold, up to noise.

        Answers "below" are free. The session ends after its last answer "above".

        Raises:
            BudgetExceeded: no answer "above" remains; nothing was read.
        """
        planner = self._executor.planner
        plan = planner.plan(planner.read_score(query), self._hold.share)
        self._threshold.admit(plan)
        if not self.left:
            raise exhausted_error(self._vector.above)
        sealed = self._executor.engine.run(plan.measurement, self._hold)
        return compare_score(sealed, plan, self._threshold.step, self._vector)

    @refusing
    def half_width(self, confidence: Number = 0.95) -> float:
        """Return a distance from the threshold at which an answer holds with this confidence."""
        return self._threshold.half_width(self._vector, confidence)

    def __reduce__(self) -> NoReturn:
        """Refuse copying and pickling."""
        raise TypeError("a session cannot be copied: both copies would answer")


def open_watch(
    executor: Executor, threshold: Threshold, price: Price, options: QueryOptions
) -> Watch:
    """Return a session, charged in full when it is opened.

    A key opens one session only. The session's noise exists only in this process, so it cannot be
    resumed elsewhere; a session of `durable_watch` can.
    """
    request = executor.open(executor.identify_terms(threshold.terms), replace(options, fresh=True))
    if request.settlement is not None:
        raise _spent_key(options.key)
    share = request.share(lambda: executor.planner.pricing.share_for_cost(price))
    vector = threshold.open(executor.planner.pricing.loss(share), executor.entropy)
    # Privacy: charge for the whole session before any row is read.
    hold = request.reserve(share, readings=None)
    settled = request.commit(hold, {})
    if settled.reused:
        raise _spent_key(options.key)
    return Watch(executor, threshold, vector, hold, settled.receipt)


def _spent_key(key: str) -> KeyUsed:
    return KeyUsed(
        f"Idempotency key {key!r} has already opened a watch, which cannot be resumed. Open "
        "another watch with a new key."
    )


MAX_STEPS: Final = 10_000
"""The maximum number of answers of one durable session; each takes space in the ledger."""
BLIND_WORDS: Final = 4
"""The number of random 64-bit words that hide a session's state from its record's hash."""
ZERO_SHARE: Final = Share(0)


class DurableWatch:
    """A watch that outlives its process: each answer is a record in the ledger.

    The session is charged in full when it is opened, and its answers cost nothing more. All
    processes that resume the same session share its answers "above". A *step* is one answer, or the
    close of the session. Steps are numbered, and each is a record with the state after it.

    Law:     that of `Watch`: the noisy threshold is drawn once and read back for every query.
    Claim:   that of `Watch`, even if processes ask concurrently, crash, or restart. Receipts and
             exports reveal nothing about the noisy threshold.
    Why:     answers are sequential. Each is charged under its step number, and the ledger stores
             one answer per charge. If two processes compare at the same step, one returns its
             answer. The other discards its draw unseen, whatever it was, and compares again at the
             next step. So the answers shown come from one sparse vector that receives one query
             after another. A record's hash covers its state together with 256 fresh random bits, so
             that trying every threshold cannot find the one that matches.
    Source:  as for `Watch`; docs/ledger.md.
    Checked: tests/curator/test_durable_watches.py.
    """

    __slots__ = ("_executor", "_threshold", "cost", "label", "receipt", "reused")

    def __init__(
        self,
        executor: Executor,
        threshold: Threshold,
        receipt: Receipt,
        cost: Cost = ZERO_COST,
        *,
        label: str = "",
        reused: bool = True,
    ) -> None:
        self._executor, self._threshold, self.label = executor, threshold, label
        self.cost, self.receipt, self.reused = cost, receipt, reused

    @property
    def left(self) -> int:
        """The remaining number of answers "above", for all processes of the session together."""
        return int(self._newest()["left"])

    def ask(self, query: Score, *, key: str | None = None) -> bool:
        """Return whether the value of one COUNT or SUM is above the threshold, up to noise.

        Answers "below" are free. The session ends after its last answer "above". A retry with the
        same ``key`` returns the same answer.

        Raises:
            BudgetExceeded: no answer "above" remains; nothing was read.
        """
        read, options = self._executor.planner.read_score(query), QueryOptions.of(key=key)
        plan = self._executor.planner.plan(read, self.receipt.share)
        self._threshold.admit(plan)
        asked = {"asked": canonical(read), "key": options.key}
        while True:
            newest = self._newest()
            is_above = self._remembered(asked, newest)
            if is_above is None:
                is_above = self._compare(plan, asked, newest)
            if is_above is not None:
                return is_above

    def close(self) -> None:
        """End the session for all its processes; its cost is not refunded."""
        while (newest := self._newest())["left"]:
            hold = self._charge(newest["step"] + 1)
            if hold is not None:
                self._commit(hold, {**newest, "left": 0, "step": newest["step"] + 1, "key": ""})

    @refusing
    def half_width(self, confidence: Number = 0.95) -> float:
        """Return a distance from the threshold at which an answer holds with this confidence."""
        return self._threshold.half_width(self._make_vector(), confidence)

    def _compare(self, plan: Plan, asked: Payload, newest: Payload) -> bool | None:
        """Compare at the next step; return the answer, or None if another process took the step."""
        if not newest["left"]:
            raise exhausted_error(self._threshold.above)
        if newest["step"] >= MAX_STEPS:
            raise UnsupportedQuery(
                f"A durable watch answers at most {MAX_STEPS:,} queries, and this one has answered "
                "all of them. Open a new watch."
            )
        vector = self._make_vector()
        _check_noise(vector, newest)
        vector.resume(newest["secret"], newest["left"])
        hold = self._charge(newest["step"] + 1)
        if hold is None:
            return None
        sealed = self._executor.engine.run(plan.measurement, hold)
        is_above = compare_score(sealed, plan, self._threshold.step, vector)
        after = {**_state(self._executor, vector, newest["step"] + 1), **asked, "above": is_above}
        # Privacy: return the result only if the ledger stored this commit.
        return is_above if self._commit(hold, after) else None

    def _remembered(self, asked: Payload, newest: Payload) -> bool | None:
        """Return the earlier answer to a query with the same key, or None if there is none."""
        if not asked["key"]:
            return None
        if newest.get("key") != asked["key"]:  # after a crash, the key may not be recorded yet
            found = self._executor.ledger.resume(self._steps(), self._internal_key(asked["key"]))
            if not isinstance(found, StoredAnswer):
                return None
            newest = found.noisy
        if newest["asked"] != asked["asked"]:
            raise KeyUsed(
                "This idempotency key was already used for a different query of this watch. Use a "
                "new key."
            )
        return bool(newest["above"])

    def _charge(self, step: int) -> Hold | None:
        """Return the hold for a step, at no further cost; None if the step has an answer."""
        question, key, ledger = self._steps(), self._internal_key(step), self._executor.ledger
        found: Hold | StoredAnswer | None
        try:
            found = ledger.reserve(question, ZERO_SHARE, readings=None, key=key)
        except KeyUsed:
            found = ledger.resume(question, key)  # another process took this step, or crashed in it
        return found if isinstance(found, Hold) else None

    def _commit(self, hold: Hold, state: Payload) -> bool:
        """Commit a step and record its key; return whether this commit was stored."""
        ledger = self._executor.ledger
        try:
            receipt = ledger.commit(hold, state)
        except AnsweredAlready:
            return False
        if state["key"]:
            ledger.remember(self._steps(), self._internal_key(state["key"]), receipt)
        return True

    def _newest(self) -> Payload:
        """Return the state of the session after its newest step, as `_state` stores it."""
        ledger = self._executor.ledger
        kept = ledger.stored(self._steps()) or ledger.answer(self.receipt.entry)
        if kept is None:
            raise Fault(
                "The watch is not in the ledger. Restore the ledger in which it was opened."
            )
        return kept.noisy

    def _steps(self) -> QueryIdentity:
        """Return the identity that all steps of this session share; no other query has the same."""
        return self._executor.identify_terms({"watching": self.receipt.entry})

    def _internal_key(self, step_or_key: int | str) -> str:
        """Return a key that no caller can choose, because callers' keys are printable."""
        return f"watch\t{self.receipt.entry}\t{type(step_or_key).__name__}\t{step_or_key}"

    def _make_vector(self) -> SparseVector:
        granted = self._executor.planner.pricing.loss(self.receipt.share)
        return self._threshold.open(granted, self._executor.entropy)


def durable_watch(
    executor: Executor,
    threshold: Threshold,
    price: Price,
    options: QueryOptions,
    label: str = "",
) -> DurableWatch:
    """Return a durable session, charged in full when it is opened.

    Called again with the same key, it returns the same session for free. The ``label`` is stored
    with the session. It shows whose session it is if several agents share one analyst's name.
    """
    terms = {**threshold.terms, "label": label} if label else threshold.terms
    request = executor.open(executor.identify_terms(terms), replace(options, fresh=True))
    settled = request.settlement
    if settled is None:
        share = request.share(lambda: executor.planner.pricing.share_for_cost(price))
        vector = threshold.open(executor.planner.pricing.loss(share), executor.entropy)
        # Privacy: charge for the whole session before any row is read.
        hold = request.reserve(share, readings=None)
        settled = request.commit(hold, _state(executor, vector, 0))
    _check_durable(settled.payload)
    cost, reused = settled.cost, settled.reused
    return DurableWatch(executor, threshold, settled.receipt, cost, label=label, reused=reused)


def resume_watch(executor: Executor, entry: int) -> DurableWatch | None:
    """Return the session that this analyst opened with an entry under this declaration, or None.

    # Privacy: the result is the same for another analyst's entry and one that does not exist.
    """
    found = executor.ledger.history(1, before=entry + 1, analyst=executor.analyst)
    if not found or found[0].number != entry:
        return None
    question, terms = found[0].question, _read_terms(found[0].question.text)
    kept = executor.ledger.answer(entry)
    if terms is None or kept is None or question.fingerprint != executor.fingerprint:
        return None
    _check_durable(kept.noisy)
    threshold = Threshold.from_terms(terms, executor.planner.neighbours)
    return DurableWatch(executor, threshold, kept.receipt, label=terms.get("label", ""))


def _read_terms(text: str) -> dict[str, Any] | None:
    """Return the `Threshold.terms` in an entry's text, or None if it is not a watch."""
    terms = json.loads(text) if text.startswith("{") else {}
    return terms if "watch" in terms else None


def _state(executor: Executor, vector: SparseVector, step: int) -> Payload:
    """Return the state of a session after a step, as the ledger stores it.

    ``left`` is the remaining number of answers "above", ``secret`` the noisy threshold, and
    ``noise`` the scales of the noise.

    # Privacy: the state is secret, but its hash is not. ``blind`` prevents an attacker from finding
    # the state by hashing every candidate.
    """
    return {
        "step": step,
        "left": vector.left,
        "secret": vector.secret,
        "noise": [str(scale) for scale in vector.scales],
        "blind": executor.entropy.words(BLIND_WORDS).tobytes().hex(),
    }


def _check_noise(vector: SparseVector, state: Payload) -> None:
    """Raise UnsupportedQuery if the session was opened with other noise scales."""
    # Privacy: the noise of the threshold and of the comparisons must use one split of epsilon.
    if [str(scale) for scale in vector.scales] != state["noise"]:
        raise UnsupportedQuery(
            "This watch was opened by another version of confide, with other noise. Open a new "
            "watch."
        )


def _check_durable(state: Payload) -> None:
    """Raise KeyUsed if the entry paid for a `Watch`, which stores no state in the ledger."""
    if "secret" not in state:
        raise KeyUsed(
            "This watch can be used only in the process that opened it. Open another watch with a "
            "new key."
        )
