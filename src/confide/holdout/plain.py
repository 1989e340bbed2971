"""Normal noise on every answer, fresh rows for every answer, and no protection at all."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np

from confide.errors import BadDeclaration
from confide.exact import Number, positive
from confide.holdout.intervals import hoeffding_width
from confide.holdout.methods import (
    Asked,
    Guarantee,
    Left,
    Outcomes,
    Written,
    check_left,
    check_rows,
    check_sigma,
    state_guarantee,
)
from confide.holdout.noisy_bounds import best_gaussian, gaussian_width
from confide.holdout.state import Progress
from confide.holdout.values import FINENESS, sensitivity
from confide.loss import GaussianLoss
from confide.mechanisms.grid import LARGEST_VALUE, Grid
from confide.noise import Entropy, RoundedGaussian

__all__ = ["GaussianAnswers", "Naive", "Splitting"]

SPLIT: Final = 0.9


@dataclass(frozen=True, slots=True)
class GaussianAnswers(Written):
    """Tell every mean with normal noise; no guess is needed.

    Law:     mean + rounded normal noise of deviation sigma, on a grid of which ``FINENESS`` steps
             are the sensitivity s of a mean; cut to [0, 1].
    Claim:   (s / sigma)^2 queries = mu^2 of Gaussian DP as one row is replaced; with probability
             1 - beta every answer within `gaussian_width` of the population.
    Why:     rounding to the grid keeps the sensitivity at FINENESS steps; each answer is a
             Gaussian mechanism, however queries are chosen.
    Source:  [DRS22], [RRSSTW20], docs/proofs/holdout.md.
    Checked: tests/holdout/test_session.py, tests/holdout/test_analysts.py.
    """

    rows: int
    beta: float
    queries: int
    sigma: Fraction
    split: float = SPLIT
    wanted: float | None = None

    name = "gaussian"
    needs_guess = False

    @classmethod
    def of(
        cls, rows: int, beta: float, queries: int, *, tau: float | None, sigma: Number | None
    ) -> "GaussianAnswers":
        """Return a session with this noise, or with the noise that is best for validity."""
        if sigma is not None:
            kept = check_sigma(positive("sigma", sigma), rows)
            return cls(rows, beta, queries, kept, SPLIT, tau)
        _, best, split = best_gaussian(rows, beta, queries)
        return cls(rows, beta, queries, Fraction(best).limit_denominator(10**12), split, tau)

    @property
    def step(self) -> Fraction:
        """The grid on which answers lie."""
        return sensitivity(self.rows) / FINENESS

    @property
    def loss(self) -> GaussianLoss:
        """What the whole session costs."""
        return GaussianLoss(self.queries * (sensitivity(self.rows) / self.sigma) ** 2)

    @property
    def tau(self) -> float:
        """What every answer keeps."""
        return gaussian_width(
            self.rows, self.beta, self.queries, sigma=float(self.sigma), split=self.split
        )

    def left(self, progress: Progress) -> Left:
        return Left(self.queries - progress.queries, None)

    def answer(
        self, progress: Progress, asked: Asked, entropy: Entropy
    ) -> tuple[Progress, Outcomes]:
        check_rows(self.name, self.rows, asked)
        batch = asked.first(check_left(self.left(progress)))
        steps = Grid(self.step).read(batch.means)
        noise = _law((self.sigma / self.step) ** 2).draw(len(steps), entropy)
        noisy = np.clip(steps + noise, -LARGEST_VALUE, LARGEST_VALUE) * float(self.step)
        values, half = np.clip(noisy, 0.0, 1.0), self.tau
        nats = np.zeros(len(values))
        # The width holds for the worst answer of the session as it stands: nothing is added.
        outcomes = Outcomes(
            values, nats > 0, values - half, values + half, nats, batch.rows, batch.is_binary
        )
        return replace(progress, queries=progress.queries + len(values)), outcomes

    def guarantee(self) -> Guarantee:
        what, extent = f"every answer of {self.queries:,}", f"n = {self.rows:,}"
        return state_guarantee(self, what, extent, "RRSSTW20", self.loss)


@dataclass(frozen=True, slots=True)
class Splitting(Written):
    """Answer every query from rows of its own.

    Law:     query i is the mean over rows (i - 1) k to i k - 1, k = rows // queries.
    Claim:   with probability 1 - beta every interval holds the population's mean.
    Why:     the rows of a query are independent of all earlier answers; beta / queries for each.
    Source:  [Hoe63].
    Checked: tests/holdout/test_session.py, tests/holdout/test_analysts.py.
    """

    rows: int
    beta: float
    queries: int
    wanted: float | None = None

    name = "splitting"
    needs_guess = False
    loss = None

    def __post_init__(self) -> None:
        if self.rows < self.queries:
            raise BadDeclaration(
                f"splitting needs a row for each of {self.queries:,} queries, got {self.rows:,}"
            )

    @property
    def each(self) -> int:
        """The rows of one query."""
        return self.rows // self.queries

    @property
    def nats(self) -> float:
        """The level of every interval, for each side."""
        return math.log(2 * self.queries / self.beta)

    @property
    def tau(self) -> float:
        """What every answer keeps."""
        return hoeffding_width(self.each, self.nats)

    def left(self, progress: Progress) -> Left:
        return Left(self.queries - progress.queries, None)

    def span(self, query: int) -> slice:
        """Return the rows of a query, counted from 0."""
        return slice(query * self.each, (query + 1) * self.each)

    def answer(
        self, progress: Progress, asked: Asked, entropy: Entropy
    ) -> tuple[Progress, Outcomes]:
        del entropy
        check_rows(self.name, self.rows, asked)
        batch = asked.first(check_left(self.left(progress)))
        means, size = batch.means, len(batch.means)
        fresh, nats = np.ones(size, dtype=np.bool_), np.full(size, self.nats)
        outcomes = Outcomes(means, fresh, means, means, nats, self.each, batch.is_binary)
        return replace(progress, queries=progress.queries + size), outcomes

    def guarantee(self) -> Guarantee:
        what, extent = f"every answer of {self.queries:,}", f"from {self.each:,} rows each"
        return state_guarantee(self, what, extent, "Hoe63")


@dataclass(frozen=True, slots=True)
class Naive(Written):
    """Tell every mean as it is: for comparison only, since nothing is promised.

    Law:     the mean itself.
    Claim:   none for queries that depend on answers; every interval is [0, 1].
    Why:     two answers are enough for an analyst to begin learning the rows.
    Source:  docs/proofs/holdout.md.
    Checked: tests/holdout/test_analysts.py (how far it goes wrong).
    """

    rows: int

    name = "naive"
    needs_guess = False
    loss = None

    def left(self, progress: Progress) -> Left:
        del progress
        return Left(None, None)

    def answer(
        self, progress: Progress, asked: Asked, entropy: Entropy
    ) -> tuple[Progress, Outcomes]:
        del entropy
        size = len(asked.means)
        zeros, nats = np.zeros(size), np.zeros(size)
        outcomes = Outcomes(asked.means, nats > 0, zeros, zeros + 1, nats, asked.rows)
        return replace(progress, queries=progress.queries + size), outcomes

    def guarantee(self) -> Guarantee:
        claim = "the naive holdout keeps nothing once a query depends on an answer"
        return Guarantee(
            holds=False,
            tau=None,
            beta=None,
            n=self.rows,
            claim=claim,
            source="docs/proofs/holdout.md",
        )


@lru_cache(maxsize=64)
def _law(sigma_squared: Fraction) -> RoundedGaussian:
    """Return the noise of this variance in steps; working it out takes longer than a draw."""
    return RoundedGaussian(sigma_squared)
