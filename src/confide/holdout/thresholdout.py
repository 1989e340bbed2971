"""Thresholdout: answers paid by the few whose guess was off."""

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
from confide.holdout.values import FINENESS, Marks, sensitivity
from confide.loss import LaplaceLoss, Loss, PureLoss, compose, repeat
from confide.mechanisms.grid import MAX_VALUE, Grid
from confide.noise import DiscreteLaplace, Entropy, Integers

__all__ = ["Thresholdout"]

MOST_CELLS: Final = 10**6
CHUNK: Final = 64


@dataclass(frozen=True, slots=True)
class Thresholdout(StoredTerms):
    """Let the guess stand while it is near the rows' mean, both up to noise; else tell the mean.

    Law:     all on a grid of which ``FINENESS`` steps are the sensitivity of a mean. A guess is
             overfit when |mean - guess| + V >= T, with V fresh discrete Laplace noise of scale
             4 sigma and T = threshold + noise of scale 2 sigma, drawn at the start and after every
             overfit. An overfit query is answered by mean + noise of scale sigma, as the middle of
             one of ``cells`` cells of [0, 1]. After ``overfits`` of them the session is over.
    Claim:   with s the sensitivity (1 / rows, and what sums of floats may err), each overfit costs
             a sparse-vector round of epsilon s / sigma and a Laplace answer of s / sigma: the
             session is 2 overfits s / sigma -DP as one row of the holdout is replaced, and has
             the loss of their composition, as long as every query acts row by row: phi gives a
             row its value in [0, 1] by that row alone, and does not fail. Training rows are not
             protected.
    Why:     with the guess fixed, |mean - guess| moves by at most FINENESS steps when a row is
             replaced. Within a round move T by s: all that stood stands (s / (2 sigma)); the one
             overfit stays so if its V moves by 2 s (s / (2 sigma)). Its answer has noise of its
             own. Rounds follow each other, and rounding to cells is post-processing. Losses are
             fixed beforehand, so they compose however queries are chosen, also side by side with
             other questions to a curator.
    Source:  [DFHPRR15b], [DR14]; [HSTVVXZ23] for sessions side by side; docs/proofs/holdout.md.
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
        """Return a session with noise for ``epsilon``, or ``sigma`` itself, or of the theorem."""
        if (sigma is not None) + (epsilon is not None) > 1:
            raise BadDeclaration("thresholdout takes sigma= or epsilon=, not both")
        if sigma is not None:
            noise = positive("sigma", sigma)
        elif epsilon is not None:
            noise = 2 * overfits * sensitivity(rows) / positive("epsilon", epsilon)
        elif tau is not None:
            noise = Fraction(theorem_sigma(tau, beta, queries))
        else:
            raise BadDeclaration("thresholdout needs sigma= or epsilon=, or tau= with queries=")
        kept = check_sigma(noise, rows)
        session = cls(rows, beta, queries, overfits, Fraction(1), kept, tau)
        return replace(session, threshold=session.line(threshold))

    def line(self, threshold: Number | None) -> Fraction:
        """Return the threshold asked for, or the largest that keeps tau, or one of chance alone."""
        if threshold is not None:
            return positive("threshold", threshold)
        if self.wanted is not None:
            standing, _, nats = self._margins()
            room = self.wanted - standing - hoeffding_width(self.rows, nats)
            if fits_theorem(self.rows, self.wanted, self.beta, self.queries, self.overfits):
                return Fraction(3 * self.wanted / 4)
            if room > 0:
                return Fraction(room)
        return Fraction(3 * math.sqrt(0.5 / self.rows + 40 * float(self.sigma) ** 2))

    @property
    def cells(self) -> int:
        """Cells of half-width at most sigma, within reason."""
        return min(MOST_CELLS, max(2, math.ceil(1 / (2 * self.sigma))))

    @property
    def step(self) -> Fraction:
        """The grid on which all is compared and told."""
        return sensitivity(self.rows) / FINENESS

    @property
    def loss(self) -> Loss:
        """What the whole session costs: its rounds and its answers."""
        epsilon = sensitivity(self.rows) / self.sigma
        rounds = repeat(PureLoss(epsilon), self.overfits)
        return compose([rounds, repeat(LaplaceLoss(epsilon, FINENESS), self.overfits)])

    @property
    def tau(self) -> float:
        """What every answer keeps, by counting transcripts."""
        standing, given, nats = self._margins()
        return max(float(self.threshold) + standing, given) + hoeffding_width(self.rows, nats)

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
        self, progress: Progress, asked: QueryBatch, entropy: Entropy
    ) -> tuple[Progress, Outcomes]:
        check_rows(self.name, self.rows, asked)
        if asked.guesses is None:
            raise BadDeclaration("thresholdout needs the query's values on the training rows too")
        batch = asked.first(check_left(self.left(progress)))
        tools = self._tools()
        steps = tools.grid.read(batch.means)
        gap = np.abs(steps - tools.grid.read(asked.guesses[: len(steps)]))
        gap += tools.comparison.draw(len(gap), entropy)
        progress, marks = self._walk(progress, gap, entropy)
        return progress, self._tell(batch.first(len(marks)), steps[: len(marks)], marks, entropy)

    def _walk(self, progress: Progress, gap: Integers, entropy: Entropy) -> tuple[Progress, Marks]:
        """Compare noisy gaps with the noisy threshold, in order, until the last overfit."""
        if progress.secret is None:
            raise Fault("a session of thresholdout has lost its threshold")
        marks, place, line = np.zeros(len(gap), dtype=np.bool_), 0, progress.secret
        used = progress.overfits
        while used < self.overfits:
            found = _first_above(gap, place, line)
            place = min(found + 1, len(gap))
            if found == len(gap):
                break
            marks[found] = True
            # Privacy: a new round needs a new threshold, also when it is never asked.
            line, used = self._draw_threshold(entropy), used + 1
        moved = replace(progress, queries=progress.queries + place, overfits=used, secret=line)
        return moved, marks[:place]

    def _tell(
        self,
        asked: QueryBatch,
        steps: Integers,
        marks: Marks,
        entropy: Entropy,
    ) -> Outcomes:
        guesses = asked.guesses if asked.guesses is not None else asked.means
        values = guesses.copy()
        # Privacy: an answer never reuses the noise of its comparison.
        tools = self._tools()
        noise = tools.answer.draw(int(marks.sum()), entropy)
        noisy = np.clip(steps[marks] + noise, -MAX_VALUE, MAX_VALUE) * float(self.step)
        values[marks] = middle_of(np.clip(noisy, 0.0, 1.0), self.cells)[1]
        standing, given, nats = self._margins()
        half = np.where(marks, given, float(self.threshold) + standing)
        return Outcomes(
            values,
            marks,
            values - half,
            values + half,
            np.full(len(values), nats),
            asked.rows,
            asked.is_binary,
        )

    def _draw_threshold(self, entropy: Entropy) -> int:
        tools = self._tools()
        return int(tools.line + tools.round.draw_one(entropy))

    def _tools(self) -> "_Tools":
        return _make_tools(self.step, self.threshold, self.sigma)

    def guarantee(self) -> Guarantee:
        until = f"until {self.overfits:,} overfit{'' if self.overfits == 1 else 's'}"
        extent = f"for {self.queries:,} queries {until}, n = {self.rows:,}"
        if self.is_published:
            extent += " (the published theorem holds too)"
        return state_guarantee(self, "every answer", extent, "docs/proofs/holdout.md", self.loss)

    @property
    def is_published(self) -> bool:
        """Whether the published theorem speaks of this session: its noise, no more and no less.

        Less would keep answers nearer to the rows, but their privacy, from which the theorem
        follows, would be lost.
        """
        tau = self.wanted
        return (
            tau is not None
            and self.threshold == Fraction(3 * tau / 4)
            and self.sigma == Fraction(theorem_sigma(tau, self.beta, self.queries))
            and fits_theorem(self.rows, tau, self.beta, self.queries, self.overfits)
        )


def _first_above(gap: Integers, place: int, line: int) -> int:
    """Return the first place from ``place`` on where the gap reaches the line, or the end."""
    size = CHUNK
    while place < len(gap):
        above = gap[place : place + size] >= line
        if above.any():
            return place + int(above.argmax())
        place, size = place + size, 2 * size
    return len(gap)


@dataclass(frozen=True, slots=True)
class _Tools:
    """Threshold and noises in steps; working them out takes longer than a draw."""

    grid: Grid
    line: int
    round: DiscreteLaplace
    comparison: DiscreteLaplace
    answer: DiscreteLaplace


@lru_cache(maxsize=64)
def _make_tools(step: Fraction, threshold: Fraction, sigma: Fraction) -> _Tools:
    line = threshold / step + Fraction(1, 2)
    laws = (DiscreteLaplace(times * sigma / step) for times in (2, 4, 1))
    return _Tools(Grid(step), line.numerator // line.denominator, *laws)
