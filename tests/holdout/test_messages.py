"""Common mistakes of new users raise errors that contain the correct call."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from confide.errors import BadDeclaration
from confide.holdout import Holdout, metric_of, plan

N = 400
ROWS = np.zeros((N, 2)), np.tile([0, 1], N // 2)
MODEL = LogisticRegression()


def opened(**more: Any) -> Holdout:
    return Holdout(ROWS, ROWS, queries=10, overfits=2, **more)


WRONG: list[tuple[str, Callable[[], object]]] = [
    ("a pair (X, y) in parentheses", lambda: Holdout(list(ROWS), ROWS)),
    ("y.ravel()", lambda: Holdout((ROWS[0], ROWS[1][:, None]), ROWS)),
    ("a number for each row; got a single float", lambda: opened().ask(lambda X, y: 0.5)),  # noqa: N803
    ("It is called with X and y", lambda: opened().ask(lambda X: X[:, 0])),  # noqa: N803
    ("model.predict(X)", lambda: opened().ask(MODEL)),
    ("model.predict(X)", lambda: opened().score(MODEL, MODEL)),
    ("'roc_auc', which is 'auc' here", lambda: opened().scorer("roc_auc")),
    ("a `Metric` of your own", lambda: opened().scorer("f1")),
    ("a `Metric` of your own", lambda: metric_of([])),  # type: ignore[arg-type]
    ("A session without training rows needs `queries=`", lambda: Holdout(None, ROWS)),
    ("such as 'holdout.db'", lambda: opened(ledger="sqlite:///holdout.db")),
    ("`name` must be a string", lambda: opened(name=3)),
    ("`sigma` must be at most", lambda: opened(sigma=1e12)),
    ("`sigma` must be at most", lambda: opened(epsilon=1e-12)),
    ("`sigma` must be at most", lambda: Holdout(None, N, queries=3, sigma=1e12)),
    ("`sigma` must be at most", lambda: opened(sigma="1e400")),
    ("`sigma` must be at most", lambda: opened(epsilon="1e-400")),
]


@pytest.mark.parametrize(("told", "wrong"), WRONG, ids=[told for told, _ in WRONG])
def test_an_error_names_the_correct_argument(
    told: str, wrong: Callable[[], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong argument raises BadDeclaration with a message that names what is allowed."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadDeclaration, match=re.escape(told)):
        wrong()


def test_answers_and_plans_fit_on_a_line() -> None:
    """An answer's repr shows its value and its str the interval; a plan's repr is short."""
    holdout = opened()
    near, far = holdout.ask(ROWS[1], ROWS[1]), holdout.ask(ROWS[1], np.zeros(N))
    found = plan(tau=0.3, queries=10, overfits=2)

    assert "HoldoutAnswer(value=0.5, overfit=False)" == repr(near)
    assert str(near).startswith("0.5 [0.")
    assert str(far).endswith("], overfit")
    assert len(repr(found)) < 150
    assert "queries fixed in advance" in str(found)


@pytest.mark.parametrize("method", ["coding", "thresholdout", "gaussian", "rounding", "ladder"])
def test_a_tau_of_one_is_not_a_guarantee(method: str) -> None:
    """If the rows are too few for a tau below 1, the guarantee says that nothing holds."""
    limits: dict[str, Any] = {"overfits": 2} if method in ("coding", "thresholdout") else {}
    noise: dict[str, Any] = {"sigma": 1} if method in ("thresholdout", "gaussian") else {}
    found = Holdout(3, 3, method=method, queries=100, **limits, **noise).guarantee

    assert not found.holds
    assert "none at this n: every tau below 1 needs more rows" in str(found)


def test_a_ladder_never_uses_the_binary_interval() -> None:
    """A ladder's bracket is not binary, because the best query may have had other values."""
    holdout = Holdout(None, ROWS, method="ladder", queries=10)
    holdout.ask(np.full(N, 0.9))
    later = holdout.score(None, ROWS[1] * 0)

    assert not later.bracket.is_binary
