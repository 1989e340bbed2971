"""Metrics of predictions as means of values in [0, 1], and the scikit-learn scorer."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from confide.errors import BadDeclaration
from confide.exact import Number, fraction
from confide.holdout.values import check_range, describe

__all__ = [
    "METRICS",
    "Metric",
    "Scorer",
    "check_labels",
    "mean_metric",
    "measure",
    "metric_of",
    "predict_column",
    "read_predictions",
]

Array = NDArray[Any]
Score = Callable[[Any, Array], Array]
"""A function of labels and predictions that returns values in [0, 1], one per row (or pair)."""
NUMERIC_KINDS: Final = "biuf"
PREDICTION_KINDS: Final = "biufUSO"


def _accept(predictions: Array) -> None:
    if predictions.dtype.kind not in PREDICTION_KINDS:
        raise BadDeclaration(f"Predictions must be numbers or strings; got {predictions.dtype}.")


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of predictions, computed as the mean of values in [0, 1].

    ``values`` computes these values from labels and predictions. ``low`` and ``high`` are the
    metric's values at means of 0 and 1. ``is_loss`` is whether smaller is better, ``is_binary``
    whether every value is 0 or 1, and ``is_paired`` whether values belong to pairs of rows.
    ``wants`` is the estimator's method: predict, predict_proba, or decision_function. ``positive``
    is the label that counts as 1, and ``kinds`` are the NumPy kinds of labels that the metric can
    read (empty for all); both are known before a row is read. ``accepts`` raises BadDeclaration for
    bad predictions, without reading labels.

    The value of a row must depend on that row alone, and must exist for every possible row.
    """

    name: str
    values: Score
    low: float = 0.0
    high: float = 1.0
    is_loss: bool = False
    is_binary: bool = False
    is_paired: bool = False
    wants: str = "predict"
    positive: object = None
    kinds: str = ""
    accepts: Callable[[Array], None] = _accept

    def show(self, mean: float) -> float:
        """Return the metric, given the mean of its values."""
        return self.low + (self.high - self.low) * mean


def _equal_rows(labels: Array, predictions: Array) -> Array:
    """Return a mask of rows whose label equals the prediction; incomparable rows are False."""
    if "O" not in (labels.dtype.kind, predictions.dtype.kind):
        return np.asarray(labels == predictions)
    return np.fromiter(map(_equals, labels, predictions), dtype=np.bool_, count=len(labels))


def _equals(label: object, prediction: object) -> bool:
    # Privacy: every row must have a value; an error would reveal something about it for free.
    try:
        return bool(label == prediction)
    except Exception:  # noqa: BLE001 - a missing value may refuse any comparison
        return False


def _different_rows(labels: Array, predictions: Array) -> Array:
    return ~_equal_rows(labels, predictions)


@dataclass(frozen=True, slots=True)
class _Brier:
    """The squared difference between a predicted probability and the label, read as 1 or 0.

    The positive label is 1, and every other label is 0.
    """

    positive: object = 1

    def __call__(self, labels: Array, predictions: Array) -> Array:
        return np.asarray(
            (_as_floats("predictions", predictions) - _is_positive(labels, self.positive)) ** 2
        )


@dataclass(frozen=True, slots=True)
class _Auc:
    """A value for each pair of a positive and a negative row: 1 if the positive row ranks higher.

    A tie has the value 1/2. The first positive row is paired with the first negative row, and so
    on; remaining rows are not used.

    Why: given the labels, rows are independent. The labels and the order of the rows alone
         determine the pairs, and no two pairs share a row. So the values are independent, and the
         expectation of each is the AUC.
    """

    positive: object = 1

    def __call__(self, labels: Array, predictions: Array) -> Array:
        mask, scores = _is_positive(labels, self.positive), _as_floats("predictions", predictions)
        positive, negative = np.flatnonzero(mask), np.flatnonzero(~mask)
        pairs = min(len(positive), len(negative))
        if not pairs:
            raise BadDeclaration("Metric 'auc' needs rows of both classes.")
        first, second = scores[positive[:pairs]], scores[negative[:pairs]]
        return np.asarray((first > second) + 0.5 * (first == second))


