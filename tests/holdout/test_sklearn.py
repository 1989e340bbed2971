"""scikit-learn searches with a holdout's scorer, in one process or several."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from confide.errors import BadDeclaration, BudgetExceeded
from confide.holdout import Holdout, metric_of

N = 4_000


def draw(number: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(number)
    features = rng.normal(size=(N, 3))
    return features, (features[:, 0] + rng.normal(size=N) > 0).astype(int)


def test_scores_come_from_the_holdout() -> None:
    """Every fold's score is the holdout's answer: close to the true accuracy, for one query."""
    train, heldout = draw(1), draw(2)
    holdout = Holdout(train, heldout, tau=0.1, queries=20, overfits=3)
    scores = cross_val_score(LogisticRegression(), *train, cv=5, scoring=holdout.scorer())

    assert 5 == len(scores)
    assert 0.75 == pytest.approx(scores.mean(), abs=0.05)
    assert (15, 3) == (holdout.left.queries, holdout.left.overfits)


def test_losses_are_negated() -> None:
    """Scores of a loss are negative, because scikit-learn maximizes scores."""
    train, heldout = draw(1), draw(2)
    holdout = Holdout(train, heldout, tau=0.1, queries=20, overfits=3)
    scores = cross_val_score(LogisticRegression(), *train, cv=2, scoring=holdout.scorer("brier"))

    assert (-0.25 < scores).all()
    assert (scores < -0.1).all()


def test_a_search_in_two_processes_uses_one_budget(tmp_path: Path) -> None:
    """GridSearchCV with n_jobs=2 uses one query per candidate and fold, from one shared state."""
    train, heldout = draw(1), draw(2)
    holdout = Holdout(train, heldout, tau=0.1, queries=50, overfits=3, ledger=tmp_path / "h.db")
    search = GridSearchCV(
        LogisticRegression(),
        {"C": [0.01, 1.0, 100.0]},
        cv=2,
        scoring=holdout.scorer("accuracy"),
        error_score="raise",
        n_jobs=2,
    ).fit(*train)

    assert 44 == holdout.left.queries
    assert 0.75 == pytest.approx(search.best_score_, abs=0.05)


def test_a_search_stops_when_the_session_is_over() -> None:
    """With error_score="raise", the end of the session ends the search."""
    train, heldout = draw(1), draw(2)
    holdout = Holdout(train, heldout, tau=0.1, queries=3, overfits=3)
    with pytest.raises(BudgetExceeded):
        cross_val_score(
            LogisticRegression(), *train, cv=5, scoring=holdout.scorer(), error_score="raise"
        )


def test_chances_rank_rows_where_there_is_no_decision_function() -> None:
    """The auc of a tree uses its predicted probabilities, not its predicted labels."""
    (rows, marks), heldout = draw(1), draw(2)
    train = rows, np.where(marks, "yes", "no")
    tested = heldout[0], np.where(heldout[1], "yes", "no")
    tree = DecisionTreeClassifier(max_depth=4).fit(*train)
    metric = metric_of("auc", positive="yes")
    score = Holdout(train, tested).scorer(metric)(tree, *train)
    chances = tree.predict_proba(rows)[:, 1], tree.predict_proba(heldout[0])[:, 1]

    assert Holdout(train, tested).score(*chances, metric).value == score


def test_a_classifier_without_probabilities_is_refused() -> None:
    """A classifier without probabilities or a ranking is refused before a query is used."""
    train, heldout = draw(1), draw(2)
    holdout = Holdout(train, heldout, tau=0.1, queries=20, overfits=3)
    with pytest.raises(BadDeclaration, match=r"an estimator with predict_proba.*got LinearSVC"):
        holdout.scorer("brier")(LinearSVC().fit(*train), *train)

    assert 20 == holdout.left.queries
