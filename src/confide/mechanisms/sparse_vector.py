"""Sparse vector technique: many comparisons, paid by the few above a threshold."""

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
from confide.mechanisms.grid import LARGEST_VALUE, read_one, saturate
from confide.mechanisms.scores import read_flag
from confide.noise import SYSTEM, DiscreteLaplace, Entropy, Integer

__all__ = ["SparseVector"]

SPLIT_BITS: Final = 20


class SparseVector:
    """Tell of each value whether it lies above a threshold, at most B times "above".

    Any number of answers "below" come free; after ``above`` answers "above" every further question
    is refused. ``monotone=True`` says that one unit moves all values the same way. With
    ``answers`` (a part of epsilon between 0 and 1) the noisy value itself is given along with
    each "above", from `ask_value`.

    Law:     "above" when value + V >= threshold + T, with discrete Laplace noise: T once, of scale
             s / e1; V fresh for every question, of scale 2 B s / e2 (B s / e2 for monotone
             values); a value given out has noise of its own, of scale B s / e3.
    Claim:   epsilon-DP for the whole session, epsilon = e1 + e2 + e3, however the questions are
             chosen.
    Why:     compare neighbours by moving T up by s: every "below" stays below, whatever V is, and
             every "above" stays above if its V moves up by 2 s. The first costs e1 and the at
             most B others e2 / B each. When all values grow, V needs to move by s only; when all
             shrink, T need not move, and V by s. Values given out are B Laplace answers. The
             split e1 : e2 = 1 : (2 B)^(2/3), or 1 : B^(2/3), makes the variance of V - T least.
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
        self.sensitivity = integer("sensitivity", sensitivity, low=1, high=LARGEST_VALUE)
        self.epsilon = positive("epsilon", epsilon)
        given = _part("answers", answers) * self.epsilon
        moves = 1 if read_flag("monotone", monotone) else 2
        first = (self.epsilon - given) / (1 + _split(moves * self.above))
        second = self.epsilon - given - first
        self._threshold_noise = DiscreteLaplace(self.sensitivity / first)
        self._query_noise = DiscreteLaplace(moves * self.above * self.sensitivity / second)
        self._answer_noise = (
            DiscreteLaplace(self.above * self.sensitivity / given) if given else None
        )
        self._entropy, self._lock, self._process = entropy, threading.Lock(), os.getpid()
        self._left = self.above
        self._noisy_threshold: Integer = self.threshold + self._threshold_noise.draw_one(entropy)

    @property
    def loss(self) -> PureLoss:
        """What the whole session costs, reserved at its start."""
        return PureLoss(epsilon=self.epsilon)

    @property
    def left(self) -> int:
        """How many answers "above" may still be given."""
        return self._left

    @property
    def secret(self) -> int:
        """The noisy threshold, as secret as the values: for a session that outlives its process."""
        return int(self._noisy_threshold)

    @property
    def scales(self) -> tuple[Fraction, Fraction]:
        """The scales of the threshold's noise and of each comparison's."""
        return self._threshold_noise.exact_scale, self._query_noise.exact_scale

    def take_up(self, secret: int, left: int) -> None:
        """Go on where another session on the same terms stood, before this one tells anything.

        # Privacy: the two are one session only if no other goes on from the same place; whoever
        # keeps ``secret`` sees to that.
        """
        self._noisy_threshold, self._left = secret, left

    def ask(self, value: int) -> bool:
        """Tell whether ``value`` lies above the threshold, up to noise."""
        return self._compare(value)[0]

    def ask_value(self, value: int) -> int | None:
        """Return the noisy value when it lies above the threshold, else nothing."""
        if self._answer_noise is None:
            raise BadDeclaration("ask_value needs a session with answers= a part of epsilon, got 0")
        return self._compare(value)[1]

    def _compare(self, value: int) -> tuple[bool, int | None]:
        exact = read_one("value", value)
        self._check_process()
        with self._lock:
            self._check_left()
            if exact + self._query_noise.draw_one(self._entropy) < self._noisy_threshold:
                return False, None
            # Privacy: the answer never reuses the noise of the comparison.
            self._left -= 1
        if self._answer_noise is None:
            return True, None
        return True, saturate(exact + self._answer_noise.draw_one(self._entropy))

    def _check_process(self) -> None:
        # Privacy: two copies of a session would answer twice on one loss.
        if self._process != os.getpid():
            raise Fault(
                "a sparse-vector session belongs to the process that opened it; open one in each"
            )

    def _check_left(self) -> None:
        if self._left <= 0:
            raise BudgetExceeded(
                f"this session was opened for {self.above} answers above its threshold, and all "
                "are given; open a new session for more",
                cost=Fraction(1),
                left=Fraction(0),
            )

    def interval(self, confidence: Number = 0.95) -> tuple[int, int]:
        """Return a range about the threshold: one answer on a value farther off is right.

        Claim: with at least this confidence, for any one value outside the range.
        Why:   an answer is wrong only if V - T reaches the value's distance from the threshold,
               which is then at least the width plus 1; the law of V - T is the convolution of two
               two-sided geometric laws, summed in closed form.
        """
        miss = 1 - probability("confidence", confidence, zero=False)
        width = first_integer(
            lambda width: not is_above(lambda: _tail_of_sum(*self.scales, width), miss), start=0
        )
        return -width, width

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied or pickled."""
        raise TypeError("a sparse-vector session cannot be copied: both copies would answer")

    def __copy__(self) -> NoReturn:
        self.__reduce__()

    def __deepcopy__(self, memo: object) -> NoReturn:
        self.__reduce__()


def _part(name: str, value: object) -> Fraction:
    part = non_negative(name, value)
    if part >= 1:
        raise BadDeclaration(f"{name} must be a part of epsilon in [0, 1), got {value!r}")
    return part


def _split(moves: int) -> Fraction:
    """Return about moves^(2/3), the best ratio of e2 to e1; any positive ratio is private."""
    with ctx.workprec(64):
        root = arb(moves) ** (arb(2) / 3)
    return Fraction(round(float(root) * 2**SPLIT_BITS), 2**SPLIT_BITS)


def _tail_of_sum(first: Fraction, second: Fraction, width: int) -> arb:
    """Enclose P(|X + Y| > width) for independent discrete Laplace X and Y of these scales.

    Why: with p = exp(-1/first), r = exp(-1/second), the sum of p^|j| r^|k - j| over j is, for
         k >= 0, A + (p^k + r^k) p r / (1 - p r), where A = (p^(k+1) - r^(k+1)) / (p - r), or
         (k + 1) p^k when p = r; adding over k > width gives geometric sums.
    """
    p, r = (-1 / ball(first)).exp(), (-1 / ball(second)).exp()
    above_p, above_r = p ** (width + 1) / (1 - p), r ** (width + 1) / (1 - r)
    if first == second:
        middle = above_p * (width + 2) + p * above_p / (1 - p)
    else:
        middle = (p * above_p - r * above_r) / (p - r)
    weight = (1 - p) / (1 + p) * (1 - r) / (1 + r)
    return 2 * weight * (middle + (above_p + above_r) * p * r / (1 - p * r))