def _is_positive(labels: Array, positive: object) -> NDArray[np.bool_]:
    """Return a mask of the rows with the positive label.

    Claim: replacing a row changes only its own element, and no label raises an error.
    Why:   each label is compared with ``positive``, never with other labels; every other label is
           negative.
    """
    if labels.dtype.kind == "O":
        rows = (_equals(label, positive) for label in labels)
        return np.fromiter(rows, dtype=np.bool_, count=len(labels))
    return np.asarray(labels == positive, dtype=np.bool_)


def _accept_probabilities(predictions: Array) -> None:
    probabilities = _as_floats("predictions", predictions)
    if not ((probabilities >= 0) & (probabilities <= 1)).all():
        raise BadDeclaration(
            "Metric 'brier' needs predicted probabilities in [0, 1]; got NaN or values outside."
        )


def _accept_finite(predictions: Array) -> None:
    if not np.isfinite(_as_floats("predictions", predictions)).all():
        raise BadDeclaration("Predictions must be finite numbers; got NaN or infinities.")


def _identity(labels: object, predictions: Array) -> Array:
    del labels
    return predictions


METRICS: Final = {
    "accuracy": Metric("accuracy", _equal_rows, is_binary=True),
    "zero-one-loss": Metric("zero-one-loss", _different_rows, is_loss=True, is_binary=True),
    "brier": Metric(
        "brier",
        _Brier(),
        is_loss=True,
        wants="predict_proba",
        positive=1,
        kinds=NUMERIC_KINDS,
        accepts=_accept_probabilities,
    ),
    "auc": Metric(
        "auc",
        _Auc(),
        is_paired=True,
        wants="decision_function",
        positive=1,
        kinds=NUMERIC_KINDS,
        accepts=_accept_finite,
    ),
}
BINARY_LABEL_SCORES: Final[dict[str, Callable[[object], Score]]] = {"brier": _Brier, "auc": _Auc}
ERROR_POWERS: Final = {"squared-error": 2, "absolute-error": 1}
SKLEARN_NAMES: Final = {
    "roc_auc": "auc",
    "neg_brier_score": "brier",
    "neg_mean_squared_error": "squared-error",
    "neg_mean_absolute_error": "absolute-error",
}
"""Metric names of scikit-learn that differ from ours."""


def metric_of(
    name: "str | Metric", high: Number | None = None, *, positive: object = None
) -> Metric:
    """Return a metric by its name.

    ``squared-error`` and ``absolute-error`` need ``high``, the error at which they are clipped.
    With high = 9, for example, every larger squared error counts as 9. ``brier`` and ``auc`` count
    the label 1 (or True) as positive and every other label as negative. For labels such as "yes"
    and "no", pass ``positive``.

    >>> metric_of("accuracy").is_binary
    True
    >>> metric_of("absolute-error", high=10).show(0.25)
    2.5
    >>> metric_of("brier", positive="yes").values(np.array(["yes", "no"]), np.array([1.0, 0.5]))
    array([0.  , 0.25])
    """
    if positive is not None:
        return _with_positive(name, positive)
    if isinstance(name, Metric):
        return name
    if isinstance(name, str) and name in ERROR_POWERS:
        return _clipped_metric(name, ERROR_POWERS[name], high)
    if isinstance(name, str) and name in METRICS:
        return METRICS[name]
    same = SKLEARN_NAMES.get(name) if isinstance(name, str) else None
    known = ", ".join([*METRICS, *ERROR_POWERS])
    ours = f", which is {same!r} here" if same else ""
    raise BadDeclaration(
        f"`metric` must be one of {known}, or a `Metric` of your own that gives each row a value "
        f"in [0, 1]; got {name!r}{ours}."
    )


