"""Sparse-vector sessions (`curator.watch`), in memory or durable in the ledger."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, NoReturn

from confide.errors import BudgetExceeded, Fault, UnsupportedQuery, refusing
from confide.exact import Number, float_above, fraction, positive
from confide.execution.executor import Executor, QueryOptions
from confide.execution.planner import Score
from confide.execution.pricing import FREE, Price
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
    "FINENESS",
    "DurableWatch",
    "Threshold",
    "Watch",
    "keep_watch",
    "open_watch",
    "take_up_watch",
    "used_up",
]

FINENESS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Threshold:
    """What a watch compares with, in the unit of its questions.

    ``sensitivity`` is the most that one unit may change an answer. ``is_rising`` says that no
    question asked falls when a unit is added, which buys the smaller noise of monotone values.
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
        """Return the threshold that a caller named."""
        return cls(
            level=fraction("threshold", level, "a finite number"),
            above=above,
            sensitivity=positive("sensitivity", sensitivity),
            is_rising=neighbours is Neighbours.ADD_REMOVE and not signed,
            neighbours=neighbours,
        )

    @classmethod
    def from_terms(cls, terms: Mapping[str, Any], neighbours: Neighbours) -> "Threshold":
        """Return the threshold that `terms` wrote down."""
        return cls(
            level=Fraction(terms["watch"]),
            above=terms["above"],
            sensitivity=Fraction(terms["sensitivity"]),
            is_rising=terms["rising"],
            neighbours=neighbours,
        )

    @property
    def terms(self) -> dict[str, object]:
        """What the ledger writes down for a session."""
        return {
            "watch": str(self.level),
            "above": self.above,
            "sensitivity": str(self.sensitivity),
            "rising": self.is_rising,
        }

    @property
    def step(self) -> Fraction:
        """The grid of the comparison; it divides the sensitivity."""
        return self.sensitivity / FINENESS

    def open(self, granted: Loss, entropy: Entropy) -> SparseVector:
        """Return the mechanism for which ``granted`` pays."""
        return SparseVector(
            round_to_steps(self.level, self.step),
            self.above,
            FINENESS,
            max_epsilon(granted, PureLoss),
            monotone=self.is_rising,
            entropy=entropy,
        )

    def admit(self, plan: Plan) -> None:
        """Refuse a question that one unit can change by more than was paid for."""
        moves = score_change(only_total(plan), plan.contribution, self.neighbours)
        if moves.largest > self.sensitivity:
            raise UnsupportedQuery(
                f"one unit can change this by {float_above(moves.largest):.6g}, and the session "
                f"was opened for {float(self.sensitivity):.6g}; narrow the values with "
                "LEAST(GREATEST(x, low), high), or open a session with a larger sensitivity="
            )
        if self.is_rising and moves.low < 0:
            raise UnsupportedQuery(
                "this sum can fall when a unit is added, and the session was opened for values "
                "that cannot; write GREATEST(x, 0), or open a session with signed=True"
            )

    def half_width(self, vector: SparseVector, confidence: Number) -> float:
        """Return how far from the threshold an answer must lie to be told rightly, rounded up.

        Claim: with at least this confidence, for any one question.
        Why:   `SparseVector.interval` in steps, one more to lie outside it, and one for rounding
               value and threshold by half a step each.
        """
        steps = vector.interval(confidence)[1] + 2
        return float_above(steps * self.step)


def used_up(above: int) -> BudgetExceeded:
    """Return the refusal of a session that has told all it was paid for."""
    return BudgetExceeded(
        f"this session was opened for {above} answers above its threshold, and all are given; open "
        "a new session for more",
        cost=Fraction(1),
        left=Fraction(0),
    )


