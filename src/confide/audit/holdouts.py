"""Holdout sessions on trial: the same queries of two holdouts that differ in one row."""

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from confide.audit.cases import Case, sample_case
from confide.audit.claims import Claim, claim_of
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
LINE: Final = Fraction(1, 4)
FAR: Final = Fraction(1, 2)

Values = NDArray[np.float64]
Open = Callable[[], Holdout]


def holdout_cases(samples: int) -> Iterator[Case]:
    """Yield a case for each method that promises privacy."""
    sessions = max(32, samples // SLOW)
    for subject, open_session, moves, mean in (
        ("Holdout, thresholdout, 1 overfit", _open_thresholdout(1), (1, 1, 1, -1), LINE),
        ("Holdout, thresholdout, 2 overfits", _open_thresholdout(2), (1, 1), FAR),
        ("Holdout, gaussian", _open_gaussian, (1, 1), FAR),
    ):
        yield sample_case(
            subject,
            PAIR,
            WAY,
            claim=_claim(open_session),
            draw=_pairing(open_session, moves, float(mean)),
            samples=sessions,
        )


def _open_thresholdout(overfits: int) -> Open:
    return lambda: Holdout(
        ROWS,
        ROWS,
        method="thresholdout",
        queries=8,
        overfits=overfits,
        threshold=LINE,
        epsilon=2,
    )


def _open_gaussian() -> Holdout:
    return Holdout(None, ROWS, method="gaussian", queries=2, sigma=sensitivity(ROWS))


def _claim(open_session: Open) -> Claim:
    loss = open_session().loss
    assert loss is not None, "these methods promise privacy"  # noqa: S101  # for the type alone
    return claim_of(loss)


def _pairing(
    open_session: Open, moves: tuple[int, ...], mean: float
) -> Callable[[int], tuple[Outputs, Outputs]]:
    """Return what draws sessions on both sides.

    Each guess is 0, and the mean is about as given: at the threshold, or far above it. One row
    makes it greater or smaller by as much as one row can.
    """
    without, with_row = (_columns(moves, mean, is_there=is_there) for is_there in (False, True))

    def draw(count: int) -> tuple[Outputs, Outputs]:
        return _run(open_session, without, count), _run(open_session, with_row, count)

    return draw


def _columns(moves: tuple[int, ...], mean: float, *, is_there: bool) -> list[Values]:
    columns = []
    for move in moves:
        column = np.full(ROWS, (mean * ROWS - 0.5) / (ROWS - 1))
        column[0] = 1.0 if (move > 0) == is_there else 0.0
        columns.append(column)
    return columns


def _run(open_session: Open, columns: list[Values], count: int) -> Outputs:
    """Return what so many sessions told: of each query the value, and whether it was overfit."""
    told = np.full((count, 2 * len(columns)), HIDDEN)
    for row in told:
        session = open_session()
        for place, column in enumerate(columns):
            try:
                answer = session.ask(column, guess=0)
            except BudgetExceeded:
                break
            row[2 * place : 2 * place + 2] = answer.value, answer.overfit
    return told
