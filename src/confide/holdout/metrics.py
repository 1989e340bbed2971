"""Metrics as means of values in [0, 1], one for each independent row or pair of rows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from confide.errors import BadDeclaration
from confide.exact import Number, fraction

__all__ = ["METRICS", "Metric", "mean_metric", "metric_of"]

Array = NDArray[Any]
Score = Callable[[Any, Array], Array]
"""From labels and predictions to values in [0, 1], one for each row (or pair)."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A number that people know, as the mean of values in [0, 1].

    ``low`` and ``high`` are what the values 0 and 1 stand for. ``is_loss`` says that less is
    better, ``is_binary`` that every value is 0 or 1, whatever the rows; ``is_paired`` that values
    belong to pairs of rows. ``wants`` names what an estimator must offer: predict,
    predict_proba or decision_function.
    """

    name: str
    values: Score
    low: float = 0.0
    high: float = 1.0
    is_loss: bool = False
    is_binary: bool = False
    is_paired: bool = False
    wants: str = "predict"

    def show(self, mean: float) -> float:
        """Return the metric for a mean of its values."""
        return self.low + (self.high - self.low) * mean


def _agree(labels: Array, predictions: Array) -> Array:
    return np.asarray(labels == predictions)


def _differ(labels: Array, predictions: Array) -> Array:
    return np.asarray(labels != predictions)


def _brier(labels: Array, predictions: Array) -> Array:
    chances = _reals("predictions", predictions)
    if not ((chances >= 0) & (chances <= 1)).all():
        raise BadDeclaration("brier needs predicted chances in [0, 1], got values outside")
    return (chances - _zero_one(labels)) ** 2


def _auc(labels: Array, predictions: Array) -> Array:
    """Return for disjoint pairs of one positive and one negative row which is ranked higher.

    Why: given the labels, rows are independent, and pairs that are fixed by the labels and the
         order of rows alone share no row. So the values are independent, each with the AUC for
         its mean: 1 when the positive has the higher prediction, 1/2 when both are alike.
    """
    marks, scores = _zero_one(labels), _reals("predictions", predictions)
    positive, negative = np.flatnonzero(marks == 1), np.flatnonzero(marks == 0)
    pairs = min(len(positive), len(negative))
    if not pairs:
        raise BadDeclaration("auc needs rows of both classes")
    first, second = scores[positive[:pairs]], scores[negative[:pairs]]
    return np.asarray((first > second) + 0.5 * (first == second))


def _same(labels: object, predictions: Array) -> Array:
    del labels
    return predictions


METRICS: Final = {
    "accuracy": Metric("accuracy", _agree, is_binary=True),
    "zero-one-loss": Metric("zero-one-loss", _differ, is_loss=True, is_binary=True),
    "brier": Metric("brier", _brier, is_loss=True, wants="predict_proba"),
    "auc": Metric("auc", _auc, is_paired=True, wants="decision_function"),
}
RANGED: Final = {"squared-error": 2, "absolute-error": 1}


def metric_of(name: "str | Metric", high: Number | None = None) -> Metric:
    """Return a metric by its name.

    ``squared-error`` and ``absolute-error`` need ``high``, the error at which they are clipped:
    a squared-error metric with high = 9 counts every larger squared error as 9.

    >>> metric_of("accuracy").is_binary
    True
    >>> metric_of("absolute-error", high=10).show(0.25)
    2.5
    """
    if isinstance(name, Metric):
        return name
    if name in RANGED:
        return _clipped(name, RANGED[name], high)
    if name not in METRICS:
        known = ", ".join([*METRICS, *RANGED])
        raise BadDeclaration(f"metric must be one of {known}, got {name!r}")
    return METRICS[name]


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
        gap = np.abs(_reals("predictions", predictions) - _reals("labels", labels)) ** self.power
        return np.minimum(gap / self.top, 1.0)


def _clipped(name: str, power: int, high: Number | None) -> Metric:
    if high is None:
        raise BadDeclaration(f"{name} needs high=, the value at which it is clipped")
    top = float(fraction("high", high, "a finite number above 0"))
    if top <= 0:
        raise BadDeclaration(f"high must be a finite number above 0, got {high!r}")

    return Metric(name, _Clipped(power, top), high=top, is_loss=True)


def _reals(name: str, values: Array) -> NDArray[np.float64]:
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise BadDeclaration(f"{name} must be numbers for this metric, got {array.dtype}")
    return array.astype(np.float64)


def _zero_one(labels: Array) -> NDArray[np.float64]:
    """Return labels as 0 and 1: the greater of two classes is 1."""
    array = np.asarray(labels)
    if array.dtype.kind == "b":
        return array.astype(np.float64)
    classes = np.unique(array)
    if len(classes) > 2:
        raise BadDeclaration("this metric needs labels of two classes, got more")
    if len(classes) == 1 and classes[0] in (0, -1):
        return np.zeros(len(array))
    return np.asarray(array == classes[-1], dtype=np.float64)
