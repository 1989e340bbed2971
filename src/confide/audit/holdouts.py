"""Holdout sessions on trial: the same queries of two holdouts that differ in one row."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from confide.audit.cases import Case, sample_case
from confide.audit.claims import claim_of
from confide.audit.views import Outputs
from confide.errors import BudgetExceeded
from confide.holdout import Holdout
from confide.holdout.values import sensitivity

__all__ = ["holdout_cases"]

WAY: Final = "whole sessions"
PAIR: Final = "one row of the holdout"
ROWS: Final = 40
SLOW: Final = 32
"""A session counts for so many draws of a mechanism alone."""

HIDDEN: Final = -1.0
ROW: Final = Fraction(1, ROWS)
LINE: Final = 11 * ROW
FAR: Final = 20 * ROW

Means = tuple[tuple[Fraction, Fraction], ...]
"""The mean of each query without the row and with it, which are a row apart."""

STANDING: Final[Means] = ((LINE - 2 * ROW, LINE - ROW),) * 3 + ((LINE + ROW, LINE),)
"""Three queries near the threshold that likelier stand without the row, and one that then does not.

So most of what a round and its answer may lose is lost in many sessions. The last mean is where two
cells of answers meet, so that they tell the sides apart as well as the noise does.
"""

ANSWERED: Final[Means] = ((FAR - ROW, FAR),) * 3
"""Queries far above the threshold: as many means are told as the session allows."""


@dataclass(frozen=True, slots=True)
class _Subject:
    """What is on trial, how a session of it is opened, and what is asked."""

    name: str
    open: Callable[[], Holdout]
    means: Means

    def draw(self, count: int) -> tuple[Outputs, Outputs]:
        """Return what so many sessions tell on either side."""
        return self._run(_fill(self.means, 0), count), self._run(_fill(self.means, 1), count)

    def _run(self, matrix: NDArray[np.float64], count: int) -> Outputs:
        """Return of each query the value, and whether it was overfit."""
        told = np.full((count, 2, len(self.means)), HIDDEN)
        for row in told:
            session, place = self.open(), 0
            while place < len(self.means):
                try:
                    answers = session.ask_many(
                        matrix[:, place:], guesses=np.zeros(len(self.means) - place)
                    )
                except BudgetExceeded:
                    break
                last = place + len(answers.values)
                row[:, place:last] = answers.values, answers.overfit
                place = last
        return told.reshape(count, -1)


def holdout_cases(samples: int) -> Iterator[Case]:
    """Yield a case for each method that promises privacy."""
    for subject in SUBJECTS:
        loss = subject.open().loss
        assert loss is not None, "these methods promise privacy"  # noqa: S101  # for the type alone
        yield sample_case(
            subject.name,
            PAIR,
            WAY,
            claim=claim_of(loss),
            draw=subject.draw,
            samples=max(32, samples // SLOW),
        )


def _fill(means: Means, side: int) -> NDArray[np.float64]:
    """Return a matrix with the means of one side; both matrices differ in the first row alone."""
    others = np.array([int(min(pair) * ROWS) for pair in means])
    first = np.array([pair[side] == max(pair) for pair in means])
    return np.vstack([first, np.arange(1, ROWS)[:, None] <= others]).astype(np.float64)


def _open_thresholdout(overfits: int) -> Holdout:
    return Holdout(
        ROWS,
        ROWS,
        method="thresholdout",
        queries=16,
        overfits=overfits,
        threshold=LINE,
        epsilon=2,
    )


def _open_gaussian() -> Holdout:
    return Holdout(None, ROWS, method="gaussian", queries=2, sigma=sensitivity(ROWS))


SUBJECTS: Final = (
    _Subject("Holdout, thresholdout, 1 overfit", lambda: _open_thresholdout(1), STANDING),
    _Subject("Holdout, thresholdout, 2 overfits", lambda: _open_thresholdout(2), ANSWERED),
    _Subject("Holdout, gaussian", _open_gaussian, ANSWERED),
)
