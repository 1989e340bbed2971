"""Metrics, and the scikit-learn scorer."""

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
"""From labels and predictions to values in [0, 1], one for each row (or pair)."""
NUMBERS: Final = "biuf"
PLAIN_KINDS: Final = "biufUSO"


def _accept(predictions: Array) -> None:
    if predictions.dtype.kind not in PLAIN_KINDS:
        raise BadDeclaration(f"predictions must be numbers or text, got {predictions.dtype}")


@dataclass(frozen=True, slots=True)
class Metric:
    """A number that people know, as the mean of values in [0, 1].

    ``low`` and ``high`` are what the values 0 and 1 stand for. ``is_loss`` says that less is
    better, ``is_binary`` that every value is 0 or 1, whatever the rows; ``is_paired`` that values
    belong to pairs of rows. ``wants`` names what an estimator must offer: predict,
    predict_proba or decision_function. ``positive`` is the label that counts as 1, and ``kinds``
    the kinds of labels that can be read (as NumPy names them; none for all): both are known
    before a row is seen. ``accepts`` refuses predictions without a look at labels.

    A row's value must depend on that row alone, and exist for every row there could be.
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
        """Return the metric for a mean of its values."""
        return self.low + (self.high - self.low) * mean


def _agree(labels: Array, predictions: Array) -> Array:
    """Return which rows are alike; a row that cannot be compared is not."""
    if "O" not in (labels.dtype.kind, predictions.dtype.kind):
        return np.asarray(labels == predictions)
    return np.fromiter(map(_is_alike, labels, predictions), dtype=np.bool_, count=len(labels))


def _is_alike(label: object, prediction: object) -> bool:
    # Privacy: whatever a row holds, it has a value; an error would tell of it for free.
    try:
        return bool(label == prediction)
    except Exception:  # noqa: BLE001 - a missing value compares to nothing
        return False


def _differ(labels: Array, predictions: Array) -> Array:
    return ~_agree(labels, predictions)


@dataclass(frozen=True, slots=True)
class _Brier:
    """The squared distance of a chance from a row's own mark."""

    positive: object = 1

    def __call__(self, labels: Array, predictions: Array) -> Array:
        return np.asarray((_reals("predictions", predictions) - _mark(labels, self.positive)) ** 2)


@dataclass(frozen=True, slots=True)
class _Auc:
    """For disjoint pairs of one positive and one negative row, which is ranked higher.

    Why: given the labels, rows are independent, and pairs that are fixed by the labels and the
         order of rows alone share no row. So the values are independent, each with the AUC for
         its mean: 1 when the positive has the higher prediction, 1/2 when both are alike.
    """

    positive: object = 1

    def __call__(self, labels: Array, predictions: Array) -> Array:
        marks, scores = _mark(labels, self.positive), _reals("predictions", predictions)
        positive, negative = np.flatnonzero(marks), np.flatnonzero(~marks)
        pairs = min(len(positive), len(negative))
        if not pairs:
            raise BadDeclaration("auc needs rows of both classes")
        first, second = scores[positive[:pairs]], scores[negative[:pairs]]
        return np.asarray((first > second) + 0.5 * (first == second))


def _mark(labels: Array, positive: object) -> NDArray[np.bool_]:
    """Return which labels are the positive one.

    Claim: replacing a row changes no mark but its own, and no label makes this fail.
    Why:   a label is compared with ``positive``, never with other labels; any other is negative.
    """
    if labels.dtype.kind == "O":
        rows = (_is_alike(label, positive) for label in labels)
        return np.fromiter(rows, dtype=np.bool_, count=len(labels))
    return np.asarray(labels == positive, dtype=np.bool_)


def _accept_chances(predictions: Array) -> None:
    chances = _reals("predictions", predictions)
    if not ((chances >= 0) & (chances <= 1)).all():
        raise BadDeclaration("brier needs predicted chances in [0, 1], got NaN or values outside")


