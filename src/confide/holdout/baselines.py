"""The methods that need no guesses: Gaussian noise, rounding, ladder, splitting, naive answers."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np

from confide.errors import BadDeclaration
from confide.exact import Number, positive
from confide.holdout.coding_bounds import (
    choose_answer_cells,
    choose_levels,
    log_answers,
    log_ladder,
    sampling_width,
)
from confide.holdout.intervals import hoeffding_width
from confide.holdout.noisy_bounds import best_gaussian, gaussian_width
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
    log_two_over,
    middle_of,
    state_guarantee,
)
from confide.holdout.values import STEPS_PER_SENSITIVITY, sensitivity
from confide.loss import GaussianLoss
from confide.mechanisms.grid import MAX_VALUE, Grid
from confide.noise import Entropy, RoundedGaussian

__all__ = ["GaussianAnswers", "Ladder", "Naive", "Rounding", "Splitting"]

DEFAULT_SPLIT: Final = 0.9


@dataclass(frozen=True, slots=True)
class GaussianAnswers(StoredTerms):
    """Answers every query with its mean plus normal noise; no guess is needed.

    ``wanted`` is the requested tau, if any. ``split`` is that of `gaussian_transfer`.

    Law:     mean + rounded normal noise with standard deviation sigma, clipped to [0, 1]. The
             sensitivity s of a mean is ``STEPS_PER_SENSITIVITY`` steps of the grid.
    Claim:   mu-Gaussian DP with mu^2 = queries (s / sigma)^2 if one row is replaced. With
             probability 1 - beta every answer is within `gaussian_width` of the population.
    Why:     rounding to the grid keeps the sensitivity at STEPS_PER_SENSITIVITY steps, and each
             answer is a Gaussian mechanism even for adaptively chosen queries.
    Source:  [DRS22], [RRSSTW20], docs/proofs/holdout.md.
    Checked: tests/holdout/test_holdout.py, tests/holdout/test_analysts.py.
    """

    rows: int
    beta: float
    queries: int
    sigma: Fraction
    split: float = DEFAULT_SPLIT
    wanted: float | None = None

    name = "gaussian"
    needs_guess = False

    @classmethod
    def of(
        cls, rows: int, beta: float, queries: int, *, tau: float | None, sigma: Number | None
    ) -> "GaussianAnswers":
        """Return a session with the given noise, or with the noise that gives the smallest tau."""
        if sigma is not None:
            kept = check_sigma(positive("sigma", sigma), rows)
            return cls(rows, beta, queries, kept, DEFAULT_SPLIT, tau)
        _, best, split = best_gaussian(rows, beta, queries)
        return cls(rows, beta, queries, Fraction(best).limit_denominator(10**12), split, tau)

    @property
    def step(self) -> Fraction:
        """The grid step of the noise."""
        return sensitivity(self.rows) / STEPS_PER_SENSITIVITY

    @property
    def loss(self) -> GaussianLoss:
        """The privacy loss of the whole session."""
        return GaussianLoss(self.queries * (sensitivity(self.rows) / self.sigma) ** 2)

    @property
    def tau(self) -> float:
        """The accuracy bound of every answer."""
        return gaussian_width(
            self.rows, self.beta, self.queries, sigma=float(self.sigma), split=self.split
        )

    def left(self, progress: Progress) -> Left:
        return Left(self.queries - progress.queries, None)

    def answer(
        self, progress: Progress, batch: QueryBatch, entropy: Entropy
    ) -> tuple[Progress, Outcomes]:
        check_rows(self.name, self.rows, batch)
        batch = batch.first(check_left(self.left(progress)))
        steps = Grid(self.step).read(batch.means)
        noise = _noise_law((self.sigma / self.step) ** 2).draw(len(steps), entropy)
        noisy = np.clip(steps + noise, -MAX_VALUE, MAX_VALUE) * float(self.step)
        values, half = np.clip(noisy, 0.0, 1.0), self.tau
        nats = np.zeros(len(values))
        # ``half`` already covers the worst answer of the session, so intervals need not be wider.
        outcomes = Outcomes(
            values, nats > 0, values - half, values + half, nats, batch.rows, batch.is_binary
        )
        return replace(progress, queries=progress.queries + len(values)), outcomes

    def guarantee(self) -> Guarantee:
        what, extent = f"every answer of {self.queries:,}", f"n = {self.rows:,}"
        return state_guarantee(self, what, extent, "RRSSTW20", self.loss)


@dataclass(frozen=True, slots=True)
class Splitting(StoredTerms):
    """Answers every query from its own disjoint block of rows.

    Law:     the answer to query i = 1, 2, ... is the mean over the rows with the indices (i - 1) k
             to i k - 1, where k = rows // queries.
    Claim:   with probability 1 - beta every interval contains the population's mean.
    Why:     the rows of a query are independent of all earlier answers, and each interval misses
             with probability at most beta / queries.
    Source:  [Hoe63].
    Checked: tests/holdout/test_holdout.py, tests/holdout/test_analysts.py.
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
                "Splitting needs at least one row per query. Ask fewer queries or use more rows; "
                f"got {self.rows:,} rows for {self.queries:,} queries."
            )

    @property
    def each(self) -> int:
        """The number of rows per query."""
        return self.rows // self.queries

    @property
    def nats(self) -> float:
        """The level of every interval for each side, in nats; see `intervals`."""
        return math.log(2 * self.queries / self.beta)

    @property
    def tau(self) -> float:
        """The accuracy bound of every answer."""
        return hoeffding_width(self.each, self.nats)

    def left(self, progress: Progress) -> Left:
        return Left(self.queries - progress.queries, None)

    def span(self, query: int) -> slice:
        """Return the rows of the query with this index; the first query has index 0."""
        return slice(query * self.each, (query + 1) * self.each)

    def answer(
        self, progress: Progress, batch: QueryBatch, entropy: Entropy
    ) -> tuple[Progress, Outcomes]:
        del entropy
        check_rows(self.name, self.rows, batch)
        batch = batch.first(check_left(self.left(progress)))
        means, size = batch.means, len(batch.means)
        fresh, nats = np.ones(size, dtype=np.bool_), np.full(size, self.nats)
        outcomes = Outcomes(means, fresh, means, means, nats, self.each, batch.is_binary)
        return replace(progress, queries=progress.queries + size), outcomes

    def guarantee(self) -> Guarantee:
        what, extent = f"every answer of {self.queries:,}", f"from {self.each:,} rows each"
        return state_guarantee(self, what, extent, "Hoe63")


