"""Sparse vector technique: many comparisons with a threshold, where only values above it cost."""

import os
import threading
from fractions import Fraction
from typing import Final, NoReturn

from flint import arb, ctx

from confide.errors import BadDeclaration, BudgetExceeded, Fault
from confide.exact import (
    Number,
    ball,
    first_integer,
    integer,
    is_above,
    non_negative,
    positive,
    probability,
)
from confide.loss import PureLoss
from confide.mechanisms.grid import MAX_VALUE, read_one, saturate
from confide.mechanisms.scores import read_flag
from confide.noise import SYSTEM, DiscreteLaplace, Entropy, Integer

__all__ = ["SparseVector"]

SPLIT_BITS: Final = 20


class SparseVector:
    """A session that compares values with a threshold until a given number of them are above it.

    Answers "below" are free. After ``above`` answers "above", every further query is refused.
    ``monotone=True`` declares that one unit changes all values in the same direction. With
    ``answers`` (a fraction of epsilon between 0 and 1), `ask_value` returns the noisy value with
    each "above".

    Law:     "above" if value + V >= threshold + T, with discrete Laplace noise. T is drawn once,
             with scale s / e1, where s is ``sensitivity``. V is new for every query, with scale
             2 B s / e2 (B s / e2 for monotone values), where B is ``above``. A returned value has
             separate noise, with scale B s / e3, where e3 is ``answers`` times epsilon.
    Claim:   epsilon-DP for the whole session, epsilon = e1 + e2 + e3, for any choice of queries.
    Why:     map each noise on one dataset to a noise on its neighbor with the same answers. Raise
             T by s: every "below" stays below with the same V, and every "above" stays above if its
             V rises by 2 s. Raising T costs e1, and raising each of the at most B values of V costs
             e2 / B. For monotone values, it suffices to raise V by s: if all values increase, T
             rises too; if all decrease, T stays. Returned values are at most B Laplace answers,
             each of which costs e3 / B. The ratio e1 : e2 = 1 : (2 B)^(2/3), or 1 : B^(2/3),
             minimizes the variance of V - T.
    Source:  [DR14], [LSL17] (Algorithm 7 and the split).
    Checked: tests/mechanisms/test_sparse_vector.py (law, claim for short sessions in full),
             tests/audit/test_claims.py (claim), tests/audit/test_known_bad.py (wrong variants).

    >>> session = SparseVector(threshold=1_000, above=1, epsilon=1)
    >>> session.ask(10), session.ask(100_000)
    (False, True)
    >>> session.left
    0
    """

    __slots__ = (
        "_answer_noise",
        "_entropy",
        "_left",
        "_lock",
        "_noisy_threshold",
        "_process",
        "_query_noise",
        "_threshold_noise",
        "above",
        "epsilon",
        "sensitivity",
        "threshold",
    )

    def __init__(
        self,
        threshold: int,
        above: int = 1,
        sensitivity: int = 1,
        epsilon: Number = 1,
        *,
        monotone: bool = False,
        answers: Number = 0,
        entropy: Entropy = SYSTEM,
    ) -> None:
        self.threshold = read_one("threshold", threshold)
        self.above = integer("above", above, low=1, high=10**9)
        self.sensitivity = integer("sensitivity", sensitivity, low=1, high=MAX_VALUE)
        self.epsilon = positive("epsilon", epsilon)
        e3 = _fraction_of_epsilon("answers", answers) * self.epsilon
        factor = 1 if read_flag("monotone", monotone) else 2
        e1 = (self.epsilon - e3) / (1 + _best_ratio(factor * self.above))
        e2 = self.epsilon - e3 - e1
        self._threshold_noise = DiscreteLaplace(self.sensitivity / e1)
        self._query_noise = DiscreteLaplace(factor * self.above * self.sensitivity / e2)
        self._answer_noise = DiscreteLaplace(self.above * self.sensitivity / e3) if e3 else None
        self._entropy, self._lock, self._process = entropy, threading.Lock(), os.getpid()
        self._left = self.above
        self._noisy_threshold: Integer = self.threshold + self._threshold_noise.draw_one(entropy)

    @property
    def loss(self) -> PureLoss:
        """The privacy loss of the whole session, which must be paid at its start."""
        return PureLoss(epsilon=self.epsilon)

    @property
    def left(self) -> int:
        """The remaining number of answers "above"."""
        return self._left

    @property
    def secret(self) -> int:
        """The noisy threshold, with which another process can `resume` the session.

        It is as secret as the data.
        """
        return int(self._noisy_threshold)

    @property
    def scales(self) -> tuple[Fraction, Fraction]:
        """The scales of the noise of the threshold and of each comparison."""
        return self._threshold_noise.exact_scale, self._query_noise.exact_scale

    def resume(self, secret: int, left: int) -> None:
        """Continue another session with the same arguments, before this one answers any query.

        ``secret`` and ``left`` are those of the other session.

        # Privacy: the two count as one session only if the other one no longer answers, and no
        # third one resumes from the same state. The code that stores ``secret`` must ensure this.
        """
        self._noisy_threshold, self._left = secret, left

    def ask(self, value: int) -> bool:
        """Return whether ``value`` is above the threshold, up to noise."""
        return self._compare(value)[0]

    def ask_value(self, value: int) -> int | None:
        """Return the noisy value if ``value`` is above the threshold, up to noise, else None."""
        if self._answer_noise is None:
            raise BadDeclaration(
                "`ask_value` needs a session with `answers=`, a fraction of epsilon greater than "
                "0; got 0."
            )
        return self._compare(value)[1]

    def _compare(self, value: int) -> tuple[bool, int | None]:
        exact = read_one("value", value)
        self._check_process()
        with self._lock:
            self._check_left()
            if exact + self._query_noise.draw_one(self._entropy) < self._noisy_threshold:
                return False, None
            # Privacy: never reuse the noise of the comparison in the answer.
            self._left -= 1
        if self._answer_noise is None:
            return True, None
        return True, saturate(exact + self._answer_noise.draw_one(self._entropy))

    def _check_process(self) -> None:
        # Privacy: two copies of a session would answer twice for one loss.
        if self._process != os.getpid():
            raise Fault(
                "A sparse-vector session belongs to the process that opened it. Open a session in "
                "each process."
            )

    def _check_left(self) -> None:
        if self._left <= 0:
            raise BudgetExceeded(
                f"This session was opened for {self.above} answers above its threshold, and all of "
                "them were given. Open a new session for more.",
                cost=Fraction(1),
                left=Fraction(0),
            )

    def interval(self, confidence: Number = 0.95) -> tuple[int, int]:
        """Return the range of distances from the threshold at which an answer may be wrong.

        Claim: let (low, high) be the result. The answer about any single value below
               threshold + low or above threshold + high is correct with at least this confidence.
        Why:   an answer is wrong only if |V - T| reaches the value's distance from the threshold,
               which is at least high + 1 for these values. The distribution of V - T is the
               convolution of two two-sided geometric ones, summed in closed form.
        """
        miss = 1 - probability("confidence", confidence, zero=False)
        width = first_integer(
            lambda width: not is_above(lambda: _tail_of_sum(*self.scales, width), miss), start=0
        )
        return -width, width

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied or pickled."""
        raise TypeError("A sparse-vector session cannot be copied, because both would answer.")

    def __copy__(self) -> NoReturn:
        self.__reduce__()

    def __deepcopy__(self, memo: object) -> NoReturn:
        self.__reduce__()


def _fraction_of_epsilon(name: str, value: object) -> Fraction:
    part = non_negative(name, value)
    if part >= 1:
        raise BadDeclaration(
            f"`{name}` must be a fraction of epsilon, at least 0 and less than 1; got {value!r}."
        )
    return part


def _best_ratio(scale: int) -> Fraction:
    """Return about scale^(2/3), the best ratio of e2 to e1 if V has scale ``scale`` * s / e2.

    Any positive ratio gives the same privacy.
    """
    with ctx.workprec(64):
        root = arb(scale) ** (arb(2) / 3)
    return Fraction(round(float(root) * 2**SPLIT_BITS), 2**SPLIT_BITS)


def _tail_of_sum(first: Fraction, second: Fraction, width: int) -> arb:
    """Return a ball around P(|X + Y| > width), for independent discrete Laplace X and Y.

    ``first`` and ``second`` are their scales.

    Why: let p = exp(-1 / first) and r = exp(-1 / second). P(X + Y = k) is proportional to the sum
         of p^|j| r^|k - j| over all j. For k >= 0 this is A + (p^k + r^k) p r / (1 - p r), where
         A = (p^(k+1) - r^(k+1)) / (p - r), or (k + 1) p^k if p = r. Adding over k > width gives
         geometric sums.
    """
    p, r = (-1 / ball(first)).exp(), (-1 / ball(second)).exp()
    above_p, above_r = p ** (width + 1) / (1 - p), r ** (width + 1) / (1 - r)
    if first == second:
        middle = above_p * (width + 2) + p * above_p / (1 - p)
    else:
        middle = (p * above_p - r * above_r) / (p - r)
    weight = (1 - p) / (1 + p) * (1 - r) / (1 + r)
    return 2 * weight * (middle + (above_p + above_r) * p * r / (1 - p * r))