def _accept_finite(predictions: Array) -> None:
    if not np.isfinite(_reals("predictions", predictions)).all():
        raise BadDeclaration("predictions must be finite numbers, got NaN or infinities")


def _same(labels: object, predictions: Array) -> Array:
    del labels
    return predictions


METRICS: Final = {
    "accuracy": Metric("accuracy", _agree, is_binary=True),
    "zero-one-loss": Metric("zero-one-loss", _differ, is_loss=True, is_binary=True),
    "brier": Metric(
        "brier",
        _Brier(),
        is_loss=True,
        wants="predict_proba",
        positive=1,
        kinds=NUMBERS,
        accepts=_accept_chances,
    ),
    "auc": Metric(
        "auc",
        _Auc(),
        is_paired=True,
        wants="decision_function",
        positive=1,
        kinds=NUMBERS,
        accepts=_accept_finite,
    ),
}
CODED: Final[dict[str, Callable[[object], Score]]] = {"brier": _Brier, "auc": _Auc}
RANGED: Final = {"squared-error": 2, "absolute-error": 1}
ELSEWHERE: Final = {
    "roc_auc": "auc",
    "neg_brier_score": "brier",
    "neg_mean_squared_error": "squared-error",
    "neg_mean_absolute_error": "absolute-error",
}
"""Names of scikit-learn for metrics that have another name here."""


def metric_of(
    name: "str | Metric", high: Number | None = None, *, positive: object = None
) -> Metric:
    """Return a metric by its name.

    ``squared-error`` and ``absolute-error`` need ``high``, the error at which they are clipped:
    a squared-error metric with high = 9 counts every larger squared error as 9. ``brier`` and
    ``auc`` count the label 1 (or True) as positive and every other as not; for labels such as
    "yes" and "no" give ``positive``.

    >>> metric_of("accuracy").is_binary
    True
    >>> metric_of("absolute-error", high=10).show(0.25)
    2.5
    >>> metric_of("brier", positive="yes").values(np.array(["yes", "no"]), np.array([1.0, 0.5]))
    array([0.  , 0.25])
    """
    if positive is not None:
        return _coded(name, positive)
    if isinstance(name, Metric):
        return name
    if isinstance(name, str) and name in RANGED:
        return _clipped(name, RANGED[name], high)
    if isinstance(name, str) and name in METRICS:
        return METRICS[name]
    same = ELSEWHERE.get(name) if isinstance(name, str) else None
    known = ", ".join([*METRICS, *RANGED])
    raise BadDeclaration(
        f"metric must be one of {known}, or a Metric of your own that gives each row a value in "
        f"[0, 1]; got {name!r}" + (f", which is {same!r} here" if same else "")
    )


def mean_metric(low: Number = 0, high: Number = 1) -> Metric:
    """Return the mean of values in a declared range: values below or above are refused."""
    ends = [
        float(fraction(name, end, "a finite number"))
        for name, end in (("low", low), ("high", high))
    ]
    if ends[0] >= ends[1]:
        raise BadDeclaration(f"a range needs low < high, got low={low!r}, high={high!r}")
    if ends == [0.0, 1.0]:
        return Metric("mean", _same)
    return Metric("mean", _Scaled(*ends), low=ends[0], high=ends[1])


@dataclass(frozen=True, slots=True)
class _Scaled:
    """Values as parts of their declared range."""

    low: float
    high: float

    def __call__(self, labels: object, predictions: Array) -> Array:
        del labels
        return (_reals("values", predictions) - self.low) / (self.high - self.low)


@dataclass(frozen=True, slots=True)
class _Clipped:
    """A power of the error, as a part of the most that counts."""

    power: int
    top: float

    def __call__(self, labels: Array, predictions: Array) -> Array:
        # Privacy: no label may warn or fail; what is no number counts as the most there is.
        with np.errstate(all="ignore"):
            gap = np.abs(_reals("predictions", predictions) - _reals("labels", labels))
            part = gap**self.power / self.top
            return np.where(part < 1, part, 1.0)


