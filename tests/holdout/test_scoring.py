"""Metrics: a row changes a mean by at most 1 / n, and no label raises an error."""

from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

from confide.errors import BadDeclaration, Refusal
from confide.holdout import Holdout, Metric, metric_of
from confide.holdout.scoring import ERROR_POWERS, METRICS, check_labels, measure, read_predictions
from confide.holdout.values import mean_of, sensitivity

N = 40
SINGLES = [name for name, metric in METRICS.items() if not metric.is_paired] + list(ERROR_POWERS)
STRANGE = [0.0, 1.0, -1.0, 2.0, 7.5, np.nan, np.inf, -np.inf, 1e308]
TAUGHT = ["coding", "rounding", "ladder", "splitting", "gaussian", "thresholdout"]


def find_metric(name: str) -> Metric:
    return metric_of(name, high=1 if name in ERROR_POWERS else None)


def find_mean(metric: Metric, labels: Any, predictions: Any) -> Fraction:
    given = read_predictions(metric, "predictions", predictions, len(labels))
    return Fraction(mean_of("values", measure(metric, "values", np.asarray(labels), given)))


@pytest.mark.parametrize("name", SINGLES)
@pytest.mark.parametrize("start", [[0.0] * N, [1.0] * N, [-1.0] * N, [0.0, 1.0] * (N // 2)])
def test_a_row_moves_a_mean_by_its_share(name: str, start: list[float]) -> None:
    """For any label of one row, the mean changes by at most 1 / n, without an error."""
    metric, predictions = find_metric(name), np.tile([0.0, 1.0, 0.25, 0.5], N // 4)
    before = find_mean(metric, np.array(start), predictions)
    for label in STRANGE:
        moved = find_mean(metric, np.array([label, *start[1:]]), predictions)
        assert abs(moved - before) <= sensitivity(N)


def test_encoding_labels_by_all_of_them_is_detected() -> None:
    """The test above has power: a metric that depends on the largest label changes every row."""

    def code(labels: Any, predictions: Any) -> Any:
        return (predictions - (labels == np.unique(labels)[-1])) ** 2

    zeros, predictions = np.zeros(N), np.zeros(N)
    one = np.append(zeros[1:], 1.0)
    wrong = Metric("wrong", code)

    moved = find_mean(wrong, one, predictions) - find_mean(wrong, zeros, predictions)
    assert abs(moved) > sensitivity(N)


@pytest.mark.parametrize("name", ["accuracy", "zero-one-loss", "brier"])
def test_missing_labels_are_labels_too(name: str) -> None:
    """A missing value among string labels changes a mean by at most 1 / n."""
    coded = name == "brier"
    metric = metric_of(name, positive="yes") if coded else metric_of(name)
    predictions = np.tile([0.0, 1.0], N // 2) if coded else np.array(["yes"] * N, dtype=object)
    labels = ["yes", "no"] * (N // 2)
    before = find_mean(metric, np.array(labels, dtype=object), predictions)
    for label in (pd.NA, None, np.nan, "maybe", 3):
        changed = np.array([label, *labels[1:]], dtype=object)
        assert abs(find_mean(metric, changed, predictions) - before) <= sensitivity(N)


@pytest.mark.parametrize(
    ("labels", "positive"),
    [
        ([0, 1], None),
        ([-1, 1], None),
        ([False, True], None),
        (["no", "yes"], "yes"),
        ([1, 2], 2),
        ([3, 0], 0),
    ],
)
def test_a_label_is_positive_or_not(labels: list[Any], positive: object) -> None:
    """1 and True are positive by default, other labels only with ``positive=``."""
    metric = metric_of("brier", positive=positive)

    assert [1.0, 0.25] == metric.values(np.array(labels), np.array([1.0, 0.5])).tolist()


def test_kinds_of_labels_are_refused_unseen() -> None:
    """String labels without positive=, and numbers with a string, are refused by their type."""
    text, numbers = np.array(["no", "yes"]), np.array([0, 1])
    for metric, labels in (
        (metric_of("brier"), text),
        (metric_of("brier", positive="yes"), numbers),
        (metric_of("squared-error", high=1), text),
    ):
        with pytest.raises(BadDeclaration, match="cannot read the labels"):
            check_labels(metric, "heldout", labels)
    for wrong in ("accuracy", "squared-error"):
        with pytest.raises(BadDeclaration, match="`positive=` is for brier and auc"):
            metric_of(wrong, positive=1)
    with pytest.raises(BadDeclaration, match="a label"):
        metric_of("brier", positive=[1])


def rows_of(labels: Any) -> tuple[Any, Any]:
    return np.zeros((len(labels), 1)), np.asarray(labels)


@pytest.mark.parametrize("method", TAUGHT)
@pytest.mark.parametrize("tau", [None, 0.5])
def test_pairs_are_refused_where_a_claim_counts_rows(method: str, tau: float | None) -> None:
    """With or without tau=, the error for auc is the same for few pairs and for many."""
    more: dict[str, Any] = {"overfits": 2} if method in ("coding", "thresholdout") else {}
    more |= {"sigma": 0.1} if method == "thresholdout" else {}
    told = set()
    for positives in (1, 400):
        rows = rows_of(np.arange(800) < positives)
        holdout = Holdout(rows, rows, method=method, tau=tau, queries=5, **more)
        with pytest.raises(BadDeclaration, match="guess-and-check") as caught:
            holdout.score(np.zeros(800), np.zeros(800), "auc")
        told.add(str(caught.value))
        assert 5 == holdout.left.queries

    assert 1 == len(told)


def test_the_number_of_pairs_is_paid_for() -> None:
    """After auc, the intervals of an unlimited session account for the number of pairs."""
    rows = rows_of(np.tile([0, 1], 400))
    paired, single = (Holdout(rows, rows, method="guess-and-check") for _ in range(2))
    paired.score(np.full(800, 0.5), np.full(800, 0.5), "auc")
    single.score(np.full(800, 0.5), np.full(800, 0.5), "brier")

    assert np.log(401) == pytest.approx(paired._store.read().nats - single._store.read().nats)


class Estimator:
    """An estimator with one probability for every row, except for a row with a secret."""

    classes_ = np.array(["no", "yes"])

    def __init__(self, chance: float = 0.25) -> None:
        self.chance = chance

    def predict_proba(self, rows: Any) -> Any:
        yes = np.where(rows[:, 0] == 42, self.chance, 0.25)
        return np.stack([1 - yes, yes], axis=1)


def open_private(secret: float) -> tuple[Holdout, Any]:
    train = np.zeros((N, 1)), np.array(["no", "yes"] * (N // 2))
    heldout = np.append(np.zeros((N - 1, 1)), [[secret]], axis=0), train[1]
    return Holdout(train, heldout, sigma=0.1, queries=9, overfits=2), train


@pytest.mark.parametrize("chance", [1.5, np.nan])
def test_an_estimator_out_of_range_on_the_holdout_ends_the_session(chance: float) -> None:
    """A probability outside [0, 1] only on the holdout is hidden, and it ends the session."""
    metric = metric_of("brier", positive="yes")
    holdout, train = open_private(42)
    with pytest.raises(BadDeclaration, match="The estimator failed on the holdout's rows"):
        holdout.scorer(metric)(Estimator(chance), *train)

    assert holdout.loss is None
    assert 0 == holdout.left.queries
    with pytest.raises(Refusal, match="ended"):
        holdout.scorer(metric)(Estimator(0.5), *train)
    calm, _ = open_private(0)
    calm.scorer(metric)(Estimator(chance), *train)
    assert calm.loss is not None


def test_a_metric_that_fails_on_labels_ends_the_session() -> None:
    """Values outside [0, 1], too few values, and errors that depend on labels look the same."""
    predictions, labels = np.zeros(N), np.append(np.zeros(N - 1), 7.0)
    rows = rows_of(labels)
    for values in (lambda y, p: y + p, lambda y, p: p[y < 7], lambda y, p: 1 / (7 - y).min()):
        holdout = Holdout(rows_of(np.zeros(N)), rows, method="naive")
        with pytest.raises(BadDeclaration, match="'spy' failed on the holdout's rows"):
            holdout.score(None, predictions, Metric("spy", values))
        assert "failed on the holdout's rows" in str(holdout.guarantee)
        assert 0 == holdout.left.queries


def test_predictions_of_several_lengths_are_refused() -> None:
    """Ragged predictions raise BadDeclaration instead of NumPy's error."""
    with pytest.raises(BadDeclaration, match="several lengths"):
        read_predictions(metric_of("accuracy"), "predictions", [[1], [2, 3]], 2)


def test_predictions_are_refused_before_labels_are_read() -> None:
    """Malformed predictions are refused, and the session continues."""
    rows = rows_of(np.tile([0, 1], N // 2))
    holdout = Holdout(rows, rows, method="guess-and-check")
    good = np.full(N, 0.5)
    for metric, bad in (
        ("brier", good * 3),
        ("brier", good * np.nan),
        ("auc", good * np.inf),
        ("accuracy", good[1:]),
        ("accuracy", good * 1j),
    ):
        with pytest.raises(BadDeclaration):
            holdout.score(good, bad, metric)

    assert holdout.guarantee.holds


def test_chances_are_those_of_the_positive_class() -> None:
    """The column of an estimator, or the sign of its decision function, follows ``positive=``."""

    class Decider:
        classes_ = np.array(["no", "yes"])

        def decision_function(self, rows: Any) -> Any:
            return np.asarray(rows[:, 0])

    labels = np.array(["no", "yes"] * (N // 2))
    rows = np.tile([[0.0], [1.0]], (N // 2, 1)), labels
    holdout = Holdout(None, rows, method="naive")
    for positive, brier in (("yes", 0.3125), ("no", 0.3125)):
        metric = metric_of("brier", positive=positive)
        assert brier == holdout.score_fold(Estimator(), *rows, metric).value
        ranked = holdout.score_fold(Decider(), *rows, metric_of("auc", positive=positive))
        assert 1.0 == ranked.value
    with pytest.raises(BadDeclaration, match="no such class"):
        holdout.score_fold(Estimator(), *rows, metric_of("brier", positive="perhaps"))
