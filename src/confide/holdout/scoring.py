"""A scorer for scikit-learn whose scores stay true of the population."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from confide.holdout.metrics import Metric

if TYPE_CHECKING:
    from confide.holdout.session import Holdout

__all__ = ["Scorer"]


@dataclass(frozen=True, slots=True, eq=False)
class Scorer:
    """Called by scikit-learn with an estimator and a fold; returns the holdout's answer.

    The fold's own mean is the guess. Losses are returned with a minus sign, as scikit-learn has
    it: greater is better. Use it with ``error_score="raise"``, so that a session that is over
    stops the search instead of scoring NaN; ``return_train_score=True`` asks twice. With
    ``n_jobs`` > 1 open the holdout with ``ledger=`` a file: all processes then share one state.
    """

    holdout: "Holdout"
    metric: Metric

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:  # noqa: N803
        answer = self.holdout.score_fold(estimator, X, y, self.metric)
        return -answer.value if self.metric.is_loss else answer.value