@dataclass(frozen=True, slots=True)
class Naive(StoredTerms):
    """Answers every query with its exact mean, for comparison only; nothing is promised.

    Law:     the mean itself.
    Claim:   none for queries that depend on answers; every interval is [0, 1].
    Why:     two answers are enough for an analyst to start overfitting the rows.
    Source:  docs/proofs/holdout.md.
    Checked: tests/holdout/test_analysts.py (the error that an adaptive analyst reaches).
    """

    rows: int

    name = "naive"
    needs_guess = False
    loss = None

    def left(self, progress: Progress) -> Left:
        del progress
        return Left(None, None)

    def answer(
        self, progress: Progress, batch: QueryBatch, entropy: Entropy
    ) -> tuple[Progress, Outcomes]:
        del entropy
        size = len(batch.means)
        zeros, nats = np.zeros(size), np.zeros(size)
        outcomes = Outcomes(batch.means, nats > 0, zeros, zeros + 1, nats, batch.rows)
        return replace(progress, queries=progress.queries + size), outcomes

    def guarantee(self) -> Guarantee:
        claim = "naive answers guarantee nothing once a query depends on an answer"
        return Guarantee(
            holds=False,
            tau=None,
            beta=None,
            n=self.rows,
            claim=claim,
            source="docs/proofs/holdout.md",
        )


@lru_cache(maxsize=64)
def _noise_law(sigma_squared: Fraction) -> RoundedGaussian:
    """Return noise with this variance in squared grid steps; cached, as preparing it is slow."""
    return RoundedGaussian(sigma_squared)


PROOF: Final = "docs/proofs/holdout.md"


class _TreeMethod(StoredTerms, ABC):
    """The base class of methods with finitely many transcripts, over which a union bound holds."""

    __slots__ = ()
    needs_guess = False
    loss = None
    rows: int
    beta: float
    queries: int

    @property
    @abstractmethod
    def log_nodes(self) -> float:
        """The logarithm of the number of nodes in the tree of transcripts; see `coding_bounds`."""

    @property
    @abstractmethod
    def answers(self) -> int:
        """The number of possible answers to a query: the cells of [0, 1]."""

    @property
    def nats(self) -> float:
        """The level of every interval for each side, in nats; see `intervals`."""
        return log_two_over(self.beta) + self.log_nodes

    @property
    def tau(self) -> float:
        """The accuracy bound of every answer."""
        return 1 / (2 * self.answers) + sampling_width(self.rows, self.log_nodes, self.beta)

    def left(self, progress: Progress) -> Left:
        return Left(self.queries - progress.queries, None)


