"""A scorer for scikit-learn whose scores stay true of the population."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from confide.errors import BadDeclaration
from confide.holdout.metrics import Metric

if TYPE_CHECKING:
    from confide.holdout.session import Holdout

__all__ = ["Scorer", "predict_column"]

INSTEAD: Final = {"decision_function": ["predict_proba"]}


def predict_column(estimator: Any, rows: Any, metric: Metric) -> Any:
    """Return what an estimator says of each row, in one number: of chances, the positive one's."""
    way = _find_way(estimator, metric)
    if way == "predict":
        return estimator.predict(rows)
    found = np.asarray(getattr(estimator, way)(rows))
    place = _find_class(estimator, metric)
    if found.ndim == 2 and (metric.positive is not None or found.shape[1] == 2):
        return found[:, place]
    # A decision function speaks for the second of two classes.
    return -found if way == "decision_function" and place == 0 else found


def _find_way(estimator: Any, metric: Metric) -> str:
    """Return which of its methods says of each row what the metric wants to know.

    Chances rank rows as well as a decision function does. What is no classifier predicts numbers.
    """
    ways = [metric.wants, *INSTEAD.get(metric.wants, [])]
    found = [way for way in ways if getattr(estimator, way, None) is not None]
    if not found and hasattr(estimator, "classes_"):
        raise BadDeclaration(
            f"{metric.name} needs an estimator with {' or '.join(ways)}, got "
            f"{type(estimator).__name__}, which names classes only; take another, or wrap it in "
            "scikit-learn's CalibratedClassifierCV"
        )
    return found[0] if found else "predict"


def _find_class(estimator: Any, metric: Metric) -> int:
    """Return the place of the positive class: the second, where nothing says otherwise."""
    classes = getattr(estimator, "classes_", None)
    if metric.positive is None or classes is None:
        return 1
    found = [place for place, name in enumerate(classes) if name == metric.positive]
    if not found:
        raise BadDeclaration(
            f"{metric.name} counts the label {metric.positive!r} as positive, and the estimator "
            "has no such class; say which counts: metric_of(..., positive=)"
        )
    return found[0]


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
