"""A watch over a threshold, whose noise lives in one process."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, NoReturn

from confide.desk import Desk, Manner, Score
from confide.errors import BudgetExceeded, UnsupportedQuery, refusing
from confide.exact import Number, float_above, fraction, positive
from confide.ledger import Hold, KeyUsed, Receipt
from confide.loss import Loss, PureLoss, Share
from confide.mechanisms import Neighbours, SparseVector
from confide.noise import Entropy
from confide.plan import Plan
from confide.plan.selection import find_epsilon, moves_of, only_total
from confide.release.noise import round_to_steps
from confide.release.selection import compare_score

__all__ = ["FINENESS", "Threshold", "Watch", "open_watch", "used_up"]

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
            find_epsilon(granted, PureLoss),
            monotone=self.is_rising,
            entropy=entropy,
        )

    def admit(self, plan: Plan) -> None:
        """Refuse a question that one unit can change by more than was paid for."""
        moves = moves_of(only_total(plan), plan.contribution, self.neighbours)
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

    __slots__ = ("_desk", "_hold", "_threshold", "_vector", "cost", "receipt")

    def __init__(
        self,
        desk: Desk,
        threshold: Threshold,
        vector: SparseVector,
        hold: Hold,
        receipt: Receipt,
    ) -> None:
        self._desk, self._threshold, self._vector, self._hold = desk, threshold, vector, hold
        self.cost, self.receipt = desk.prices.cost(hold.share), receipt

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
        plan = self._desk.plan(self._desk.read_score(query), self._hold.share)
        self._threshold.admit(plan)
        if not self.left:
            raise used_up(self._vector.above)
        sealed = self._desk.engine.run(plan, self._hold)
        return compare_score(sealed, plan, self._threshold.step, self._vector)

    @refusing
    def half_width(self, confidence: Number = 0.95) -> float:
        """Return how far from the threshold an answer must lie to be told rightly, rounded up."""
        return self._threshold.half_width(self._vector, confidence)

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied or pickled."""
        raise TypeError("a session cannot be copied: both copies would answer")


def open_watch(
    desk: Desk, threshold: Threshold, grant: Callable[[], Share], manner: Manner
) -> Watch:
    """Return a session that is charged as a whole, now.

    A key opens one session: its noise lives in this process alone, so a session that has begun
    cannot be taken up again; one of `keep_watch` can.
    """
    request = desk.open(desk.name_question(threshold.terms), Manner(fresh=True, key=manner.key))
    if request.settled is not None:
        raise _spent_key(manner.key)
    share = request.share(grant)
    vector = threshold.open(desk.prices.loss(share), desk.entropy)
    # Privacy: charged before any row is read, for everything that the session will ever tell.
    hold = request.reserve(share, readings=None)
    settled = request.commit(hold, {})
    if settled.reused:
        raise _spent_key(manner.key)
    return Watch(desk, threshold, vector, hold, settled.receipt)


def _spent_key(key: str) -> KeyUsed:
    return KeyUsed(
        f"the key {key!r} has opened a session already, which cannot be taken up again; open "
        "another one with another key"
    )