class Watch:
    """A session that tells of question after question whether the answer is above a threshold.

    Law:     that of `SparseVector` on whole steps of sensitivity / 1000.
    Claim:   the whole session costs what was charged when it was opened, whatever is asked and
             whatever else is asked of the curator in between.
    Why:     every admitted value moves by at most the sensitivity, which is a whole number of
             steps, so rounding keeps it (see mechanisms/grid.py); the sparse vector is then
             epsilon-DP against an analyst who chooses each question after seeing all answers,
             with epsilon, its mu^2 or its divergence within the share granted. The filter, valid
             for mechanisms asked once, stays so for sessions that run side by side with others.
    Source:  [HSTVVXZ23] for sessions side by side under pure, Gaussian (as f-DP) and Renyi
             filters; confide.mechanisms.SparseVector for the session, [KOV17] for its mu.
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
        self._executor, self._threshold, self._vector, self._hold = (
            executor,
            threshold,
            vector,
            hold,
        )
        self.cost, self.receipt = executor.planner.pricing.cost(hold.share), receipt

    @property
    def left(self) -> int:
        """How many answers "above" may still be given."""
        return self._vector.left

    def ask(self, query: Score) -> bool:
        """Tell whether the answer to one COUNT or SUM is above the threshold, up to noise.

        "Below" is free. After as many "above" as the session was opened for it is over.

        Raises:
            BudgetExceeded: all answers "above" are given; nothing was read.
        """
        planner = self._executor.planner
        plan = planner.plan(planner.read_score(query), self._hold.share)
        self._threshold.admit(plan)
        if not self.left:
            raise used_up(self._vector.above)
        sealed = self._executor.engine.run(plan.measurement, self._hold)
        return compare_score(sealed, plan, self._threshold.step, self._vector)

    @refusing
    def half_width(self, confidence: Number = 0.95) -> float:
        """Return how far from the threshold an answer must lie to be told rightly, rounded up."""
        return self._threshold.half_width(self._vector, confidence)

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied or pickled."""
        raise TypeError("a session cannot be copied: both copies would answer")


def open_watch(
    executor: Executor, threshold: Threshold, price: Price, options: QueryOptions
) -> Watch:
    """Return a session that is charged as a whole, now.

    A key opens one session: its noise lives in this process alone, so a session that has begun
    cannot be taken up again; one of `keep_watch` can.
    """
    request = executor.open(
        executor.identify_terms(threshold.terms), QueryOptions(fresh=True, key=options.key)
    )
    if request.settlement is not None:
        raise _spent_key(options.key)
    share = request.share(lambda: executor.planner.pricing.grant(price))
    vector = threshold.open(executor.planner.pricing.loss(share), executor.entropy)
    # Privacy: charged before any row is read, for everything that the session will ever tell.
    hold = request.reserve(share, readings=None)
    settled = request.commit(hold, {})
    if settled.reused:
        raise _spent_key(options.key)
    return Watch(executor, threshold, vector, hold, settled.receipt)


def _spent_key(key: str) -> KeyUsed:
    return KeyUsed(
        f"the key {key!r} has opened a session already, which cannot be taken up again; open "
        "another one with another key"
    )


MOST_QUESTIONS: Final = 10_000
"""Answers of one session; each takes room in the ledger, "below" too."""
BLIND_WORDS: Final = 4
UNPAID: Final = Share(0)