def mean_metric(low: Number = 0, high: Number = 1) -> Metric:
    """Return the mean of values in a declared range, outside of which values are refused."""
    ends = [
        float(fraction(name, end, "a finite number"))
        for name, end in (("low", low), ("high", high))
    ]
    if ends[0] >= ends[1]:
        raise BadDeclaration(f"The range needs low < high; got low={low!r}, high={high!r}.")
    if ends == [0.0, 1.0]:
        return Metric("mean", _identity)
    return Metric("mean", _Scaled(*ends), low=ends[0], high=ends[1])


@dataclass(frozen=True, slots=True)
class _Scaled:
    """Values, rescaled from their declared range to [0, 1]."""

    low: float
    high: float

    def __call__(self, labels: object, predictions: Array) -> Array:
        del labels
        return (_as_floats("values", predictions) - self.low) / (self.high - self.low)


@dataclass(frozen=True, slots=True)
class _Clipped:
    """A power of the error, divided by the value at which it is clipped."""

    power: int
    top: float

    def __call__(self, labels: Array, predictions: Array) -> Array:
        # Privacy: no label may cause a warning or an error; NaN counts as the largest error.
        with np.errstate(all="ignore"):
            gap = np.abs(_as_floats("predictions", predictions) - _as_floats("labels", labels))
            scaled = gap**self.power / self.top
            return np.where(scaled < 1, scaled, 1.0)


def _clipped_metric(name: str, power: int, high: Number | None) -> Metric:
    if high is None:
        raise BadDeclaration(f"Metric {name!r} needs `high=`, the value at which it is clipped.")
    top = float(fraction("high", high, "a finite number greater than 0"))
    if top <= 0:
        raise BadDeclaration(f"`high` must be a finite number greater than 0; got {high!r}.")
    values = _Clipped(power, top)
    return Metric(name, values, high=top, is_loss=True, kinds=NUMERIC_KINDS, accepts=_accept_finite)


def _with_positive(name: "str | Metric", positive: object) -> Metric:
    if not isinstance(name, str) or name not in BINARY_LABEL_SCORES:
        raise BadDeclaration(
            f"`positive=` is for {' and '.join(BINARY_LABEL_SCORES)}; got {name!r}."
        )
    if not isinstance(positive, str | int | float | np.generic):
        raise BadDeclaration(
            f"`positive` must be a label, a string or a number; got {type(positive).__name__}."
        )
    kinds = "USO" if isinstance(positive, str) else NUMERIC_KINDS + "O"
    return replace(
        METRICS[name], values=BINARY_LABEL_SCORES[name](positive), positive=positive, kinds=kinds
    )


def check_labels(metric: Metric, name: str, labels: Array) -> None:
    """Raise BadDeclaration if a metric cannot read labels of this type; no label is read."""
    if metric.kinds and labels.dtype.kind not in metric.kinds:
        by_name = f"Name the positive label with `metric_of({metric.name!r}, positive=...)`."
        advice = "Pass numbers." if metric.positive is None else by_name
        raise BadDeclaration(
            f"Metric {metric.name!r} cannot read the labels of `{name}`, which have type "
            f"{labels.dtype}. {advice}"
        )


def read_predictions(metric: Metric, name: str, predictions: object, rows: int) -> Array:
    """Return the predictions for ``rows`` labels as an array, without reading any label."""
    try:
        array = np.asarray(predictions)
    except ValueError:
        raise BadDeclaration(
            f"{name} must be {rows:,} values, one for each label; got rows of several lengths."
        ) from None
    if array.ndim == 0:
        raise BadDeclaration(
            f"{name} must be {rows:,} values, one for each label; got {describe(predictions)}."
        )
    if array.shape != (rows,):
        raise BadDeclaration(
            f"{name} must be {rows:,} values, one for each label; got shape {array.shape}."
        )
    metric.accepts(array)
    return array


