"""A holdout session on trial: neighbours differ in one held-out row."""

import numpy as np
import pytest

from confide.audit import Claim, claim_of, weigh
from confide.holdout import Holdout
from support.laws import ALPHA

ROWS, SESSIONS = 40, 128


def open_session() -> Holdout:
    return Holdout(
        ROWS, ROWS, threshold=0.1, sigma=0.05, queries=2, overfits=2, method="thresholdout"
    )


def run_sessions(values: np.ndarray) -> np.ndarray:
    """Return the answers of many sessions of two queries each."""
    guess = np.full(ROWS, 0.5)
    told = np.zeros((SESSIONS, 4))
    for row in told:
        holdout = open_session()
        for place in range(2):
            answer = holdout.ask(guess, values)
            row[2 * place : 2 * place + 2] = answer.value, answer.overfit
    return told


@pytest.mark.slow
@pytest.mark.statistical
def test_a_session_gives_away_at_most_what_it_claims() -> None:
    """Sessions on two holdouts that differ in one row do not disprove the session's loss.

    The auditor accuses a right session with probability at most 1e-9.
    """
    values = np.full(ROWS, 0.6)
    other = values.copy()
    other[0] = 0.0
    left, right, loss = run_sessions(values), run_sessions(other), open_session().loss

    assert loss is not None
    assert not weigh(left, right, claim_of(loss), false_alarms=ALPHA).is_disproof


def test_a_holdout_that_tells_its_mean_would_be_convicted() -> None:
    """The exact means of the same two holdouts are disproof of any claim up to epsilon 2."""
    left, right = np.full(SESSIONS, 0.6), np.full(SESSIONS, 0.6 - 0.6 / ROWS)

    assert weigh(left, right, Claim.epsilon(2)).is_disproof