class DurableWatch:
    """A watch that outlives its process: each answer is a record of the ledger.

    The session is charged as a whole when it is opened; its answers cost nothing more. Processes
    that take up the same session share its answers "above".

    Law:     that of `Watch`: the noisy threshold is drawn once and read back for every question.
    Claim:   that of `Watch`, also when processes ask at once, crash or start again; and receipts
             and exports tell nothing about the noisy threshold.
    Why:     answers follow one another. Each is charged under the number of its step, and the
             ledger gives a charge one answer, so of two who compare at the same step one is told;
             the other throws its draw away unseen, whatever it was, and compares again a step
             later. So what is shown comes from one sparse vector asked one question after the
             other. A digest of a record covers its state together with 256 fresh bits, so that
             trying every threshold finds none.
    Source:  as for `Watch`; docs/ledger.md.
    Checked: tests/curator/test_kept_watches.py.
    """

    __slots__ = ("_executor", "_threshold", "cost", "label", "receipt", "reused")

    def __init__(
        self,
        executor: Executor,
        threshold: Threshold,
        receipt: Receipt,
        cost: Cost = FREE,
        *,
        label: str = "",
        reused: bool = True,
    ) -> None:
        self._executor, self._threshold, self.label = executor, threshold, label
        self.cost, self.receipt, self.reused = cost, receipt, reused

    @property
    def left(self) -> int:
        """How many answers "above" may still be given, to all who share the session."""
        return int(self._newest()["left"])

    def ask(self, query: Score, *, key: str | None = None) -> bool:
        """Tell whether the answer to one COUNT or SUM is above the threshold, up to noise.

        "Below" is free. After as many "above" as the session was opened for it is over. The same
        ``key`` is told the same, however often it asks.

        Raises:
            BudgetExceeded: all answers "above" are given; nothing was read.
        """
        read, manner = self._executor.planner.read_score(query), QueryOptions.of(key=key)
        plan = self._executor.planner.plan(read, self.receipt.share)
        self._threshold.admit(plan)
        asked = {"asked": canonical(read), "key": manner.key}
        while True:
            newest = self._newest()
            told = self._told(asked, newest)
            if told is None:
                told = self._compare(plan, asked, newest)
            if told is not None:
                return told

    def close(self) -> None:
        """End the session for all who share it; what it cost stays."""
        while (newest := self._newest())["left"]:
            hold = self._charge(newest["step"] + 1)
            if hold is not None:
                self._commit(hold, {**newest, "left": 0, "step": newest["step"] + 1, "key": ""})

    @refusing
    def half_width(self, confidence: Number = 0.95) -> float:
        """Return how far from the threshold an answer must lie to be told rightly, rounded up."""
        return self._threshold.half_width(self._vector(), confidence)

    def _compare(self, plan: Plan, asked: Payload, newest: Payload) -> bool | None:
        """Take the next step; return what it tells, or nothing where another took it."""
        if not newest["left"]:
            raise used_up(self._threshold.above)
        if newest["step"] >= MOST_QUESTIONS:
            raise UnsupportedQuery(
                f"a watch that is kept answers {MOST_QUESTIONS:,} questions, and this one has; "
                "open a new one"
            )
        vector = self._vector()
        _check_noise(vector, newest)
        vector.resume(newest["secret"], newest["left"])
        hold = self._charge(newest["step"] + 1)
        if hold is None:
            return None
        sealed = self._executor.engine.run(plan.measurement, hold)
        is_above = compare_score(sealed, plan, self._threshold.step, vector)
        after = {**_state(self._executor, vector, newest["step"] + 1), **asked, "above": is_above}
        # Privacy: what was found is told only if this commit is the one that is kept.
        return is_above if self._commit(hold, after) else None

    def _told(self, asked: Payload, newest: Payload) -> bool | None:
        """Return what a key was told before, if anything."""
        if not asked["key"]:
            return None
        if newest.get("key") != asked["key"]:  # a crash may have come before it was remembered
            found = self._executor.ledger.resume(self._steps(), self._name(asked["key"]))
            if not isinstance(found, StoredAnswer):
                return None
            newest = found.noisy
        if newest["asked"] != asked["asked"]:
            raise KeyUsed(
                "this key was used for another question of this watch; choose another key"
            )
        return bool(newest["above"])

    def _charge(self, step: int) -> Hold | None:
        """Return the right to take a step, which the session has paid for; None if it is taken."""
        question, key, ledger = self._steps(), self._name(step), self._executor.ledger
        found: Hold | StoredAnswer | None
        try:
            found = ledger.reserve(question, UNPAID, readings=None, key=key)
        except KeyUsed:
            found = ledger.resume(question, key)  # another is at it, or a crash left it
        return found if isinstance(found, Hold) else None

    def _commit(self, hold: Hold, state: Payload) -> bool:
        """Keep a step, and let its key stand for it; tell whether this one was kept."""
        ledger = self._executor.ledger
        try:
            receipt = ledger.commit(hold, state)
        except AnsweredAlready:
            return False
        if state["key"]:
            ledger.remember(self._steps(), self._name(state["key"]), receipt)
        return True

    def _newest(self) -> Payload:
        """Return where the session stands."""
        ledger = self._executor.ledger
        kept = ledger.stored(self._steps()) or ledger.answer(self.receipt.entry)
        if kept is None:
            raise Fault("a watch is no longer in its ledger; restore the ledger it was opened with")
        return kept.noisy

    def _steps(self) -> QueryIdentity:
        """Return what the ledger writes down for each step: text that no other question has."""
        return self._executor.identify_terms({"watching": self.receipt.entry})

    def _name(self, what: int | str) -> str:
        """Return a key that no caller can choose: theirs are printable."""
        return f"watch\t{self.receipt.entry}\t{type(what).__name__}\t{what}"

    def _vector(self) -> SparseVector:
        granted = self._executor.planner.pricing.loss(self.receipt.share)
        return self._threshold.open(granted, self._executor.entropy)