def measure(metric: Metric, name: str, labels: Array, predictions: Array) -> Array:
    """Return values in [0, 1]: one per row, or fewer for disjoint pairs of rows."""
    found, rows = np.asarray(metric.values(labels, predictions)), len(labels)
    limit = rows // 2 if metric.is_paired else rows
    if found.ndim != 1 or not (1 if metric.is_paired else rows) <= len(found) <= limit:
        raise BadDeclaration(
            f"Metric {metric.name!r} must return one value for each row, or for each pair. Return "
            "an array of that length."
        )
    check_range(name, found)
    return found


def _as_floats(name: str, values: Array) -> NDArray[np.float64]:
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise BadDeclaration(f"The {name} must be numbers for this metric; got {array.dtype}.")
    return array.astype(np.float64)


FALLBACK_METHODS: Final = {"decision_function": ["predict_proba"]}


def predict_column(estimator: Any, rows: Any, metric: Metric) -> Any:
    """Return the estimator's prediction for each row: a label, a number, or a decision value.

    If the metric needs a probability, it is the probability of the positive class.
    """
    method = _find_method(estimator, metric)
    if method == "predict":
        return estimator.predict(rows)
    found = np.asarray(getattr(estimator, method)(rows))
    index = _find_class(estimator, metric)
    if found.ndim == 2 and (metric.positive is not None or found.shape[1] == 2):
        return found[:, index]
    # With two classes, a decision function is positive for the second.
    return -found if method == "decision_function" and index == 0 else found


def _find_method(estimator: Any, metric: Metric) -> str:
    """Return the name of the estimator's method that the metric needs.

    Probabilities rank rows as well as a decision function does. For an estimator without such a
    method that is not a classifier, the method is predict.
    """
    methods = [metric.wants, *FALLBACK_METHODS.get(metric.wants, [])]
    found = [method for method in methods if getattr(estimator, method, None) is not None]
    if not found and hasattr(estimator, "classes_"):
        raise BadDeclaration(
            f"Metric {metric.name!r} needs an estimator with {' or '.join(methods)}. Use another "
            "estimator, or wrap this one in scikit-learn's `CalibratedClassifierCV`; got "
            f"{type(estimator).__name__}, which predicts classes only."
        )
    return found[0] if found else "predict"


def _find_class(estimator: Any, metric: Metric) -> int:
    """Return the index of the positive class, by default the second."""
    classes = getattr(estimator, "classes_", None)
    if metric.positive is None or classes is None:
        return 1
    found = [index for index, name in enumerate(classes) if name == metric.positive]
    if not found:
        raise BadDeclaration(
            f"Metric {metric.name!r} counts the label {metric.positive!r} as positive, but the "
            "estimator has no such class. Name the positive label with "
            "`metric_of(..., positive=)`."
        )
    return found[0]


class ScoredFold(Protocol):
    """The part of the holdout's answer for a fold that the scorer needs."""

    @property
    def value(self) -> float:
        """The answer, on the scale of the metric."""
        ...


class ScoresFolds(Protocol):
    """The part of a holdout that the scorer needs."""

    def score_fold(self, estimator: Any, X: Any, y: Any, metric: Metric) -> ScoredFold:  # noqa: N803
        """Return the metric of a fitted estimator, with its mean over (X, y) as the guess."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Scorer:
    """A scikit-learn scorer that returns the holdout's answer for an estimator and a fold.

    The mean over the fold is the guess. Losses are negated, because scikit-learn maximizes scores.
    Pass ``error_score="raise"``, so that the end of the session stops the search instead of scoring
    NaN. With ``return_train_score=True``, each fit asks two queries. For ``n_jobs`` > 1, open the
    holdout with ``ledger=`` a file, so that all processes share one state.
    """

    holdout: ScoresFolds
    metric: Metric

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:  # noqa: N803
        answer = self.holdout.score_fold(estimator, X, y, self.metric)
        return -answer.value if self.metric.is_loss else answer.value
