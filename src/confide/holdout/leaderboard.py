"""A public board: predictions in, the best score so far out, and no overfitting to the board."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from confide.errors import BadDeclaration
from confide.exact import Number
from confide.holdout.answers import Answer
from confide.holdout.methods import Guarantee, Left
from confide.holdout.metrics import Metric, metric_of
from confide.holdout.session import Holdout

__all__ = ["BoardScore", "Leaderboard"]


@dataclass(frozen=True, slots=True)
class BoardScore:
    """What the board shows after a submission: the best score so far, of anyone.

    ``is_better`` tells whether this submission moved it up a level.
    """

    value: float
    interval: tuple[float, float]
    is_better: bool


class Leaderboard:
    """Scores submissions against labels that only the board holds.

    What is shown is the best score so far, to within a level: so submissions that are no better
    teach nothing about the labels, and thousands of them can be afforded. A submission's own
    score is never shown.

    Law:     `confide.holdout.counted.Ladder` on the metric's mean over the labels.
    Claim:   with probability 1 - beta the score shown after each of ``submissions`` is within tau
             of the true best so far, whoever submits what in view of the board.
    Why:     see there; all submitters together are one analyst.
    Source:  [BH15], docs/proofs/holdout.md.
    Checked: tests/holdout/test_leaderboard.py.

    >>> board = Leaderboard(np.tile([0, 1], 4_000), submissions=1_000)
    >>> board.submit(np.tile([0, 1], 4_000)).is_better
    True
    >>> print(board.left)
    999 queries and any number of overfits left
    """

    def __init__(
        self,
        labels: Any,
        *,
        metric: str | Metric = "accuracy",
        high: Number | None = None,
        submissions: int,
        tau: Number | None = None,
        beta: Number = 0.05,
        ledger: str | Path | None = None,
        name: str = "leaderboard",
    ) -> None:
        self.metric = metric_of(metric, high)
        marks = np.asarray(labels)
        if marks.ndim != 1:
            raise BadDeclaration(f"labels must be one for each row, got shape {marks.shape}")
        self._holdout = Holdout(
            None,
            (np.zeros((len(marks), 0)), marks),
            method="ladder",
            queries=submissions,
            tau=tau,
            beta=beta,
            ledger=ledger,
            name=name,
        )
        self._holdout.check_metric(self.metric)

    def submit(self, predictions: Any) -> BoardScore:
        """Return the best score after this submission.

        Raises:
            BadDeclaration: the predictions do not fit the labels; nothing changed.
            BudgetExceeded: all submissions are used; nothing changed.
        """
        answer: Answer = self._holdout.score(None, predictions, self.metric)
        return BoardScore(answer.value, answer.interval, answer.overfit)

    @property
    def left(self) -> Left:
        """How many submissions are left."""
        return self._holdout.left

    @property
    def guarantee(self) -> Guarantee:
        """Which theorem holds for the board, with which numbers."""
        return self._holdout.guarantee