@dataclass(frozen=True, slots=True)
class Rounding(_TreeMethod):
    """Answers every query with the middle of its mean's cell; no guess is needed.

    Law:     the answer is the middle of the mean's cell, one of ``cells`` equal cells of [0, 1].
    Claim:   with probability 1 - beta every answer is within 1 / (2 cells) + w of the population,
             with w of `sampling_width`.
    Why:     `log_answers` counts the nodes.
    Source:  docs/proofs/holdout.md.
    Checked: tests/holdout/test_holdout.py, tests/holdout/test_analysts.py.
    """

    rows: int
    beta: float
    queries: int
    cells: int
    wanted: float | None = None

    name = "rounding"

    @classmethod
    def of(cls, rows: int, beta: float, queries: int, tau: float | None) -> "Rounding":
        """Return a session with the fewest cells that guarantee tau, or else with 40 cells."""
        cells = None if tau is None else choose_answer_cells(rows, tau, beta, queries)
        return cls(rows, beta, queries, cells or 40, tau)

    @property
    def log_nodes(self) -> float:
        return log_answers(self.queries, self.cells)

    @property
    def answers(self) -> int:
        return self.cells

    def answer(
        self, progress: Progress, batch: QueryBatch, entropy: Entropy
    ) -> tuple[Progress, Outcomes]:
        del entropy
        check_rows(self.name, self.rows, batch)
        batch = batch.first(check_left(self.left(progress)))
        index, middle = middle_of(batch.means, self.cells)
        outcomes = Outcomes(
            middle,
            np.ones(len(middle), dtype=np.bool_),
            index / self.cells,
            (index + 1) / self.cells,
            np.full(len(middle), self.nats),
            batch.rows,
            batch.is_binary,
        )
        return replace(progress, queries=progress.queries + len(middle)), outcomes

    def guarantee(self) -> Guarantee:
        what = f"every answer of {self.queries:,}"
        return state_guarantee(self, what, f"n = {self.rows:,}", PROOF)


@dataclass(frozen=True, slots=True)
class Ladder(_TreeMethod):
    """Answers with the best mean so far, as one of a few levels: a leaderboard.

    Levels are fixed cells of [0, 1]. The published Ladder counts steps from the last score instead,
    which makes its error twice as large.

    Law:     the answer is the middle of the cell of the largest mean so far, one of ``levels``.
    Claim:   with probability 1 - beta the answer is within 1 / (2 levels) + w of the best true mean
             so far, after each of ``queries`` submissions, with w of `sampling_width`.
    Why:     `log_ladder` counts the nodes, because the level never decreases.
    Source:  [BH15], docs/proofs/holdout.md.
    Checked: tests/holdout/test_holdout.py, tests/holdout/test_analysts.py.
    """

    rows: int
    beta: float
    queries: int
    levels: int
    wanted: float | None = None

    name = "ladder"

    @classmethod
    def of(cls, rows: int, beta: float, queries: int, tau: float | None) -> "Ladder":
        """Return a session with the fewest levels that guarantee tau, or else the smallest tau."""
        levels = None if tau is None else choose_levels(rows, tau, beta, queries)
        best = min(range(2, 200), key=lambda size: cls(rows, beta, queries, size).tau)
        return cls(rows, beta, queries, levels or best, tau)

    @property
    def log_nodes(self) -> float:
        return log_ladder(self.queries, self.levels)

    @property
    def answers(self) -> int:
        return self.levels

    def answer(
        self, progress: Progress, batch: QueryBatch, entropy: Entropy
    ) -> tuple[Progress, Outcomes]:
        del entropy
        check_rows(self.name, self.rows, batch)
        batch = batch.first(check_left(self.left(progress)))
        index = np.maximum(
            np.maximum.accumulate(middle_of(batch.means, self.levels)[0]), progress.level
        )
        outcomes = Outcomes(
            (index + 0.5) / self.levels,
            np.diff(index, prepend=progress.level) > 0,
            index / self.levels,
            (index + 1) / self.levels,
            np.full(len(index), self.nats),
            # The best mean may be that of an earlier query with another metric, so do not assume
            # that its values are binary.
            batch.rows,
        )
        return (
            replace(progress, queries=progress.queries + len(index), level=int(index[-1])),
            outcomes,
        )

    def guarantee(self) -> Guarantee:
        what = f"the best score after each of {self.queries:,} submissions"
        return state_guarantee(self, what, f"n = {self.rows:,}", PROOF)