def _clipped(name: str, power: int, high: Number | None) -> Metric:
    if high is None:
        raise BadDeclaration(f"{name} needs high=, the value at which it is clipped")
    top = float(fraction("high", high, "a finite number above 0"))
    if top <= 0:
        raise BadDeclaration(f"high must be a finite number above 0, got {high!r}")
    values = _Clipped(power, top)
    return Metric(name, values, high=top, is_loss=True, kinds=NUMBERS, accepts=_accept_finite)


def _coded(name: "str | Metric", positive: object) -> Metric:
    if not isinstance(name, str) or name not in CODED:
        raise BadDeclaration(f"positive= is for {' and '.join(CODED)}, got {name!r}")
    if not isinstance(positive, str | int | float | np.generic):
        raise BadDeclaration(
            f"positive must be a label, text or a number, got {type(positive).__name__}"
        )
    kinds = "USO" if isinstance(positive, str) else NUMBERS + "O"
    return replace(METRICS[name], values=CODED[name](positive), positive=positive, kinds=kinds)


def check_labels(metric: Metric, name: str, labels: Array) -> None:
    """Refuse labels of a kind that a metric cannot read; no label itself is looked at."""
    if metric.kinds and labels.dtype.kind not in metric.kinds:
        coded = f"say which one counts: metric_of({metric.name!r}, positive=...)"
        way = "give numbers" if metric.positive is None else coded
        raise BadDeclaration(
            f"{metric.name} cannot read the labels of {name}, which are {labels.dtype}; {way}"
        )


def read_predictions(metric: Metric, name: str, predictions: object, rows: int) -> Array:
    """Return predictions for ``rows`` labels, which are not looked at."""
    try:
        array = np.asarray(predictions)
    except ValueError:
        raise BadDeclaration(
            f"{name} must be {rows:,} values, one for each label, got rows of several lengths"
        ) from None
    if array.ndim == 0:
        raise BadDeclaration(
            f"{name} must be {rows:,} values, one for each label, got {describe(predictions)}"
        )
    if array.shape != (rows,):
        raise BadDeclaration(
            f"{name} must be {rows:,} values, one for each label, got shape {array.shape}"
        )
    metric.accepts(array)
    return array


def measure(metric: Metric, name: str, labels: Array, predictions: Array) -> Array:
    """Return values in [0, 1]: one for each row, or fewer for disjoint pairs of rows."""
    found, rows = np.asarray(metric.values(labels, predictions)), len(labels)
    most = rows // 2 if metric.is_paired else rows
    if found.ndim != 1 or not (1 if metric.is_paired else rows) <= len(found) <= most:
        raise BadDeclaration(
            f"{metric.name} must give one value for each row, or for each pair; return an array of "
            "that length"
        )
    check_range(name, found)
    return found


def _reals(name: str, values: Array) -> NDArray[np.float64]:
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise BadDeclaration(f"{name} must be numbers for this metric, got {array.dtype}")
    return array.astype(np.float64)


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


class ScoredFold(Protocol):
    """The holdout's answer for one fold."""

    @property
    def value(self) -> float:
        """The metric, with noise."""
        ...


class ScoresFolds(Protocol):
    """A holdout, as the scorer sees it."""

    def score_fold(self, estimator: Any, X: Any, y: Any, metric: Metric) -> ScoredFold:  # noqa: N803
        """Return the metric of a fitted estimator, with its mean over (X, y) for a guess."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Scorer:
    """Called by scikit-learn with an estimator and a fold; returns the holdout's answer.

    The fold's own mean is the guess. Losses are returned with a minus sign, as scikit-learn has
    it: greater is better. Use it with ``error_score="raise"``, so that a session that is over
    stops the search instead of scoring NaN; ``return_train_score=True`` asks twice. With
    ``n_jobs`` > 1 open the holdout with ``ledger=`` a file: all processes then share one state.
    """

    holdout: ScoresFolds
    metric: Metric

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:  # noqa: N803
        answer = self.holdout.score_fold(estimator, X, y, self.metric)
        return -answer.value if self.metric.is_loss else answer.value
