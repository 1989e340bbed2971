"""The method Thresholdout: a sparse-vector mechanism in which only wrong guesses cost privacy."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np

from confide.errors import BadDeclaration, Fault
from confide.exact import Number, positive
from confide.holdout.intervals import hoeffding_width
from confide.holdout.noisy_bounds import fits_theorem, theorem_sigma, thresholdout_margins
from confide.holdout.protocol import (
    Guarantee,
    Left,
    Outcomes,
    Progress,
    QueryBatch,
    StoredTerms,
    check_left,
    check_rows,
    check_sigma,
    middle_of,
    state_guarantee,
)
from confide.holdout.values import STEPS_PER_SENSITIVITY, Booleans, sensitivity
from confide.loss import LaplaceLoss, Loss, PureLoss, compose, repeat
from confide.mechanisms.grid import MAX_VALUE, Grid
from confide.noise import DiscreteLaplace, Entropy, Integers

__all__ = ["Thresholdout"]

MAX_CELLS: Final = 10**6
FIRST_CHUNK: Final = 64


@dataclass(frozen=True, slots=True)
class Thresholdout(StoredTerms):
    """Answers with the guess if it is close to the noisy mean, otherwise with the noisy mean.

    Law:     all values lie on a grid with ``STEPS_PER_SENSITIVITY`` steps per sensitivity of a
             mean. A guess is overfit if |mean - guess| + V >= T, with V fresh discrete Laplace
             noise of scale 4 sigma and T = threshold + noise of scale 2 sigma. T is drawn at the
             start and after every overfit. The answer to an overfit query is mean + noise of scale
             sigma, rounded to the middle of one of ``cells`` cells of [0, 1]. The session ends
             after ``overfits`` overfits.
    Claim:   let s be the sensitivity (1 / rows, plus the error of floating-point sums). Each
             overfit costs a sparse-vector round with epsilon s / sigma and a Laplace answer with
             epsilon s / sigma. So the session is (2 overfits s / sigma)-DP if one row of the
             holdout is replaced, and its loss is their composition. This requires that every query
             acts row by row: it computes a value in [0, 1] from each row alone, and does not fail.
             Training rows are not protected.
    Why:     with the guess fixed, replacing a row changes |mean - guess| by at most s. A round
             consists of the queries up to the next overfit. Within a round, raise T by s: then all
             accepted guesses are still accepted, which costs s / (2 sigma). The one overfit stays
             an overfit if its V is raised by 2 s, which costs s / (2 sigma). Its answer has its
             own noise. Rounds are sequential, and rounding to cells is post-processing. Losses are
             fixed in advance, so they compose for adaptively chosen queries, even concurrently with
             other queries to a curator.
    Source:  [DFHPRR15b], [DR14]; [HSTVVXZ23] for concurrent sessions; docs/proofs/holdout.md.
    Checked: tests/holdout/test_thresholdout.py (law), tests/holdout/test_privacy.py (claim, and
             wrong variants).
    """

    rows: int
    beta: float
    queries: int
    overfits: int
    threshold: Fraction
    sigma: Fraction
    wanted: float | None = None

    name = "thresholdout"
    needs_guess = True

    @classmethod
    def of(
        cls,
        rows: int,
        beta: float,
        queries: int,
        overfits: int,
        *,
        tau: float | None,
        threshold: Number | None,
        sigma: Number | None,
        epsilon: Number | None,
    ) -> "Thresholdout":
        """Return a session with noise from ``sigma``, ``epsilon``, or the published theorem.

        Without ``sigma`` and ``epsilon``, the theorem gives the noise for ``tau``.
        """
        if (sigma is not None) + (epsilon is not None) > 1:
            raise BadDeclaration("Method 'thresholdout' takes `sigma=` or `epsilon=`, not both.")
        if sigma is not None:
            noise = positive("sigma", sigma)
        elif epsilon is not None:
            noise = 2 * overfits * sensitivity(rows) / positive("epsilon", epsilon)
        elif tau is not None:
            noise = Fraction(theorem_sigma(tau, beta, queries))
        else:
            raise BadDeclaration(
                "Method 'thresholdout' needs `sigma=`, or `epsilon=`, or `tau=` with `queries=`."
            )
        kept = check_sigma(noise, rows)
        session = cls(rows, beta, queries, overfits, Fraction(1), kept, tau)
        return replace(session, threshold=session.choose_threshold(threshold))

    def choose_threshold(self, threshold: Number | None) -> Fraction:
        """Return the given threshold, else one that guarantees tau, if possible.

        Otherwise, return one that rarely rejects the guess of an honest query: three standard
        deviations of |mean - guess| plus noise.
        """
        if threshold is not None:
            return positive("threshold", threshold)
        if self.wanted is not None:
            accepted, _, nats = self._margins()
            room = self.wanted - accepted - hoeffding_width(self.rows, nats)
            if fits_theorem(self.rows, self.wanted, self.beta, self.queries, self.overfits):
                return Fraction(3 * self.wanted / 4)
            if room > 0:
                return Fraction(room)
        return Fraction(3 * math.sqrt(0.5 / self.rows + 40 * float(self.sigma) ** 2))

    @property
    def cells(self) -> int:
        """The number of cells: enough for cells of half-width at most sigma, up to a limit."""
        return min(MAX_CELLS, max(2, math.ceil(1 / (2 * self.sigma))))

    @property
    def step(self) -> Fraction:
        """The grid step of all comparisons and answers."""
        return sensitivity(self.rows) / STEPS_PER_SENSITIVITY

    @property
    def loss(self) -> Loss:
        """The privacy loss of the whole session: its rounds and its answers."""
        epsilon = sensitivity(self.rows) / self.sigma
        rounds = repeat(PureLoss(epsilon), self.overfits)
        return compose([rounds, repeat(LaplaceLoss(epsilon, STEPS_PER_SENSITIVITY), self.overfits)])

    @property
    def tau(self) -> float:
        """The accuracy bound of every answer, by counting the nodes of the tree of transcripts."""
        accepted, overfit, nats = self._margins()
        return max(float(self.threshold) + accepted, overfit) + hoeffding_width(self.rows, nats)

    def _margins(self) -> tuple[float, float, float]:
        return thresholdout_margins(
            self.rows,
            self.beta,
            self.queries,
            self.overfits,
            sigma=float(self.sigma),
            cells=self.cells,
        )

    def start(self, entropy: Entropy) -> Progress:
        return Progress(secret=self._draw_threshold(entropy))

    def left(self, progress: Progress) -> Left:
        return Left(self.queries - progress.queries, self.overfits - progress.overfits)

    def answer(
        self, progress: Progress, batch: QueryBatch, entropy: Entropy
    ) -> tuple[Progress, Outcomes]:
        check_rows(self.name, self.rows, batch)
        guesses = batch.guesses
        if guesses is None:
            raise BadDeclaration(
                "Method 'thresholdout' needs the query's values on the training rows too."
            )
        batch = batch.first(check_left(self.left(progress)))
        samplers = self._samplers()
        steps = samplers.grid.read(batch.means)
        gap = np.abs(steps - samplers.grid.read(guesses[: len(steps)]))
        gap += samplers.comparison.draw(len(gap), entropy)
        progress, over = self._compare(progress, gap, entropy)
        return progress, self._release(batch.first(len(over)), steps[: len(over)], over, entropy)

    def _compare(
        self, progress: Progress, gap: Integers, entropy: Entropy
    ) -> tuple[Progress, Booleans]:
        """Compare noisy gaps with the noisy threshold, in order, until the last overfit.

        Return the new state and a mask of the overfits among the compared queries.
        """
        if progress.secret is None:
            raise Fault("A Thresholdout session has lost its threshold.")
        over, end, threshold = np.zeros(len(gap), dtype=np.bool_), 0, progress.secret
        used = progress.overfits
        while used < self.overfits:
            index = _first_above(gap, end, threshold)
            end = min(index + 1, len(gap))
            if index == len(gap):
                break
            over[index] = True
            # Privacy: a new round needs a new threshold, even if no query follows.
            threshold, used = self._draw_threshold(entropy), used + 1
        after = replace(progress, queries=progress.queries + end, overfits=used, secret=threshold)
        return after, over[:end]

    def _release(
        self,
        batch: QueryBatch,
        steps: Integers,
        over: Booleans,
        entropy: Entropy,
    ) -> Outcomes:
        guesses = batch.guesses if batch.guesses is not None else batch.means
        values = guesses.copy()
        # Privacy: an answer never reuses the noise of its comparison.
        samplers = self._samplers()
        noise = samplers.answer.draw(int(over.sum()), entropy)
        noisy = np.clip(steps[over] + noise, -MAX_VALUE, MAX_VALUE) * float(self.step)
        values[over] = middle_of(np.clip(noisy, 0.0, 1.0), self.cells)[1]
        accepted, overfit, nats = self._margins()
        half = np.where(over, overfit, float(self.threshold) + accepted)
        return Outcomes(
            values,
            over,
            values - half,
            values + half,
            np.full(len(values), nats),
            batch.rows,
            batch.is_binary,
        )

    def _draw_threshold(self, entropy: Entropy) -> int:
        samplers = self._samplers()
        return int(samplers.threshold + samplers.round.draw_one(entropy))

    def _samplers(self) -> "_Samplers":
        return _make_samplers(self.step, self.threshold, self.sigma)

    def guarantee(self) -> Guarantee:
        until = f"until {self.overfits:,} overfit{'' if self.overfits == 1 else 's'}"
        extent = f"for {self.queries:,} queries {until}, n = {self.rows:,}"
        if self.is_published:
            extent += " (the published theorem holds too)"
        return state_guarantee(self, "every answer", extent, "docs/proofs/holdout.md", self.loss)

    @property
    def is_published(self) -> bool:
        """Whether the published theorem applies, which requires exactly its noise.

        With less noise, answers would be closer to the means over the rows, but the session would
        lose the privacy from which the theorem follows.
        """
        tau = self.wanted
        return (
            tau is not None
            and self.threshold == Fraction(3 * tau / 4)
            and self.sigma == Fraction(theorem_sigma(tau, self.beta, self.queries))
            and fits_theorem(self.rows, tau, self.beta, self.queries, self.overfits)
        )


def _first_above(gap: Integers, start: int, threshold: int) -> int:
    """Return the first index from ``start`` where the gap reaches the threshold, or the length."""
    size = FIRST_CHUNK
    while start < len(gap):
        above = gap[start : start + size] >= threshold
        if above.any():
            return start + int(above.argmax())
        start, size = start + size, 2 * size
    return len(gap)


@dataclass(frozen=True, slots=True)
class _Samplers:
    """The threshold and the noise distributions, in grid steps; preparing them is slow."""

    grid: Grid
    threshold: int
    round: DiscreteLaplace
    comparison: DiscreteLaplace
    answer: DiscreteLaplace


@lru_cache(maxsize=64)
def _make_samplers(step: Fraction, threshold: Fraction, sigma: Fraction) -> _Samplers:
    rounded = threshold / step + Fraction(1, 2)
    laws = (DiscreteLaplace(times * sigma / step) for times in (2, 4, 1))
    return _Samplers(Grid(step), rounded.numerator // rounded.denominator, *laws)
