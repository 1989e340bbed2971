"""A watch over a threshold whose state lies in the ledger, so that any process goes on with it."""

import json
from collections.abc import Callable
from typing import Any, Final

from confide.desk import Desk, Manner, Score
from confide.errors import Fault, UnsupportedQuery, refusing
from confide.exact import Number
from confide.ledger import AnsweredAlready, Hold, KeyUsed, Noisy, Question, Receipt, Stored
from confide.loss import Share
from confide.mechanisms import SparseVector
from confide.plan import Plan
from confide.pricing import FREE
from confide.query import canonical
from confide.release import Cost
from confide.release.selection import compare_score
from confide.sessions.watch import Threshold, used_up

__all__ = ["KeptWatch", "keep_watch", "take_up_watch"]

MOST_QUESTIONS: Final = 10_000
"""Answers of one session; each takes room in the ledger, "below" too."""
BLIND_WORDS: Final = 4
UNPAID: Final = Share(0)


class KeptWatch:
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

    __slots__ = ("_desk", "_threshold", "cost", "label", "receipt", "reused")

    def __init__(
        self,
        desk: Desk,
        threshold: Threshold,
        receipt: Receipt,
        cost: Cost = FREE,
        *,
        label: str = "",
        reused: bool = True,
    ) -> None:
        self._desk, self._threshold, self.label = desk, threshold, label
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
        read, manner = self._desk.read_score(query), Manner.of(key=key)
        plan = self._desk.plan(read, self.receipt.share)
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

    def _compare(self, plan: Plan, asked: Noisy, newest: Noisy) -> bool | None:
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
        vector.take_up(newest["secret"], newest["left"])
        hold = self._charge(newest["step"] + 1)
        if hold is None:
            return None
        sealed = self._desk.engine.run(plan, hold)
        is_above = compare_score(sealed, plan, self._threshold.step, vector)
        after = {**_state(self._desk, vector, newest["step"] + 1), **asked, "above": is_above}
        # Privacy: what was found is told only if this commit is the one that is kept.
        return is_above if self._commit(hold, after) else None

    def _told(self, asked: Noisy, newest: Noisy) -> bool | None:
        """Return what a key was told before, if anything."""
        if not asked["key"]:
            return None
        if newest.get("key") != asked["key"]:  # a crash may have come before it was remembered
            found = self._desk.ledger.resume(self._steps(), self._name(asked["key"]))
            if not isinstance(found, Stored):
                return None
            newest = found.noisy
        if newest["asked"] != asked["asked"]:
            raise KeyUsed(
                "this key was used for another question of this watch; choose another key"
            )
        return bool(newest["above"])

    def _charge(self, step: int) -> Hold | None:
        """Return the right to take a step, which the session has paid for; None if it is taken."""
        question, key, ledger = self._steps(), self._name(step), self._desk.ledger
        found: Hold | Stored | None
        try:
            found = ledger.reserve(question, UNPAID, readings=None, key=key)
        except KeyUsed:
            found = ledger.resume(question, key)  # another is at it, or a crash left it
        return found if isinstance(found, Hold) else None

    def _commit(self, hold: Hold, state: Noisy) -> bool:
        """Keep a step, and let its key stand for it; tell whether this one was kept."""
        ledger = self._desk.ledger
        try:
            receipt = ledger.commit(hold, state)
        except AnsweredAlready:
            return False
        if state["key"]:
            ledger.remember(self._steps(), self._name(state["key"]), receipt)
        return True

    def _newest(self) -> Noisy:
        """Return where the session stands."""
        ledger = self._desk.ledger
        kept = ledger.stored(self._steps()) or ledger.answer(self.receipt.entry)
        if kept is None:
            raise Fault("a watch is no longer in its ledger; restore the ledger it was opened with")
        return kept.noisy

    def _steps(self) -> Question:
        """Return what the ledger writes down for each step: text that no other question has."""
        return self._desk.name_question({"watching": self.receipt.entry})

    def _name(self, what: int | str) -> str:
        """Return a key that no caller can choose: theirs are printable."""
        return f"watch\t{self.receipt.entry}\t{type(what).__name__}\t{what}"

    def _vector(self) -> SparseVector:
        granted = self._desk.prices.loss(self.receipt.share)
        return self._threshold.open(granted, self._desk.entropy)


def keep_watch(
    desk: Desk, threshold: Threshold, grant: Callable[[], Share], manner: Manner, label: str = ""
) -> KeptWatch:
    """Return a session that is charged as a whole, now; the same key finds it again, for free.

    The ``label`` stays with the session: whose it is, where several ask under one analyst's name.
    """
    terms = {**threshold.terms, "label": label} if label else threshold.terms
    request = desk.open(desk.name_question(terms), Manner(fresh=True, key=manner.key))
    settled = request.settled
    if settled is None:
        share = request.share(grant)
        vector = threshold.open(desk.prices.loss(share), desk.entropy)
        # Privacy: charged before any row is read, for everything that the session will ever tell.
        hold = request.reserve(share, readings=None)
        settled = request.commit(hold, _state(desk, vector, 0))
    _check_kept(settled.noisy)
    cost, reused = settled.cost, settled.reused
    return KeptWatch(desk, threshold, settled.receipt, cost, label=label, reused=reused)


def take_up_watch(desk: Desk, entry: int) -> KeptWatch | None:
    """Return the session that an entry paid for; None where the entry is not this analyst's watch.

    # Privacy: an entry of another analyst and one that is not there are not told apart.
    """
    found = desk.ledger.history(1, before=entry + 1, analyst=desk.analyst)
    if not found or found[0].number != entry:
        return None
    question, terms = found[0].question, _read_terms(found[0].question.text)
    kept = desk.ledger.answer(entry)
    if terms is None or kept is None or question.fingerprint != desk.fingerprint:
        return None
    _check_kept(kept.noisy)
    threshold = Threshold.from_terms(terms, desk.neighbours)
    return KeptWatch(desk, threshold, kept.receipt, label=terms.get("label", ""))


def _read_terms(text: str) -> dict[str, Any] | None:
    terms = json.loads(text) if text.startswith("{") else {}
    return terms if "watch" in terms else None


def _state(desk: Desk, vector: SparseVector, step: int) -> Noisy:
    """Return where a session stands, as the ledger keeps it.

    # Privacy: the state is secret, and a digest of it is not; ``blind`` keeps anybody from finding
    # the one that has this digest.
    """
    return {
        "step": step,
        "left": vector.left,
        "secret": vector.secret,
        "noise": [str(scale) for scale in vector.scales],
        "blind": desk.entropy.words(BLIND_WORDS).tobytes().hex(),
    }


def _check_noise(vector: SparseVector, state: Noisy) -> None:
    # Privacy: the threshold's noise and the comparisons' must be those of one split of epsilon.
    if [str(scale) for scale in vector.scales] != state["noise"]:
        raise UnsupportedQuery(
            "this watch was opened by a confide that drew its noise otherwise; open a new one"
        )


def _check_kept(state: Noisy) -> None:
    if "secret" not in state:
        raise KeyUsed(
            "this watch lives in the process that opened it; open another one with another key"
        )