def keep_watch(
    executor: Executor,
    threshold: Threshold,
    price: Price,
    options: QueryOptions,
    label: str = "",
) -> DurableWatch:
    """Return a session that is charged as a whole, now; the same key finds it again, for free.

    The ``label`` stays with the session: whose it is, where several ask under one analyst's name.
    """
    terms = {**threshold.terms, "label": label} if label else threshold.terms
    request = executor.open(
        executor.identify_terms(terms), QueryOptions(fresh=True, key=options.key)
    )
    settled = request.settlement
    if settled is None:
        share = request.share(lambda: executor.planner.pricing.grant(price))
        vector = threshold.open(executor.planner.pricing.loss(share), executor.entropy)
        # Privacy: charged before any row is read, for everything that the session will ever tell.
        hold = request.reserve(share, readings=None)
        settled = request.commit(hold, _state(executor, vector, 0))
    _check_kept(settled.payload)
    cost, reused = settled.cost, settled.reused
    return DurableWatch(executor, threshold, settled.receipt, cost, label=label, reused=reused)


def take_up_watch(executor: Executor, entry: int) -> DurableWatch | None:
    """Return the session that an entry paid for; None where the entry is not this analyst's watch.

    # Privacy: an entry of another analyst and one that is not there are not told apart.
    """
    found = executor.ledger.history(1, before=entry + 1, analyst=executor.analyst)
    if not found or found[0].number != entry:
        return None
    question, terms = found[0].question, _read_terms(found[0].question.text)
    kept = executor.ledger.answer(entry)
    if terms is None or kept is None or question.fingerprint != executor.fingerprint:
        return None
    _check_kept(kept.noisy)
    threshold = Threshold.from_terms(terms, executor.planner.neighbours)
    return DurableWatch(executor, threshold, kept.receipt, label=terms.get("label", ""))


def _read_terms(text: str) -> dict[str, Any] | None:
    terms = json.loads(text) if text.startswith("{") else {}
    return terms if "watch" in terms else None


def _state(executor: Executor, vector: SparseVector, step: int) -> Payload:
    """Return where a session stands, as the ledger keeps it.

    # Privacy: the state is secret, and a digest of it is not; ``blind`` keeps anybody from finding
    # the one that has this digest.
    """
    return {
        "step": step,
        "left": vector.left,
        "secret": vector.secret,
        "noise": [str(scale) for scale in vector.scales],
        "blind": executor.entropy.words(BLIND_WORDS).tobytes().hex(),
    }


def _check_noise(vector: SparseVector, state: Payload) -> None:
    # Privacy: the threshold's noise and the comparisons' must be those of one split of epsilon.
    if [str(scale) for scale in vector.scales] != state["noise"]:
        raise UnsupportedQuery(
            "this watch was opened by a confide that drew its noise otherwise; open a new one"
        )


def _check_kept(state: Payload) -> None:
    if "secret" not in state:
        raise KeyUsed(
            "this watch lives in the process that opened it; open another one with another key"
        )
