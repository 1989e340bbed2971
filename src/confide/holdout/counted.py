"""Answers that are few enough to be counted, without guesses or noise: rounding and the ladder."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from confide.holdout.coded_bounds import choose_answer_cells, choose_levels
from confide.holdout.coding import log_answers, log_ladder, sampling_width
from confide.holdout.methods import (
    Asked,
    Guarantee,
    Left,
    Outcomes,
    Written,
    check_left,
    check_rows,
    log_two_over,
    middle_of,
    state_guarantee,
)
from confide.holdout.state import Progress
from confide.noise import Entropy

__all__ = ["Ladder", "Rounding"]

PROOF: Final = "docs/proofs/holdout.md"


class _Counted(Written, ABC):
    """What both have in common: a number of queries, and of answers to each."""

    __slots__ = ()
    needs_guess = False
    loss = None
    rows: int
    beta: float
    queries: int

    @property
    @abstractmethod
    def log_nodes(self) -> float:
        """The logarithm of how many nodes there are."""

    @property
    @abstractmethod
    def answers(self) -> int:
        """How many answers a query may have: so many cells of [0, 1]."""

    @property
    def nats(self) -> float:
        """The level of every interval, for each side."""
        return log_two_over(self.beta) + self.log_nodes

    @property
    def tau(self) -> float:
        """What every answer keeps."""
        return 1 / (2 * self.answers) + sampling_width(self.rows, self.log_nodes, self.beta)

    def left(self, progress: Progress) -> Left:
        return Left(self.queries - progress.queries, None)


@dataclass(frozen=True, slots=True)
class Rounding(_Counted):
    """Tell the cell of every mean; no guess is needed.

    Law:     the answer is the middle of the mean's cell, one of ``cells``.
    Claim:   with probability 1 - beta every answer is within 1 / (2 cells) + w of the population.
    Why:     `log_answers` counts the nodes.
    Source:  docs/proofs/holdout.md.
    Checked: tests/holdout/test_session.py, tests/holdout/test_analysts.py.
    """

    rows: int
    beta: float
    queries: int
    cells: int
    wanted: float | None = None

    name = "rounding"

    @classmethod
    def of(cls, rows: int, beta: float, queries: int, tau: float | None) -> "Rounding":
        """Return the session that keeps tau, or one with 40 cells."""
        cells = None if tau is None else choose_answer_cells(rows, tau, beta, queries)
        return cls(rows, beta, queries, cells or 40, tau)

    @property
    def log_nodes(self) -> float:
        return log_answers(self.queries, self.cells)

    @property
    def answers(self) -> int:
        return self.cells

    def answer(
        self, progress: Progress, asked: Asked, entropy: Entropy
    ) -> tuple[Progress, Outcomes]:
        del entropy
        check_rows(self.name, self.rows, asked)
        batch = asked.first(check_left(self.left(progress)))
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
class Ladder(_Counted):
    """Tell only the best mean so far, as one of few levels: a leaderboard.

    Levels are fixed cells of [0, 1], which halves the error of steps counted from the last score.

    Law:     the greatest mean so far is shown as the middle of its cell, one of ``levels``.
    Claim:   with probability 1 - beta what is shown is within 1 / (2 levels) + w of the best true
             mean so far, after each of ``queries`` submissions.
    Why:     `log_ladder` counts the nodes: the level never falls.
    Source:  [BH15], docs/proofs/holdout.md.
    Checked: tests/holdout/test_session.py, tests/holdout/test_analysts.py.
    """

    rows: int
    beta: float
    queries: int
    levels: int
    wanted: float | None = None

    name = "ladder"

    @classmethod
    def of(cls, rows: int, beta: float, queries: int, tau: float | None) -> "Ladder":
        """Return the session that keeps tau, or one with about the best number of levels."""
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
        self, progress: Progress, asked: Asked, entropy: Entropy
    ) -> tuple[Progress, Outcomes]:
        del entropy
        check_rows(self.name, self.rows, asked)
        batch = asked.first(check_left(self.left(progress)))
        index = np.maximum(
            np.maximum.accumulate(middle_of(batch.means, self.levels)[0]), progress.level
        )
        outcomes = Outcomes(
            (index + 0.5) / self.levels,
            np.diff(index, prepend=progress.level) > 0,
            index / self.levels,
            (index + 1) / self.levels,
            np.full(len(index), self.nats),
            # The best may be an earlier query, of another metric: nothing is known of its values.
            batch.rows,
        )
        return (
            replace(progress, queries=progress.queries + len(index), level=int(index[-1])),
            outcomes,
        )

    def guarantee(self) -> Guarantee:
        what = f"the best score after each of {self.queries:,} submissions"
        return state_guarantee(self, what, f"n = {self.rows:,}", PROOF)
